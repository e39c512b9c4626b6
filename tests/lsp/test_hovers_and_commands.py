"""What is shown over a place, and what the server does when it is told to."""

from __future__ import annotations

import os

import pytest
from language_client import Editor
from programs import QUIET_UTILS, TRAIN
from pygls.exceptions import JsonRpcException

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}


async def test_over_a_finding_its_rule_is_shown(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    hover = await editor.hover(uri, "float(")
    assert hover is not None
    assert hover.contents.kind == "markdown"
    assert "sync-in-step" in hover.contents.value
    assert "Why it is slow" in hover.contents.value
    assert (hover.range.start.line, hover.range.start.character) == (16, 19)
    assert await editor.hover(uri, "import torch") is None


SUPPRESSIONS = {
    "a line by its code": ("x = 1  # trainlint: ignore[TL201]", "# trainlint", "sync-in-step"),
    "a line by its name": ("x = 1  # trainlint: ignore[sync-in-step] shown", "# trainlint", "sync-in-step"),
    "a file": ("# trainlint: ignore-file[TL104]", "# trainlint", "loader-no-pin-memory"),
    "a range": ("# trainlint: off[TL104]", "# trainlint", "loader-no-pin-memory"),
    "other tools' spelling": ("x = 1  # noqa: TL201", "# noqa", "sync-in-step"),
    "a family": ("x = 1  # trainlint: ignore[TL2]", "# trainlint", "TL2"),
    "wide characters before it": ('x = "🙂名"  # trainlint: ignore[TL201]', "# trainlint", "sync-in-step"),
}


@pytest.mark.parametrize(("line", "piece", "expected"), SUPPRESSIONS.values(), ids=SUPPRESSIONS.keys())
async def test_over_a_suppression_its_rule_is_shown(edit, project, line, piece, expected):
    folder = project({"train.py": f"import torch\n{line}\n"})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    hover = await editor.hover(uri, piece)
    assert hover is not None
    assert expected in hover.contents.value


async def test_hovers_follow_findings_through_edits_that_do_not_parse(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    editor.replace(uri, "from torch import nn\n", "\n\nfrom torch import (\n")
    await editor.found(uri)
    hover = await editor.hover(uri, "float(")
    assert hover is not None
    assert hover.range.start.line == 18


async def test_all_safe_fixes_are_made_on_command(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    assert await editor.command("trainlint.applyFixAll", {"uri": uri}) is True
    assert "pin_memory=True" in editor.texts[uri].text
    assert await editor.found(uri) == ["16 TL108", "21 TL201"]
    assert await editor.command("trainlint.applyFixAll", {"uri": uri}) is True
    assert await editor.command("trainlint.applyFixAll", {"uri": uri}) is False


async def test_a_rule_is_explained_by_code_and_by_name(edit, project):
    editor: Editor = await edit(project(FILES))
    by_code = await editor.command("trainlint.explain", {"code": "TL201"})
    assert by_code == await editor.command("trainlint.explain", {"code": "sync-in-step"})


WRONG = {
    "no argument": ("trainlint.explain", ()),
    "an argument of another kind": ("trainlint.explain", ("TL201",)),
    "a rule that is not there": ("trainlint.explain", ({"code": "TL999"},)),
    "a text that is not open": ("trainlint.applyFixAll", ({"uri": "file:///nowhere.py"},)),
    "a command that is not there": ("trainlint.nothing", ()),
}


@pytest.mark.parametrize(("name", "arguments"), WRONG.values(), ids=WRONG.keys())
async def test_a_command_that_cannot_be_done_says_so(edit, project, name, arguments):
    editor: Editor = await edit(project(FILES))
    with pytest.raises(JsonRpcException) as raised:
        await editor.command(name, *arguments)
    assert raised.value.code == -32602
    assert raised.value.message
    assert await editor.information()


async def test_debug_information_tells_what_runs(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    information = await editor.information()
    assert information["server_process"] == editor.server.pid
    os.kill(information["analysis_process"], 0)
    assert information["position_encoding"] == "utf-16"
    assert {"uri": folder.as_uri()}.items() <= information["folders"][0].items()
    assert information["open"] == [{"uri": uri, "versions": [1]}]
