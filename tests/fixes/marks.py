"""Test sources with marked places: `«…»` around what a recipe is about, nested or one after the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from trainlint.fixes.edits import apply_edits
from trainlint.fixes.realize import realize
from trainlint.fixes.recipe import Applicability, Fix, Recipe
from trainlint.semantics.context import Site
from trainlint.source.positions import LineIndex

PATH = Path("train.py")


def marked(source: str, path: Path = PATH) -> tuple[str, list[Site]]:
    """The source without its marks, and the marked places in the order of their opening marks."""
    text = ""
    places: list[list[int]] = []
    opened: list[int] = []
    for character in source:
        if character == "«":
            opened.append(len(places))
            places.append([len(text)])
        elif character == "»":
            places[opened.pop()].append(len(text))
        else:
            text += character
    index = LineIndex(text)
    return text, [_site(index, start, end, path) for start, end in places]


def _site(index: LineIndex, start: int, end: int, path: Path) -> Site:
    span = index.span(start, end)
    return Site(path, span.row, span.column, span.end_row, span.end_column, "")


def fix_of(*recipes: Recipe) -> Fix:
    return Fix(Applicability.SAFE, "Change it", recipes)


def fixed(source: str, *recipes: Callable[[Site], Recipe]) -> str:
    """The source after one fix made of recipes for its only marked place."""
    text, sites = marked(source)
    return apply_edits(text, realize(fix_of(*(recipe(sites[0]) for recipe in recipes)), text))
