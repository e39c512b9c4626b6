import assert from "node:assert/strict";
import * as vscode from "vscode";
import { actionsFor, codeOf, comingState, diagnosticsOf, eventually, open, stateOf, uriOf } from "./editor";

const PIN_MEMORY = "TL104";
const BLOCKING_TRANSFER = "TL108";
const SYNC = "TL201";
const PRINT = "TL202";

suite("in a trusted workspace of two folders", () => {
  test("the bundled server starts, by the interpreter of the Python extension", async () => {
    await open(0, "train.py");
    const { server } = await stateOf("ready");
    assert.equal(server.interpreter, process.env["TRAINLINT_TEST_PYTHON"]);
    assert.equal(server.strategy, "useBundled");
    assert.equal(server.source, "Python extension");
    assert.ok(server.trusted);
  });

  test("a script is underlined where it costs time, with the address of the rule's page", async () => {
    const found = await diagnosticsOf(uriOf(0, "train.py"), "of the script", (codes) => codes.includes(PRINT));
    const sync = found.find((diagnostic) => codeOf(diagnostic) === SYNC);
    assert.ok(sync);
    assert.equal(sync.range.start.line, 18);
    assert.equal(sync.severity, vscode.DiagnosticSeverity.Warning);
    assert.ok(typeof sync.code === "object" && sync.code.target.path.includes("sync-in-step"));
  });

  test("each folder follows its own configuration", async () => {
    const plain = await diagnosticsOf(uriOf(0, "train.py"), "with prints", (codes) => codes.includes(PRINT));
    await open(1, "train.py");
    const quiet = await diagnosticsOf(uriOf(1, "train.py"), "without prints", (codes) => codes.includes(SYNC));
    assert.deepEqual(
      quiet.map(codeOf),
      plain.map(codeOf).filter((code) => code !== PRINT),
    );
  });

  test("a changed configuration is followed at once", async () => {
    const uri = uriOf(1, "pyproject.toml");
    const before = await vscode.workspace.fs.readFile(uri);
    await vscode.workspace.fs.writeFile(uri, Buffer.from(`[tool.trainlint]\nignore = ["${SYNC}"]\n`));
    await diagnosticsOf(
      uriOf(1, "train.py"),
      "of the new rules",
      (codes) => codes.includes(PRINT) && !codes.includes(SYNC),
    );
    await vscode.workspace.fs.writeFile(uri, before);
    await diagnosticsOf(
      uriOf(1, "train.py"),
      "of the old rules",
      (codes) => codes.includes(SYNC) && !codes.includes(PRINT),
    );
  });

  test("the editor's own setting leaves out a rule, for one folder", async () => {
    const folder = vscode.workspace.workspaceFolders?.[1];
    const settings = vscode.workspace.getConfiguration("trainlint", folder);
    await settings.update("ignore", [SYNC], vscode.ConfigurationTarget.WorkspaceFolder);
    await diagnosticsOf(
      uriOf(1, "train.py"),
      "without waits",
      (codes) => codes.includes(PIN_MEMORY) && !codes.includes(SYNC),
    );
    await diagnosticsOf(uriOf(0, "train.py"), "of the other folder", (codes) => codes.includes(SYNC));
    await settings.update("ignore", undefined, vscode.ConfigurationTarget.WorkspaceFolder);
    await diagnosticsOf(uriOf(1, "train.py"), "with waits", (codes) => codes.includes(SYNC));
  });

  test("the preferred quick fix makes the change, and the line is clean", async () => {
    const { document } = await open(0, "train.py");
    const found = await diagnosticsOf(document.uri, "to fix", (codes) => codes.includes(PIN_MEMORY));
    const range = found.find((diagnostic) => codeOf(diagnostic) === PIN_MEMORY)?.range;
    assert.ok(range);
    const actions = await actionsFor(document.uri, range, "quickfix");
    const preferred = actions.find((action) => action.isPreferred);
    assert.ok(preferred?.edit, actions.map((action) => action.title).join(", "));
    assert.ok(await vscode.workspace.applyEdit(preferred.edit));
    assert.match(document.getText(), /pin_memory=True/);
    await diagnosticsOf(document.uri, "of the fixed line", (codes) => !codes.includes(PIN_MEMORY));
  });

  test("a finding can be silenced on its line", async () => {
    const { document } = await open(0, "train.py");
    const found = await diagnosticsOf(document.uri, "to silence", (codes) => codes.includes(PRINT));
    const range = found.find((diagnostic) => codeOf(diagnostic) === PRINT)?.range;
    assert.ok(range);
    const action = (await actionsFor(document.uri, range, "quickfix")).find(({ title }) => /on this line/.test(title));
    assert.ok(action?.edit);
    assert.ok(await vscode.workspace.applyEdit(action.edit));
    assert.match(document.getText(), /print\(.*# trainlint: ignore\[TL202\]/);
    await diagnosticsOf(document.uri, "of the silenced line", (codes) => !codes.includes(PRINT));
  });

  test("the command fixes all that is safe to fix", async () => {
    const { document } = await open(0, "other.py");
    await diagnosticsOf(document.uri, "to fix", (codes) => codes.includes(PIN_MEMORY));
    await vscode.commands.executeCommand("trainlint.fixAllInFile");
    await eventually("the changed text", () => /pin_memory=True/.test(document.getText()) || undefined);
    assert.match(document.getText(), /loss\.item\(\)/);
  });

  test("what is safe to fix is fixed on saving, where the user wants it", async () => {
    const { document } = await open(0, "other.py");
    const settings = vscode.workspace.getConfiguration("editor");
    await settings.update(
      "codeActionsOnSave",
      { "source.fixAll.trainlint": "explicit" },
      vscode.ConfigurationTarget.Workspace,
    );
    await diagnosticsOf(document.uri, "to fix on saving", (codes) => codes.includes(BLOCKING_TRANSFER));
    assert.ok(await document.save());
    assert.match(document.getText(), /x\.to\(device, non_blocking=True\)/);
    await settings.update("codeActionsOnSave", undefined, vscode.ConfigurationTarget.Workspace);
  });

  test("the action that explains a finding opens the page of its rule", async () => {
    await vscode.commands.executeCommand("trainlint.explain", { code: SYNC });
    await eventually("the page", () => {
      const labels = vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs).map(({ label }) => label);
      return labels.some((label) => label.includes(SYNC)) || undefined;
    });
  });

  test("the hover shows the page of the rule", async () => {
    const { document } = await open(0, "train.py");
    const found = await diagnosticsOf(document.uri, "to hover over", (codes) => codes.includes(SYNC));
    const position = found.find((diagnostic) => codeOf(diagnostic) === SYNC)?.range.start;
    assert.ok(position);
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>(
      "vscode.executeHoverProvider",
      document.uri,
      position,
    );
    const text = hovers.flatMap(({ contents }) => contents).map((part) => (part as vscode.MarkdownString).value);
    assert.match(text.join("\n"), /sync-in-step/);
  });

  test("a notebook is one program: a cell is underlined for what another cell makes hot", async () => {
    const notebook = await vscode.workspace.openNotebookDocument(uriOf(0, "train.ipynb"));
    await vscode.window.showNotebookDocument(notebook);
    const cell = notebook.cellAt(1).document;
    await diagnosticsOf(cell.uri, "of the cell", (codes) => codes.includes(PRINT));
    const edit = new vscode.WorkspaceEdit();
    edit.replace(cell.uri, cell.lineAt(4).range, "    pass");
    assert.ok(await vscode.workspace.applyEdit(edit));
    await diagnosticsOf(cell.uri, "of the changed cell", (codes) => !codes.includes(PRINT));
  });

  test("a server that is killed is started again, and findings follow what is typed", async () => {
    const { document } = await open(1, "train.py");
    const information = await vscode.commands.executeCommand<{ server_process: number }>("trainlint.debugInformation");
    const crash = await comingState("crashed");
    process.kill(information.server_process, "SIGKILL");
    await crash.comes;
    await stateOf("ready");
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(18, 0), "        loss.tolist()\n");
    assert.ok(await vscode.workspace.applyEdit(edit));
    await diagnosticsOf(document.uri, "twice", (codes) => codes.filter((code) => code === SYNC).length === 2);
  });

  test("the server follows the Python extension to another interpreter", async () => {
    const other = process.env["TRAINLINT_TEST_OTHER_PYTHON"] ?? "";
    const python = vscode.extensions.getExtension<{
      environments: { updateActiveEnvironmentPath: (path: string) => Promise<void> };
    }>("ms-python.python");
    await python?.exports.environments.updateActiveEnvironmentPath(other);
    await eventually("the other interpreter", async () => {
      const { server } = await stateOf("ready");
      return server.interpreter === other || undefined;
    });
  });

  test("an interpreter of the settings that does not fit is told, not passed over", async () => {
    const settings = vscode.workspace.getConfiguration("trainlint");
    await settings.update("interpreter", "/nowhere/python", vscode.ConfigurationTarget.Workspace);
    const { rejected } = await stateOf("no-interpreter");
    assert.deepEqual(
      rejected.map(({ path }) => path),
      ["/nowhere/python"],
    );
    await settings.update("interpreter", undefined, vscode.ConfigurationTarget.Workspace);
    await stateOf("ready");
  });

  test("trainlint of an environment can run in place of the bundled one", async () => {
    const settings = vscode.workspace.getConfiguration("trainlint");
    const environment = process.env["TRAINLINT_TEST_ENVIRONMENT"];
    await settings.update("interpreter", environment, vscode.ConfigurationTarget.Workspace);
    await settings.update("importStrategy", "fromEnvironment", vscode.ConfigurationTarget.Workspace);
    await eventually("the environment's server", async () => {
      const { server } = await stateOf("ready");
      return (server.strategy === "fromEnvironment" && server.interpreter === environment) || undefined;
    });
    await diagnosticsOf(uriOf(1, "train.py"), "by the environment's server", (codes) => codes.includes(SYNC));
    await settings.update("importStrategy", undefined, vscode.ConfigurationTarget.Workspace);
    await settings.update("interpreter", undefined, vscode.ConfigurationTarget.Workspace);
    await eventually("the bundled server", async () => {
      const { server } = await stateOf("ready");
      return (server.strategy === "useBundled" && server.interpreter !== environment) || undefined;
    });
  });

  test("the result of a probe shows in the text, and is forgotten on command", async () => {
    const { document } = await open(0, "other.py");
    await diagnosticsOf(document.uri, "before", (codes) => codes.includes(SYNC));
    const script = uriOf(0, "train.py");
    await open(0, "train.py");
    await vscode.commands.executeCommand("trainlint.loadEvidence", { path: uriOf(0, "probe.json").fsPath });
    const judged = await eventually("a confirmed finding", () =>
      ours(script, SYNC, ({ severity }) => severity === vscode.DiagnosticSeverity.Error),
    );
    assert.match(judged.message, /confirmed: measured 12\.3 ms per step, 31 %/);
    const whole = new vscode.Range(0, 0, 100, 0);
    const hints = await vscode.commands.executeCommand<vscode.InlayHint[]>(
      "vscode.executeInlayHintProvider",
      script,
      whole,
    );
    assert.ok(hints.some(({ label }) => label === "12.3 ms/step"));
    const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", script, 9);
    const titles = lenses.map(({ command }) => command?.title);
    assert.ok(titles.includes("Probe this script"), titles.join(", "));
    assert.ok(titles.includes("39.7 ms per step, bottleneck: data (61 %)"), titles.join(", "));
    const report = await vscode.commands.executeCommand<{ html: string }>("trainlint.openReport", {});
    assert.match(report.html, /<html/);
    await eventually("the report's tab", () =>
      vscode.window.tabGroups.all.flatMap((group) => group.tabs).find(({ label }) => label === "trainlint: probe"),
    );
    await vscode.commands.executeCommand("trainlint.clearProbeEvidence");
    await eventually("a finding that nobody measured", () =>
      ours(script, SYNC, ({ severity }) => severity === vscode.DiagnosticSeverity.Warning),
    );
  });

  test("what was measured follows its line, and goes with it", async () => {
    const script = uriOf(0, "job.py");
    const { document } = await open(0, "job.py");
    await diagnosticsOf(script, "before", (codes) => codes.includes(SYNC));
    await vscode.commands.executeCommand("trainlint.loadEvidence", { path: uriOf(0, "probe.json").fsPath });
    const row = document
      .getText()
      .split("\n")
      .findIndex((line) => line.includes("loss.item()"));
    await confirmedAt(script, row);
    assert.deepEqual(await hintsOf(script), { [row]: "12.3 ms/step", [row + 1]: "0.1 ms/step" });

    await change(script, (edit) => edit.insert(script, new vscode.Position(0, 0), "import os\n"));
    await confirmedAt(script, row + 1);
    assert.deepEqual(await hintsOf(script), { [row + 1]: "12.3 ms/step", [row + 2]: "0.1 ms/step" });

    await change(script, (edit) => edit.insert(script, document.lineAt(row + 1).range.end, "  # changed"));
    await unmeasuredAt(script, row + 1);
    assert.deepEqual(await hintsOf(script), { [row + 2]: "0.1 ms/step" });

    await open(0, "job.py");
    await vscode.commands.executeCommand("undo");
    await confirmedAt(script, row + 1);
    assert.deepEqual(await hintsOf(script), { [row + 1]: "12.3 ms/step", [row + 2]: "0.1 ms/step" });
    assert.ok(await document.save());
    await confirmedAt(script, row + 1);
  });

  test("what was measured is of one file: not of its namesake in another folder, nor of the file under another name", async () => {
    const namesake = uriOf(1, "job.py");
    await open(1, "job.py");
    const found = await diagnosticsOf(namesake, "of the namesake", (codes) => codes.includes(SYNC));
    assert.ok(found.every(({ severity }) => severity !== vscode.DiagnosticSeverity.Error));
    assert.deepEqual(await hintsOf(namesake), {});

    const [script, renamed] = [uriOf(0, "job.py"), uriOf(0, "renamed.py")];
    await open(0, "job.py");
    await change(script, (edit) => edit.renameFile(script, renamed));
    await open(0, "renamed.py");
    const moved = await diagnosticsOf(renamed, "under the new name", (codes) => codes.includes(SYNC));
    assert.ok(moved.every(({ severity }) => severity !== vscode.DiagnosticSeverity.Error));
    assert.deepEqual(await hintsOf(renamed), {});
    await diagnosticsOf(script, "under the old name", (codes) => codes.length === 0);
    await vscode.commands.executeCommand("trainlint.clearProbeEvidence");
  });

  test("the server stops while it is disabled", async () => {
    const settings = vscode.workspace.getConfiguration("trainlint");
    await settings.update("enable", false, vscode.ConfigurationTarget.Workspace);
    await stateOf("disabled");
    await diagnosticsOf(uriOf(0, "train.py"), "none", (codes) => codes.length === 0);
    await settings.update("enable", undefined, vscode.ConfigurationTarget.Workspace);
    await stateOf("ready");
    await diagnosticsOf(uriOf(1, "train.py"), "again", (codes) => codes.includes(SYNC));
  });
});

