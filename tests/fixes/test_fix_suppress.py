"""Where comments that silence findings are put, and what they join."""

from __future__ import annotations

import pytest

from trainlint.fixes.edits import apply_edits
from trainlint.fixes.suppress import Silenced, give_reasons, is_reason, suppress
from trainlint.source.positions import LineIndex
from trainlint.source.suppressions import Suppressions

SYNC, PRINT = "TL201", "TL202"
NAMES = {SYNC: "sync-in-step", PRINT: "print-in-step", "TL003": "unused-suppression"}


def suppressed(text: str, findings: list[tuple[str, int]], reason: str) -> str:
    """The text after the findings, each a code at a row, were silenced."""
    wanted = [Silenced(code, NAMES[code], row, code == "TL003") for code, row in findings]
    return apply_edits(text, suppress(LineIndex(text), wanted, reason))


PLACES = {
    "at the end of the line": ("x\ny\n", [(SYNC, 1)], "x  # trainlint: ignore[TL201] old\ny\n"),
    "several rules": ("x\n", [(PRINT, 1), (SYNC, 1)], "x  # trainlint: ignore[TL201, TL202] old\n"),
    "one rule several times": ("x\n", [(SYNC, 1), (SYNC, 1)], "x  # trainlint: ignore[TL201] old\n"),
    "on the last row of an expression": ("f(\n 1,\n)\ny", [(SYNC, 2)], "f(\n 1,\n)  # trainlint: ignore[TL201] old\ny"),
    "after a continuation": ("x = \\\n 1\n", [(SYNC, 1)], "x = \\\n 1  # trainlint: ignore[TL201] old\n"),
    "after a string of several rows": (
        "f('''\n# a\n''')\n",
        [(SYNC, 1)],
        "f('''\n# a\n''')  # trainlint: ignore[TL201] old\n",
    ),
    "on the header of a block": (
        "for a in (\n b\n):\n  c\n",
        [(SYNC, 1)],
        "for a in (\n b\n):  # trainlint: ignore[TL201] old\n  c\n",
    ),
    "after another comment": (
        "x  # type: ignore\n",
        [(SYNC, 1)],
        "x  # type: ignore  # trainlint: ignore[TL201] old\n",
    ),
    "after a comment that names other rules": (
        "x  # noqa: F401\n",
        [(SYNC, 1)],
        "x  # noqa: F401  # trainlint: ignore[TL201] old\n",
    ),
    "joined": ("x  # trainlint: ignore[TL202] why\n", [(SYNC, 1)], "x  # trainlint: ignore[TL202, TL201] why\n"),
    "joined, and given a reason": (
        "x  # trainlint: ignore[print-in-step]  # a\n",
        [(SYNC, 1)],
        "x  # trainlint: ignore[print-in-step, TL201] old  # a\n",
    ),
    "joined on another row of the expression": (
        "f(  # trainlint: ignore[TL202] why\n 1)\n",
        [(SYNC, 2)],
        "f(  # trainlint: ignore[TL202, TL201] why\n 1)\n",
    ),
    "already there": ("x  # trainlint: ignore[sync-in-step]\n", [(SYNC, 1)], "x  # trainlint: ignore[sync-in-step]\n"),
    "not joined with one for the file": (
        "x  # trainlint: ignore-file[TL3] a\n",
        [(SYNC, 1)],
        "x  # trainlint: ignore-file[TL3] a  # trainlint: ignore[TL201] old\n",
    ),
    "about a comment, on its row": (
        "f(  # trainlint: off\n 1)\n",
        [("TL003", 1)],
        "f(  # trainlint: off  # trainlint: ignore[TL003] old\n 1)\n",
    ),
    "line ends of Windows": ("x\r\ny\r\n", [(SYNC, 1)], "x  # trainlint: ignore[TL201] old\r\ny\r\n"),
    "mixed line ends": (
        "x\ry\r\nz\n",
        [(SYNC, 1), (SYNC, 3)],
        "x  # trainlint: ignore[TL201] old\ry\r\nz  # trainlint: ignore[TL201] old\n",
    ),
    "no line end": ("x", [(SYNC, 1)], "x  # trainlint: ignore[TL201] old"),
    "space that is there": (
        "x \ny\t \n",
        [(SYNC, 1), (SYNC, 2)],
        "x  # trainlint: ignore[TL201] old\ny\t # trainlint: ignore[TL201] old\n",
    ),
    "a form feed and tabs": ("\fif a:\n\tx\n", [(SYNC, 2)], "\fif a:\n\tx  # trainlint: ignore[TL201] old\n"),
    "brackets and marks in strings": ("x = '(#'\n", [(SYNC, 1)], "x = '(#'  # trainlint: ignore[TL201] old\n"),
}


@pytest.mark.parametrize(("text", "findings", "expected"), PLACES.values(), ids=PLACES)
def test_a_comment_goes_where_it_takes_effect(text: str, findings: list[tuple[str, int]], expected: str) -> None:
    done = suppressed(text, findings, "old")
    assert done == expected
    silent = Suppressions.parse(done)
    for code, row in findings:
        assert silent.names(code, NAMES[code], row) or silent.find(code, NAMES[code], row, row)
    assert suppressed(done, findings, "another") == done


def test_without_a_reason_nothing_follows_the_codes() -> None:
    assert suppressed("x\n", [(SYNC, 1)], "") == "x  # trainlint: ignore[TL201]\n"


def test_a_suppression_gets_the_reason_that_it_lacks() -> None:
    text = "x  # trainlint: ignore[TL201]  # a\n# trainlint: off\ny  # trainlint: ignore[TL2] why\n"
    assert apply_edits(text, give_reasons(LineIndex(text), [1, 2, 3], "old")) == (
        "x  # trainlint: ignore[TL201] old  # a\n# trainlint: off old\ny  # trainlint: ignore[TL2] why\n"
    )


REASONS = {
    "words": ("kept for now", True),
    "a number of an issue": ("see #12", True),
    "beyond ASCII": ("später", True),
    "two lines": ("a\nb", False),
    "another directive": ("a # noqa", False),
    "a list of rules": ("[TL2] a", False),
    "a dash that is no part of it": ("- a", False),
    "what declares an encoding": ("coding: latin-1", False),
}


@pytest.mark.parametrize(("reason", "expected"), REASONS.values(), ids=REASONS)
def test_a_reason_is_what_a_comment_is_read_to_give(reason: str, expected: bool) -> None:
    assert is_reason(reason) is expected
