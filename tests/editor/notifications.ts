import type { Page } from "playwright-core";
import { PATIENCE_MS } from "./browser";

const TOASTS = ".notifications-toasts .notification-list-item";

/** Runs in the page: keeps what notifications say, since those that nobody clicks vanish after some seconds. */
const KEEPING = `
  globalThis.keptNotifications = new Set();
  const look = () => {
    for (const item of document.querySelectorAll(${JSON.stringify(TOASTS)})) {
      keptNotifications.add(item.textContent);
    }
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
`;

/** Keep what notifications say in a page; to be called before it is opened. */
export async function keepNotifications(page: Page): Promise<void> {
  await page.addInitScript({ content: `{${KEEPING}}` });
}

/** Wait until a notification has said something. */
export async function told(page: Page, text: string): Promise<void> {
  const said = `[...keptNotifications].some((one) => one.includes(${JSON.stringify(text)}))`;
  await page.waitForFunction(said, undefined, { timeout: PATIENCE_MS }).catch(async (error: unknown) => {
    const kept = await page.evaluate<string[]>("[...keptNotifications]");
    throw new Error(`no notification said ${JSON.stringify(text)}, but ${JSON.stringify(kept)}`, { cause: error });
  });
}

/** Forget what notifications said; those that are still to be seen are to be gone. */
export async function forgetNotifications(page: Page): Promise<void> {
  await page.locator(TOASTS).first().waitFor({ state: "detached" });
  await page.evaluate("keptNotifications.clear()");
}
