import * as os from "node:os";
import * as vscode from "vscode";
import { type LanguageClientOptions, RevealOutputChannelOn } from "vscode-languageclient/node";
import { type Bundle, readBundle } from "./bundle";
import { registerCommands } from "./commands";
import { type Candidate, chooseInterpreter } from "./interpreter";
import { queryInterpreter } from "./interpreterQuery";
import { offerRemedies } from "./menu";
import { PythonEnvironments } from "./pythonEnvironments";
import { isRulePage, RulePages } from "./rulePages";
import { interpretersOnPath } from "./searchPath";
import type { ServerState } from "./serverState";
import { Session } from "./session";
import { readSettings, type Settings, STARTING } from "./settings";
import { Status } from "./status";
import { inWorkspace } from "./trust";

const SELECTOR = [
  { language: "python", scheme: "file" },
  { language: "python", scheme: "untitled" },
  { language: "python", scheme: "vscode-notebook-cell" },
];

/** What other extensions, and tests, may ask. */
export interface Api {
  readonly state: () => ServerState;
  readonly onDidChangeState: vscode.Event<ServerState>;
}

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<Api> {
  const output = vscode.window.createOutputChannel("trainlint", { log: true });
  const environments = new PythonEnvironments();
  const rulePages = new RulePages();
  const bundle = await readBundle(context.extensionPath);
  const running = new Session({
    extensionFolder: context.extensionPath,
    bundle,
    output,
    settings: currentSettings,
    choose: (settings) => choose(settings, bundle, environments, context.extensionPath),
    clientOptions: (trusted) => clientOptions(output, rulePages, trusted),
  });
  session = running;
  const status = new Status(SELECTOR);
  status.show(running.state);
  context.subscriptions.push(
    output,
    environments,
    rulePages,
    running,
    status,
    running.onDidChangeState((state) => {
      status.show(state);
      if (state.kind === "no-interpreter") {
        void offerRemedies(state);
      }
    }),
    registerCommands({ session: running, output, rulePages }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (STARTING.some((key) => event.affectsConfiguration(key)) || isSwitched(running.state)) {
        void running.restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void running.restart()),
    environments.onDidChange(() => void running.followInterpreter()),
  );
  void running.restart();
  return { state: () => running.state, onDidChangeState: running.onDidChangeState };
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}

function currentSettings(): Settings {
  const scopes = vscode.workspace.workspaceFolders ?? [undefined];
  const configurations = scopes.map((scope) => vscode.workspace.getConfiguration("trainlint", scope));
  const places = { home: os.homedir(), workspaceFolder: workspaceFolders()[0] };
  return readSettings(
    (key) => configurations.map((configuration) => configuration.get(key)),
    places,
    vscode.workspace.isTrusted,
  );
}

/** Whether the server runs though it is disabled, or the other way round. */
function isSwitched(state: ServerState): boolean {
  return currentSettings().enable === (state.kind === "disabled");
}

function workspaceFolders(): string[] {
  return (vscode.workspace.workspaceFolders ?? []).map((folder) => folder.uri.fsPath);
}

function choose(
  settings: Settings,
  bundle: Bundle | undefined,
  environments: PythonEnvironments,
  extensionFolder: string,
): ReturnType<typeof chooseInterpreter> {
  return chooseInterpreter({
    candidates: candidates(settings, environments),
    strategy: settings.importStrategy,
    bundle,
    forbidden: async (path) => (vscode.workspace.isTrusted ? undefined : inWorkspace(path, workspaceFolders())),
    query: (path) => queryInterpreter(path, settings.importStrategy, extensionFolder),
  });
}

/** The order in which interpreters are looked at; each is looked up only where those before did not fit. */
async function* candidates(settings: Settings, environments: PythonEnvironments): AsyncGenerator<Candidate> {
  if (settings.interpreter !== undefined) {
    yield { path: settings.interpreter, source: "setting" };
  }
  const active = await environments.active();
  if (active !== undefined) {
    yield { path: active, source: "Python extension" };
  }
  for (const path of await interpretersOnPath(process.env["PATH"] ?? "", process.platform)) {
    yield { path, source: "PATH" };
  }
}

function clientOptions(output: vscode.LogOutputChannel, rulePages: RulePages, trusted: boolean): LanguageClientOptions {
  return {
    documentSelector: SELECTOR,
    outputChannel: output,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationOptions: { trusted, showsPages: true },
    middleware: {
      // "Why is this reported?" is a command of the server's that returns the page of the rule.
      executeCommand: async (command, args, next) => {
        const result: unknown = await next(command, args);
        if (isRulePage(result)) {
          await rulePages.show(result);
        }
        return result;
      },
    },
  };
}
