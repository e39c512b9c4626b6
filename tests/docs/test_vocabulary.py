"""The page of words explains every word that the analyzer uses, and no word that it does not."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import pytest

from trainlint.fixes.recipe import Applicability
from trainlint.lint.finding import Severity
from trainlint.semantics.vocabulary import Confidence, Framework, Frequency, GuardKind, Known, Place, Region

PAGE = (Path(__file__).parents[2] / "docs" / "vocabulary.md").read_text(encoding="utf-8")
TABLES = {
    "frequency": Frequency,
    "region": Region,
    "place": Place,
    "guard": GuardKind,
    "framework": Framework,
    "confidence": Confidence,
    "fix": Applicability,
}
SENTENCES = {"**distributed**": Known, "**Severity**": Severity}


def words(vocabulary: type[Enum]) -> set[str]:
    """The members as output writes them."""
    return {str(getattr(member, "label", member.value)) for member in vocabulary}


def table(title: str) -> set[str]:
    match = re.search(rf"^\| {title} \| meaning \|\n\| --- \| --- \|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert match, f"no table of {title}"
    return set(re.findall(r"^\| `([^`]+)` \| \S", match[1], re.MULTILINE))


@pytest.mark.parametrize(("title", "vocabulary"), TABLES.items())
def test_a_table_explains_each_word_and_no_other(title: str, vocabulary: type[Enum]) -> None:
    assert table(title) == words(vocabulary)


@pytest.mark.parametrize(("term", "vocabulary"), SENTENCES.items())
def test_a_paragraph_names_each_word(term: str, vocabulary: type[Enum]) -> None:
    (paragraph,) = [part for part in PAGE.split("\n\n") if term in part]
    assert set(re.findall(r"`([^`]+)`", paragraph)) == words(vocabulary)
