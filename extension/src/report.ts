import * as vscode from "vscode";

/** What the server's command `trainlint.openReport` returns. */
export interface Report {
  readonly html: string;
}

export function isReport(value: unknown): value is Report {
  return typeof value === "object" && value !== null && "html" in value && typeof value.html === "string";
}

/**
 * Shows the report of a probe, in one tab. The page has no script, and its own policy forbids it to run or to load
 * anything; the tab forbids the same, and opens no file.
 */
export class ReportView implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;

  show({ html }: Report): void {
    this.panel ??= this.opened();
    this.panel.webview.html = html;
    this.panel.reveal(undefined, true);
  }

  private opened(): vscode.WebviewPanel {
    const panel = vscode.window.createWebviewPanel("trainlint.report", "trainlint: probe", vscode.ViewColumn.Beside, {
      enableScripts: false,
      enableCommandUris: false,
      enableFindWidget: true,
      localResourceRoots: [],
    });
    panel.onDidDispose(() => (this.panel = undefined));
    return panel;
  }

  dispose(): void {
    this.panel?.dispose();
  }
}
