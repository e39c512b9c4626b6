"""Folders of the workspace, their settings and their configuration files."""

from __future__ import annotations

import sys

import pytest
from language_client import Abilities, Editor
from programs import QUIET_UTILS, TRAIN

FILES = {"train.py": TRAIN, "utils.py": QUIET_UTILS}
UNASKED = Abilities(configures=False)


async def test_each_folder_has_its_own_configuration(edit, project):
    one = project({**FILES, "trainlint.toml": 'ignore = ["TL104"]\n'}, "one")
    two = project({**FILES, "pyproject.toml": '[tool.trainlint]\nignore = ["TL2"]\n'}, "two")
    editor: Editor = await edit(one, two)
    assert await editor.found(editor.open(one / "train.py")) == ["17 TL201"]
    assert await editor.found(editor.open(two / "train.py")) == ["9 TL104"]
    reports = await editor.whole()
    assert {uri: [found.code for found in report.items] for uri, report in reports.items()} == {
        (one / "train.py").as_uri(): ["TL201"],
        (two / "train.py").as_uri(): ["TL104"],
    }


async def test_each_folder_has_its_own_settings(start, project):
    one, two = project(FILES, "one"), project(FILES, "two")
    editor: Editor = await start(one, two, settings={"ignore": ["TL104"]}, settings_of={two: {"select": ["TL104"]}})
    in_one, in_two = editor.open(one / "train.py"), editor.open(two / "train.py")
    assert await editor.found(in_one) == ["17 TL201"]
    assert await editor.found(in_two) == ["9 TL104"]
    editor.settings_of[two.as_uri()] = {"enable": False}
    editor.tell_configuration()
    await editor.becomes(in_two, [])
    assert await editor.found(in_one) == ["17 TL201"]


async def test_the_innermost_folder_rules_and_reports_once(edit, project):
    outer = project({**FILES, "inner/train.py": TRAIN, "inner/utils.py": QUIET_UTILS})
    inner = outer / "inner"
    editor: Editor = await edit(outer, inner)
    editor.settings_of[inner.as_uri()] = {"select": ["TL104"]}
    editor.tell_configuration()
    await editor.becomes(editor.open(inner / "train.py"), ["9 TL104"])
    assert {uri: [found.code for found in report.items] for uri, report in (await editor.whole()).items()} == {
        (outer / "train.py").as_uri(): ["TL104", "TL201"],
        (inner / "train.py").as_uri(): ["TL104"],
    }


async def test_folders_come_and_go(edit, project):
    one = project({**FILES, "trainlint.toml": 'ignore = ["TL104"]\n'}, "one")
    two = project(FILES, "two")
    editor: Editor = await edit(one)
    uri = editor.open(two / "train.py")
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    editor.settings_of[two.as_uri()] = {"select": ["TL104"]}
    editor.tell_folders(added=[two])
    await editor.becomes(uri, ["9 TL104"])
    assert sorted(await editor.whole()) == [(one / "train.py").as_uri(), uri]
    editor.tell_folders(removed=[two])
    await editor.becomes(uri, ["9 TL104", "17 TL201"])
    assert sorted(await editor.whole()) == [(one / "train.py").as_uri()]


async def test_settings_that_are_pushed_count(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder, abilities=UNASKED)
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    editor.tell_configuration({"trainlint": {"ignore": ["TL104"]}})
    await editor.becomes(uri, ["17 TL201"])
    editor.tell_configuration({"trainlint": {"minSeverity": "error"}})
    await editor.becomes(uri, [])
    editor.tell_configuration({"trainlint": {}})
    await editor.becomes(uri, ["9 TL104", "17 TL201"])


async def test_settings_at_the_start_count(start, project):
    folder = project(FILES)
    editor: Editor = await start(folder, abilities=UNASKED, options={"settings": {"select": ["TL104"]}})
    assert await editor.found(editor.open(folder / "train.py")) == ["9 TL104"]


async def test_a_wrong_setting_is_told_once_and_the_ones_before_stay(edit, project):
    one, two = project(FILES, "one"), project(FILES, "two")
    editor: Editor = await edit(one, two)
    editor.settings = {"ignore": ["TL104"]}
    editor.tell_configuration()
    uri = editor.open(one / "train.py")
    await editor.becomes(uri, ["17 TL201"])
    editor.settings = {"minConfidence": "huge"}
    editor.tell_configuration()
    await editor.until(lambda: bool(editor.messages))
    assert await editor.found(uri) == ["17 TL201"]
    assert len(editor.messages) == 1
    assert "`trainlint.minConfidence`" in editor.messages[0]
    assert "'huge'" in editor.messages[0]
    editor.settings = None
    editor.tell_configuration()
    await editor.becomes(uri, ["9 TL104", "17 TL201"])
    assert len(editor.messages) == 1


