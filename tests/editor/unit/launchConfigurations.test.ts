import assert from "node:assert/strict";
import * as path from "node:path";
import { test } from "node:test";
import {
  type Configuration,
  type ProbeRequest,
  probeOf,
  splitArguments,
  startsPython,
  type Surroundings,
  variablesOf,
} from "../../../extension/src/launchConfigurations";

const KNOWN: Surroundings = {
  file: "/work/jobs/train.py",
  workspaceFolder: "/work",
  workspaceFolders: { work: "/work", other: "/work2" },
  home: "/home/me",
  platform: "linux",
  env: { DATA: "/data", PATH: "/bin", PYTHONPATH: "/lib" },
  setting: (name) => ({ "jobs.size": 8, "jobs.all": [1] })[name],
  read: (file) => ({ "/work/job.env": "SEED=1\nNAME='a b'\n" })[file],
  resolve: (folder, file) => path.posix.resolve(folder, file),
  uriOf: (file) => `file://${file}`,
};
const JOB = "file:///work/jobs/train.py";
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
    {
      module: "jobs.train",
      args: ["--lr", "0.1"],
      cwd: "/work",
      python: "/env/bin/python",
      pythonArgs: ["-u"],
      env: {},
    },
  ],
  "the interpreter of the Python extension, with arguments": [
    { ...LAUNCH, program: "${file}", python: "${command:python.interpreterPath}", pythonArgs: ["-X", "dev"] },
    { uri: JOB, args: [], cwd: "/work", pythonArgs: ["-X", "dev"], env: {} },
  ],
  "a script and a folder that are relative": [
    { ...LAUNCH, program: "train.py", cwd: "jobs" },
    { uri: JOB, args: [], cwd: "/work/jobs", env: {} },
  ],
  "a file of variables, which those of the configuration go before": [
    { ...LAUNCH, program: "${file}", envFile: "${workspaceFolder}/job.env", env: { SEED: "2" } },
    { uri: JOB, args: [], cwd: "/work", env: { SEED: "2", NAME: "a b" } },
  ],
  "a file of variables that is not there": [
    { ...LAUNCH, program: "${file}", envFile: "${workspaceFolder}/none.env" },
    { uri: JOB, args: [], cwd: "/work", env: {} },
  ],
  "search paths, which go before those that are there": [
    { ...LAUNCH, program: "${file}", env: { PYTHONPATH: "${workspaceFolder}/src", PATH: "/env/bin" } },
    { uri: JOB, args: [], cwd: "/work", env: { PYTHONPATH: "/work/src:/lib", PATH: "/env/bin:/bin" } },
  ],
  "what holds for this system alone": [
    { ...LAUNCH, program: "${file}", args: ["a"], linux: { args: ["b"] }, windows: { args: ["c"] } },
    { uri: JOB, args: ["b"], cwd: "/work", env: {} },
  ],
};

for (const [name, [configuration, request]] of Object.entries(CONFIGURATIONS)) {
  test(`${name} of a configuration is probed as it is launched`, () => {
    assert.ok(startsPython(configuration));
    assert.deepEqual(probeOf(configuration, KNOWN), request);
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

const VARIABLES: Readonly<Record<string, string>> = {
  "${file}": "/work/jobs/train.py",
  "${fileDirname}": "/work/jobs",
  "${fileDirnameBasename}": "jobs",
  "${fileBasename}": "train.py",
  "${fileBasenameNoExtension}": "train",
  "${fileExtname}": ".py",
  "${relativeFile}": "jobs/train.py",
  "${relativeFileDirname}": "jobs",
  "${fileWorkspaceFolder}": "/work",
  "${workspaceFolder}": "/work",
  "${workspaceFolder:other}": "/work2",
  "${workspaceFolderBasename}": "work",
  "${userHome}": "/home/me",
  "${pathSeparator}${/}": "//",
  "${env:DATA}": "/data",
  "${env:NONE}": "",
  "${config:jobs.size}": "8",
};

for (const [variable, value] of Object.entries(VARIABLES)) {
  test(`${variable} is ${value || "nothing"}`, () => {
    assert.deepEqual(probeOf({ ...LAUNCH, program: "${file}", args: [variable] }, KNOWN).args, [value]);
  });
}

for (const variable of ["${command:pickArgs}", "${input:epochs}", "${config:jobs.all}", "${workspaceFolder:none}"]) {
  test(`${variable}, which is not known outside of the debugger, is an error that names it`, () => {
    const asked = { ...LAUNCH, program: "${file}", args: [variable] };
    assert.throws(
      () => probeOf(asked, KNOWN),
      (error: Error) => error.message.includes(variable),
    );
  });
}

test("a file that is asked for while none is open is an error that says so", () => {
  const asked = { ...LAUNCH, program: "${fileDirname}/train.py" };
  assert.throws(
    () => probeOf(asked, { ...KNOWN, file: undefined }),
    /\$\{fileDirname\}, and the active editor shows no file/,
  );
});

test("a file of variables is read as the debugger reads it", () => {
  const text = [
    "# a comment",
    "A=1",
    "  B = two words ",
    'export C="x\\ny"',
    "D='${A}/${DATA}'",
    "E=",
    "none",
    "F=${NONE}",
  ];
  assert.deepEqual(variablesOf(text.join("\r\n"), KNOWN.env), {
    A: "1",
    B: "two words",
    C: "x\ny",
    D: "1//data",
    E: "",
    F: "",
  });
});
