"""Lowered code, decoded once however often it is interpreted, with what its nodes tell by themselves."""

from __future__ import annotations

from pathlib import Path

from trainlint.semantics import code
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.node_facts import NodeFacts

_MOST_REPLACED = 300_000
"""Characters of code that are replaced before what is known of its nodes is dropped, with what is known of the others:
some megabytes."""


class Decoded:
    """The code of files. Where the text of a statement or a body is another than before, it takes its place."""

    def __init__(self) -> None:
        self.nodes = NodeFacts()
        self._units: dict[tuple[Path, int], tuple[str, code.Statement]] = {}
        self._bodies: dict[tuple[Path, int], tuple[str, code.Block]] = {}
        self._replaced = 0

    def unit(self, path: Path, facts: ModuleFacts, index: int) -> code.Statement:
        """The top-level statement `index` of a file."""
        text = facts.lines[index]
        known = self._units.get((path, index))
        if known is None or known[0] != text:
            self._replaced += 0 if known is None else len(known[0])
            known = self._units[path, index] = text, facts.unit(index)
        return known[1]

    def body(self, path: Path, facts: ModuleFacts, index: int) -> code.Block:
        """The body of function `index` of a file."""
        text = facts.body_line(index)
        known = self._bodies.get((path, index))
        if known is None or known[0] != text:
            self._replaced += 0 if known is None else len(known[0])
            known = self._bodies[path, index] = text, facts.body(index)
        return known[1]

    def forget_replaced(self) -> None:
        """Let go of what is known of nodes that have been replaced, once these are many."""
        if self._replaced > _MOST_REPLACED:
            self.nodes = NodeFacts()
            self._replaced = 0
