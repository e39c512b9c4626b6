"""What can be done about a finding, and the edits that do it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from language_client import Abilities, Editor, position
from lsprotocol import types
from programs import QUIET_UTILS, SYNCING_UTILS, TRAIN
from pygls.exceptions import JsonRpcException

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}
ABILITIES = Abilities()
CONTENT_MODIFIED = types.LSPErrorCodes.ContentModified.value
PINNED = "batch_size=8,\n    pin_memory=True,\n)"


async def test_a_finding_has_its_fix_its_ways_to_ignore_it_and_its_reason(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    offered = await editor.actions(uri, position(TRAIN, TRAIN.index("DataLoader(torch"), "utf-16"))
    assert [(one.title, one.kind, one.is_preferred) for one in offered if one.kind == "quickfix"] == [
        ("Pass pin_memory=True (TL104)", "quickfix", True),
        ("Ignore TL104 on this line", "quickfix", None),
        ("Ignore TL104 in this file", "quickfix", None),
        ("Why is TL104 reported?", "quickfix", None),
    ]
    assert all(one.edit is None and one.data is not None for one in offered)
    assert all(one.diagnostics[0].code == "TL104" for one in offered if one.kind == "quickfix")
    unsafe = await editor.actions(uri, position(TRAIN, TRAIN.index("float("), "utf-16"))
    assert unsafe[0].title.endswith("(TL201, unsafe)")
    assert unsafe[0].is_preferred is None


ONLY = {
    "all": (None, {"quickfix", "source.fixAll.trainlint"}),
    "quick fixes": (["quickfix"], {"quickfix"}),
    "sources": (["source"], {"source.fixAll.trainlint"}),
    "all fixes": (["source.fixAll"], {"source.fixAll.trainlint"}),
    "all of our fixes": (["source.fixAll.trainlint"], {"source.fixAll.trainlint"}),
    "all fixes of another tool": (["source.fixAll.ruff"], set()),
    "imports": (["source.organizeImports"], set()),
    "refactorings": (["refactor"], set()),
    "what starts alike": (["source.fix"], set()),
}


@pytest.mark.parametrize(("only", "kinds"), ONLY.values(), ids=ONLY.keys())
async def test_only_the_kinds_that_are_wanted_are_offered(edit, project, only, kinds):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    assert {one.kind for one in await editor.actions(uri, only=only)} == kinds


@pytest.mark.parametrize("versions", [True, False], ids=["versioned", "by address"])
@pytest.mark.parametrize("resolves", [True, False], ids=["later", "at once"])
async def test_a_safe_fix_is_made(edit, project, versions, resolves):
    folder = project(FILES)
    editor: Editor = await edit(folder, abilities=replace(ABILITIES, versions_edits=versions, resolves=resolves))
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    await editor.choose(uri, "Pass pin_memory=True")
    assert PINNED in editor.texts[uri].text
    # Pinned batches are copied while the GPU computes only if nothing waits for the copy: the next fix.
    assert await editor.found(uri) == ["16 TL108", "21 TL201"]


async def test_fixing_all_makes_safe_fixes_only_and_needs_no_pull_before(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    # As when a file is saved right after it was typed.
    editor.replace(uri, "history = []\n", "history = []\n\n")
    (offered,) = await editor.actions(uri, only=["source.fixAll"])
    assert offered.edit is None
    editor.apply((await editor.resolve(offered)).edit)
    assert PINNED in editor.texts[uri].text
    assert "float(value_of(loss))" in editor.texts[uri].text


async def test_an_action_on_a_text_that_changed_since_is_refused(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    offered = await editor.actions(uri)
    editor.splice(uri, (0, 0, "\n"))
    await editor.found(uri)
    for action in offered:
        if not action.title.startswith("Why"):
            with pytest.raises(JsonRpcException) as raised:
                await editor.resolve(action)
            assert raised.value.code == CONTENT_MODIFIED


async def test_an_action_on_a_finding_that_another_file_took_away_is_refused(edit, project):
    folder = project({**FILES, "train.py": TRAIN + "    print(loss.item())\n"})
    editor: Editor = await edit(folder)
    uri, utils = editor.open(folder / "train.py"), editor.open(folder / "utils.py")
    assert (await editor.found(uri))[:2] == ["9 TL104", "17 TL201"]
    offered = [one for one in await editor.actions(uri) if "TL201" in one.title and one.diagnostics]
    gone = [one for one in offered if one.diagnostics[0].range.start.line == 16]
    kept = [one for one in offered if one.diagnostics[0].range.start.line == 17 and "Ignore" in one.title]
    editor.rewrite(utils, SYNCING_UTILS)
    await editor.found(utils)
    with pytest.raises(JsonRpcException) as raised:
        await editor.resolve(gone[0])
    assert raised.value.code == CONTENT_MODIFIED
    for action in kept:
        assert (await editor.resolve(action)).edit is not None


LINES = {
    "one line": ("    history.append(float(value_of(loss)))\n", 17),
    "an expression of several lines": (
        "    history.append(\n        float(\n            value_of(loss)\n        )\n    )\n",
        21,
    ),
    "a line with a comment": ("    history.append(float(value_of(loss)))  # the curve\n", 17),
    "a line with another suppression": ("    history.append(float(value_of(loss)))  # trainlint: ignore[TL999]\n", 17),
    "a continued line": ("    history += \\\n        [float(value_of(loss))]\n", 18),
}


@pytest.mark.parametrize(("line", "row"), LINES.values(), ids=LINES.keys())
async def test_a_finding_is_ignored_where_its_logical_line_ends(edit, project, line, row):
    text = TRAIN.replace("    history.append(float(value_of(loss)))\n", line)
    folder = project({**FILES, "train.py": text})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    assert "TL201" in {one.code for one in await editor.diagnostics(uri)}
    await editor.choose(uri, "Ignore TL201 on this line")
    changed = [
        number
        for number, (old, new) in enumerate(
            zip(text.splitlines(), editor.texts[uri].text.splitlines(), strict=True), start=1
        )
        if old != new
    ]
    assert changed == [row]
    assert "TL201" in editor.texts[uri].text.splitlines()[row - 1]
    assert "TL201" not in {one.code for one in await editor.diagnostics(uri)}


TOPS = {
    "nothing": "",
    "a script's first line": "#!/usr/bin/env python\n",
    "a script that declares its encoding": "#!/usr/bin/env python\n# coding: utf-8\n",
    "a docstring": '"""Trains."""\n',
}


@pytest.mark.parametrize("top", TOPS.values(), ids=TOPS.keys())
async def test_a_rule_is_ignored_in_a_file_below_what_must_stay_at_its_top(edit, project, top):
    folder = project({**FILES, "train.py": top + TRAIN})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    await editor.choose(uri, "Ignore TL201 in this file")
    stays = top if top.startswith("#") else ""
    assert editor.texts[uri].text.startswith(stays + "# trainlint: ignore-file[TL201]\n")
    assert {one.code for one in await editor.diagnostics(uri)} == {"TL104"}


async def test_line_ends_and_wide_characters_are_kept_by_edits(edit, project):
    text = TRAIN.replace("history = []", 'history = []; 名前 = "🙂"').replace(
        "    history.append(", '    größe = "🙂é"; history.append('
    )
    folder = project({**FILES, "train.py": text.replace("\n", "\r\n")})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    await editor.choose(uri, "Pass pin_memory=True")
    await editor.found(uri)
    await editor.choose(uri, "Ignore TL201 on this line")
    now = editor.texts[uri].text
    assert "\n" not in now.replace("\r\n", "")
    assert 'größe = "🙂é"; history.append(float(value_of(loss)))  # trainlint: ignore[TL201]\r\n' in now
    assert await editor.found(uri) == ["16 TL108"]


async def test_an_unused_suppression_can_be_removed(edit, project):
    folder = project({"train.py": "import torch\n\nx = 1  # trainlint: ignore[TL201]\n"})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    (found,) = await editor.diagnostics(uri)
    assert (found.code, list(found.tags)) == ("TL003", [types.DiagnosticTag.Unnecessary])
    offered = await editor.actions(uri)
    editor.apply((await editor.resolve(offered[0])).edit)
    assert editor.texts[uri].text == "import torch\n\nx = 1\n"


async def test_nothing_is_offered_about_a_text_that_does_not_parse_but_the_reason(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    editor.replace(uri, "history = []", "history = [")
    await editor.found(uri)
    assert {one.title for one in await editor.actions(uri)} == {
        f"Why is {code} reported?" for code in ("TL001", "TL104", "TL201")
    }


async def test_the_reason_is_a_command(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    await editor.found(uri)
    action = next(one for one in await editor.actions(uri) if one.title == "Why is TL201 reported?")
    command = (await editor.resolve(action)).command
    assert (command.command, list(command.arguments)) == ("trainlint.explain", [{"code": "TL201"}])
    answer = await editor.command(command.command, *command.arguments)
    assert (answer["code"], answer["name"]) == ("TL201", "sync-in-step")
    assert answer["page"].startswith("# ")


@pytest.mark.parametrize("data", [None, [], {"what": "burn"}])
async def test_an_action_that_was_never_offered_is_refused(edit, project, data):
    editor: Editor = await edit(project(FILES))
    with pytest.raises(JsonRpcException) as raised:
        await editor.resolve(types.CodeAction("Fix", data=data))
    assert raised.value.code == CONTENT_MODIFIED
