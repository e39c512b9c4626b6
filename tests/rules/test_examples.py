"""Every example of every rule is a program that the rule is run on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from trainlint.fixes.apply import converge
from trainlint.fixes.recipe import Applicability, Fix
from trainlint.fixes.tree import parse
from trainlint.lint.analyze import ROOT, analyze
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.finding import Finding
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Example, FileRule, Rule
from trainlint.semantics.vocabulary import Confidence

MARK = re.compile(r"[ \t]*# expect: (TL\d{3})[ \t]*$", re.MULTILINE)
RULES = tuple(load_registry().rules.values())
CASES = [(rule, example) for rule in RULES for example in rule.examples]
FIXED = [(rule, example) for rule, example in CASES if example.fixed is not None]
MOST_CODES = {"select": ["ALL"], "require-suppression-reason": True}


def _name(value: object) -> str:
    if isinstance(value, Example):
        kind = "valid" if value.valid else "invalid"
        return f"{kind}: {value.because}"
    return value.code if isinstance(value, type) and issubclass(value, Rule) else str(value)


def unmarked(files: Mapping[str, str]) -> dict[str, str]:
    return {path: MARK.sub("", text) for path, text in files.items()}


def marked_rows(example: Example, code: str) -> set[tuple[str, int]]:
    return {
        (path, row)
        for path, text in example.files.items()
        for row, line in enumerate(text.splitlines(), start=1)
        if code in MARK.findall(line)
    }


class Linter:
    """Runs one rule on programs: on the linked project, or, where a rule is about files, through the engine."""

    def __init__(self, rule: type[Rule], folder: Path) -> None:
        self.rule = rule
        self.folder = folder

    def findings(self, files: Mapping[str, str]) -> list[Finding]:
        return self._through_engine(files) if issubclass(self.rule, FileRule) else self._in_memory(files)

    def _in_memory(self, files: Mapping[str, str]) -> list[Finding]:
        found = [one for one in self.rule().check(analyze(files)) if one.confidence >= Confidence.MEDIUM]
        return list({(one.site.path, one.site): one for one in found}.values())

    def _through_engine(self, files: Mapping[str, str]) -> list[Finding]:
        for path, text in files.items():
            (self.folder / path).write_text(text, encoding="utf-8", newline="\n")
        paths = [self.folder / path for path in files]
        result = check(paths, CheckOptions(overrides=MOST_CODES, isolated=True, cache=False, jobs=1))
        assert not result.errors
        return [one.finding for one in result.findings if one.finding.code == self.rule.code]

    def rows(self, files: Mapping[str, str]) -> set[tuple[str, int]]:
        root = self.folder if issubclass(self.rule, FileRule) else ROOT
        return {(one.site.path.relative_to(root).as_posix(), one.site.row) for one in self.findings(files)}

    def fixes(self, files: Mapping[str, str], entry: str) -> list[Fix]:
        """The fixes of findings in one file, as the engine collects them: the finding's own, else the rule's."""
        found = [one for one in self.findings(files) if one.site.path.name == Path(entry).name]
        fixes = [one.fix or self.rule().fix(one) for one in found]
        return [fix for fix in fixes if fix is not None]


@pytest.mark.parametrize(("rule", "example"), CASES, ids=_name)
def test_reports_exactly_the_marked_rows(rule: type[Rule], example: Example, tmp_path: Path) -> None:
    assert Linter(rule, tmp_path).rows(unmarked(example.files)) == marked_rows(example, rule.code)


@pytest.mark.parametrize(("rule", "example"), FIXED, ids=_name)
def test_fixes_lead_to_the_text_that_the_example_gives(rule: type[Rule], example: Example, tmp_path: Path) -> None:
    linter, files, entry = Linter(rule, tmp_path), unmarked(example.files), example.entry
    assert example.fixed is not None
    outcome = converge(files[entry], lambda text: linter.fixes(files | {entry: text}, entry))
    assert outcome.text == example.fixed[entry]
    assert outcome.converged
    assert outcome.rounds == 1
    parse(outcome.text)


@pytest.mark.parametrize(("rule", "example"), FIXED, ids=_name)
def test_nothing_with_edits_is_left_after_the_fix(rule: type[Rule], example: Example, tmp_path: Path) -> None:
    linter, files, entry = Linter(rule, tmp_path), unmarked(example.files), example.entry
    assert example.fixed is not None
    after = files | unmarked(example.fixed)
    assert [fix for fix in linter.fixes(after, entry) if fix.recipes] == []


@pytest.mark.parametrize(("rule", "example"), CASES, ids=_name)
def test_fixes_are_no_more_than_the_rule_declares(rule: type[Rule], example: Example, tmp_path: Path) -> None:
    allowed = _at_most(rule.fix_class)
    files = unmarked(example.files)
    for path in files:
        for fix in Linter(rule, tmp_path).fixes(files, path):
            assert fix.applicability in allowed
            assert bool(fix.recipes) == (fix.applicability is not Applicability.DISPLAY)
            # `trainlint rules` lists the most that a fix can be, so one that is less says why.
            less = rule.fix_class is Applicability.SAFE and fix.applicability is not Applicability.SAFE
            assert bool(fix.because) == less


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_a_rule_whose_fix_has_edits_shows_a_fixed_text(rule: type[Rule]) -> None:
    with_edits = rule.fix_class in (Applicability.SAFE, Applicability.UNSAFE)
    assert any(example.fixed is not None for example in rule.examples) == with_edits


@pytest.mark.parametrize("rule", RULES, ids=_name)
def test_messages_are_one_sentence_without_a_full_stop(rule: type[Rule], tmp_path: Path) -> None:
    for example in rule.examples:
        for finding in Linter(rule, tmp_path).findings(unmarked(example.files)):
            assert finding.message
            assert "\n" not in finding.message
            assert not finding.message.endswith(".")
            assert (finding.code, finding.name) == (rule.code, rule.name)


@cache
def _at_most(fix_class: Applicability) -> frozenset[Applicability]:
    """SAFE allows the weaker kinds too: a rule's fix may be less in a single case."""
    order = [Applicability.DISPLAY, Applicability.UNSAFE, Applicability.SAFE]
    return frozenset() if fix_class is Applicability.NONE else frozenset(order[: order.index(fix_class) + 1])