/** Wait until the wait for the device in a row is shown as confirmed. */
async function confirmedAt(uri: vscode.Uri, row: number): Promise<void> {
  const severe = (one: vscode.Diagnostic) => one.severity === vscode.DiagnosticSeverity.Error;
  await eventually(`a confirmed finding in row ${row}`, () =>
    ours(uri, SYNC, (one) => severe(one) && one.range.start.line === row),
  );
}

async function unmeasuredAt(uri: vscode.Uri, row: number): Promise<void> {
  const known = (one: vscode.Diagnostic) => one.severity === vscode.DiagnosticSeverity.Warning;
  await eventually(`a finding in row ${row} that nobody measured`, () =>
    ours(uri, SYNC, (one) => known(one) && one.range.start.line === row),
  );
}

/** What stands at the ends of rows. */
async function hintsOf(uri: vscode.Uri): Promise<Record<number, string>> {
  const whole = new vscode.Range(0, 0, 100, 0);
  const hints = await vscode.commands.executeCommand<vscode.InlayHint[]>("vscode.executeInlayHintProvider", uri, whole);
  return Object.fromEntries(
    hints.map(({ position, label }) => [
      position.line,
      typeof label === "string" ? label : label.map(({ value }) => value).join(""),
    ]),
  );
}

async function change(uri: vscode.Uri, describe: (edit: vscode.WorkspaceEdit) => void): Promise<void> {
  const edit = new vscode.WorkspaceEdit();
  describe(edit);
  assert.ok(await vscode.workspace.applyEdit(edit), uri.toString());
}

function ours(
  uri: vscode.Uri,
  code: string,
  condition: (diagnostic: vscode.Diagnostic) => boolean,
): vscode.Diagnostic | undefined {
  return vscode.languages.getDiagnostics(uri).find((one) => codeOf(one) === code && condition(one));
}
