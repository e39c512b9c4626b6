/** Milliseconds before each restart that follows a crash. */
export const DELAYS_MS = [500, 1_000, 2_000, 4_000, 8_000] as const;
/** A server that ran this long without a crash, in milliseconds, has recovered. */
export const RECOVERY_MS = 3 * 60_000;

/**
 * When a crashed server is started again: soon after the first crash, later after each further one, and no more once the
 * delays are used up, so that a server which cannot run does not loop.
 */
export class RestartPolicy {
  private crashes: number[] = [];

  /** Note a crash at a time in milliseconds; returns how long to wait before the next start, undefined for never. */
  crashed(now: number): number | undefined {
    const last = this.crashes.at(-1);
    if (last !== undefined && now - last > RECOVERY_MS) {
      this.reset();
    }
    this.crashes.push(now);
    return DELAYS_MS[this.crashes.length - 1];
  }

  /** Forget what was: the user starts the server again. */
  reset(): void {
    this.crashes = [];
  }
}