async def test_a_rule_that_is_not_there_is_told_once_and_the_findings_stay(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    editor.settings = {"select": ["TL2001"]}
    editor.tell_configuration()
    await editor.until(lambda: bool(editor.messages))
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    assert len(editor.messages) == 1
    assert "TL2001" in editor.messages[0]


BROKEN = 'ignore = ["TL104"\n'


async def test_a_broken_configuration_file_is_told_once_keeps_the_findings_and_is_mended(edit, project):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    uri, configuration = editor.open(folder / "train.py"), folder / "trainlint.toml"
    assert await editor.found(uri) == ["9 TL104", "17 TL201"]
    configuration.write_text(BROKEN)
    editor.tell_changed(configuration)
    await editor.until(lambda: bool(editor.messages))
    # What was found stays, and goes where the text goes.
    editor.splice(uri, (0, 0, "\n"))
    found = await editor.diagnostics(uri)
    assert [(one.code, one.range.start.line + 1) for one in found] == [("TL104", 10), ("TL201", 18)]
    assert all("could not be checked" in one.message for one in found)
    editor.replace(uri, "float(value_of(loss))", "value_of(loss)")
    assert await editor.found(uri) == ["10 TL104"]
    assert len(editor.messages) == 1
    assert str(configuration) in editor.messages[0]
    configuration.write_text(BROKEN.replace("\n", "]\n"))
    editor.tell_changed(configuration)
    await editor.becomes(uri, [])
    assert len(editor.messages) == 1
    # Broken again, it is told again.
    configuration.write_text(BROKEN)
    editor.tell_changed(configuration)
    await editor.until(lambda: len(editor.messages) == 2)


async def test_a_broken_configuration_is_told_once_while_other_folders_are_checked(edit, project):
    one, two = project({**FILES, "trainlint.toml": BROKEN}, "one"), project(FILES, "two")
    editor: Editor = await edit(one, two)
    in_one, in_two = editor.open(one / "train.py"), editor.open(two / "train.py")
    for _ in range(3):
        editor.splice(in_two, (0, 0, "\n"))
        await editor.found(in_two)
        editor.splice(in_one, (0, 0, "\n"))
        assert await editor.found(in_one) == []
    assert len(editor.messages) == 1


async def test_an_unknown_key_names_the_nearest(edit, project):
    folder = project({**FILES, "trainlint.toml": 'ignroe = ["TL104"]\n'})
    editor: Editor = await edit(folder)
    uri = editor.open(folder / "train.py")
    assert await editor.found(uri) == []
    assert len(editor.messages) == 1
    assert 'did you mean "ignore"?' in editor.messages[0]
    assert "trainlint.toml" in editor.messages[0]


async def test_a_folder_that_is_not_trusted_names_no_configuration_and_gets_no_cache(start, project):
    folder = project(FILES)
    elsewhere = project({"only.toml": 'select = ["TL104"]\n'}, "elsewhere")
    settings = {"configuration": str(elsewhere / "only.toml")}
    trusting: Editor = await start(folder, settings=settings)
    assert await trusting.found(trusting.open(folder / "train.py")) == ["9 TL104"]
    await trusting.stop()
    assert (folder / ".trainlint_cache").exists()
    wary = project(FILES, "wary")
    editor: Editor = await start(wary, settings=settings, options={"trusted": False})
    assert await editor.found(editor.open(wary / "train.py")) == ["9 TL104", "17 TL201"]
    assert (await editor.information())["trusted"] is False
    await editor.stop()
    assert sorted(path.name for path in wary.iterdir()) == ["pyproject.toml", "train.py", "utils.py"]


@pytest.mark.parametrize("name", ["/a%00b.py", "/%ff.py", f"/{300 * 'n'}.py", "//twice.py", "/a%2520b.py"])
async def test_an_odd_file_name_keeps_no_file_from_being_checked(edit, project, name):
    folder = project(FILES)
    editor: Editor = await edit(folder)
    odd, usual = editor.open(folder.as_uri() + name, TRAIN), editor.open(folder / "train.py")
    assert await editor.found(odd) == ["9 TL104", "17 TL201"]
    assert await editor.found(usual) == ["9 TL104", "17 TL201"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are drives")
async def test_a_drive_where_there_are_none_is_not_looked_for_on_disk(edit, project):
    folder = project({**FILES, "trainlint.toml": 'ignore = ["TL104"]\n'})
    editor: Editor = await edit(folder)
    assert await editor.found(editor.open("file:///c%3A/work/train.py", TRAIN)) == ["17 TL201"]
