import assert from "node:assert/strict";
import * as vscode from "vscode";
import type { Api } from "../../../extension/src/extension";
import type { ServerState } from "../../../extension/src/serverState";

const LIMIT_MS = 120_000;

/** Wait until something is there. */
export async function eventually<T>(what: string, look: () => T | undefined | Promise<T | undefined>): Promise<T> {
  const limit = Date.now() + LIMIT_MS;
  for (;;) {
    const found = await look();
    if (found !== undefined) {
      return found;
    }
    if (Date.now() > limit) {
      throw new Error(`waited in vain for ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** What the extension under test, the one that is installed, offers. */
export async function extensionApi(): Promise<Api> {
  const extension = vscode.extensions.getExtension<Api>("trainlint.trainlint");
  assert.ok(extension, "the extension is not installed");
  return extension.activate();
}

/** Wait for a state of the server. */
export async function stateOf<K extends ServerState["kind"]>(kind: K): Promise<Extract<ServerState, { kind: K }>> {
  const api = await extensionApi();
  return eventually(`the state ${kind}`, () => {
    const state = api.state();
    return state.kind === kind ? (state as Extract<ServerState, { kind: K }>) : undefined;
  });
}

/** Wait for a state that the server may be in for a moment only. Ask before what brings it about. */
export async function comingState(kind: ServerState["kind"]): Promise<{ readonly comes: Promise<void> }> {
  const api = await extensionApi();
  let seen = false;
  const heard = api.onDidChangeState((state) => (seen ||= state.kind === kind));
  const comes = eventually(`the state ${kind}, be it for a moment`, () => seen || undefined);
  return { comes: comes.then(() => undefined).finally(() => void heard.dispose()) };
}

/** Open a file of a folder of the workspace in an editor. */
export async function open(folder: number, name: string): Promise<vscode.TextEditor> {
  return vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uriOf(folder, name)));
}

export function uriOf(folder: number, name: string): vscode.Uri {
  const found = vscode.workspace.workspaceFolders?.[folder];
  assert.ok(found, `there is no folder ${folder}`);
  return vscode.Uri.joinPath(found.uri, name);
}

/** Our diagnostics of a text, once they satisfy a condition. */
export async function diagnosticsOf(
  uri: vscode.Uri,
  what: string,
  condition: (codes: readonly string[]) => boolean,
): Promise<vscode.Diagnostic[]> {
  return eventually(`diagnostics: ${what}`, () => {
    const ours = vscode.languages.getDiagnostics(uri).filter((diagnostic) => diagnostic.source === "trainlint");
    return condition(ours.map(codeOf)) ? ours : undefined;
  });
}

export function codeOf({ code }: vscode.Diagnostic): string {
  return String(typeof code === "object" ? code.value : code);
}

/** The code actions of one kind for a diagnostic. */
export async function actionsFor(uri: vscode.Uri, range: vscode.Range, kind: string): Promise<vscode.CodeAction[]> {
  return vscode.commands.executeCommand<vscode.CodeAction[]>("vscode.executeCodeActionProvider", uri, range, kind, 20);
}
