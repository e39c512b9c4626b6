import * as path from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { ARTEFACTS } from "./places";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** How long anything may take that a test waits for; other work on the machine is no fault of the editor. */
export const PATIENCE_MS = 180_000;

/** Run something in a fresh window of a browser. */
export async function inBrowser<T>(action: (page: Page, context: BrowserContext) => Promise<T>): Promise<T> {
  const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  const browser: Browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  try {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
    return await action(await context.newPage(), context);
  } finally {
    await browser.close();
  }
}

export async function screenshot(page: Page, name: string): Promise<void> {
  await page.screenshot({ animations: "disabled", path: path.join(ARTEFACTS, `${name}.png`) });
}
