"""An explanation looks at a row by itself, and comes to what a check comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.explaining import Asking, Dropped, Explanation, explain
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Example, FileRule, Rule, RuntimeRule
from trainlint.report.explanation import lines
from trainlint.report.view import View

RULES = [rule for rule in load_registry().rules.values() if not issubclass(rule, FileRule | RuntimeRule)]


def write(example: Example, folder: Path) -> Path:
    (folder / "pyproject.toml").write_text("")
    for name, text in example.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
    return folder / example.entry


def explained(path: Path, row: int, rule: type[Rule], **overrides: object) -> Explanation:
    options = CheckOptions({"min-confidence": "low", **overrides}, cache=False, jobs=1)
    return explain(Asking(path, None, row, rule.code), options)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_it_finds_what_a_check_reports(rule: type[Rule], tmp_path: Path) -> None:
    example = next(one for one in rule.examples if not one.valid)
    path = write(example, tmp_path)
    texts = example.files[example.entry].splitlines()
    row = next(number for number, text in enumerate(texts, 1) if f"# expect: {rule.code}" in text)
    found = explained(path, row, rule, **{"extend-select": (rule.code,)})
    assert found.reported and found.dropped
    assert all(one == Dropped(one.finding) for one in found.dropped), "nothing keeps it out"
    left_out = explained(path, row, rule, ignore=(rule.code,))
    assert not left_out.reported
    assert left_out.dropped and all(one.not_selected for one in left_out.dropped)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_what_a_rule_stays_silent_about_is_told_why(rule: type[Rule], tmp_path: Path) -> None:
    """Of the rows of one valid example, each has a reason; those that the rule looked at tell what decided."""
    example = next((one for one in rule.examples if one.valid), None)
    if example is None:
        pytest.skip("the rule has no valid example")
    path = write(example, tmp_path)
    row = next(number for number, text in enumerate(example.files[example.entry].splitlines(), 1) if "(" in text)
    found = explained(path, row, rule)
    text = list(lines(found, View(tmp_path)))
    assert not found.reported
    assert f"{rule.code} {rule.name}: not found" in text
    assert any(line.startswith("  - ") for line in text)
