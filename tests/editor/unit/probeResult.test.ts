import assert from "node:assert/strict";
import { test } from "node:test";
import { isProbeResult } from "../../../extension/src/probeResult";

test("a result carries what is to be told of it", () => {
  assert.ok(isProbeResult({ summary: "39.7 ms per step, bottleneck: data (61 %)", findings: [] }));
});

test("what other commands return is no result", () => {
  assert.ok(![null, true, { html: "" }, { code: "TL201", page: "" }, { summary: 1 }].some(isProbeResult));
});
