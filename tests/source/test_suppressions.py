"""What a suppression comment silences, and what is left when an unused one is removed."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlint.source.suppressions import MOST_SWITCHES, Kind, Suppressions

NAMES = {"TL201": "sync-in-step", "TL202": "print-in-step", "TL301": "data-parallel"}


def silenced(text: str) -> dict[str, list[int]]:
    """The rows of the text on which each rule is silent."""
    suppressions = Suppressions.parse(text)
    rows = range(1, suppressions.index.rows + 1)
    silent = {code: [row for row in rows if suppressions.find(code, name, row, row)] for code, name in NAMES.items()}
    return {code: rows for code, rows in silent.items() if rows}


ALL_RULES_ON_ROW_1 = {"TL201": [1], "TL202": [1], "TL301": [1]}
SILENCES = {
    "one code": ("x  # trainlint: ignore[TL201]\ny", {"TL201": [1]}),
    "several, names as well": ("x  # trainlint: ignore[TL301, print-in-step]\ny", {"TL202": [1], "TL301": [1]}),
    "a prefix": ("x  # trainlint: ignore[TL2]\ny", {"TL201": [1], "TL202": [1]}),
    "all by name": ("x  # trainlint: ignore[ALL]\ny", ALL_RULES_ON_ROW_1),
    "all": ("x  # trainlint: ignore\ny", ALL_RULES_ON_ROW_1),
    "all with a reason": ("x  # trainlint: ignore it is fine\ny", ALL_RULES_ON_ROW_1),
    "any case and spacing": ("x  #TrainLint :Ignore [tl201,Print-In-Step]\ny", {"TL201": [1], "TL202": [1]}),
    "noqa for all": ("x  # noqa\ny", ALL_RULES_ON_ROW_1),
    "noqa with prose": ("x  # noqa because\ny", ALL_RULES_ON_ROW_1),
    "noqa": ("x  # noqa: TL201\ny", {"TL201": [1]}),
    "noqa shared with others": ("x  # NOQA:F401,TL201 E501 TL202\ny", {"TL201": [1], "TL202": [1]}),
    "noqa with a name": ("x  # noqa: F401, print-in-step\ny", {"TL202": [1]}),
    "noqa of others only": ("x  # noqa: F401\ny", {}),
    "noqa of a code that only starts alike": ("x  # noqa: T201, T20\ny", {}),
    "noqa with words after the codes": ("x  # noqa: TL201 print-in-step is fine too\ny", {"TL201": [1]}),
    "noqa before another tool's comment": ("x  # noqa: TL201  # type: ignore[attr]\ny", {"TL201": [1]}),
    "after another tool's comment": ("x  # type: ignore # trainlint: ignore[TL201]\ny", {"TL201": [1]}),
    "two directives": ("x  # noqa: TL201 # trainlint: ignore[TL301] why\ny", {"TL201": [1], "TL301": [1]}),
    "any row of the logical line": ("f(\n 1,  # noqa: TL201\n 2)\ny", {"TL201": [1, 2, 3]}),
    "the last row of a string": ("f('''\n# noqa\n''')  # noqa: TL201\ny", {"TL201": [1, 2, 3]}),
    "not the body of the block": ("for a in b:  # noqa: TL201\n    c\n", {"TL201": [1]}),
    "not from within strings": ("x = '# noqa'\ny = '''\n# trainlint: ignore\n# trainlint: ignore-file\n'''\n", {}),
    "not by other words": ("x  # trainlint is fine, noqanything\ny", {}),
    "not on the row above": ("# trainlint: ignore[TL201]\nx\n", {"TL201": [1]}),
    "the file": ("x\ny\n# trainlint: ignore-file[TL2] old\n", {"TL201": [1, 2, 3, 4], "TL202": [1, 2, 3, 4]}),
    "the file for all": ("# trainlint: ignore-file", ALL_RULES_ON_ROW_1),
    "a range": ("a\n# trainlint: off[TL201]\nb\n# trainlint: on[TL201]\nc", {"TL201": [2, 3]}),
    "a range to the end": ("a\nb  # trainlint: off[TL201]\nc", {"TL201": [2, 3]}),
    "a range ended for all": ("# trainlint: off[TL201]\na\n# trainlint: on\nb", {"TL201": [1, 2]}),
    "a range for all ended for one": (
        "# trainlint: off\na\n# trainlint: on[print-in-step]\nb\n# trainlint: on\n",
        {"TL201": [1, 2, 3, 4], "TL202": [1, 2], "TL301": [1, 2, 3, 4]},
    ),
    "a range not ended by another": ("# trainlint: off[TL201]\n# trainlint: on[TL301]\na", {"TL201": [1, 2, 3]}),
    "ranges again": ("# trainlint: off[TL301]\n# trainlint: on\na\n# trainlint: off[TL301]", {"TL301": [1, 4]}),
    "windows line ends": ("x  # noqa: TL201\r\ny\r\n", {"TL201": [1]}),
    "broken code": ("x = (\ny  # noqa: TL201", {"TL201": [1, 2]}),
}


@pytest.mark.parametrize(("text", "expected"), SILENCES.values(), ids=SILENCES)
def test_a_suppression_silences(text: str, expected: dict[str, list[int]]) -> None:
    assert silenced(text) == expected


def test_a_finding_that_spans_a_block_is_silenced_on_its_header_only() -> None:
    text = "for a in b:\n    c  # noqa: TL201\n"
    assert Suppressions.parse(text).find("TL201", "sync-in-step", 1, 2) is None


def after_removal(text: str, used: set[str], selected: set[str]) -> str:
    """The text after the removal of what is unused when the rules `used` were found on every row."""
    suppressions = Suppressions.parse(text)
    for row in range(1, suppressions.index.rows + 1):
        for code in used:
            suppressions.find(code, NAMES[code], row, row)
    spans = [span for unused in suppressions.unused(lambda pattern: pattern in selected) for span in unused.removals]
    for start, end in sorted(map(suppressions.index.offsets, spans), reverse=True):
        text = text[:start] + text[end:]
    return text


EVERYTHING = {"TL201", "TL202", "TL301", "TL2", "sync-in-step", "print-in-step", "ALL"}
REMOVALS = {
    # text, rules found on every row, text afterwards
    "the whole comment": ("x  # trainlint: ignore[TL201] why\ny\n", set(), "x\ny\n"),
    "the whole line": ("a\n    # trainlint: ignore-file[TL2]\nb\n", set(), "a\nb\n"),
    "the last line without an end": ("a\n# trainlint: ignore-file", set(), "a\n"),
    "windows line ends": ("a\r\n# trainlint: ignore-file\r\nb # noqa: TL201\r\n", set(), "a\r\nb\r\n"),
    "the first code": ("x  # trainlint: ignore[TL201, TL202] why\n", {"TL202"}, "x  # trainlint: ignore[TL202] why\n"),
    "the last code": ("x  # trainlint: ignore[TL201, TL202]\n", {"TL201"}, "x  # trainlint: ignore[TL201]\n"),
    "the first two": ("x  # noqa: TL201, TL202,TL301\n", {"TL301"}, "x  # noqa: TL301\n"),
    "the last two": ("x  # noqa: TL201 TL202, TL301\n", {"TL201"}, "x  # noqa: TL201\n"),
    "the outer two": ("x  # noqa: TL201, TL202, TL301\n", {"TL202"}, "x  # noqa: TL202\n"),
    "a code said twice": ("x  # noqa: TL201, TL201\n", {"TL201"}, "x  # noqa: TL201\n"),
    "a code under its name as well": (
        "x  # trainlint: ignore[TL2, sync-in-step]\n", {"TL201"}, "x  # trainlint: ignore[sync-in-step]\n",
    ),
    "not other tools' codes": ("x  # noqa: F401, TL201\n", set(), "x  # noqa: F401\n"),
    "not other tools' codes after ours": ("x  # noqa: TL201, TL202, F401 x\n", set(), "x  # noqa: F401 x\n"),
    "not other tools' comments": ("x  # noqa: F401, TL201  # fmt: skip\n", set(), "x  # noqa: F401  # fmt: skip\n"),
    "two directives of a row": (
        "x  # noqa: TL201  # trainlint: ignore[TL202]  # type: ignore\n", set(), "x  # type: ignore\n",
    ),
    "all directives of a row": ("x  # noqa: TL201  # trainlint: ignore[TL202] \n", set(), "x\n"),
    "a directive before another": ("x  # noqa: TL201  # type: ignore\n", set(), "x  # type: ignore\n"),
    "a directive after another": ("x  # type: ignore  # noqa: TL201\n", set(), "x  # type: ignore\n"),
    "a directive between others": ("x  # a: b # noqa: TL201 # c: d\n", set(), "x  # a: b # c: d\n"),
    "never a noqa that speaks to all tools": ("x  # noqa\ny  # noqa:\n", set(), "x  # noqa\ny  # noqa:\n"),
    "the wider of two": (
        "# trainlint: ignore-file[TL201]\nx  # noqa: TL201\n",
        {"TL201"},
        "# trainlint: ignore-file[TL201]\nx  # noqa: TL201\n",
    ),
    "a range with its end": ("# trainlint: off[TL201]\nx\n# trainlint: on[TL201]\ny\n", set(), "x\ny\n"),
    "not a range in use": (
        "# trainlint: off[TL201]\nx\n# trainlint: on[TL201]\n",
        {"TL201"},
        "# trainlint: off[TL201]\nx\n# trainlint: on[TL201]\n",
    ),
    "not the end that another range shares": (
        "# trainlint: off[TL201, TL301]\nx\n# trainlint: on\n",
        {"TL201"},
        "# trainlint: off[TL201]\nx\n# trainlint: on\n",
    ),
    "an end that ends nothing": ("x\n# trainlint: on\n", {"TL201"}, "x\n"),
    "columns count bytes": ("'é😀'  # noqa: TL201\n", set(), "'é😀'\n"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "used", "expected"), REMOVALS.values(), ids=REMOVALS)
def test_removing_what_is_unused_removes(text: str, used: set[str], expected: str) -> None:
    assert after_removal(text, used, EVERYTHING) == expected


def test_rules_that_did_not_run_are_not_called_unused() -> None:
    text = "x  # trainlint: ignore[TL201, TL202]\n# trainlint: off[TL301]\n# trainlint: on[TL301]\n"
    assert after_removal(text, set(), {"TL201"}) == text.replace("TL201, ", "")


def test_the_narrowest_suppression_takes_the_credit() -> None:
    suppressions = Suppressions.parse("# trainlint: ignore-file\n# trainlint: off[TL2]\nx  # noqa: TL201\ny\n")
    kinds = [(found := suppressions.find("TL201", "sync-in-step", row, row)) and found.kind for row in (3, 4)]
    assert kinds == [Kind.NOQA, Kind.OFF]
    assert [unused.suppression.kind for unused in suppressions.unused(lambda _pattern: True)] == [Kind.FILE]


REASONS = {
    "x  # trainlint: ignore[TL201] once per run": "once per run",
    "x  # trainlint: ignore[TL201]: once per run": "once per run",
    "x  # trainlint: ignore[TL201] -- see issue #12 ": "see issue #12",
    "x  # trainlint: ignore[TL201]": "",
    "x  # trainlint: ignore[TL201]  # type: ignore": "",
    "x  # trainlint: ignore-file once": "once",
    "x  # noqa: TL201 - once per run": "once per run",
    "x  # noqa: TL201, F401": "",
}


@pytest.mark.parametrize(("text", "reason"), REASONS.items())
def test_reasons(text: str, reason: str) -> None:
    suppressions = Suppressions.parse(text)
    assert suppressions.all[0].reason == reason
    assert [one.reason for one in suppressions.without_reason()] == ([] if reason else [""])


def test_other_tools_comments_need_no_reason() -> None:
    assert not list(Suppressions.parse("a  # noqa\nb  # noqa: F401\n# trainlint: on\n").without_reason())


MISSPELT = {
    "# trainlint: ingore[TL201]": "the words after trainlint: are ignore, ignore-file, off and on",
    "# trainlint: ignored": "the words after trainlint: are ignore, ignore-file, off and on",
    "# trainlint: ignore[TL201": "the bracket is not closed",
    "# trainlint: ignore[]": "the bracket names no rule",
    "# trainlint: ignore[TL201,]": "a name is missing between the commas",
    "# trainlint: ignore[TL201 TL202]": "TL201 TL202 is neither a code nor a rule's name",
}


@pytest.mark.parametrize(("text", "problem"), MISSPELT.items())
def test_comments_that_cannot_be_understood_silence_nothing_and_say_why(text: str, problem: str) -> None:
    suppressions = Suppressions.parse("x  " + text)
    assert suppressions.all == []
    assert [(one.problem, one.text, one.row) for one in suppressions.misspelt] == [(problem, text, 1)]


def test_a_file_without_suppressions_is_not_scanned() -> None:
    suppressions = Suppressions.parse("x = 1  # a comment\n" * 10)
    assert suppressions.find("TL201", "sync-in-step", 1, 1) is None
    assert "lexed" not in vars(suppressions.index)


@given(st.text(alphabet="#noqatrilgef-[]:, TL201\n'\"é") | st.sampled_from(["# noqa:,TL201", "# trainlint: ignore[,]"]))
def test_any_comment_is_read_and_can_be_removed(text: str) -> None:
    text = "x  # noqa: TL201, " + text + "\n# trainlint: ignore" + text
    suppressions = Suppressions.parse(text)
    spans = [span for unused in suppressions.unused(lambda _pattern: True) for span in unused.removals]
    offsets = sorted(map(suppressions.index.offsets, spans))
    assert all(start <= end for start, end in offsets)
    assert all(before[1] <= after[0] for before, after in pairwise(offsets))


def test_long_comments_take_linear_time() -> None:
    for filler in ("#", " ", "# ", "a", "# a:", "#a:", "TL201,", "[", "# noqa: "):
        body = "x  # noqa trainlint: " + filler * (50_000 // len(filler))
        start = time.process_time()
        Suppressions.parse(body)
        assert time.process_time() - start < 2, filler


MANY = {
    "comments on a row": lambda count: "x  " + "# trainlint: ignore[TL201] " * count,
    "comments on a row that is not ASCII": lambda count: "x  " + "# trainlint: ignore[TL201] \xe9 " * count,
    "noqa comments on a row": lambda count: "x  " + "# noqa: TL201 " * count,
    "codes of a comment": lambda count: "x  # noqa: " + ", ".join(["TL201"] * count),
    "patterns of a comment": lambda count: "x  # trainlint: ignore[" + ", ".join(["TL201"] * count) + "]",
    "rows": lambda count: "x  # noqa: TL201\n" * count,
    "rows of one expression": lambda count: "f(\n" + "x,  # trainlint: ignore[TL201]\n" * count + ")",
    "ranges": lambda count: "# trainlint: off[TL201]\n# trainlint: on[TL202]\n" * count,
    "files": lambda count: "# trainlint: ignore-file[TL201]\n" * count,
}


@pytest.mark.parametrize("text_of", MANY.values(), ids=MANY)
def test_many_suppressions_take_linear_time(text_of: Callable[[int], str]) -> None:
    start = time.process_time()
    suppressions = Suppressions.parse(text_of(8_000))
    for row in range(1, suppressions.index.rows + 1):
        suppressions.find("TL202", "print-in-step", row, row)
        suppressions.names("TL003", "unused-suppression", row)
    list(suppressions.unused(lambda _pattern: True))
    list(suppressions.without_reason())
    assert time.process_time() - start < 10


def test_the_end_of_a_range_is_not_judged_where_there_are_too_many() -> None:
    ends = "# trainlint: on[TL202]\n" * (MOST_SWITCHES + 1)
    assert not list(Suppressions.parse(ends).unused(lambda _pattern: True))


def test_the_documented_forms_are_read() -> None:
    from trainlint.source import suppressions

    forms = inspect.cleandoc(suppressions.__doc__ or "")
    assert {one.kind for one in Suppressions.parse(forms).all} >= {Kind.LINE, Kind.NOQA, Kind.FILE, Kind.OFF}
