"""The page of the settings: every example is one, and the session that it shows is what the program prints."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from trainlint.config import schema
from trainlint.config.discovery import Overrides, Resolver
from trainlint.config.settings import Settings, setting_keys
from trainlint.lint.selection import selection_of

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### ([a-z-]+)\n(.*?)(?=^### |^<!--)", PAGE, re.MULTILINE | re.DOTALL))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("key", setting_keys())
def test_the_example_of_a_setting_sets_it(key: str, tmp_path: Path) -> None:
    (text,) = blocks(SECTIONS[key], "toml")
    project = tmp_path / "project"
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "trainlint.toml").write_text("")
    project.mkdir()
    file = project / "trainlint.toml"
    file.write_text(text)
    resolved = Resolver(Overrides(), project).of_folder(project)
    selection_of(resolved)
    assert resolved.settings.by_key()[key] != Settings().by_key()[key]
    assert {origin for name, origin in resolved.origins.items() if name.split(".")[0] == key} == {str(file)}


@pytest.mark.parametrize("key", setting_keys())
def test_a_setting_has_meaning_values_and_default(key: str) -> None:
    assert re.match(r"\n\S.*\n\n- Values: .+\n- Default: .+\n\n```toml\n", SECTIONS[key])


def test_all_settings_are_there() -> None:
    assert tuple(SECTIONS) == setting_keys()


def test_the_first_example_is_right() -> None:
    table = tomllib.loads(blocks(PAGE, "toml")[0])["tool"]["trainlint"]
    jsonschema.validate(table, schema.schema())


PROJECT = {
    "trainlint.toml": 'extend = "shared/base.toml"\n[per-file-ignores]\n"benchmarks/" = ["TL205"]\n',
    "shared/base.toml": 'extend-select = ["TL004"]\ndevice = "cpu"\n[severity]\nTL113 = "info"\n',
    "src/train.py": "",
}


def trainlint(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "trainlint", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=True).stdout


def test_the_session_is_what_the_program_prints(tmp_path: Path) -> None:
    for name, text in PROJECT.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (session,) = [block for block in blocks(PAGE, "console") if block.startswith("$ trainlint config src")]
    command, output = session.split("\n", 1)
    assert command == "$ trainlint config src/train.py --config 'device = \"cuda\"' | grep -v default"
    printed = trainlint(tmp_path, "config", "src/train.py", "--config", 'device = "cuda"').splitlines()
    shown = "".join(f"{line}\n" for line in printed if "default" not in line)
    assert shown.replace(str(tmp_path.resolve()), "/home/me/project") == output


def test_the_printed_schema_is_that_of_the_editors(tmp_path: Path) -> None:
    made = json.loads(trainlint(tmp_path, "config", "--schema"))
    jsonschema.Draft7Validator.check_schema(made)
    texts = [text for text in blocks(PAGE, "toml") if text.startswith("#:schema ./trainlint.schema.json")]
    assert [jsonschema.Draft7Validator(made).is_valid(tomllib.loads(text)) for text in texts] == [True]
    (entry,) = [json.loads(text) for text in blocks(PAGE, "json")]
    assert entry["url"] == made["$id"]
