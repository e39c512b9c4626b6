"""The full format: what a person sees at a terminal."""

from __future__ import annotations

import pytest
from desk import Desk

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import RelatedSite
from trainlint.semantics.context import Site


def test_a_finding_shows_its_line_why_it_is_hot_and_what_to_do(desk: Desk) -> None:
    path = desk.write("train.py")
    desk.report(
        path,
        context=desk.context(path),
        fix=Fix(Applicability.UNSAFE, "Keep the sum on the device"),
        related=(
            RelatedSite(Site(path, 4, 0, 4, 20, ""), "the loop that runs it"),
            RelatedSite(Site(path, 3, 0, 3, 5, ""), "the loader"),
        ),
    )
    assert desk.render("full") == (
        "TL201 sync-in-step: `loss.item()` waits for the GPU at every step\n"
        " --> train.py:7:14 (warning, high confidence)\n"
        "  |\n"
        "7 |     total += loss.item()\n"
        "  |              ^^^^^^^^^^^\n"
        "  |\n"
        "why:  it runs at every training step of the loop at train.py:4, "
        "reached by train.main > train.train_one_epoch\n"
        "see:  train.py:3: the loader\n"
        "help: read it at the logging interval\n"
        "fix:  Keep the sum on the device (unsafe: `--fix --unsafe-fixes` applies it)\n"
        "\n"
    )


@pytest.mark.parametrize(
    ("line", "column", "end", "caret_line"),
    [
        pytest.param("x = loss.item()", 5, 16, "    ^^^^^^^^^^^", id="plain"),
        pytest.param("\tx = loss.item()", 6, 17, "        ^^^^^^^^^^^", id="a tab takes the columns to the next stop"),
        pytest.param("損失 = 損失.item()", 6, 15, "       ^^^^^^^^^^^", id="wide characters take two columns"),
        pytest.param("e\u0301 = loss.item()", 6, 17, "    ^^^^^^^^^^^", id="combining marks take no column"),
        pytest.param("x = 1", 99, 99, " " * 5 + "^", id="a column beyond the line points at its end"),
    ],
)
def test_carets_stand_under_what_they_mean(desk: Desk, line: str, column: int, end: int, caret_line: str) -> None:
    path = desk.write("train.py", line + "\n")
    desk.report(path, (1, column, 1, end))
    assert desk.render("full").splitlines()[4] == f"  | {caret_line}"


def test_a_fix_that_is_not_as_safe_as_others_of_its_rule_says_why(desk: Desk) -> None:
    fix = Fix(Applicability.UNSAFE, "Pass non_blocking=True", because="the device may be a CPU")
    desk.report(desk.write("train.py"), fix=fix)
    told = "fix:  Pass non_blocking=True (unsafe, since the device may be a CPU: `--fix --unsafe-fixes` applies it)\n"
    assert told in desk.render("full")


def test_a_long_span_leaves_its_middle_out(desk: Desk) -> None:
    rows = [f"    argument_{number}," for number in range(10)]
    path = desk.write("train.py", "\n".join(["call(", *rows, ")"]) + "\n")
    desk.report(path, (1, 1, 12, 2))
    excerpt = desk.render("full").splitlines()[2:-2]
    assert excerpt == [
        "   |",
        " 1 | call(",
        "   | ^^^^^",
        " 2 |     argument_0,",
        "   |     ^^^^^^^^^^^",
        "...",
        "12 | )",
        "   | ^",
        "   |",
    ]


@pytest.mark.parametrize(("values", "flagged"), [(150, 100), (900, 100), (900, 500), (900, 899)])
def test_a_long_line_is_cut_around_what_is_flagged(desk: Desk, values: int, flagged: int) -> None:
    line = "x = " + "+ ".join(f"value_{100 + number} " for number in range(values))
    name = f"value_{flagged}"
    column = line.index(name) + 1
    path = desk.write("train.py", line + "\n")
    desk.report(path, (1, column, 1, column + 9))
    shown, carets = desk.render("full").splitlines()[3:5]
    assert len(shown) < 200
    assert shown[carets.index("^") : carets.rindex("^") + 1] == name
    last = 100 + values - 1
    assert (shown.startswith("1 | ... "), shown.endswith(" ...")) == (flagged > 100, flagged < last)


def test_source_code_cannot_steer_the_terminal(desk: Desk) -> None:
    path = desk.write("train.py", "x = '\x1b[31m\u202e'\n")
    desk.report(path, (1, 1, 1, 2), message="`'\x1b[31m'` is \x07 loud")
    report = desk.render("full")
    assert not {"\x1b", "\x07", "\u202e"} & set(report)


def test_colour_changes_nothing_but_colour(desk: Desk) -> None:
    import re

    path = desk.write("train.py")
    desk.report(path, context=desk.context(path))
    coloured = desk.render("full", colour=True)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == desk.render("full")


def test_a_file_that_cannot_be_read_is_reported_without_an_excerpt(desk: Desk) -> None:
    desk.report(desk.root / "gone.py", (1, 1, 1, 1), code="TL002", name="unreadable-file", help="")
    assert "|" not in desk.render("full")
