import * as vscode from "vscode";

const SCHEME = "trainlint-rule";

/** What the server tells about a rule. */
export interface RulePage {
  readonly code: string;
  readonly name: string;
  /** Markdown. */
  readonly page: string;
}

export function isRulePage(value: unknown): value is RulePage {
  return typeof value === "object" && value !== null && "code" in value && "page" in value;
}

/** Shows pages of rules, as Markdown that the editor renders. */
export class RulePages implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly pages = new Map<string, string>();
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.pages.get(uri.path) ?? "";
  }

  async show({ code, page }: RulePage): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${code}.md` });
    this.pages.set(uri.path, page);
    this.changed.fire(uri);
    await vscode.commands.executeCommand("markdown.showPreview", uri);
  }

  dispose(): void {
    this.registration.dispose();
    this.changed.dispose();
  }
}
