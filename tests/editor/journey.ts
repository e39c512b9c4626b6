import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import type { FrameLocator, Locator, Page } from "playwright-core";
import { inBrowser, PATIENCE_MS, screenshot } from "./browser";
import type { Counts } from "./hostRun";
import { forgetNotifications, keepNotifications, told } from "./notifications";
import type { VsCodeServer } from "./vscodeServer";
import { LAUNCHED_REPORT } from "./workspaces";

/** How long a hover may take before the pointer is moved there again. */
const HOVER_MS = 10_000;
const FINDING = "in pageable memory";
const FIX = "pin_memory";

/** What a person does, with the page as a person sees it: see, fix, read, look at the state and at evidence. */
export async function takeJourney(server: VsCodeServer, folder: string): Promise<Counts> {
  return take("journey", LEGS, server, folder);
}

/** A person probes a script, and reads what it costs; then jobs of `launch.json`, and one that runs already. */
export async function takeProbe(server: VsCodeServer, folder: string, python: string): Promise<Counts> {
  return take("probe", [...PROBE_LEGS, ["attached", (page, file) => attach(page, file, python)]], server, folder);
}

async function take(name: string, legs: readonly Leg[], server: VsCodeServer, folder: string): Promise<Counts> {
  return inBrowser(async (page) => {
    page.setDefaultTimeout(PATIENCE_MS);
    await keepNotifications(page);
    let passed = 0;
    try {
      await page.goto(`http://${server.address}/?folder=${server.uri(folder)}`);
      for (const [leg, action] of legs) {
        await action(page, path.join(folder, "train.py"));
        await screenshot(page, `${name}-${passed + 1}-${leg}`);
        passed += 1;
      }
      return { passed, failed: 0 };
    } catch (error) {
      console.error(`${name}: FAILED ${legs[passed]?.[0] ?? "to open"}\n`, error);
      await screenshot(page, `${name}-failed`);
      return { passed, failed: 1 };
    }
  });
}

type Leg = readonly [name: string, action: (page: Page, file: string) => Promise<void>];

const LEGS: readonly Leg[] = [
  ["squiggle-and-problems", seeTheFinding],
  ["menu-of-fixes", openTheMenuOfFixes],
  ["fixed-on-disk", fixAndSave],
  ["hover", hoverOverAFinding],
  ["page-of-a-rule", readThePageOfARule],
  ["menu-of-the-status", openTheMenuOfTheStatus],
  ["measured-costs", loadEvidence],
  ["report-of-a-probe", readTheReport],
];

const PROBE_LEGS: readonly Leg[] = [
  ["running", startAProbe],
  ["measured", seeWhatWasMeasured],
  ["report", readTheReportOfTheRun],
  ["launched", launch],
  ["not-launched", launchWhatAsks],
];

async function openTheScript(page: Page): Promise<void> {
  await page.locator('.explorer-folders-view .monaco-list-row[aria-label^="train.py"]').dblclick();
  await page.locator(".tabs-container .tab.active", { hasText: "train.py" }).waitFor();
  await page.locator(".editor-instance .monaco-editor.focused").waitFor();
}

async function startAProbe(page: Page): Promise<void> {
  await openTheScript(page);
  await page.locator(".editor-instance .codelens-decoration", { hasText: "Probe this script" }).waitFor();
  await choose(page, "trainlint: Probe This File");
  await told(page, "trainlint: probing");
}

async function seeWhatWasMeasured(page: Page): Promise<void> {
  await told(page, "ms per step, bottleneck: data");
  await page.locator(".editor-instance .codelens-decoration", { hasText: "bottleneck: data" }).waitFor();
  // What this line costs, stacks alone tell: they are sampled with what the extension carries.
  await page.locator(".editor-instance .view-line", { hasText: /time\.sleep.*ms\/step/ }).waitFor();
}

async function readTheReportOfTheRun(page: Page): Promise<void> {
  await choose(page, "trainlint: Open Report of the Probe");
  await report(page).getByText("data supply").first().waitFor();
}

/** What a configuration of `launch.json` says reaches the job. */
async function launch(page: Page, file: string): Promise<void> {
  await forget(page);
  await page.locator(".tabs-container .tab", { hasText: "train.py" }).click();
  await page.locator(".editor-instance .monaco-editor.focused").waitFor();
  await choose(page, "trainlint: Probe with Arguments");
  await row(page, "Launched module").click();
  await told(page, "ms per step");
  const folder = path.dirname(file);
  const report = JSON.parse(await fs.promises.readFile(path.join(folder, LAUNCHED_REPORT), "utf8")) as unknown;
  assert.deepEqual(report, {
    arguments: ["--data", path.join(folder, "data"), "two words", "train.py"],
    folder: path.join(folder, "jobs"),
    module: "jobs.launched",
    variables: ["from the file", "of the configuration", "of the configuration"],
    utf8: 1,
  });
}

async function launchWhatAsks(page: Page): Promise<void> {
  await forget(page);
  await choose(page, "trainlint: Probe with Arguments");
  await row(page, "Asks for something").click();
  await told(page, "the configuration uses ${input:epochs}, which is not known outside of the debugger");
}

