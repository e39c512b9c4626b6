import assert from "node:assert/strict";
import { test } from "node:test";
import { DELAYS_MS, RECOVERY_MS, RestartPolicy } from "../../../extension/src/restart";

/** What the policy answers to crashes at these times. */
function delays(...times: number[]): (number | undefined)[] {
  const policy = new RestartPolicy();
  return times.map((time) => policy.crashed(time));
}

test("each crash in a row waits longer than the one before", () => {
  assert.deepEqual(delays(0, 10, 20, 30, 40), [...DELAYS_MS]);
  assert.deepEqual(
    [...DELAYS_MS].sort((left, right) => left - right),
    [...DELAYS_MS],
  );
});

test("a server that keeps crashing is given up", () => {
  const times = Array.from({ length: DELAYS_MS.length + 3 }, (_, index) => index * 1000);
  assert.deepEqual(delays(...times).slice(DELAYS_MS.length), [undefined, undefined, undefined]);
});

test("a server that ran for long starts over with the shortest delay", () => {
  assert.deepEqual(delays(0, 10, 11 + RECOVERY_MS), [DELAYS_MS[0], DELAYS_MS[1], DELAYS_MS[0]]);
});

test("the user's restart forgets the crashes", () => {
  const policy = new RestartPolicy();
  DELAYS_MS.forEach((_, index) => policy.crashed(index));
  policy.reset();
  assert.equal(policy.crashed(100), DELAYS_MS[0]);
});
