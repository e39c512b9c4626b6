import assert from "node:assert/strict";
import { test } from "node:test";
import { readSettings, type Settings } from "../../../extension/src/settings";

const PLACES = { home: "/home/ada", workspaceFolder: "/code/gan" };

function read(values: Readonly<Record<string, unknown>>, trusted = true): Settings {
  return readSettings((key) => [values[key]], PLACES, trusted);
}

test("without settings the bundled server runs with any interpreter", () => {
  assert.deepEqual(read({}), { enable: true, importStrategy: "useBundled", interpreter: undefined });
});

test("an untrusted workspace gets the bundled server whatever is set", () => {
  assert.equal(read({ importStrategy: "fromEnvironment" }).importStrategy, "fromEnvironment");
  assert.equal(read({ importStrategy: "fromEnvironment" }, false).importStrategy, "useBundled");
});

const PATHS: readonly (readonly [unknown, string | undefined])[] = [
  ["", undefined],
  ["   ", undefined],
  [17, undefined],
  [" /usr/bin/python3 ", "/usr/bin/python3"],
  ["~/env/bin/python", "/home/ada/env/bin/python"],
  ["~other/bin/python", "~other/bin/python"],
  ["${userHome}/env/bin/python", "/home/ada/env/bin/python"],
  ["${workspaceFolder}/.venv/bin/python", "/code/gan/.venv/bin/python"],
];

for (const [value, expected] of PATHS) {
  test(`the interpreter ${JSON.stringify(value)} is ${String(expected)}`, () => {
    assert.equal(read({ interpreter: value }).interpreter, expected);
  });
}

test("the server runs while any folder is to be linted", () => {
  const enable = (...values: boolean[]) => readSettings((key) => (key === "enable" ? values : []), PLACES, true).enable;
  assert.deepEqual([enable(false, true), enable(false, false), enable(true)], [true, false, true]);
});

test("values of a wrong type count as not set", () => {
  assert.deepEqual(read({ enable: "no", importStrategy: 3 }), read({}));
});
