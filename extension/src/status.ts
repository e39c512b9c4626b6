import * as vscode from "vscode";
import { describeState, type ServerState } from "./serverState";

const ICONS: Readonly<Record<ServerState["kind"], string>> = {
  disabled: "circle-slash",
  starting: "loading~spin",
  ready: "pulse",
  crashed: "loading~spin",
  failed: "error",
  "no-interpreter": "error",
};

/** Shows the state of the server: at the bottom of the window, and beside the language of Python files. */
export class Status implements vscode.Disposable {
  private readonly bar = vscode.window.createStatusBarItem("trainlint.status", vscode.StatusBarAlignment.Right, 100);
  private readonly language: vscode.LanguageStatusItem;
  private readonly moved: vscode.Disposable;
  private state: ServerState = { kind: "starting" };
  private probes = false;

  constructor(selector: vscode.DocumentSelector) {
    this.language = vscode.languages.createLanguageStatusItem("trainlint.status", selector);
    this.language.name = "trainlint";
    this.language.command = { title: "Menu", command: "trainlint.showMenu" };
    this.bar.name = "trainlint";
    this.bar.command = "trainlint.showMenu";
    const follow = () => this.follow(selector);
    this.moved = vscode.window.onDidChangeActiveTextEditor(follow);
    follow();
  }

  /** A probe began to run, or has ended. */
  showProbe(runs: boolean): void {
    this.probes = runs;
    this.show(this.state);
  }

  show(state: ServerState): void {
    this.state = state;
    const { label, detail } = describeState(state);
    const broken = state.kind === "failed" || state.kind === "no-interpreter";
    const shown = this.probes ? "probing" : label;
    const icon = this.probes ? "loading~spin" : ICONS[state.kind];
    this.bar.text = `$(${icon}) trainlint${shown === "ready" ? "" : `: ${shown}`}`;
    this.bar.tooltip = detail;
    this.bar.backgroundColor = broken ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    this.language.text = `trainlint: ${label}`;
    this.language.detail = detail;
    this.language.busy = this.probes || state.kind === "starting" || state.kind === "crashed";
    this.language.severity = broken ? vscode.LanguageStatusSeverity.Error : vscode.LanguageStatusSeverity.Information;
  }

  /** The bar shows the item while a document that trainlint reads has the focus. */
  private follow(selector: vscode.DocumentSelector): void {
    const document = vscode.window.activeTextEditor?.document;
    if (document && vscode.languages.match(selector, document) > 0) {
      this.bar.show();
    } else {
      this.bar.hide();
    }
  }

  dispose(): void {
    this.bar.dispose();
    this.language.dispose();
    this.moved.dispose();
  }
}
