// Tests the packaged extension in a real VS Code: run.js VSIX PYTHON
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import * as net from "node:net";
import * as os from "node:os";
import * as path from "node:path";
import { type Counts, type HostRun, runInHost } from "./hostRun";
import { takeJourney, takeProbe } from "./journey";
import { ARTEFACTS, BUILD, ROOT } from "./places";
import { ensureVsCodeServer, installExtensions, VsCodeServer } from "./vscodeServer";
import { writeEnvironment, writeHostileFolder, writeJobFolder, writeOneFolder, writeTwoFolders } from "./workspaces";

const HOST_TESTS = path.join(BUILD, "compiled/host");
const RUN = path.join(BUILD, "run");
/** Outside the repository, whose `.gitignore` would leave them out. */
const WORKSPACES = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "trainlint-editor-")));
const EXTENSIONS = path.join(RUN, "extensions");
const SETTINGS = {
  "workbench.startupEditor": "none",
  "extensions.autoCheckUpdates": false,
  "extensions.autoUpdate": false,
  "extensions.ignoreRecommendations": true,
};

async function main(vsix: string, python: string): Promise<number> {
  if (!hasTools()) {
    return process.env["CI"] === "true" ? 1 : 0;
  }
  fs.rmSync(RUN, { recursive: true, force: true });
  fs.rmSync(ARTEFACTS, { recursive: true, force: true });
  fs.mkdirSync(ARTEFACTS, { recursive: true });
  step("the server of VS Code");
  ensureVsCodeServer();
  step("the extensions");
  installExtensions(EXTENSIONS, [vsix, packPythonExtension()]);
  const outcomes = [...(await testTrusted(python)), await testProbe(python), await testUntrusted(python)];
  const passed = sum(outcomes.map((counts) => counts.passed));
  const failed = sum(outcomes.map((counts) => counts.failed));
  step(`done; screenshots and logs are in ${path.relative(ROOT, ARTEFACTS)}`);
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

async function testTrusted(python: string): Promise<Counts[]> {
  const environments = ["first", "second"].map((name) => writeEnvironment(path.join(RUN, name), python));
  const workspace = writeTwoFolders(path.join(WORKSPACES, "two-folders"));
  const [first = "", second = ""] = environments;
  const journey = writeOneFolder(path.join(WORKSPACES, "one-folder"));
  for (const folder of [path.join(path.dirname(workspace), "plain"), journey]) {
    execFileSync(python, [path.join(ROOT, "tests/editor/write_evidence.py"), folder], { stdio: "inherit" });
  }
  const server = await start("trusted", false, {
    TRAINLINT_TEST_PYTHON: first,
    TRAINLINT_TEST_OTHER_PYTHON: second,
    TRAINLINT_TEST_ENVIRONMENT: python,
  });
  try {
    step("tests in the extension host");
    const inHost = await runInHost(server, { ...hostRun("trusted"), workspace });
    step("a journey through the page");
    return [inHost, await takeJourney(server, journey)];
  } finally {
    await server.stop();
  }
}

/** A probe for real: by the server of the extension, of a job in an environment that has torch and no trainlint. */
async function testProbe(python: string): Promise<Counts> {
  step("a probe of a job");
  const environment = path.join(RUN, "torch");
  execFileSync(python, [path.join(ROOT, "tests/editor/write_environment.py"), environment], { stdio: "inherit" });
  const interpreter = path.join(environment, "bin/python");
  const server = await start("probe", false, {
    TRAINLINT_TEST_PYTHON: interpreter,
    TRAINLINT_TEST_VARIABLE: "of the configuration",
  });
  try {
    return await takeProbe(server, writeJobFolder(path.join(WORKSPACES, "job")), interpreter);
  } finally {
    await server.stop();
  }
}

async function testUntrusted(python: string): Promise<Counts> {
  step("tests in the extension host, in a workspace that is not trusted");
  const workspace = writeHostileFolder(path.join(WORKSPACES, "hostile"), python);
  const outside = writeEnvironment(path.join(RUN, "outside"), python);
  const server = await start("untrusted", true, {
    TRAINLINT_TEST_PYTHON: path.join(workspace, ".venv/bin/python"),
    TRAINLINT_TEST_OUTSIDE_PYTHON: path.join(path.dirname(outside), "python3"),
    PATH: `${path.join(workspace, ".venv/bin")}:${path.dirname(outside)}:${process.env["PATH"] ?? ""}`,
  });
  try {
    return await runInHost(server, { ...hostRun("untrusted"), workspace });
  } finally {
    await server.stop();
  }
}

function hostRun(name: string): Omit<HostRun, "workspace"> {
  return { name, tests: HOST_TESTS, entry: `${name}.js` };
}

async function start(name: string, trust: boolean, variables: Readonly<Record<string, string>>): Promise<VsCodeServer> {
  const instance = { data: path.join(RUN, name), extensions: EXTENSIONS, port: await freePort() };
  return VsCodeServer.start(instance, SETTINGS, trust, { TRAINLINT_TEST_ARTEFACTS: ARTEFACTS, ...variables });
}

/** Package the stand-in for the Python extension. */
function packPythonExtension(): string {
  const file = path.join(RUN, "python.vsix");
  fs.mkdirSync(RUN, { recursive: true });
  execFileSync(
    path.join(ROOT, "node_modules/.bin/vsce"),
    [
      "package",
      "--no-dependencies",
      "--allow-missing-repository",
      "--skip-license",
      "--allow-package-all-secrets",
      "--out",
      file,
    ],
    { cwd: path.join(ROOT, "tests/editor/python-extension"), stdio: ["ignore", "ignore", "inherit"] },
  );
  return file;
}

function hasTools(): boolean {
  const missing = ["chromium", "rg"].filter((name) => {
    try {
      execFileSync("which", [name], { stdio: "ignore" });
      return false;
    } catch {
      return true;
    }
  });
  if (missing.length > 0) {
    console.error(`not tested in an editor, since ${missing.join(", ")} is missing (Debian: chromium, ripgrep)`);
  }
  return missing.length === 0;
}

async function freePort(): Promise<number> {
  const listener = net.createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  const { port } = listener.address() as net.AddressInfo;
  await new Promise((resolve) => listener.close(resolve));
  return port;
}

function step(what: string): void {
  console.log(`[${Math.round(process.uptime())} s] ${what}`);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function end(status: number): never {
  fs.rmSync(WORKSPACES, { recursive: true, force: true });
  process.exit(status);
}

main(process.argv[2] ?? "", process.argv[3] ?? "").then(
  (status) => end(status),
  (error: unknown) => {
    console.error(error);
    end(1);
  },
);
