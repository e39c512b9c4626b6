"""Several fixes in one pass, and passes until nothing changes."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import pytest
from marks import PATH, fix_of, marked

from trainlint.fixes.apply import Applied, Converged, apply_fixes, converge
from trainlint.fixes.edits import apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import (
    Applicability,
    DropImport,
    EnsureImport,
    Fix,
    GuardStatement,
    RemoveStatement,
    RemoveText,
    ReplaceExpression,
    SetArgument,
)
from trainlint.semantics.context import Site
from trainlint.source.positions import LineIndex


def test_fixes_apart_from_each_other_are_all_applied() -> None:
    text, [first, second] = marked("«f(a)»\n«g(b)»\n")
    fixes = [fix_of(SetArgument(second, "k", "1")), fix_of(SetArgument(first, "k", "1"))]
    assert apply_fixes(text, fixes) == Applied("f(a, k=1)\ng(b, k=1)\n", (0, 1), ())


def test_of_two_fixes_of_the_same_code_the_first_in_the_text_wins() -> None:
    text, [outer, inner] = marked("a(«f(b, «g(c)»)»)\n")
    fixes = [fix_of(ReplaceExpression(inner, "h()")), fix_of(ReplaceExpression(outer, "i()"))]
    applied = apply_fixes(text, fixes)
    assert applied == Applied("a(i())\n", (1,), ((0, "another fix changes the same code"),))


def test_a_fix_is_applied_whole_or_not_at_all() -> None:
    text, [first, second] = marked("«f(a)»\n«g(b)»\n")
    both = fix_of(SetArgument(first, "k", "1"), ReplaceExpression(second, "x"))
    one = fix_of(ReplaceExpression(first, "y"))
    assert apply_fixes(text, [one, both]).text == "y\ng(b)\n"


def test_equal_imports_merge_and_others_follow_each_other() -> None:
    text, [first, second, third] = marked("import a\n«b»\n«c»\n«d»\n")
    fixes = [
        fix_of(EnsureImport(first, "torch"), ReplaceExpression(first, "torch.b")),
        fix_of(EnsureImport(second, "torch"), ReplaceExpression(second, "torch.c")),
        fix_of(EnsureImport(third, "time"), ReplaceExpression(third, "time.d")),
    ]
    applied = apply_fixes(text, fixes)
    assert applied.text == "import time\n\nimport a\nimport torch\ntorch.b\ntorch.c\ntime.d\n"
    assert applied.applied == (0, 1, 2)


GUARDED_TOGETHER = {
    "two statements": (
        "for i in x:\n    «a()»\n    «b()»\n    c()\n",
        "for i in x:\n    if i % 50 == 0:\n        a()\n        b()\n    c()\n",
    ),
    "three statements": (
        "«a()»\n«b(\n    1,\n)»\n«c()»  # why\n",
        "if i % 50 == 0:\n    a()\n    b(\n        1,\n    )\n    c()  # why\n",
    ),
    "below a guard that is there": (
        "if i % 50 == 0:\n    a()\n«b()»\n",
        "if i % 50 == 0:\n    a()\n    b()\n",
    ),
    "above a guard that is there": (
        "«a()»\nif i % 50 == 0:\n    b()\n    i = 2\n",
        "if i % 50 == 0:\n    a()\n    b()\n    i = 2\n",
    ),
    "with Windows line ends": ("«a()»\r\n«b()»\r\n", "if i % 50 == 0:\r\n    a()\r\n    b()\r\n"),
    "not across other statements": (
        "«a()»\nc()\n«b()»\n",
        "if i % 50 == 0:\n    a()\nc()\nif i % 50 == 0:\n    b()\n",
    ),
    "not across a comment": (
        "«a()»\n# why\n«b()»\n",
        "if i % 50 == 0:\n    a()\n# why\nif i % 50 == 0:\n    b()\n",
    ),
    "not below a guard with another condition": (
        "if i % 10 == 0:\n    a()\n«b()»\n",
        "if i % 10 == 0:\n    a()\nif i % 50 == 0:\n    b()\n",
    ),
    "not below a guard that changes what is tested": (
        "if i % 50 == 0:\n    i += 1\n«b()»\n",
        "if i % 50 == 0:\n    i += 1\nif i % 50 == 0:\n    b()\n",
    ),
    "not below a guard with an else": (
        "if i % 50 == 0:\n    a()\nelse:\n    c()\n«b()»\n",
        "if i % 50 == 0:\n    a()\nelse:\n    c()\nif i % 50 == 0:\n    b()\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), GUARDED_TOGETHER.values(), ids=GUARDED_TOGETHER)
def test_guards_side_by_side_become_one(before: str, after: str) -> None:
    text, sites = marked(before)
    fixes = [fix_of(GuardStatement(site, "i % 50 == 0")) for site in sites]
    assert apply_fixes(text, fixes).text == after
    if len(fixes) == 1:
        assert apply_edits(text, realize(fixes[0], text)) == after


def test_guards_that_no_fix_made_stay_apart() -> None:
    text, [site] = marked("if a:\n    b()\nif a:\n    c()\n«d()»\n")
    applied = apply_fixes(text, [fix_of(GuardStatement(site, "e"))])
    assert applied.text == "if a:\n    b()\nif a:\n    c()\nif e:\n    d()\n"


def test_an_import_goes_with_the_last_of_its_uses() -> None:
    text, [first, second] = marked("from m import a\n«a(1)»\n«a(2)»\n")
    fixes = [fix_of(ReplaceExpression(s, "b({arg0})"), DropImport(s, "m", "a")) for s in (first, second)]
    assert apply_fixes(text, fixes).text == "b(1)\nb(2)\n"
    assert apply_fixes(text, fixes[:1]).text == "from m import a\nb(1)\na(2)\n"


def test_a_fix_that_only_drops_an_import_needs_it_unused() -> None:
    text, [site] = marked("«from m import a»\na\n")
    applied = apply_fixes(text, [fix_of(DropImport(site, "m", "a"))])
    assert applied == Applied(text, (), ((0, "the import that it removes is still in use"),))


def test_fixes_that_empty_a_block_together_leave_code_that_parses() -> None:
    text, [first, second] = marked("if x:\n    «f()»\n    «g()»\n")
    applied = apply_fixes(text, [fix_of(RemoveStatement(first)), fix_of(RemoveStatement(second))])
    assert applied.text == "if x:\n    g()\n"
    assert applied.skipped == ((1, "together with other fixes, the code would not parse"),)


def test_what_cannot_be_applied_is_skipped_with_its_reason() -> None:
    text, [site] = marked("x = «f()»\n")
    fixes = [fix_of(RemoveStatement(site)), Fix(Applicability.DISPLAY, "Think"), fix_of(SetArgument(site, "k", "1"))]
    applied = apply_fixes(text, fixes)
    assert applied.applied == (2,)
    assert dict(applied.skipped) == {
        0: "the statement that holds it gives a name its value",
        1: "it is advice without edits",
    }


def _calls(text: str, name: str) -> list[Site]:
    """The places of the calls `name(…)` without brackets inside."""
    index = LineIndex(text)
    spans = [index.span(*found.span()) for found in re.finditer(rf"\b{name}\([^()]*\)", text)]
    return [Site(PATH, span.row, span.column, span.end_row, span.end_column, "") for span in spans]


def test_comments_by_the_thousand_are_removed_in_time_that_grows_with_their_number() -> None:
    def seconds(count: int) -> float:
        text, sites = marked("def f():\n" + "    a  «# b»\n" * count)
        started = time.process_time()
        assert apply_fixes(text, [fix_of(RemoveText(site)) for site in sites]).text == "def f():\n" + "    a\n" * count
        return time.process_time() - started

    # the collector may look at what other tests have left
    few, many = (min(seconds(count) for _ in range(5)) for count in (500, 4_000))
    assert many < 4 * 8 * few


def test_a_fix_that_changes_places_far_apart_clashes_at_each_of_them() -> None:
    text, [first, second, third] = marked("«f(a)»\n«g(b)»\n«h(c)»\n")
    ends = fix_of(SetArgument(first, "k", "1"), SetArgument(third, "k", "1"))
    fixes = [ends, fix_of(SetArgument(second, "k", "1")), fix_of(ReplaceExpression(third, "i()"))]
    applied = apply_fixes(text, fixes)
    assert applied == Applied("f(a, k=1)\ng(b, k=1)\nh(c, k=1)\n", (0, 1), ((2, "another fix changes the same code"),))


def test_fixes_of_the_same_call_converge_over_several_rounds() -> None:
    def lint(text: str) -> Sequence[Fix]:
        """Each call of f wants two arguments; the fixes insert at the same place, so one round takes one of them."""
        return [
            fix_of(SetArgument(site, keyword, "1"))
            for site in _calls(text, "f")
            for keyword in ("a", "b")
            if f"{keyword}=" not in text.splitlines()[site.row - 1]
        ]

    outcome = converge("f()\nf(c)\n", lint)
    assert outcome == Converged("f(a=1, b=1)\nf(c, a=1, b=1)\n", 2, 4, True)


def test_fixes_that_undo_each_other_end() -> None:
    def lint(text: str) -> Sequence[Fix]:
        return [fix_of(ReplaceExpression(site, "g()")) for site in _calls(text, "f")] + [
            fix_of(ReplaceExpression(site, "f()")) for site in _calls(text, "g")
        ]

    assert not converge("f()\n", lint).converged


def test_a_fix_that_never_ends_stops_after_the_rounds() -> None:
    def lint(text: str) -> Sequence[Fix]:
        return [fix_of(ReplaceExpression(site, "1 + {0}")) for site in _calls(text, "f")]

    assert converge("f()\n", lint, rounds=3) == Converged("1 + (1 + (1 + f()))\n", 3, 3, False)


def test_nothing_to_fix_converges_at_once() -> None:
    assert converge("a\n", lambda text: []) == Converged("a\n", 0, 0, True)
