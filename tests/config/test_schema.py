"""The JSON schema of the configuration judges as the program does."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from trainlint.config import schema
from trainlint.config.discovery import Overrides, Resolver
from trainlint.config.errors import ConfigError
from trainlint.config.settings import setting_keys
from trainlint.lint.options import option_schemas
from trainlint.lint.registry import load_registry
from trainlint.lint.selection import selection_of

SHIPPED: dict[str, Any] = json.loads(schema.SHIPPED.read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SHIPPED)


def program_takes(folder: Path, text: str) -> bool:
    (folder / "trainlint.toml").write_text(text, "utf-8")
    try:
        selection_of(Resolver(Overrides(), folder).of_folder(folder))
    except ConfigError:
        return False
    return True


def test_the_shipped_schema_is_current() -> None:
    rules = load_registry(plugins=()).rules.values()
    assert schema.SHIPPED.read_text("utf-8") == schema.dump(option_schemas(rules)), "run: python docs/build_pages.py"


@pytest.mark.parametrize("validator", [jsonschema.Draft7Validator, jsonschema.Draft202012Validator])
def test_it_is_a_schema(validator: Any) -> None:
    validator.check_schema(SHIPPED)


def test_it_knows_all_settings_each_with_its_meaning_and_an_example() -> None:
    properties = SHIPPED["properties"]
    assert tuple(properties) == setting_keys() == tuple(schema.EXAMPLES)
    assert all(entry["description"] and entry["examples"] for entry in properties.values())


GOOD = {
    "nothing": "",
    "what is said in two ways": 'device = "cuda"\ndistributed = true\n[TL201]\n[sync-in-step]',
    "distributed as a word": 'distributed = "false"',
    "lists that are empty": "select = []\nplugins = []",
    "a release with its patch": 'torch-version = "2.4.1"',
    "selectors of each kind": 'select = ["ALL"]\nignore = ["TL2", "TL101", "print-in-step"]',
    "a file to start from": 'extend = "base.toml"',
    "tables": '[severity]\nTL2 = "hint"\n[per-file-ignores]\n"a b/*.py" = ["ALL"]\n"x" = []',
} | {f"the example of {key}": text for key, text in schema.EXAMPLES.items() if key != "extend"}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_both_take_what_is_right(text: str, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("")
    assert [error.message for error in VALIDATOR.iter_errors(tomllib.loads(text))] == []
    assert program_takes(tmp_path, text)


BAD = {
    "an unknown value": 'device = "gpu"',
    "a value in capitals": 'min-confidence = "HIGH"',
    "a misspelt key": 'min-confidense = "high"',
    "a key with an underscore": 'min_confidence = "high"',
    "a key in capitals": 'Device = "cuda"',
    "a key like no other": "zzz = 1",
    "a misspelt table": '[sevrity]\nTL201 = "error"',
    "a number for a rule": "TL201 = 1",
    "a list for a rule": "sync-in-step = []",
    "an option that the rule has not": "[TL201]\nevery = 1",
    "an option that the rule has not, by name": "[sync-in-step]\nevery = 1",
    "an unknown severity": "severity = {TL201 = 'fatal'}",
    "a severity for all": 'severity = "error"',
    "a number for a version": "torch-version = 2.1",
    "a range for a version": 'torch-version = ">=2.1"',
    "a string for a list": 'select = "TL2"',
    "a number in a list": "ignore = [201]",
    "a list for a table": "per-file-ignores = []",
    "a string in a table of lists": 'per-file-ignores = {"a.py" = "TL2"}',
    "a word for a truth value": 'require-suppression-reason = "yes"',
    "a number for a truth value": "require-suppression-reason = 1",
    "a number for distributed": "distributed = 1",
    "another word for distributed": 'distributed = "yes"',
    "a number to start from": "extend = 1",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_both_refuse_what_is_wrong(text: str, tmp_path: Path) -> None:
    assert not VALIDATOR.is_valid(tomllib.loads(text))
    assert not program_takes(tmp_path, text)


VALUES = st.one_of(
    st.booleans(),
    st.integers(-2, 3),
    st.sampled_from(["auto", "cuda", "true", "high", "error", "2.4", "TL201", "print-in-step", "ALL", ""]),
)
ANY = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["TL2", "every", "a/*.py"]), inner, max_size=2)
    ),
    max_leaves=3,
)
KEYS = st.sampled_from([*(key for key in setting_keys() if key != "extend"), "TL201", "data-parallel", "Select", "z_z"])


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(entry)}" for key, entry in value.items()) + "}"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


@given(table=st.dictionaries(KEYS, ANY, max_size=2))
@settings(max_examples=300, deadline=None)
def test_both_judge_alike(table: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = "".join(f"{key} = {toml(value)}\n" for key, value in table.items())
    (folder := tmp_path_factory.getbasetemp() / "alike").mkdir(exist_ok=True)
    (folder / "trainlint.toml").write_text(text, "utf-8")
    try:
        Resolver(Overrides(), folder).of_folder(folder)
        takes = all(not isinstance(table.get(rule), dict) or not table[rule] for rule in ("TL201", "data-parallel"))
    except ConfigError:
        takes = False
    assert VALIDATOR.is_valid(tomllib.loads(text)) == takes
    assert takes or not program_takes(folder, text)


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    every: int = Field(default=10, ge=1, description="Steps between two reads that are fine.")


def test_options_of_a_rule_are_in_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = load_registry(plugins=()).rules
    monkeypatch.setattr(rules["TL201"], "options_model", Options)
    made = jsonschema.Draft7Validator(schema.schema(option_schemas(rules.values())))
    for name in ("TL201", "sync-in-step"):
        assert made.is_valid({name: {"every": 5}})
        assert not made.is_valid({name: {"every": 0}})
        assert not made.is_valid({name: {"evry": 5}})


OPTION_MISTAKES = {
    "[TL201]\nevery = 0": "TL201.every: input should be greater than or equal to 1",
    "[sync-in-step]\nevry = 5": 'sync-in-step.evry: unknown option; did you mean "every"?',
    "[TL201]\nzzz = 5": 'TL201.zzz: unknown option; it has "every"',
    "[TL201]\nevery = 1\n[sync-in-step]\nevery = 'x'": "sync-in-step.every: input should be a valid integer",
}


@pytest.mark.parametrize(("text", "message"), OPTION_MISTAKES.items())
def test_wrong_options_name_the_file_the_key_and_what_is_right(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_registry().rules["TL201"], "options_model", Options)
    (tmp_path / "trainlint.toml").write_text(text)
    with pytest.raises(ConfigError) as error:
        selection_of(Resolver(Overrides(), tmp_path).of_folder(tmp_path))
    assert str(error.value).startswith(f"{tmp_path / 'trainlint.toml'}: {message}")


def test_options_reach_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_registry().rules["TL201"], "options_model", Options)
    for text, every in {"": 10, "[TL201]\nevery = 3": 3, "[TL201]\nevery = 3\n[sync-in-step]\nevery = 4": 4}.items():
        (tmp_path / "trainlint.toml").write_text(text)
        selection = selection_of(Resolver(Overrides(), tmp_path).of_folder(tmp_path))
        assert selection.instance("TL201").options.values == {"every": every}
