"""Where rows of an earlier text are by now: found where that is certain, and never anywhere else."""

from __future__ import annotations

import random

import pytest

from trainlint.source.alignment import row_digests, rows_now
from trainlint.source.positions import LineIndex

CASES = {
    "nothing changed": ("abab", "abab", {1: 1, 2: 2, 3: 3, 4: 4}),
    "a row above": ("abc", "xabc", {1: 2, 2: 3, 3: 4}),
    "a row between": ("abc", "abxc", {1: 1, 2: 2, 3: 4}),
    "a changed row is gone, its equal is not": ("aTbTc", "aQbTc", {1: 1, 3: 3, 4: 4, 5: 5}),
    "the second of two equal rows is changed": ("aTbTc", "aTbQc", {1: 1, 2: 2, 3: 3, 5: 5}),
    "equal rows between changes on all sides": (
        "aTbTcTd",
        "zaTQbTcRTd",
        {1: 2, 2: 3, 3: 5, 4: 6, 5: 7, 6: 9, 7: 10},
    ),
    "one of two equal neighbours was removed": ("aTTc", "aTc", {1: 1, 4: 3}),
    "one of two equal pieces was removed": ("aTyTz", "aTz", {1: 1, 5: 3}),
    "an equal row was added beside": ("aTc", "aTTc", {1: 1, 3: 4}),
    "a piece that moved past another": ("abcdef", "adefbc", {1: 1, 4: 2, 5: 3, 6: 4}),
    "all is new": ("abc", "xyz", {}),
    "nothing is left": ("abc", "", {}),
    "there was nothing": ("", "abc", {}),
}


@pytest.mark.parametrize(("before", "now", "expected"), CASES.values(), ids=CASES)
def test_rows_are_found_where_it_is_certain(before: str, now: str, expected: dict[int, int]) -> None:
    assert rows_now(list(before), list(now)) == expected


def test_whatever_is_edited_rows_that_are_found_are_the_rows_they_were() -> None:
    """Each row carries a mark that the digests do not show; what is found to be a row must be that row."""
    chance = random.Random(7)
    for _ in range(1000):
        before = [(chance.choice("abcdefgh"), mark) for mark in range(chance.randrange(1, 25))]
        start = chance.randrange(len(before) + 1)
        end = min(len(before), start + chance.randrange(4))
        texts = "abcdefgh" if start == end else "xyz"
        added = [(chance.choice(texts), None) for _ in range(chance.randrange(4))]
        now = [*before[:start], *added, *before[end:]]
        found = rows_now([text for text, _ in before], [text for text, _ in now])
        assert all(before[row - 1] == now[row_now - 1] for row, row_now in found.items())


def test_spacing_is_part_of_a_row_and_its_end_is_not() -> None:
    unix, other = (row_digests(LineIndex(text)) for text in ("a\n  b\n", "a\r\n b\r\n"))
    assert [one == two for one, two in zip(unix, other, strict=True)] == [True, False, True]
