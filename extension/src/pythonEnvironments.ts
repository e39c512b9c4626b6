import { PVSC_EXTENSION_ID, PythonExtension } from "@vscode/python-extension";
import * as vscode from "vscode";

/** Milliseconds to wait for the Python extension to start before going on without it. */
const PATIENCE_MS = 10_000;

/** What the Python extension says about the environment of the workspace; nothing where it is not installed. */
export class PythonEnvironments implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChange = this.changed.event;
  private subscription: vscode.Disposable | undefined;
  private readonly installed = vscode.extensions.onDidChange(() => this.changed.fire());

  /** Path of the active interpreter. */
  async active(): Promise<string | undefined> {
    const api = await this.api();
    if (!api) {
      return undefined;
    }
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
    const environment = await api.environments.resolveEnvironment(api.environments.getActiveEnvironmentPath(folder));
    return environment?.executable.uri?.fsPath;
  }

  private async api(): Promise<PythonExtension | undefined> {
    if (!vscode.extensions.getExtension(PVSC_EXTENSION_ID)) {
      return undefined;
    }
    const started = PythonExtension.api().then(
      (api) => this.watch(api),
      () => undefined,
    );
    return Promise.race([started, after(PATIENCE_MS)]);
  }

  private watch(api: PythonExtension): PythonExtension {
    this.subscription ??= api.environments.onDidChangeActiveEnvironmentPath(() => this.changed.fire());
    return api;
  }

  dispose(): void {
    this.subscription?.dispose();
    this.installed.dispose();
    this.changed.dispose();
  }
}

async function after(milliseconds: number): Promise<undefined> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  return undefined;
}
