/** What the extension reads of a probe's result; the rest of it the server shows. */
export interface ProbeResult {
  /** What a step takes, what holds it up, and what became of the findings. */
  readonly summary: string;
}

export function isProbeResult(value: unknown): value is ProbeResult {
  return typeof value === "object" && value !== null && "summary" in value && typeof value.summary === "string";
}
