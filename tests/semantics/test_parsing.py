"""The quick parse gives the trees that libcst gives, and leaves libcst as it was."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from pathlib import Path

import libcst as cst
import pytest

from trainlint.semantics.extract import WATCHED, extract
from trainlint.semantics.lowering import Lowering
from trainlint.semantics.parsing import parse_module

EXAMPLES = sorted(Path(__file__).parents[2].joinpath("examples").rglob("*.py"))
INSTALLED = sorted(Path(cst.__file__).parent.joinpath("_nodes").glob("*.py"))
"""Files of the installed libcst, which uses the language more widely than training code does."""


@pytest.mark.parametrize("path", [*EXAMPLES, *INSTALLED], ids=lambda path: path.name)
def test_the_tree_is_the_one_that_libcst_makes(path: Path) -> None:
    text = path.read_text("utf-8")
    tree = parse_module(text)
    assert tree.deep_equals(cst.parse_module(text))
    assert tree.code == text


@pytest.mark.parametrize("path", [*EXAMPLES, *INSTALLED], ids=lambda path: path.name)
def test_facts_do_not_depend_on_the_way_of_parsing(path: Path) -> None:
    text = path.read_text("utf-8")
    plain = Lowering(cst.parse_module(text), text.encode(), WATCHED).lower(None)
    printed = Lowering(parse_module(text), text.encode(), WATCHED).lower(None)
    assert extract(text).dump() == plain.dump() == printed.dump()


def classes() -> dict[str, object]:
    names = [name for name in cst.__all__ if dataclasses.is_dataclass(getattr(cst, name))]
    kept = {name: (type(getattr(cst, name)), getattr(cst, name).__init__) for name in names}
    return {**kept, "check": cst.CSTNode.__post_init__}


@pytest.mark.parametrize("text", ["a = b\n", "a = (\n"], ids=["that parses", "that does not"])
def test_libcst_is_as_before_after_a_text(text: str) -> None:
    before = classes()
    with contextlib.suppress(cst.ParserSyntaxError):
        parse_module(text)
    assert classes() == before
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")


def test_nodes_that_other_threads_make_meanwhile_are_the_same() -> None:
    text = EXAMPLES[0].read_text("utf-8") * 4
    own = cst.Arg(cst.Name("a"), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    parser = threading.Thread(target=lambda: [parse_module(text) for _ in range(3)])
    parser.start()
    made = []
    while parser.is_alive():
        made.append(cst.Arg(cst.Name("a"), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))))
    assert all(isinstance(node, cst.Arg) and node.deep_equals(own) for node in made)
