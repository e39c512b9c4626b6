"""The page "Why is my GPU idle?" leads to every rule, by the thresholds of the program and the words of its reports."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from trainlint.lint.finding import Family
from trainlint.lint.registry import load_registry
from trainlint.probe import thresholds
from trainlint.probe.thresholds import Threshold

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
sys.path.insert(0, str(DOCS))

from symptoms import SYMPTOMS, Symptom  # noqa: E402

RULES = load_registry(plugins=()).rules
PAGE = (DOCS / "why-is-my-gpu-idle.md").read_text(encoding="utf-8")
PRINTED = [
    *(REPOSITORY / "server/trainlint/report").glob("probe_*.py"),
    *(REPOSITORY / "server/trainlint/probe/analysis").glob("*.py"),
    *(REPOSITORY / "rules/trainlint_rules").rglob("*.py"),
]
"""Where the words of reports stand: rules tell what they measured in words of their own."""
HOLDS_NOTHING_UP = frozenset(
    {
        thresholds.FEWEST_STEPS,
        thresholds.FEWEST_COMPARED_STEPS,
        thresholds.FEWEST_TRACED_STEPS,
        thresholds.SHORTEST_GPU_SAMPLING,
        thresholds.EXACT_WITHIN,
    }
)
"""Thresholds that say how much must be measured before anything is said."""


@cache
def printed() -> str:
    """The texts in the code of reports and of judgements, without what documents it and the examples of rules."""
    return "\n".join(text for path in PRINTED for text in texts_of(ast.parse(path.read_text(encoding="utf-8"))))


def texts_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assign(targets=[ast.Name(id="examples")]):
            return
        case ast.Constant(value=str() as text):
            yield text
        case _:
            for child in ast.iter_child_nodes(node):
                yield from texts_of(child)


def title(symptom: Symptom) -> str:
    return symptom.title


def test_every_rule_stands_under_a_symptom() -> None:
    named = {code for symptom in SYMPTOMS for code in symptom.rules}
    assert named == {code for code, rule in RULES.items() if rule.family is not Family.TOOL}


def test_every_threshold_stands_under_a_symptom() -> None:
    declared = {value for value in vars(thresholds).values() if isinstance(value, Threshold)}
    assert {bound for symptom in SYMPTOMS for bound in symptom.bounds} == declared - HOLDS_NOTHING_UP


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=title)
def test_no_rule_stands_twice_under_one_symptom(symptom: Symptom) -> None:
    assert len(set(symptom.rules)) == len(symptom.rules)


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=title)
def test_what_the_probe_is_said_to_print_is_printed(symptom: Symptom) -> None:
    options = (REPOSITORY / "server/trainlint/cli/probe_arguments.py").read_text(encoding="utf-8")
    quoted = re.findall(r"`([^`]+)`", symptom.prints)
    assert quoted
    assert [text for text in quoted if text not in (options if text.startswith("--") else printed())] == []


@pytest.mark.parametrize("symptom", SYMPTOMS, ids=title)
def test_its_articles_are_described(symptom: Symptom) -> None:
    described = set(re.findall(r"^## Article (\d+)", (DOCS / "sources.md").read_text(encoding="utf-8"), re.MULTILINE))
    assert symptom.sources and set(symptom.sources) <= described


def test_figures_of_the_page_are_those_of_thresholds_or_of_articles() -> None:
    """A threshold that is written out by hand would stay behind when the program's changes."""
    for symptom in SYMPTOMS:
        for bound in symptom.bounds:
            assert f"| {bound.decides} | {bound.text} |" in PAGE
            if bound.unit == "share" and bound.text != "100 %":
                by_hand = (symptom.looks, symptom.prints)
                assert not any(re.search(rf"(?<![0-9]){re.escape(bound.text)}", text) for text in by_hand)


def test_the_first_pages_lead_there() -> None:
    for page in (REPOSITORY / "README.md", DOCS / "index.md"):
        assert "why-is-my-gpu-idle.md" in page.read_text(encoding="utf-8")
