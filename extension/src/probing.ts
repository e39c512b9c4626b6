import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { messageOf } from "./errors";
import {
  type Configuration,
  type ProbeRequest,
  probeOf,
  splitArguments,
  startsPython,
  type Surroundings,
} from "./launchConfigurations";
import { isProbeResult, type ProbeResult } from "./probeResult";
import { isReport, type ReportView } from "./report";
import type { Session } from "./session";

/** Title by which the server begins to tell how far a probe is. */
export const PROGRESS_TITLE = "trainlint: probing";

/** How far the server says that something is. */
export interface ProgressNews {
  readonly message?: string;
  readonly percentage?: number;
}

/** What probes take from their surroundings. */
export interface ProbeSurroundings {
  readonly session: Session;
  readonly reportView: ReportView;
  /** The interpreter of the training environment, where nothing else names one. */
  readonly python: () => Promise<string | undefined>;
  readonly onDidChangeRunning: (running: boolean) => void;
}

/** Runs probes through the server, and shows how far they are and what they found. */
export class Probing {
  private readonly progress = new vscode.EventEmitter<ProgressNews>();

  constructor(private readonly surroundings: ProbeSurroundings) {}

  /** The server says how far the probe is. */
  hear(news: ProgressNews): void {
    this.progress.fire(news);
  }

  async probeFile(): Promise<void> {
    await this.probe({ uri: (await savedScript()).uri.toString() });
  }

  /** Probe with what a configuration of `launch.json` says, or with arguments that are typed. */
  async probeWithArguments(): Promise<void> {
    const request = await askForRequest();
    if (request) {
      await this.probe(request);
    }
  }

  async attach(): Promise<void> {
    const answer = await vscode.window.showInputBox({
      title: "Attach to a running job",
      prompt: "Id of the process that trains. It is looked at, and never stopped.",
      validateInput: (value) => (/^[1-9]\d*$/.test(value.trim()) ? undefined : "the id of a process is a whole number"),
    });
    if (answer) {
      await this.probe({ pid: Number(answer) });
    }
  }

  /** Run a probe; what it found joins what is shown of the code. Returns its result, and nothing where it was cancelled. */
  async probe(request: ProbeRequest): Promise<unknown> {
    requireTrust();
    const { session, onDidChangeRunning } = this.surroundings;
    const steps = vscode.workspace.getConfiguration("trainlint").get<number | null>("probeSteps") ?? undefined;
    const python = request.pid === undefined ? (request.python ?? (await this.surroundings.python())) : undefined;
    const whole = { ...(steps !== undefined && { steps }), ...request, ...(python !== undefined && { python }) };
    onDidChangeRunning(true);
    try {
      const result = await this.withProgress(() => session.execute("trainlint.probe", whole));
      if (isProbeResult(result)) {
        void this.tell(result);
      }
      return result;
    } finally {
      onDidChangeRunning(false);
    }
  }

  async openReport(): Promise<void> {
    const report = await this.surroundings.session.execute("trainlint.openReport", {});
    if (isReport(report)) {
      this.surroundings.reportView.show(report);
    }
  }

  async loadEvidence(): Promise<void> {
    requireTrust();
    const chosen = await vscode.window.showOpenDialog({
      title: "Load the result of a probe",
      filters: { "Result of a probe": ["json"] },
    });
    const [file] = chosen ?? [];
    if (file) {
      const result = await this.surroundings.session.execute("trainlint.loadEvidence", { path: file.fsPath });
      if (isProbeResult(result)) {
        void this.tell(result);
      }
    }
  }

  async clearEvidence(): Promise<void> {
    await this.surroundings.session.execute("trainlint.clearEvidence", {});
  }

  private withProgress(run: () => Promise<unknown>): Thenable<unknown> {
    const options = { location: vscode.ProgressLocation.Notification, title: PROGRESS_TITLE, cancellable: true };
    return vscode.window.withProgress(options, async (shown, cancellation) => {
      let before = 0;
      const heard = this.progress.event(({ message, percentage = before }) => {
        shown.report({ ...(message !== undefined && { message }), increment: percentage - before });
        before = percentage;
      });
      const cancelled = cancellation.onCancellationRequested(
        () => void this.surroundings.session.execute("trainlint.cancelProbe", {}),
      );
      try {
        return await run();
      } catch (error) {
        if (cancellation.isCancellationRequested) {
          return undefined;
        }
        throw error;
      } finally {
        heard.dispose();
        cancelled.dispose();
      }
    });
  }

  private async tell(result: ProbeResult): Promise<void> {
    const open = "Open report";
    const answer = await vscode.window.showInformationMessage(`trainlint: ${result.summary}.`, open);
    if (answer === open) {
      try {
        await this.openReport();
      } catch (error) {
        void vscode.window.showErrorMessage(`trainlint: ${messageOf(error)}`);
      }
    }
  }
}

function requireTrust(): void {
  if (!vscode.workspace.isTrusted) {
    throw new Error("nothing is run in a workspace that is not trusted");
  }
}

/** The script in the active editor, as it is saved: the job runs what is on disk. */
async function savedScript(): Promise<vscode.TextDocument> {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== "python" || document.uri.scheme !== "file") {
    throw new Error("open the Python script to probe");
  }
  if (document.isDirty && !(await document.save())) {
    throw new Error("the script was not saved, and a job runs what is saved");
  }
  return document;
}

interface Choice extends vscode.QuickPickItem {
  readonly request?: () => ProbeRequest;
}

async function askForRequest(): Promise<ProbeRequest | undefined> {
  const typed: Choice = { label: "$(edit) Type arguments…", detail: "for the script in the active editor" };
  const choices = [...launchChoices(), typed];
  const answer = choices.length === 1 ? typed : await vscode.window.showQuickPick(choices, { title: "Probe with" });
  if (answer !== typed) {
    await vscode.workspace.saveAll(false);
    return answer?.request?.();
  }
  const document = await savedScript();
  const line = await vscode.window.showInputBox({
    title: `Probe ${path.basename(document.uri.fsPath)}`,
    prompt: "Arguments of the script",
    placeHolder: "--epochs 1 --batch-size 32",
  });
  return line === undefined ? undefined : { uri: document.uri.toString(), args: splitArguments(line) };
}

/** The configurations of `launch.json` that start Python programs, of all folders. */
function launchChoices(): Choice[] {
  const active = vscode.window.activeTextEditor?.document.uri;
  return (vscode.workspace.workspaceFolders ?? []).flatMap((folder) => {
    const listed = vscode.workspace.getConfiguration("launch", folder.uri).get<unknown>("configurations");
    const configurations = (Array.isArray(listed) ? listed : []) as readonly Configuration[];
    return configurations.filter(startsPython).map((configuration) => ({
      label: `$(debug-alt) ${String(configuration["name"])}`,
      description: folder.name,
      request: () => probeOf(configuration, surroundingsOf(folder, active?.fsPath)),
    }));
  });
}

function surroundingsOf(folder: vscode.WorkspaceFolder, file: string | undefined): Surroundings {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return {
    file,
    workspaceFolder: folder.uri.fsPath,
    workspaceFolders: Object.fromEntries(folders.map(({ name, uri }) => [name, uri.fsPath])),
    home: os.homedir(),
    platform: process.platform,
    env: process.env,
    setting: (name) => vscode.workspace.getConfiguration(undefined, folder.uri).get(name),
    read: textOf,
    resolve: (place, file) => path.resolve(place, file),
    uriOf: (place) => vscode.Uri.file(place).toString(),
  };
}

function textOf(file: string): string | undefined {
  try {
    return fs.readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
