import * as vscode from "vscode";
import { messageOf } from "./errors";
import { showMenu } from "./menu";
import type { Probing } from "./probing";
import { isRulePage, type RulePages } from "./rulePages";
import type { Session } from "./session";

/** What the commands of the palette act on. */
export interface Context {
  readonly session: Session;
  readonly output: vscode.LogOutputChannel;
  readonly rulePages: RulePages;
  readonly probing: Probing;
}

type Action = (context: Context) => Promise<void>;

/** The commands of the palette, by identifier. */
const ACTIONS: Readonly<Record<string, Action>> = {
  "trainlint.fixAllInFile": fixAllInFile,
  "trainlint.explainRule": explainRule,
  "trainlint.probeFile": ({ probing }) => probing.probeFile(),
  "trainlint.probeWithArguments": ({ probing }) => probing.probeWithArguments(),
  "trainlint.attachToJob": ({ probing }) => probing.attach(),
  "trainlint.openProbeReport": ({ probing }) => probing.openReport(),
  "trainlint.loadProbeEvidence": ({ probing }) => probing.loadEvidence(),
  "trainlint.clearProbeEvidence": ({ probing }) => probing.clearEvidence(),
  "trainlint.restartServer": ({ session }) => session.restart(),
  "trainlint.showLog": showLog,
  "trainlint.showDebugInformation": showDebugInformation,
  "trainlint.showMenu": ({ session }) => showMenu(session.state),
};

export function registerCommands(context: Context): vscode.Disposable {
  const registrations = Object.entries(ACTIONS).map(([id, action]) =>
    vscode.commands.registerCommand(id, () => report(action(context))),
  );
  return vscode.Disposable.from(...registrations);
}

/** A command that fails tells the user why. */
async function report(action: Promise<void>): Promise<void> {
  try {
    await action;
  } catch (error) {
    void vscode.window.showErrorMessage(`trainlint: ${messageOf(error)}`);
  }
}

async function fixAllInFile({ session }: Context): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (!document) {
    throw new Error("open a Python file to fix");
  }
  const changed = await session.execute("trainlint.applyFixAll", { uri: document.uri.toString() });
  if (changed === false) {
    void vscode.window.showInformationMessage("trainlint: there is nothing to fix safely in this file.");
  }
}

async function explainRule({ session, rulePages }: Context): Promise<void> {
  const code = await askForRule();
  if (code) {
    const page = await session.execute("trainlint.explain", { code });
    if (isRulePage(page)) {
      await rulePages.show(page);
    }
  }
}

/** The rule to explain: one of those found in the file, those of the cursor's line first, or another that is typed. */
async function askForRule(): Promise<string | undefined> {
  const found = rulesOfActiveFile();
  const other: vscode.QuickPickItem = { label: "Another rule…" };
  if (found.length > 0) {
    const answer = await vscode.window.showQuickPick([...found, other], { title: "Explain a rule" });
    if (answer !== other) {
      return answer?.label;
    }
  }
  return vscode.window.showInputBox({ title: "Explain a rule", prompt: "Code or name", placeHolder: "TL201" });
}

function rulesOfActiveFile(): vscode.QuickPickItem[] {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    return [];
  }
  const row = editor.selection.active.line;
  const distance = (diagnostic: vscode.Diagnostic) => Math.abs(diagnostic.range.start.line - row);
  const ours = vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((diagnostic) => diagnostic.source === "trainlint")
    .sort((left, right) => distance(left) - distance(right));
  const items = new Map(ours.map((diagnostic) => [codeOf(diagnostic), diagnostic.message]));
  return [...items].map(([label, description]) => ({ label, description }));
}

function codeOf({ code }: vscode.Diagnostic): string {
  return String(typeof code === "object" ? code.value : code);
}

function showLog({ output }: Context): Promise<void> {
  output.show();
  return Promise.resolve();
}

async function showDebugInformation({ session }: Context): Promise<void> {
  const server = session.state.kind === "ready" ? await session.execute("trainlint.debugInformation") : null;
  const content = JSON.stringify({ editor: vscode.version, client: session.state, server }, undefined, 2);
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "json", content }));
}
