import * as vscode from "vscode";
import { describeState, type ServerState } from "./serverState";

interface Entry extends vscode.QuickPickItem {
  readonly run: () => Thenable<unknown>;
}

const command = (id: string, ...args: unknown[]) => vscode.commands.executeCommand(id, ...args);

const RESTART: Entry = { label: "$(refresh) Restart server", run: () => command("trainlint.restartServer") };
const LOG: Entry = { label: "$(output) Show log", run: () => command("trainlint.showLog") };
const DEBUG: Entry = {
  label: "$(info) Show debug information",
  run: () => command("trainlint.showDebugInformation"),
};
const INTERPRETER: Entry = {
  label: "$(gear) Set the interpreter",
  run: () => command("workbench.action.openSettings", "trainlint.interpreter"),
};
const SETTINGS: Entry = {
  label: "$(settings-gear) Open settings",
  run: () => command("workbench.action.openSettings", "@ext:trainlint.trainlint"),
};
const TRUST: Entry = { label: "$(shield) Manage workspace trust", run: () => command("workbench.trust.manage") };

/** What the status item offers in a state. */
export async function showMenu(state: ServerState): Promise<void> {
  const entries = [
    ...(state.kind === "ready" ? [DEBUG] : []),
    ...(state.kind === "no-interpreter" ? [INTERPRETER] : []),
    ...(state.kind === "disabled" ? [] : [RESTART]),
    LOG,
    ...(vscode.workspace.isTrusted ? [] : [TRUST]),
    SETTINGS,
  ];
  const { detail } = describeState(state);
  const chosen = await vscode.window.showQuickPick(entries, { title: "trainlint", placeHolder: detail });
  await chosen?.run();
}

const ADVICE_BUNDLED =
  "Install CPython 3.11 to 3.14, name one in the setting trainlint.interpreter, or install trainlint into your environment and use that.";
const ADVICE_ENVIRONMENT =
  "Install it there (pip install trainlint), or name another interpreter in trainlint.interpreter.";

/** Say that no interpreter fits, and what to do. */
export async function offerRemedies(state: Extract<ServerState, { kind: "no-interpreter" }>): Promise<void> {
  const named = state.rejected.find((rejection) => rejection.source === "setting");
  const bundled = state.strategy === "useBundled";
  const message = named
    ? `trainlint cannot start: the interpreter of the setting trainlint.interpreter, ${named.path}, does not fit: ${named.reason}.`
    : `trainlint cannot start. ${describeState(state).detail} ${bundled ? ADVICE_BUNDLED : ADVICE_ENVIRONMENT}`;
  const environment = "Use trainlint from the environment";
  const choices = ["Set the interpreter", ...(bundled && vscode.workspace.isTrusted ? [environment] : []), "Show log"];
  const answer = await vscode.window.showErrorMessage(message, ...choices);
  if (answer === "Set the interpreter") {
    await INTERPRETER.run();
  } else if (answer === environment) {
    await vscode.workspace
      .getConfiguration("trainlint")
      .update("importStrategy", "fromEnvironment", vscode.ConfigurationTarget.Global);
  } else if (answer === "Show log") {
    await LOG.run();
  }
}
