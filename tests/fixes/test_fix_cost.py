"""What it takes to realize the fixes of a file, counted in the characters that are parsed for them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import libcst as cst
import pytest
from marks import fix_of, marked
from tests.counted_calls import calls_of

from trainlint.fixes.edits import apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import (
    DropImport,
    EnsureImport,
    GuardStatement,
    Recipe,
    RemoveStatement,
    ReplaceExpression,
)
from trainlint.semantics.context import Site

FUNCTIONS = 20
IMPORTED = "import numpy\n\n"
FUNCTION = """def function_{0}(x):
    first = numpy.abs(x) + {0}
    «print(first)»
    if x % 50 == 0:
        print(x)
    return first * {0}


"""

FIXES: dict[str, Callable[[Site], tuple[Recipe, ...]]] = {
    "with an import": lambda site: (EnsureImport(site, "torch"), ReplaceExpression(site, "torch.neg(first)")),
    "with an import, and another condition each": lambda site: (
        EnsureImport(site, "torch"),
        GuardStatement(site, f"torch.rand(1) > {site.row}"),
    ),
    "with a condition each": lambda site: (GuardStatement(site, f"x % 50 == {site.row}"),),
    "with a condition that stands elsewhere too": lambda site: (GuardStatement(site, "x % 50 == 0"),),
    "with an import that stays in use": lambda site: (RemoveStatement(site), DropImport(site, "numpy", "")),
}
FILES = {
    "functions": IMPORTED + "".join(FUNCTION.format(number) for number in range(FUNCTIONS)),
    "methods": IMPORTED
    + "class Model:\n    def __init__(self):\n        self.size = 1\n\n"
    + "".join(textwrap.indent(FUNCTION.format(number), "    ") for number in range(FUNCTIONS)),
}


@pytest.mark.parametrize("source", FILES.values(), ids=FILES)
@pytest.mark.parametrize("recipes", FIXES.values(), ids=FIXES)
def test_a_file_is_parsed_as_a_whole_once_at_most(
    recipes: Callable[[Site], tuple[Recipe, ...]], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, sites = marked(source)
    parsed: list[str] = []

    def parse(source: str) -> cst.Module:
        parsed.append(source)
        return parse_module(source)

    parse_module = cst.parse_module
    monkeypatch.setattr(cst, "parse_module", parse)
    for site in sites:
        assert realize(fix_of(*recipes(site)), text)
    assert sum(len(source) > len(text) / 2 for source in parsed) <= 1
    assert sum(map(len, parsed)) < 5 * len(text)


def test_one_more_import_costs_little_in_a_long_script() -> None:
    rows = "".join(f"first_{number} = x + {number}\n" for number in range(2_000))
    text, [site] = marked(f"import numpy\n{rows}«print(first_1)»\n")
    first = calls_of(lambda: realize(fix_of(EnsureImport(site, "torch")), text))
    other = calls_of(lambda: realize(fix_of(EnsureImport(site, "math")), text))
    assert other < first / 20


@pytest.mark.parametrize(
    ("source", "fixed"),
    [
        (
            "class A:\n    «a()»\n    def f(self):\n        b()\n",
            "class A:\n    def f(self):\n        b()\n",
        ),
        (
            "class A:\n    def f(self):\n        «b()»\n    def g(self):\n        b()\n",
            "class A:\n    def f(self):\n        pass\n    def g(self):\n        b()\n",
        ),
        (
            "@d\nclass A(B,\n  C):  # why\n  '''text\nof it'''\n  @e(\n  1)\n  # note\n  def f(self):\n"
            "    c()\n    «b()»\n\n# end\n  y = 2\n",
            "@d\nclass A(B,\n  C):  # why\n  '''text\nof it'''\n  @e(\n  1)\n  # note\n  def f(self):\n"
            "    c()\n\n# end\n  y = 2\n",
        ),
        (
            "class A:\n\tx = 1\n\tasync def f(self):\n\t\tif c: «b()»\n\tif x:\n\t\tdef g(self): pass\n",
            "class A:\n\tx = 1\n\tasync def f(self):\n\t\tpass\n\tif x:\n\t\tdef g(self): pass\n",
        ),
        (
            "class A:\n    if x:\n        y = 1\n    else:\n        def f(self):\n            «b()»\n            c()\n",
            "class A:\n    if x:\n        y = 1\n    else:\n        def f(self):\n            c()\n",
        ),
        ("class A:\n    def f(self): «b()»\n    y = 1\n", "class A:\n    def f(self): pass\n    y = 1\n"),
        (
            "class A:\n    x = 1\n\f\n    def f(self):\n        c()\n        «b()»\n",
            "class A:\n    x = 1\n\f\n    def f(self):\n        c()\n",
        ),
        ("class A: x = «b()»; y = 2\n", None),
    ],
)
def test_what_stands_beside_a_method_stays_as_it_is(source: str, fixed: str | None) -> None:
    text, [site] = marked(source)
    if fixed is None:
        fixed, fix = text.replace("b()", "c()"), fix_of(ReplaceExpression(site, "c()"))
    else:
        fix = fix_of(RemoveStatement(site))
    assert apply_edits(text, realize(fix, text)) == fixed


def test_an_import_is_dropped_where_a_fix_takes_its_last_use() -> None:
    text, [site] = marked("import gc\n\n\nclass A:\n    def f(self):\n        x()\n        «gc.collect()»\n")
    edits = realize(fix_of(RemoveStatement(site), DropImport(site, "gc", "")), text)
    assert apply_edits(text, edits) == "class A:\n    def f(self):\n        x()\n"
