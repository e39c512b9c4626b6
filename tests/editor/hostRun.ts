import * as fs from "node:fs";
import * as path from "node:path";
import { inBrowser, screenshot } from "./browser";
import { ARTEFACTS } from "./places";
import type { VsCodeServer } from "./vscodeServer";

const LIMIT_MS = 600_000;

/** Tests that run inside the extension host. */
export interface HostRun {
  readonly name: string;
  /** Folder of the compiled tests, with a manifest that makes it an extension. */
  readonly tests: string;
  /** Module of the folder whose `run` runs them. */
  readonly entry: string;
  /** Folder, or file of a workspace, to open. */
  readonly workspace: string;
}

/** How many tests there were. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
}

/** The part of mocha's report that is read. */
interface Report {
  readonly stats: { readonly passes: number; readonly failures: number };
  readonly failures: readonly { readonly fullTitle: string; readonly err: { readonly stack?: string } }[];
}

/** Where the tests of a run leave their report. */
export function reportOf(name: string): string {
  return path.join(ARTEFACTS, `${name}.json`);
}

export async function runInHost(server: VsCodeServer, run: HostRun): Promise<Counts> {
  fs.rmSync(reportOf(run.name), { force: true });
  const log = fs.createWriteStream(path.join(ARTEFACTS, `${run.name}.log`));
  const outcome = await inBrowser(async (page, context) => {
    let ended: (code: number | string) => void = () => undefined;
    const end = new Promise<number | string>((resolve) => (ended = resolve));
    await context.exposeFunction("codeAutomationLog", (kind: string, values: unknown[]) => {
      log.write(
        `[${kind}] ${values.map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" ")}\n`,
      );
    });
    await context.exposeFunction("codeAutomationExit", ended);
    await page.goto(addressOf(server, run));
    const timer = setTimeout(() => ended("time-out"), LIMIT_MS);
    const code = await end;
    clearTimeout(timer);
    await screenshot(page, `${run.name}-end`);
    return code;
  });
  log.end();
  return counts(run.name, outcome);
}

function addressOf(server: VsCodeServer, { tests, entry, workspace }: HostRun): string {
  const payload = [
    ["extensionDevelopmentPath", server.uri(tests)],
    ["extensionTestsPath", server.uri(path.join(tests, entry))],
    ["skipWelcome", "true"],
  ];
  const kind = workspace.endsWith(".code-workspace") ? "workspace" : "folder";
  const query = new URLSearchParams({ [kind]: server.uri(workspace), payload: JSON.stringify(payload) });
  return `http://${server.address}/?${query.toString()}`;
}

function counts(name: string, outcome: number | string): Counts {
  if (!fs.existsSync(reportOf(name))) {
    console.error(`${name}: the tests in the extension host left no report (${outcome}); see ${ARTEFACTS}/${name}.log`);
    return { passed: 0, failed: 1 };
  }
  const report = JSON.parse(fs.readFileSync(reportOf(name), "utf8")) as Report;
  for (const failure of report.failures) {
    console.error(`${name}: FAILED ${failure.fullTitle}\n${failure.err.stack ?? ""}`);
  }
  const { passes: passed, failures: failed } = report.stats;
  return { passed, failed: outcome === 0 ? failed : Math.max(failed, 1) };
}
