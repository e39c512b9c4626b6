/** What the extension reads of a probe's result; the server has checked it. */
export interface ProbeResult {
  readonly steps: { readonly measured: number; readonly median_s: number | null };
  readonly bottleneck: { readonly kind: string; readonly score: number };
  readonly findings: readonly { readonly verdict: { readonly status: string } | null }[];
}

export function isProbeResult(value: unknown): value is ProbeResult {
  return typeof value === "object" && value !== null && "bottleneck" in value && "findings" in value;
}

/** A result in a sentence: what a step takes, what holds it up, and what became of the findings. */
export function summaryOf({ steps, bottleneck, findings }: ProbeResult): string {
  const time =
    steps.median_s === null ? "no step was timed" : `${Number((steps.median_s * 1000).toPrecision(3))} ms per step`;
  const share = bottleneck.score > 0 ? ` (${Math.round(bottleneck.score * 100)} %)` : "";
  const counts = ["confirmed", "refuted"].map(
    (status) => [findings.filter(({ verdict }) => verdict?.status === status).length, status] as const,
  );
  const found = counts.filter(([count]) => count > 0).map(([count, status]) => `${count} ${status}`);
  return `${time}, bottleneck: ${bottleneck.kind}${share}${found.length > 0 ? `; findings: ${found.join(", ")}` : ""}`;
}
