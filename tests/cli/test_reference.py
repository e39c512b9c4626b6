"""The reference page describes every option of every verb."""

from __future__ import annotations

import argparse
import re
from importlib import import_module
from pathlib import Path

import pytest
from program import Program

from trainlint.cli.program import LATER_VERBS, VERBS
from trainlint.report.formats import FORMATS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")


def section(verb: str) -> str:
    match = re.search(rf"^## {verb}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"no section about `{verb}`"
    return match[1]


def options(verb: str) -> list[str]:
    parser: argparse.ArgumentParser = import_module(f"trainlint.cli.{verb}").parser()
    return sorted(parser._option_string_actions.keys() - {"-h", "--help"})


@pytest.mark.parametrize(("verb", "option"), [(verb, option) for verb in VERBS for option in options(verb)])
def test_every_option_is_described(verb: str, option: str) -> None:
    assert re.search(rf"`{option}[` ]|[\[ |]{option}[\]` ]", section(verb)), f"{verb} {option}"


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_is_described_that_is_not_there(verb: str) -> None:
    described = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", section(verb)))
    known = {option for other in VERBS for option in options(other)}
    assert described <= known


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_fits_a_terminal(program: Program, verb: str) -> None:
    done = program(*filter(None, [verb]), "--help")
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if len(line) > 80 or line != line.rstrip()] == []


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_what_every_argument_is(verb: str) -> None:
    parser: argparse.ArgumentParser = import_module(f"trainlint.cli.{verb}").parser()
    helps = {action.dest: action.help or "" for action in parser._actions}
    assert [name for name, text in helps.items() if not text or text.startswith("default")] == []
    assert parser.description


@pytest.mark.parametrize("format", FORMATS)
def test_help_names_every_format(program: Program, format: str) -> None:
    assert re.search(rf"\b{format}\b", program("check", "--help").stdout)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_is_described(format: str) -> None:
    assert f"| `{format}` |" in PAGE


def test_verbs_of_later_versions_are_not_described() -> None:
    assert not [verb for verb in LATER_VERBS if f"trainlint {verb}" in PAGE or f"\n## {verb}" in PAGE]
