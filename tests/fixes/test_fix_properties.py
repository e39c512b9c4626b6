"""Whatever a fix does to a file, the file parses afterwards, and rows outside the statement stay as they were."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from marks import PATH, fix_of

import trainlint
import trainlint_rules
from trainlint.fixes.edits import CannotFix, Draft, Range, TextEdit, apply_edits, moved
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import (
    GuardStatement,
    InsertBefore,
    Recipe,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    SetArgument,
)
from trainlint.semantics.context import Site

EXAMPLES = Path(__file__).parents[2] / "examples"

WRITTEN_IN_MANY_WAYS = '''\
# -*- coding: utf-8 -*-
"""Doc of
  several rows."""
import os; import sys

for größe in range(3): print(größe, "ü", file=sys.stderr); os.getpid()
if os.environ.get("A"): print("a")
elif len(sys.argv) > 1: print("""b
  c""")
else:
\tprint(
\t\t"d",  # d
\t\tend="",
\t)
@decorate(name="x")
class C(Base, metaclass=make(1)):
    value = f(x for x in (1, 2))

    async def method(self, *, key=lambda a: g(a, *self.b, **self.c)):
        """Doc."""
        async with self.lock(1) as lock, other():
            total += (await self.call(
                a
                , b,
                # c
                c
            )).item()
        return [h(i) for i in range(10) if k(i)], -m(1) ** 2, not n(2), f"{o(3)!r:>{p(4)}}"
try:
    q(1) \\
        .r(2)
except ValueError as error: s(error)
finally:
    t()
'''


@dataclass(frozen=True)
class Source:
    name: str
    text: str

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Place:
    source: Source
    site: Site
    rows: range
    """Rows of the smallest statement around it."""


def _sources() -> list[Source]:
    roots = [Path(trainlint.__file__).parent / "fixes", Path(trainlint_rules.__file__).parent, EXAMPLES]
    files = [file for root in roots for file in sorted(root.rglob("*.py"))[:3]]
    found = [Source(file.name, file.read_text(encoding="utf-8")) for file in files]
    found.append(Source("many ways", WRITTEN_IN_MANY_WAYS))
    found.append(Source("many ways, CRLF", WRITTEN_IN_MANY_WAYS.replace("\n", "\r\n")))
    found.append(Source("many ways, no final line end", WRITTEN_IN_MANY_WAYS.rstrip("\n")))
    return [source for source in found if source.text.strip()]


@lru_cache
def _places() -> list[Place]:
    """All calls of the sources, as Python's own parser places them."""
    return [place for source in _sources() for place in _places_of(source)]


def _places_of(source: Source) -> list[Place]:
    found: list[Place] = []

    def visit(node: ast.AST, rows: range, in_string: bool) -> None:
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            rows = range(first, (node.end_lineno or first) + 1)
        # Before Python 3.12, ast misplaces what stands in f-strings.
        in_string = in_string or isinstance(node, ast.JoinedStr)
        if isinstance(node, ast.Call) and not in_string:
            assert node.end_lineno is not None and node.end_col_offset is not None
            site = Site(PATH, node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, "")
            found.append(Place(source, site, rows))
        for child in ast.iter_child_nodes(node):
            visit(child, rows, in_string)

    visit(ast.parse(source.text), range(0), False)
    return found


RECIPES = st.sampled_from(
    [
        lambda site: SetArgument(site, "key", "value"),
        lambda site: SetArgument(site, "key", "a, b", position=0),
        lambda site: RemoveArgument(site, "end", 0),
        RemoveStatement,
        lambda site: GuardStatement(site, "step % 10 == 0"),
        lambda site: InsertBefore(site, "prepare()"),
        lambda site: ReplaceExpression(site, "{0}.detach()"),
        lambda site: ReplaceExpression(site, "{0} if a else b"),
        lambda site: ReplaceExpression(site, "{0}, 1"),
        lambda site: ReplaceExpression(site, "not {0}"),
        lambda site: ReplaceExpression(site, "other({arguments})"),
    ]
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_rows_outside_the_statement_stay_and_the_file_parses(data: st.DataObject) -> None:
    place = data.draw(st.sampled_from(_places()))
    recipe: Recipe = data.draw(RECIPES)(place.site)
    text = place.source.text
    try:
        after = apply_edits(text, realize(fix_of(recipe), text))
    except CannotFix:
        return
    cst.parse_module(after)
    compile(after, "after.py", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    before_rows, after_rows = text.splitlines(keepends=True), after.splitlines(keepends=True)
    above = place.rows.start - 1
    below = len(before_rows) - (place.rows.stop - 1)
    assert after_rows[:above] == before_rows[:above]
    assert below == 0 or after_rows[-below:] == before_rows[-below:]


@pytest.mark.parametrize("source", _sources(), ids=repr)
def test_every_call_is_found_where_python_places_it(source: Source) -> None:
    for place in _places_of(source):
        realize(fix_of(ReplaceExpression(place.site, "{function}({arguments})")), source.text)


TEXTS = st.text(alphabet="ab\n", max_size=12)


@st.composite
def _edits_of(draw: st.DrawFn, text: str) -> list[TextEdit]:
    bounds = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pairs = zip(bounds[::2], bounds[1::2], strict=False)
    return [TextEdit(start, end, draw(st.text(alphabet="xy", max_size=3))) for start, end in pairs]


@given(data=st.data(), text=TEXTS)
def test_steps_of_a_draft_add_up_to_edits_of_the_original(data: st.DataObject, text: str) -> None:
    draft = Draft(text)
    for _ in range(data.draw(st.integers(0, 4))):
        draft.apply(data.draw(_edits_of(draft.text)))
    edits = draft.edits()
    assert apply_edits(text, edits) == draft.text
    assert all(one.end < two.start for one, two in pairwise(edits))


@given(data=st.data())
def test_a_place_that_no_edit_touches_keeps_its_text(data: st.DataObject) -> None:
    before, inside, after = (data.draw(TEXTS) for _ in range(3))
    text = before + inside + after
    left = data.draw(_edits_of(before))
    right = [
        TextEdit(e.start + len(before + inside), e.end + len(before + inside), e.content)
        for e in data.draw(_edits_of(after))
    ]
    if inside:
        place = moved(Range(len(before), len(before + inside)), [*left, *right])
        assert place is not None
        assert apply_edits(text, [*left, *right])[place.start : place.end] == inside