/** A job that nobody started here is looked at, and runs on. */
async function attach(page: Page, file: string, python: string): Promise<void> {
  await forget(page);
  const job = spawn(python, [file], { cwd: path.dirname(file), stdio: ["ignore", "pipe", "ignore"] });
  try {
    await new Promise((resolve) => job.stdout.once("data", resolve));
    job.stdout.resume();
    await choose(page, "trainlint: Attach to a Running Job");
    const input = page.locator(".quick-input-widget", { hasText: "Attach to a running job" }).locator("input");
    await input.fill(String(job.pid));
    await until("the id of the job", async () => (await input.inputValue()) === String(job.pid));
    await page.keyboard.press("Enter");
    await told(page, "no step was timed");
    assert.equal(job.exitCode, null);
    assert.equal(job.signalCode, null);
  } finally {
    job.kill();
  }
}

async function seeTheFinding(page: Page): Promise<void> {
  await openTheScript(page);
  await page.locator(".editor-instance .squiggly-warning").first().waitFor();
  await page.keyboard.press("Control+Shift+M");
  await problem(page).waitFor();
  await status(page).waitFor();
  // Away from the file's row, whose path would cover its neighbours.
  await page.locator(".editor-instance .view-lines").hover({ position: { x: 500, y: 20 } });
}

async function openTheMenuOfFixes(page: Page, file: string): Promise<void> {
  await problem(page).dblclick();
  await page.locator(".editor-instance .monaco-editor.focused").waitFor();
  const lines = (await fs.promises.readFile(file, "utf8")).split("\n");
  const flagged = lines.findIndex((line) => line.includes("DataLoader(")) + 1;
  await page.locator('.statusbar-item[id="status.editor.selection"]', { hasText: `Ln ${flagged}, ` }).waitFor();
  await page.keyboard.press("Control+.");
  // The first row, the preferred fix, must have the focus before a key can choose it.
  await page.locator(".action-widget .monaco-list-row.action.focused", { hasText: FIX }).waitFor();
}

async function fixAndSave(page: Page, file: string): Promise<void> {
  await page.keyboard.press("Enter");
  await page.locator(".editor-instance .view-lines", { hasText: "pin_memory=True" }).waitFor();
  await page.keyboard.press("Control+s");
  await until("the fix on disk", async () => (await fs.promises.readFile(file, "utf8")).includes("pin_memory=True"));
  await problem(page).waitFor({ state: "detached" });
}

async function hoverOverAFinding(page: Page): Promise<void> {
  const place = page.locator(".editor-instance .view-line", { hasText: "loss.item()" }).getByText("item").first();
  const shown = page.locator(".monaco-hover:visible", { hasText: "sync-in-step" }).first();
  // What is drawn anew under the pointer, as squiggles are after an edit, takes a hover away for good.
  await until("the page of the rule over its line", async () => {
    await page.locator(".editor-instance .view-lines").hover({ position: { x: 500, y: 20 } });
    await place.hover();
    return shown.waitFor({ timeout: HOVER_MS }).then(
      () => true,
      () => false,
    );
  });
}

async function readThePageOfARule(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await choose(page, "trainlint: Explain a Rule");
  await row(page, "TL201").click();
  await report(page).getByText("sync-in-step").first().waitFor();
}

async function openTheMenuOfTheStatus(page: Page): Promise<void> {
  await page.locator(".tabs-container .tab", { hasText: "train.py" }).click();
  await status(page).click();
  await row(page, "Restart server").waitFor();
}

async function loadEvidence(page: Page, file: string): Promise<void> {
  await page.keyboard.press("Escape");
  // Away from the status, whose hover would cover what is told.
  await page.locator(".editor-instance .view-lines").hover({ position: { x: 500, y: 20 } });
  await choose(page, "trainlint: Load Evidence");
  // The dialog takes the place of the palette, in the same widget: what is typed before would be lost.
  const folder = path.dirname(file);
  const input = page.locator(".quick-input-widget .quick-input-box input");
  await until("the dialog", async () => (await input.inputValue()).startsWith(path.dirname(folder)));
  const evidence = path.join(folder, "probe.json");
  await input.fill(evidence);
  await until("the path in the dialog", async () => (await input.inputValue()) === evidence);
  await page.keyboard.press("Enter");
  await told(page, "bottleneck: data (61 %)");
  await page.locator(".editor-instance .view-line", { hasText: "12.3 ms/step" }).waitFor();
  await page.locator(".editor-instance .codelens-decoration", { hasText: "39.7 ms per step" }).waitFor();
  await page.locator(".editor-instance .squiggly-error").first().waitFor();
}

async function readTheReport(page: Page): Promise<void> {
  await choose(page, "trainlint: Open Report of the Probe");
  await report(page).getByText("sync-in-step").first().waitFor();
}

/** The page in the tab that was opened last. */
function report(page: Page): FrameLocator {
  return page.locator("iframe.webview.ready").last().contentFrame().frameLocator("iframe#active-frame");
}

/** Run a command of the palette. */
async function choose(page: Page, command: string): Promise<void> {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget .quick-input-box input").fill(`>${command}`);
  await page.locator(".quick-input-list .monaco-list-row.focused", { hasText: command }).waitFor();
  await page.keyboard.press("Enter");
}

/** Take all notifications away, and what they said. */
async function forget(page: Page): Promise<void> {
  await choose(page, "Notifications: Clear All Notifications");
  await forgetNotifications(page);
}

function problem(page: Page): Locator {
  return page.locator(".markers-panel .monaco-list-row", { hasText: FINDING });
}

/** The item of the status bar. */
function status(page: Page): Locator {
  return page.locator('.statusbar-item[id="trainlint.trainlint.trainlint.status"]', { hasText: "trainlint" });
}

function row(page: Page, text: string): Locator {
  return page.locator(".quick-input-list .monaco-list-row", { hasText: text }).first();
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const limit = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (Date.now() > limit) {
      throw new Error(`waited in vain for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
