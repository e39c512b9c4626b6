import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as vscode from "vscode";
import { diagnosticsOf, open, stateOf, uriOf } from "./editor";

suite("in a workspace that is not trusted", () => {
  test("a file is linted by the bundled server, started by an interpreter from outside", async () => {
    assert.equal(vscode.workspace.isTrusted, false);
    await open(0, "train.py");
    const { server } = await stateOf("ready");
    assert.equal(server.trusted, false);
    assert.equal(server.strategy, "useBundled");
    assert.equal(server.source, "PATH");
    assert.equal(server.interpreter, process.env["TRAINLINT_TEST_OUTSIDE_PYTHON"]);
    await diagnosticsOf(uriOf(0, "train.py"), "of the script", (codes) => codes.includes("TL202"));
  });

  test("the server knows that it is not trusted", async () => {
    const information = await vscode.commands.executeCommand<{ trusted: boolean }>("trainlint.debugInformation");
    assert.equal(information.trusted, false);
  });

  test("nothing is probed, and no evidence is used", async () => {
    const script = uriOf(0, "train.py");
    const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", script, 9);
    assert.deepEqual(lenses, []);
    const load = vscode.commands.executeCommand("trainlint.loadEvidence", { path: uriOf(0, "probe.json").fsPath });
    await assert.rejects(Promise.resolve(load), /not trusted/);
    const probe = vscode.commands.executeCommand("trainlint.probe", { uri: script.toString() });
    await assert.rejects(Promise.resolve(probe), /not trusted/);
  });

  test("nothing of the workspace has run", () => {
    assert.ok(!fs.existsSync(uriOf(0, "ran").fsPath));
  });
});
