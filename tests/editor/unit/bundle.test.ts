import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { test } from "node:test";
import { type Bundle, type InterpreterFacts, misfit, readBundle } from "../../../extension/src/bundle";

const LINUX: Bundle = {
  folder: "/ext/bundled",
  target: "linux-x64",
  trainlint: "0.1.0",
  suffixes: { "3.11": ".cpython-311-x86_64-linux-gnu.so", "3.14": ".cpython-314-x86_64-linux-gnu.so" },
  machine: null,
};
const MAC: Bundle = {
  ...LINUX,
  target: "darwin-arm64",
  suffixes: { "3.11": ".cpython-311-darwin.so" },
  machine: "arm64",
};

function facts(version: string, suffix: string, more: Partial<InterpreterFacts> = {}): InterpreterFacts {
  return {
    version,
    implementation: "cpython",
    machine: "x86_64",
    suffixes: [suffix, ".abi3.so", ".so"],
    hasTrainlint: false,
    ...more,
  };
}

const CASES: readonly (readonly [string, Bundle, InterpreterFacts, RegExp | undefined])[] = [
  ["a version that is carried", LINUX, facts("3.11", ".cpython-311-x86_64-linux-gnu.so"), undefined],
  ["another that is carried", LINUX, facts("3.14", ".cpython-314-x86_64-linux-gnu.so"), undefined],
  ["an older one", LINUX, facts("3.10", ".cpython-310-x86_64-linux-gnu.so"), /3\.10.*3\.11 and 3\.14/],
  ["a newer one", LINUX, facts("3.15", ".cpython-315-x86_64-linux-gnu.so"), /3\.15/],
  ["one without the global lock", LINUX, facts("3.14", ".cpython-314t-x86_64-linux-gnu.so"), /not built/],
  ["one for musl", LINUX, facts("3.11", ".cpython-311-x86_64-linux-musl.so"), /not built/],
  ["one for another processor", LINUX, facts("3.11", ".cpython-311-aarch64-linux-gnu.so"), /not built/],
  ["PyPy", LINUX, facts("3.11", ".pypy311-pp73-x86_64-linux-gnu.so", { implementation: "pypy" }), /pypy/],
  ["a Mac's own", MAC, facts("3.11", ".cpython-311-darwin.so", { machine: "arm64" }), undefined],
  ["one that a Mac translates", MAC, facts("3.11", ".cpython-311-darwin.so", { machine: "x86_64" }), /not built/],
];

for (const [name, bundle, interpreter, reason] of CASES) {
  test(`the bundle ${reason ? "refuses" : "takes"} ${name}`, () => {
    const found = misfit(bundle, interpreter);
    if (reason) {
      assert.match(found ?? "", reason);
    } else {
      assert.equal(found, undefined);
    }
  });
}

test("a build of the extension without a server has no bundle", async () => {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "trainlint-"));
  assert.equal(await readBundle(folder), undefined);
  await fs.mkdir(path.join(folder, "bundled"));
  await fs.writeFile(path.join(folder, "bundled/bundle.json"), JSON.stringify({ target: "linux-x64" }));
  assert.equal((await readBundle(folder))?.folder, path.join(folder, "bundled"));
  await fs.rm(folder, { recursive: true });
});
