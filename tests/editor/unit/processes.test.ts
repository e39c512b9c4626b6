import assert from "node:assert/strict";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import { after, before, test } from "node:test";
import type { Bundle } from "../../../extension/src/bundle";
import { queryInterpreter } from "../../../extension/src/interpreterQuery";
import { launchOf } from "../../../extension/src/launch";
import { interpretersOnPath } from "../../../extension/src/searchPath";
import { inWorkspace } from "../../../extension/src/trust";

let root: string;

before(async () => {
  root = await fs.realpath(await fs.mkdtemp(path.join(os.tmpdir(), "trainlint-")));
  for (const folder of ["one", "two", "workspace/.venv/bin", "outside/bin", "links"]) {
    await fs.mkdir(path.join(root, folder), { recursive: true });
  }
  for (const file of ["one/python", "two/python3", "two/python", "outside/bin/python3"]) {
    await fs.writeFile(path.join(root, file), "#!/bin/sh\n", { mode: 0o755 });
  }
  await fs.writeFile(path.join(root, "one/python3"), "not executable", { mode: 0o644 });
  await fs.symlink(path.join(root, "outside/bin/python3"), path.join(root, "workspace/.venv/bin/python"));
  await fs.symlink(path.join(root, "workspace/.venv"), path.join(root, "links/env"));
  await fs.symlink(path.join(root, "workspace"), path.join(root, "links/project"));
});

after(() => fs.rm(root, { recursive: true }));

test("on the search path, python3 of any folder comes before python, and relative folders are passed over", async () => {
  const searchPath = ["relative", path.join(root, "one"), path.join(root, "two"), ""].join(path.delimiter);
  const found = await interpretersOnPath(searchPath, "linux");
  assert.deepEqual(
    found.map((file) => path.relative(root, file)),
    ["two/python3", "one/python", "two/python"],
  );
});

const TRUST: readonly (readonly [string, string, string, boolean])[] = [
  ["an interpreter outside", "outside/bin/python3", "workspace", false],
  ["a folder whose name starts alike", "outside/bin/python3", "out", false],
  [
    "a virtual environment of the workspace, though it is a link to outside",
    "workspace/.venv/bin/python",
    "workspace",
    true,
  ],
  ["a link from outside to the workspace's environment", "links/env/bin/python", "workspace", true],
  ["the workspace opened by a link", "workspace/.venv/bin/python", "links/project", true],
];

for (const [name, interpreter, workspace, inside] of TRUST) {
  test(`${name} ${inside ? "belongs" : "does not belong"} to the workspace`, async () => {
    const found = await inWorkspace(path.join(root, interpreter), [path.join(root, workspace)]);
    assert.equal(found !== undefined, inside);
  });
}

test("a real interpreter tells its version and what it imports", async () => {
  const facts = await queryInterpreter("python3", "useBundled", root);
  assert.match(facts.version, /^3\.\d+$/);
  assert.equal(facts.implementation, "cpython");
  assert.ok(facts.suffixes.length > 0);
});

test("an interpreter is asked without what its working directory or the user's variables bring", async () => {
  await fs.writeFile(path.join(root, "workspace/json.py"), "raise SystemExit(3)");
  process.env["PYTHONPATH"] = path.join(root, "workspace");
  try {
    assert.equal(
      (await queryInterpreter("python3", "useBundled", path.join(root, "workspace"))).implementation,
      "cpython",
    );
  } finally {
    delete process.env["PYTHONPATH"];
  }
});

test("what does not run is an error", async () => {
  await assert.rejects(queryInterpreter(path.join(root, "none"), "useBundled", root));
});

test("the bundled server is isolated, the environment's one sees its packages; neither sees the workspace", () => {
  const bundle: Bundle = { folder: "/ext/bundled", target: "linux-x64", trainlint: "0", suffixes: {}, machine: null };
  assert.deepEqual(launchOf("/py", "useBundled", bundle, "/ext"), {
    command: "/py",
    args: ["-I", "-S", path.join("/ext/bundled", "launch.py"), "server"],
    cwd: "/ext",
  });
  assert.deepEqual(launchOf("/py", "fromEnvironment", bundle, "/ext").args, ["-P", "-m", "trainlint", "server"]);
});
