import assert from "node:assert/strict";
import { test } from "node:test";
import type { Bundle, InterpreterFacts } from "../../../extension/src/bundle";
import {
  type Candidate,
  type Choice,
  chooseInterpreter,
  type Question,
  type Source,
} from "../../../extension/src/interpreter";

const BUNDLE: Bundle = {
  folder: "/ext/bundled",
  target: "linux-x64",
  trainlint: "0.1.0",
  suffixes: { "3.11": ".cpython-311.so", "3.12": ".cpython-312.so" },
  machine: null,
};

/** Interpreters of this imaginary machine; all others do not run. */
const INSTALLED: Readonly<Record<string, Partial<InterpreterFacts>>> = {
  "/py39": { version: "3.9", suffixes: [".cpython-39.so"] },
  "/py311": { version: "3.11", suffixes: [".cpython-311.so"] },
  "/py312": { version: "3.12", suffixes: [".cpython-312.so"] },
  "/py312-env": { version: "3.12", suffixes: [".cpython-312.so"], hasTrainlint: true },
};

async function* inOrder(candidates: readonly Candidate[]): AsyncGenerator<Candidate> {
  for (const candidate of candidates) {
    yield await Promise.resolve(candidate);
  }
}

function choose(candidates: readonly (readonly [string, Source])[], more: Partial<Question> = {}): Promise<Choice> {
  return chooseInterpreter({
    candidates: inOrder(candidates.map(([path, source]) => ({ path, source }))),
    strategy: "useBundled",
    bundle: BUNDLE,
    forbidden: () => Promise.resolve(undefined),
    query: (path) => {
      const facts = INSTALLED[path];
      return facts
        ? Promise.resolve({
            version: "",
            implementation: "cpython",
            machine: "",
            suffixes: [],
            hasTrainlint: false,
            ...facts,
          })
        : Promise.reject(new Error("ENOENT"));
    },
    ...more,
  });
}

test("the first candidate that fits is chosen", async () => {
  const { chosen, rejected } = await choose([
    ["/py39", "Python extension"],
    ["/none", "PATH"],
    ["/py311", "PATH"],
    ["/py312", "PATH"],
  ]);
  assert.equal(chosen?.path, "/py311");
  assert.deepEqual(
    rejected.map(({ path }) => path),
    ["/py39", "/none"],
  );
});

test("an interpreter of the settings that does not fit is not passed over", async () => {
  const { chosen, rejected } = await choose([
    ["/py39", "setting"],
    ["/py311", "PATH"],
  ]);
  assert.equal(chosen, undefined);
  assert.match(rejected[0]?.reason ?? "", /Python 3\.9/);
});

test("what is forbidden is not even asked", async () => {
  const asked: string[] = [];
  const { chosen } = await choose([["/py311", "PATH"]], {
    forbidden: () => Promise.resolve("it belongs to the workspace"),
    query: (path) => {
      asked.push(path);
      return Promise.reject(new Error("must not run"));
    },
  });
  assert.equal(chosen, undefined);
  assert.deepEqual(asked, []);
});

test("candidates after the chosen one are not looked up", async () => {
  async function* lazily(): AsyncGenerator<Candidate> {
    yield await Promise.resolve({ path: "/py311", source: "PATH" });
    throw new Error("looked up too much");
  }
  assert.equal((await choose([], { candidates: lazily() })).chosen?.path, "/py311");
});

const ENVIRONMENTS: readonly (readonly [string, RegExp | undefined])[] = [
  ["/py39", /3\.11 or newer/],
  ["/py312", /not installed/],
  ["/py312-env", undefined],
];

for (const [path, reason] of ENVIRONMENTS) {
  test(`trainlint of the environment ${path} ${reason ? "cannot" : "can"} run`, async () => {
    const { chosen, rejected } = await choose([[path, "PATH"]], { strategy: "fromEnvironment", bundle: undefined });
    assert.equal(chosen?.path, reason ? undefined : path);
    assert.match(rejected[0]?.reason ?? "", reason ?? /^$/);
  });
}

test("a build without a server says so", async () => {
  const { rejected } = await choose([["/py311", "PATH"]], { bundle: undefined });
  assert.match(rejected[0]?.reason ?? "", /carries no server/);
});
