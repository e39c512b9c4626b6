import assert from "node:assert/strict";
import { test } from "node:test";
import { isProbeResult, type ProbeResult, summaryOf } from "../../../extension/src/probeResult";

function result(median: number | null, kind: string, score: number, statuses: readonly string[]): ProbeResult {
  return {
    steps: { measured: 50, median_s: median },
    bottleneck: { kind, score },
    findings: [...statuses.map((status) => ({ verdict: { status } })), { verdict: null }],
  };
}

const SUMMARIES: Readonly<Record<string, ProbeResult>> = {
  "39.7 ms per step, bottleneck: data (61 %); findings: 2 confirmed, 1 refuted": result(0.0397, "data", 0.61, [
    "confirmed",
    "refuted",
    "confirmed",
    "inconclusive",
  ]),
  "1230 ms per step, bottleneck: balanced": result(1.2345, "balanced", 0, ["not-exercised"]),
  "no step was timed, bottleneck: insufficient": result(null, "insufficient", 0, []),
};

for (const [summary, measured] of Object.entries(SUMMARIES)) {
  test(`a result is told as: ${summary}`, () => {
    assert.ok(isProbeResult(measured));
    assert.equal(summaryOf(measured), summary);
  });
}

test("what other commands return is no result", () => {
  assert.ok(![null, true, { html: "" }, { code: "TL201", page: "" }].some(isProbeResult));
});
