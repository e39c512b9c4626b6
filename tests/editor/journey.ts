import * as fs from "node:fs";
import * as path from "node:path";
import type { FrameLocator, Locator, Page } from "playwright-core";
import { inBrowser, screenshot } from "./browser";
import type { Counts } from "./hostRun";
import type { VsCodeServer } from "./vscodeServer";

const LIMIT_MS = 90_000;
const FINDING = "in pageable memory";
const FIX = "pin_memory";

/** What a person does, with the page as a person sees it: see, fix, read, look at the state and at evidence. */
export async function takeJourney(server: VsCodeServer, folder: string): Promise<Counts> {
  return take("journey", LEGS, server, folder);
}

/** A person probes a script, and reads what it costs. */
export async function takeProbe(server: VsCodeServer, folder: string): Promise<Counts> {
  return take("probe", PROBE_LEGS, server, folder);
}

async function take(name: string, legs: readonly Leg[], server: VsCodeServer, folder: string): Promise<Counts> {
  return inBrowser(async (page) => {
    page.setDefaultTimeout(LIMIT_MS);
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
];

async function openTheScript(page: Page): Promise<void> {
  await page.locator('.explorer-folders-view .monaco-list-row[aria-label^="train.py"]').dblclick();
}

async function startAProbe(page: Page): Promise<void> {
  await openTheScript(page);
  await page.locator(".editor-instance .codelens-decoration", { hasText: "Probe this script" }).waitFor();
  await choose(page, "trainlint: Probe This File");
  await notification(page, "trainlint: probing").waitFor();
}

async function seeWhatWasMeasured(page: Page): Promise<void> {
  await notification(page, "ms per step, bottleneck: data").waitFor();
  await page.locator(".editor-instance .codelens-decoration", { hasText: "bottleneck: data" }).waitFor();
  // What this line costs, stacks alone tell: they are sampled with what the extension carries.
  await page.locator(".editor-instance .view-line", { hasText: /time\.sleep.*ms\/step/ }).waitFor();
}

async function readTheReportOfTheRun(page: Page): Promise<void> {
  await choose(page, "trainlint: Open Report of the Probe");
  await report(page).getByText("data supply").first().waitFor();
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

async function openTheMenuOfFixes(page: Page): Promise<void> {
  await problem(page).dblclick();
  await page.locator(".editor-instance .monaco-editor.focused").waitFor();
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
  await page.locator(".editor-instance .view-line", { hasText: "loss.item()" }).getByText("item").first().hover();
  await page.locator(".monaco-hover:visible", { hasText: "sync-in-step" }).first().waitFor();
}

async function readThePageOfARule(page: Page): Promise<void> {
  await page.keyboard.press("Escape");
  await choose(page, "trainlint: Explain a Rule");
  await row(page, "TL201").click();
  const preview = page.frameLocator("iframe.webview.ready").frameLocator("iframe#active-frame");
  await preview.getByText("sync-in-step").first().waitFor();
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
  await notification(page, "bottleneck: data (61 %)").waitFor();
  await page.locator(".editor-instance .view-line", { hasText: "12.3 ms/step" }).waitFor();
  await page.locator(".editor-instance .codelens-decoration", { hasText: "39.7 ms per step" }).waitFor();
  await page.locator(".editor-instance .squiggly-error").first().waitFor();
}

async function readTheReport(page: Page): Promise<void> {
  await choose(page, "trainlint: Open Report of the Probe");
  await report(page).getByText("sync-in-step").first().waitFor();
}

/** The page in the tab of the report. */
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

function notification(page: Page, text: string): Locator {
  return page.locator(".notifications-toasts .notification-list-item", { hasText: text });
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
  const limit = Date.now() + LIMIT_MS;
  while (!(await holds())) {
    if (Date.now() > limit) {
      throw new Error(`waited in vain for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
