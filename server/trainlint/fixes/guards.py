"""Guards with the same condition that fixes leave side by side: one guard does for both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from trainlint.fixes.edits import CannotFix, Range, TextEdit
from trainlint.fixes.tree import Tree, line_end, line_start

_HEAD = re.compile(r"\s*(?P<head>if (?P<test>[^\r\n]+):)(?:\r\n?|\n)[ \t]*\Z")


def merge_guards(text: str, edits: Sequence[TextEdit]) -> list[TextEdit]:
    """The edits of `text` that merge guards which `edits`, in order, have made with those right above and below."""
    made = list(_guards_made(edits))
    if not any(text.count(test) > 1 for _, test in made):
        # nothing else stands under the same condition
        return []
    try:
        return list(dict.fromkeys(edit for start, _ in made for edit in _merged(_tree_around(text, start), start)))
    except CannotFix:
        return []


def _tree_around(text: str, start: int) -> Tree:
    """The tree of the statements beside the one at `start`."""
    at_top = line_start(text, start) == start
    return Tree.of_file(text) if at_top else Tree.around(text, Range(start, start))


def _merged(tree: Tree, start: int) -> Iterator[TextEdit]:
    """The edits that merge the guard at `start` with those beside it."""
    for node in tree.nodes(cst.If):
        if tree.inner(node).start == start:
            for above, below in _neighbours(tree, node):
                if _go_together(tree, above, below):
                    yield _without_head(tree, below)


def _guards_made(edits: Sequence[TextEdit]) -> Iterator[tuple[int, str]]:
    """Where the guards that edits insert start in the text that the edits leave, each with its condition."""
    shift = 0
    for edit in edits:
        found = _HEAD.match(edit.content) if edit.start == edit.end else None
        if found is not None:
            yield edit.start + shift + found.start("head"), found["test"].strip()
        shift += len(edit.content) - (edit.end - edit.start)


def _neighbours(tree: Tree, node: cst.If) -> Iterator[tuple[cst.If, cst.If]]:
    block = tree.parent(node)
    if not isinstance(block, cst.IndentedBlock | cst.Module):
        return
    index = block.body.index(node)
    around = block.body[max(index - 1, 0) : index + 2]
    for above, below in pairwise(around):
        if isinstance(above, cst.If) and isinstance(below, cst.If):
            yield above, below


def _go_together(tree: Tree, above: cst.If, below: cst.If) -> bool:
    """Whether the body of the second can run under the first, which must not change what the condition tells."""
    if above.orelse is not None or below.orelse is not None:
        return False
    same_test = tree.source(tree.whole(above.test)) == tree.source(tree.whole(below.test))
    blocks = isinstance(above.body, cst.IndentedBlock) and isinstance(below.body, cst.IndentedBlock)
    if not (same_test and blocks and _only_calls(above.body)):
        return False
    start = tree.inner(below).start
    side_by_side = line_end(tree.text, tree.inner(above).end) == line_start(tree.text, start)
    bare_head = tree.text[start : line_end(tree.text, start)].rstrip() == f"if {tree.source(tree.whole(below.test))}:"
    return side_by_side and bare_head and _indentation(tree, above) == _indentation(tree, below)


def _only_calls(body: cst.BaseSuite) -> bool:
    return all(
        isinstance(line, cst.SimpleStatementLine) and all(isinstance(small, cst.Expr) for small in line.body)
        for line in body.body
    )


def _indentation(tree: Tree, node: cst.If) -> str:
    return tree.indentation(tree.inner(node.body.body[0]).start)


def _without_head(tree: Tree, node: cst.If) -> TextEdit:
    start = tree.inner(node).start
    return TextEdit(line_start(tree.text, start), line_end(tree.text, start), "")
