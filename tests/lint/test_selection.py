"""Which rules take part for a file, by settings."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from trainlint.config.discovery import Overrides, Resolver
from trainlint.config.errors import ConfigError
from trainlint.lint.finding import Severity
from trainlint.lint.packs import BUILT_IN, Pack
from trainlint.lint.registry import load_registry
from trainlint.lint.selection import Selection, selection_of

DEFAULTS = {code for code, rule in load_registry().rules.items() if rule.default}
ALWAYS = {"TL001", "TL002"}


def selection(root: Path, toml: str) -> Selection:
    (root / "trainlint.toml").write_text(inspect.cleandoc(toml))
    return Selection(load_registry(), Resolver(Overrides(), root).of_folder(root))


def starting_with(prefix: str) -> set[str]:
    return {code for code in load_registry().rules if code.startswith(prefix)}


CASES = {
    "nothing said: the default set": ("", DEFAULTS),
    "a code": ('select = ["TL405"]', {"TL405"} | ALWAYS),
    "a prefix": ('select = ["TL3"]', starting_with("TL3") | ALWAYS),
    "a name": ('select = ["deprecated-amp"]', {"TL405"} | ALWAYS),
    "everything": ('select = ["ALL"]', set(load_registry().rules)),
    "more than the default set": ('extend-select = ["TL004"]', DEFAULTS | {"TL004"}),
    "less than the default set": ('ignore = ["TL3"]', DEFAULTS - starting_with("TL3")),
    "ignore wins at equal length": ('select = ["TL405"]\nignore = ["TL405"]', ALWAYS),
    "a longer selection wins over a shorter ignore": ('select = ["TL405"]\nignore = ["TL4"]', {"TL405"} | ALWAYS),
    "a longer ignore wins over a shorter selection": (
        'select = ["TL4"]\nignore = ["TL405"]',
        (starting_with("TL4") | ALWAYS) - {"TL405"},
    ),
    "a name wins over everything": ('select = ["deprecated-amp"]\nignore = ["ALL"]', {"TL405"} | ALWAYS),
    "what cannot be linted is always said": ('ignore = ["ALL", "TL0", "TL001", "TL002"]', ALWAYS),
    "what a probe reports, by code and by name": (
        'select = ["TL905", "straggler-rank"]',
        {"TL905", "TL906"} | ALWAYS,
    ),
    "reasons are required by a setting": ("require-suppression-reason = true", DEFAULTS | {"TL004"}),
}


@pytest.mark.parametrize(("toml", "expected"), CASES.values(), ids=CASES)
def test_selected(tmp_path: Path, toml: str, expected: set[str]) -> None:
    assert set(selection(tmp_path, toml).rules) == expected


def test_per_file_ignores_hold_for_matching_files(tmp_path: Path) -> None:
    chosen = selection(tmp_path, '[per-file-ignores]\n"tools/*" = ["TL4", "TL001"]\n"*_test.py" = ["ALL"]')
    assert "TL405" in chosen.codes(tmp_path / "train.py")
    assert "TL405" not in chosen.codes(tmp_path / "tools/train.py")
    assert "TL001" in chosen.codes(tmp_path / "tools/train.py")
    assert chosen.codes(tmp_path / "lib/x_test.py") == ALWAYS


def test_severity_is_that_of_the_most_specific_selector(tmp_path: Path) -> None:
    chosen = selection(tmp_path, '[severity]\nTL4 = "error"\nTL405 = "hint"\n')
    assert chosen.severity("TL405", Severity.WARNING) is Severity.HINT
    assert chosen.severity("TL407", Severity.WARNING) is Severity.ERROR
    assert chosen.severity("TL201", Severity.WARNING) is Severity.WARNING


MISTAKES = {
    "a code": ('select = ["TL40555"]', "TL405"),
    "a name": ('ignore = ["deprecated-ampp"]', "deprecated-amp"),
    "a rule in per-file-ignores": ('[per-file-ignores]\n"a.py" = ["TLX01"]', "TL"),
    "a rule in severity": ('[severity]\nprint-in-stepp = "error"', "print-in-step"),
    "options of a rule without any": ("[deprecated-amp]\nthreshold = 1", "no options"),
}


@pytest.mark.parametrize(("toml", "hint"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_name_the_file_and_the_nearest_spelling(tmp_path: Path, toml: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        selection(tmp_path, toml)
    assert "trainlint.toml" in str(error.value)
    assert hint in str(error.value)


UNINSTALLED = {
    "a pack, misspelt": (
        'plugins = ["bultin"]',
        'plugins: no rule pack "bultin" is installed; did you mean "builtin"?',
    ),
    "an unknown pack": ('plugins = ["acme"]', 'plugins: no rule pack "acme" is installed; installed are "builtin"'),
}


@pytest.mark.parametrize(("toml", "message"), UNINSTALLED.values(), ids=UNINSTALLED)
def test_what_is_not_installed_cannot_be_chosen(tmp_path: Path, toml: str, message: str) -> None:
    file = tmp_path / "trainlint.toml"
    file.write_text(toml)
    packs = (Pack(BUILT_IN, "trainlint_rules", "", ""),)
    with pytest.raises(ConfigError) as error:
        selection_of(Resolver(Overrides(), tmp_path).of_folder(tmp_path), packs)
    assert str(error.value).startswith(f"{file}: {message}")


SILENCE = {
    "a selected rule": ("", "TL405", True),
    "its name": ("", "deprecated-amp", True),
    "a rule that is not selected": ('select = ["TL2"]', "TL405", False),
    "a rule outside of the default set": ("", "TL004", False),
    "a prefix whose default rules all took part": ("", "TL4", True),
    "a prefix of which some default rules did not": ('ignore = ["TL405"]', "TL4", False),
    "a rule of the probe": ("", "TL905", False),
    "all rules of the probe": ("", "TL9", False),
    "no rule at all": ("", "TL799", True),
}


@pytest.mark.parametrize(("toml", "pattern", "expected"), SILENCE.values(), ids=SILENCE)
def test_silence_of_a_pattern_means_something(tmp_path: Path, toml: str, pattern: str, expected: bool) -> None:
    assert selection(tmp_path, toml).took_part(pattern) is expected
