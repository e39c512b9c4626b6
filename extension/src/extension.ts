import * as os from "node:os";
import * as vscode from "vscode";
import { type LanguageClientOptions, type ProgressToken, RevealOutputChannelOn } from "vscode-languageclient/node";
import { type Bundle, readBundle } from "./bundle";
import { registerCommands } from "./commands";
import { type Candidate, chooseInterpreter } from "./interpreter";
import { queryInterpreter } from "./interpreterQuery";
import type { ProbeRequest } from "./launchConfigurations";
import { offerRemedies } from "./menu";
import { Probing, PROGRESS_TITLE } from "./probing";
import { PythonEnvironments } from "./pythonEnvironments";
import { isReport, ReportView } from "./report";
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
  const reportView = new ReportView();
  const status = new Status(SELECTOR);
  const bundle = await readBundle(context.extensionPath);
  const running: Session = new Session({
    extensionFolder: context.extensionPath,
    bundle,
    output,
    settings: currentSettings,
    choose: (settings) => choose(settings, bundle, environments, context.extensionPath),
    clientOptions: (trusted) => clientOptions({ output, rulePages, reportView, probing: () => probing }, trusted),
  });
  const probing: Probing = new Probing({
    session: running,
    reportView,
    python: () => pythonOf(environments),
    onDidChangeRunning: (runs) => status.showProbe(runs),
  });
  session = running;
  status.show(running.state);
  context.subscriptions.push(
    output,
    environments,
    rulePages,
    reportView,
    running,
    status,
    running.onDidChangeState((state) => {
      status.show(state);
      if (state.kind === "no-interpreter") {
        void offerRemedies(state);
      }
    }),
    registerCommands({ session: running, output, rulePages, probing }),
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

/** The interpreter that trains, where no configuration names one: that of the Python extension, else the first found. */
async function pythonOf(environments: PythonEnvironments): Promise<string | undefined> {
  const active = await environments.active();
  return active ?? (await interpretersOnPath(process.env["PATH"] ?? "", process.platform))[0];
}

/** What shows what the server says. */
interface Views {
  readonly output: vscode.LogOutputChannel;
  readonly rulePages: RulePages;
  readonly reportView: ReportView;
  readonly probing: () => Probing;
}

function clientOptions({ output, rulePages, reportView, probing }: Views, trusted: boolean): LanguageClientOptions {
  const ofProbes = new Set<ProgressToken>();
  return {
    documentSelector: SELECTOR,
    outputChannel: output,
    revealOutputChannelOn: RevealOutputChannelOn.Never,
    initializationOptions: { trusted, showsPages: true },
    middleware: {
      // "Why is this reported?" is a command of the server's that returns the page of the rule.
      executeCommand: async (command, args, next) => {
        const [argument] = args as [unknown];
        if (command === "trainlint.probe" && isRequest(argument)) {
          // From a lens: the server does not know which interpreter trains.
          return probing().probe(argument);
        }
        const result: unknown = await next(command, args);
        if (isRulePage(result)) {
          await rulePages.show(result);
        } else if (isReport(result)) {
          reportView.show(result);
        }
        return result;
      },
      // How far a probe is stands beside the button that cancels it, which the status bar has not.
      handleWorkDoneProgress: (token, params, next) => {
        if (params.kind === "begin" && params.title === PROGRESS_TITLE) {
          ofProbes.add(token);
        }
        if (!ofProbes.has(token)) {
          next(token, params);
        } else if (params.kind === "report") {
          probing().hear(params);
        }
      },
    },
  };
}

function isRequest(value: unknown): value is ProbeRequest {
  return typeof value === "object" && value !== null && "uri" in value;
}
