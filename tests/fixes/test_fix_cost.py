"""What it takes to realize the fixes of a file, counted in the characters that are parsed for them."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest
from marks import fix_of, marked

from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import EnsureImport, GuardStatement, Recipe, ReplaceExpression
from trainlint.semantics.context import Site

FUNCTIONS = 20
IMPORTED = "import numpy\n\n"
FUNCTION = "def function_{0}(x):\n    first = x + {0}\n    «print(first)»\n    return first * {0}\n\n\n"

FIXES: dict[str, Callable[[Site], tuple[Recipe, ...]]] = {
    "with an import": lambda site: (EnsureImport(site, "torch"), ReplaceExpression(site, "torch.neg(first)")),
    "with an import, and another condition each": lambda site: (
        EnsureImport(site, "torch"),
        GuardStatement(site, f"torch.rand(1) > {site.row}"),
    ),
    "with a condition each": lambda site: (GuardStatement(site, f"x % 50 == {site.row}"),),
}


@pytest.mark.parametrize("recipes", FIXES.values(), ids=FIXES)
def test_a_file_is_parsed_as_a_whole_once_at_most(
    recipes: Callable[[Site], tuple[Recipe, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text, sites = marked(IMPORTED + "".join(FUNCTION.format(number) for number in range(FUNCTIONS)))
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
