"""What is shown of open texts, and when it changes."""

from __future__ import annotations

import asyncio

import pytest
from language_client import Abilities, Editor
from lsprotocol import types
from programs import QUIET_UTILS, SYNCING_UTILS, TRAIN
from pygls.exceptions import JsonRpcException

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}
PUSHED = Abilities(pulls=False)


async def test_a_diagnostic_says_what_where_and_why(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    sync = (await editor.diagnostics(uri))[1]
    assert (sync.code, sync.source, sync.severity) == ("TL201", "trainlint", types.DiagnosticSeverity.Warning)
    assert editor.seen(TRAIN, sync).row == 17
    assert TRAIN.splitlines()[16][sync.range.start.character : sync.range.end.character] == "float(value_of(loss))"
    assert sync.code_description is not None
    assert sync.code_description.href == "https://trainlint.readthedocs.io/en/latest/rules/sync-in-step/"
    assert sync.data == {"name": "sync-in-step", "confidence": "high", "fix": "unsafe"}
    (loop,) = sync.related_information or []
    assert (loop.location.uri, loop.location.range.start.line) == (uri, 10)
    assert "this loop" in loop.message


async def test_the_server_names_what_it_can_do(edit, project):
    editor: Editor = await edit(project(FILES))
    capabilities = editor.result.capabilities
    assert capabilities.text_document_sync.change is types.TextDocumentSyncKind.Incremental
    assert capabilities.text_document_sync.open_close
    provider = capabilities.diagnostic_provider
    assert (provider.identifier, provider.inter_file_dependencies, provider.workspace_diagnostics) == (
        "trainlint",
        True,
        True,
    )
    assert capabilities.code_action_provider.resolve_provider
    assert set(capabilities.code_action_provider.code_action_kinds) == {"quickfix", "source.fixAll.trainlint"}
    assert set(capabilities.execute_command_provider.commands) >= {
        "trainlint.applyFixAll",
        "trainlint.explain",
        "trainlint.debugInformation",
    }
    assert capabilities.workspace.workspace_folders.supported
    assert capabilities.workspace.workspace_folders.change_notifications
    assert editor.result.server_info.name == "trainlint"


async def test_what_did_not_change_is_reported_as_unchanged(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    first = await editor.pull(uri)
    again = await editor.pull(uri, first.result_id)
    assert isinstance(again, types.RelatedUnchangedDocumentDiagnosticReport)
    assert again.result_id == first.result_id
    editor.replace(uri, "import torch\n", "\nimport torch\n")
    moved = await editor.pull(uri, first.result_id)
    assert isinstance(moved, types.RelatedFullDocumentDiagnosticReport)
    assert [one.range.start.line for one in moved.items] == [9, 17]
    editor.replace(uri, "\nimport torch\n", "import torch\n")
    back = await editor.pull(uri, first.result_id)
    assert isinstance(back, types.RelatedUnchangedDocumentDiagnosticReport)


async def test_an_edit_in_another_file_moves_the_finding_there_and_back(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    train, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    assert await editor.found(utils) == []
    editor.replace(utils, "tensor.detach()", "tensor.item()")
    await editor.becomes(train, ["9 TL104"])
    assert await editor.found(utils) == ["2 TL201"]
    # The buffer wins over the disk, which still has the other text.
    assert (folder / "utils.py").read_text() == QUIET_UTILS
    editor.close(utils)
    await editor.becomes(train, ["9 TL104", "17 TL201"])


async def test_clients_that_do_not_ask_are_told_with_versions(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder, abilities=PUSHED)
    train, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")

    def shown(uri: str, version: int, codes: list[str]) -> bool:
        pushed = editor.pushed.get(uri)
        return pushed is not None and (pushed.version, [one.code for one in pushed.diagnostics]) == (version, codes)

    await editor.until(lambda: shown(train, 1, ["TL104", "TL201"]) and shown(utils, 1, []))
    editor.replace(utils, "tensor.detach()", "tensor.item()")
    await editor.until(lambda: shown(train, 1, ["TL104"]) and shown(utils, 2, ["TL201"]))
    editor.close(train)
    await editor.until(lambda: shown(train, None, []))  # type: ignore[arg-type]
    assert all(pushed.version in (1, 2) for pushed in editor.history if pushed.diagnostics)


async def test_a_burst_of_edits_is_never_answered_with_an_older_text(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder, abilities=PUSHED)
    train = editor.open(folder / "train.py")
    for _ in range(50):
        editor.splice(train, (0, 0, "\n"))
    await editor.until(lambda: train in editor.pushed and editor.pushed[train].version == 51)
    assert [one.range.start.line for one in editor.pushed[train].diagnostics] == [58, 66]
    for pushed in editor.history:
        assert [one.range.start.line for one in pushed.diagnostics] == [8 + pushed.version - 1, 16 + pushed.version - 1]


async def test_the_whole_workspace_is_reported_on(edit, project):
    folder = project({**FILES, "utils.py": SYNCING_UTILS, "clean.py": "import os\n"})
    editor: Editor = await edit(folder)
    reports = await editor.whole()
    train, utils = (folder / "train.py").as_uri(), (folder / "utils.py").as_uri()
    assert {uri: [one.code for one in report.items] for uri, report in reports.items()} == {
        train: ["TL104"],
        utils: ["TL201"],
    }
    known = {uri: report.result_id for uri, report in reports.items()}
    editor.open(folder / "utils.py")
    editor.replace(utils, "tensor.item()", "tensor")
    reports = await editor.whole(known)
    assert [one.code for one in reports[train].items] == ["TL104", "TL201"]
    assert (list(reports[utils].items), reports[utils].version) == ([], 2)
    reports = await editor.whole({uri: report.result_id for uri, report in reports.items()})
    assert all(isinstance(report, types.WorkspaceUnchangedDocumentDiagnosticReport) for report in reports.values())


async def test_a_text_that_does_not_parse_keeps_its_findings_where_they_are_by_now(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    editor.replace(train, "history = []\n", "\n\nhistory = [\n")
    found = await editor.diagnostics(train)
    assert [(one.code, one.range.start.line + 1) for one in found] == [("TL001", 12), ("TL104", 9), ("TL201", 19)]
    assert found[0].severity is types.DiagnosticSeverity.Error
    assert "found before" not in found[0].message
    assert all("found before the last edits, which do not parse" in one.message for one in found[1:])
    # The code of a finding is changed while nothing parses: it is not shown any more. The others stay.
    editor.replace(train, "float(value_of(loss))", "float(value_of(los))")
    assert await editor.found(train) == ["12 TL001", "9 TL104"]
    editor.replace(train, "history = [\n", "history = []\n")
    editor.replace(train, "value_of(los)", "value_of(loss)")
    found = await editor.diagnostics(train)
    assert [(one.code, one.range.start.line + 1) for one in found] == [("TL104", 9), ("TL201", 19)]
    assert all("found before" not in one.message for one in found)


async def test_a_mistake_is_where_it_is_though_its_row_was_another_one(edit, project):
    # The findings of that row hold wide characters, the row that has the mistake now does not.
    text = TRAIN.replace("    history.append(", '    größe = "🙂"; history.append(')
    folder = project({**FILES, "train.py": text})
    editor: Editor = await edit(folder)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    editor.replace(train, "    optimizer.zero_grad()\n", "    optimizer.zero\n\n\n_grad()\n")
    mistake = (await editor.diagnostics(train))[0]
    line = editor.texts[train].text.splitlines()[mistake.range.start.line]
    assert mistake.code == "TL001"
    assert (line, mistake.range.end.character) == ("    loss.backward()", len(line))


async def test_what_a_finding_refers_to_moves_with_a_text_that_does_not_parse(edit, project):
    folder = project({**FILES, "utils.py": SYNCING_UTILS})
    editor: Editor = await edit(folder)
    train, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")
    (sync,) = await editor.diagnostics(utils)
    loops = [one.location.range.start.line for one in sync.related_information if one.location.uri == train]
    assert loops[0] == 10
    editor.replace(train, "history = []\n", "\n\nhistory = [\n")
    await editor.found(train)
    (sync,) = await editor.diagnostics(utils)
    moved = [one.location.range.start.line for one in sync.related_information if one.location.uri == train]
    assert moved == [line + 2 for line in loops]


async def test_the_whole_workspace_shows_of_a_broken_text_what_its_editor_shows(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    train = editor.open(folder / "train.py")
    assert await editor.found(train) == ["9 TL104", "17 TL201"]
    editor.replace(train, "from torch import nn\n", "\n\nfrom torch import (\n")
    shown = await editor.diagnostics(train)
    assert [one.code for one in shown] == ["TL001", "TL104", "TL201"]
    assert list((await editor.whole())[train].items) == shown


async def test_a_broken_text_counts_for_other_files_as_it_last_parsed(edit, project):
    folder = project({**FILES, "utils.py": SYNCING_UTILS})
    editor: Editor = await edit(folder)
    train, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")
    assert (await editor.found(train), await editor.found(utils)) == (["9 TL104"], ["2 TL201"])
    editor.replace(utils, "def value_of(tensor):", "def value_of(tensor:")
    assert await editor.found(utils) == ["1 TL001", "2 TL201"]
    assert await editor.found(train) == ["9 TL104"]


async def test_a_text_that_never_parsed_shows_why(edit, project):
    folder = project({"train.py": "for x in (1, 2:\n    pass\n"})
    editor: Editor = await edit(folder)
    assert await editor.found(editor.open(folder / "train.py")) == ["1 TL001"]


async def test_what_has_no_file_yet_is_checked(edit, project):
    folder = project({})
    editor: Editor = await edit(folder)
    text = TRAIN.replace("from utils import value_of", "def value_of(tensor): return tensor.item()")
    uri = editor.open("untitled:Untitled-1", text)
    assert await editor.found(uri) == ["5 TL201", "9 TL104"]
    information = await editor.information()
    assert [one["uri"] for one in information["open"]] == [uri]


async def test_a_file_outside_of_every_folder_is_checked(edit, project):
    folder, other = project({}), project(FILES, "other")
    editor: Editor = await edit(folder)
    assert await editor.found(editor.open(other / "train.py")) == ["9 TL104", "17 TL201"]


async def test_without_any_folder_files_are_checked(edit, project):
    folder = project(FILES)
    editor: Editor = await edit()
    assert await editor.found(editor.open(folder / "train.py")) == ["9 TL104", "17 TL201"]


async def test_excluded_files_show_nothing_though_they_are_open(edit, project):
    folder = project({**FILES, "trainlint.toml": 'extend-exclude = ["old"]\n', "old/train.py": TRAIN})
    editor: Editor = await edit(folder)
    assert await editor.found(editor.open(folder / "old" / "train.py")) == []
    assert await editor.found(editor.open(folder / "train.py")) == ["9 TL104", "17 TL201"]
    assert list(await editor.whole()) == [(folder / "train.py").as_uri()]


async def test_what_is_not_python_is_left_alone(edit, project):
    folder = project({**FILES, "notes.txt": TRAIN})
    editor: Editor = await edit(folder)
    assert await editor.found(editor.open(folder / "notes.txt", language="plaintext")) == []


DECLARATIONS = {
    "latin-1 on the first row": "# coding: latin-1\n",
    "latin-1 below a comment": "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n",
    "none, since code comes first": "import os\n# coding: latin-1\n",
    "utf-8 with a mark": "# coding: utf-8-sig\n",
    "one that cannot store all of the text": "# coding: ascii\n",
    "one that Python does not have": "# coding: klingon\n",
    "one that is no text encoding": "# coding: base64\n",
    "one that can store nothing": "# coding: undefined\n",
    "one that takes short words only": "# coding: idna\n",
}


@pytest.mark.parametrize("declaration", DECLARATIONS.values(), ids=DECLARATIONS.keys())
async def test_a_declared_encoding_shifts_nothing(edit, project, declaration):
    text = declaration + TRAIN.replace("history.append(", 'größe = "é"; history.append(')
    folder = project(FILES)
    editor: Editor = await edit(folder)
    found = await editor.diagnostics(editor.open(folder / "train.py", text))
    if {"TL002"} & {one.code for one in found}:
        assert "encod" in found[0].message or "decod" in found[0].message
        assert [one.code for one in found] == ["TL002"]
    else:
        rows = declaration.count("\n")
        assert [(one.code, one.range.start.line + 1 - rows) for one in found] == [
            ("TL104", 9),
            ("TL201", 17),
        ]
        sync = next(one for one in found if one.code == "TL201")
        line = text.splitlines()[sync.range.start.line]
        assert line[sync.range.start.character : sync.range.end.character] == "float(value_of(loss))"


async def test_reading_a_large_project_shows_progress(edit, project):
    parts = {f"part{number}.py": f"import torch\n\ndef f{number}(x):\n    return x\n" for number in range(30)}
    folder = project({**FILES, **parts})
    editor: Editor = await edit(folder)
    await editor.whole()
    kinds = [kind for kind, _ in editor.progress]
    assert kinds[:2] == ["create", "begin"]
    assert kinds[-1] == "end"
    assert set(kinds[2:-1]) == {"report"}
    assert len({token for _, token in editor.progress}) == 1


async def test_a_small_project_shows_no_progress(edit, project):
    editor: Editor = await edit(project(FILES))
    await editor.whole()
    assert editor.progress == []


async def test_while_a_large_file_is_checked_hovers_are_answered_and_requests_can_be_cancelled(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    body = "".join(f"def f{number}(x):\n    return [x, {number}, x.size(0)]\n\n\n" for number in range(2000))
    train = editor.open(folder / "train.py")
    await editor.found(train)
    large = editor.open(folder / "large.py", "import torch\n\n" + body)
    params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(large))
    request = editor.client.protocol.send_request_async(types.TEXT_DOCUMENT_DIAGNOSTIC, params, msg_id="one")
    answer = asyncio.ensure_future(request)
    assert await editor.hover(train, "DataLoader(torch") is not None
    assert not answer.done()
    editor.client.cancel_request(types.CancelParams("one"))
    with pytest.raises(JsonRpcException) as raised:
        await editor.within(answer)
    assert raised.value.code == types.LSPErrorCodes.RequestCancelled.value
    assert await editor.found(large) == []
