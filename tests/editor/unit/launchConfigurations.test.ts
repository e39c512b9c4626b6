import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Configuration,
  type ProbeRequest,
  probeOf,
  splitArguments,
  startsPython,
} from "../../../extension/src/launchConfigurations";

const KNOWN = { file: "/work/jobs/train.py", workspaceFolder: "/work", env: { DATA: "/data" } };
const uriOf = (path: string) => `file://${path}`;
const LAUNCH = { type: "debugpy", request: "launch" };

const LINES: Readonly<Record<string, readonly string[]>> = {
  "": [],
  "--lr 0.1  --name=x": ["--lr", "0.1", "--name=x"],
  [String.raw`"two words" 'it''s' a\ b`]: ["two words", "its", "a b"],
  [String.raw`--re="\d+" "" 'a\b'`]: [String.raw`--re=\d+`, "", String.raw`a\b`],
  [String.raw`"say \"hi\""`]: ['say "hi"'],
};

for (const [line, words] of Object.entries(LINES)) {
  test(`${line || "an empty line"} is split into words`, () => assert.deepEqual(splitArguments(line), words));
}

const CONFIGURATIONS: Readonly<Record<string, readonly [Configuration, ProbeRequest]>> = {
  "a script": [
    { ...LAUNCH, program: "${file}" },
    { uri: "file:///work/jobs/train.py", args: [], cwd: "/work", env: {} },
  ],
  "arguments, environment and folder": [
    {
      ...LAUNCH,
      program: "${workspaceFolder}/train.py",
      args: ["--data", "${env:DATA}", 3],
      env: { CUDA_VISIBLE_DEVICES: "0", SEED: 7, DEBUG: null },
      cwd: "${fileDirname}",
    },
    {
      uri: "file:///work/train.py",
      args: ["--data", "/data", "3"],
      cwd: "/work/jobs",
      env: { CUDA_VISIBLE_DEVICES: "0", SEED: "7", DEBUG: null },
    },
  ],
  "a module, with an interpreter": [
    { ...LAUNCH, type: "python", module: "jobs.train", args: "--lr 0.1", python: ["/env/bin/python", "-u"] },
    { module: "jobs.train", args: ["--lr", "0.1"], cwd: "/work", python: "/env/bin/python", env: {} },
  ],
};

for (const [name, [configuration, request]] of Object.entries(CONFIGURATIONS)) {
  test(`${name} of a configuration is probed as it is launched`, () => {
    assert.ok(startsPython(configuration));
    assert.deepEqual(probeOf(configuration, KNOWN, uriOf), request);
  });
}

const OTHERS: Readonly<Record<string, Configuration>> = {
  "another debugger": { type: "node", request: "launch", program: "a.js" },
  "a running process": { type: "debugpy", request: "attach", processId: 1 },
  "no program": { ...LAUNCH, code: "print()" },
};

for (const [name, configuration] of Object.entries(OTHERS)) {
  test(`a configuration for ${name} is not offered`, () => assert.ok(!startsPython(configuration)));
}

test("what only the debugger knows is an error that names it", () => {
  const asked = { ...LAUNCH, program: "${file}", args: ["${command:pickArgs}"] };
  assert.throws(() => probeOf(asked, KNOWN, uriOf), /\$\{command:pickArgs\}/);
});
