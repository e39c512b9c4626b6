"""Mentions of library names that some rules are about wherever they stand: no interpretation, one file at a time."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from trainlint.semantics import code
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import NameUse, Site
from trainlint.semantics.text import dotted
from trainlint.semantics.vocabulary import GuardKind

WATCHED_PREFIXES = ("torch.cuda.amp.", "torch.cpu.amp.", "torch.utils.checkpoint.")
_HINT = re.compile(r'"amp"|(?:cuda|cpu)\.amp|"checkpoint"|utils\.checkpoint')
"""Every use of a watched name, or the import that makes it one, looks like this in lowered code; a file without it is
not read further."""


def name_uses(path: Path, facts: ModuleFacts, decoded: Decoded) -> list[NameUse]:
    """The uses of watched library names in one file, in source order."""
    if not any(_HINT.search(line) for line in facts.lines):
        return []
    scan = _Scan(path, facts, decoded)
    for index, row in enumerate(facts.unit_rows):
        scan.unit(decoded.unit(path, facts, index), row)
    return sorted(scan.found, key=lambda use: (use.site.row, use.site.column))


class _Scan:
    def __init__(self, path: Path, facts: ModuleFacts, decoded: Decoded) -> None:
        self.path = path
        self.facts = facts
        self.decoded = decoded
        self.aliases: dict[str, str] = {}
        self.guarded: set[str] = set()
        """Names whose import is one of several, by what the installed release offers."""
        self.found: list[NameUse] = []

    def unit(self, statement: code.Statement, row: int) -> None:
        self._visit(statement, row, "", ())

    def _visit(self, node: Any, row: int, symbol: str, under: tuple[GuardKind, ...]) -> None:
        if isinstance(node, code.Import | code.ImportFrom):
            self._imports(node)
            if GuardKind.EXCEPTIONAL in under:
                self.guarded |= {alias.bound or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, code.Define):
            defaults = (parameter.default for parameter in node.parameters)
            for decorator in node.decorators:
                self._decorator(decorator, row, symbol, under)
            for default in defaults:
                self._visit(default, row, symbol, under)
            name = f"{symbol}.{node.name}" if symbol else node.name
            if _HINT.search(self.facts.body_line(node.body)) or self._mentions_alias(node.body):
                for statement in self.decoded.body(self.path, self.facts, node.body):
                    self._visit(statement, row, name, under)
        elif isinstance(node, code.DefineClass):
            name = f"{symbol}.{node.name}" if symbol else node.name
            for member in node.members:
                self._visit(member.statement, row + member.row, name, under)
        elif isinstance(node, code.Assign):
            # an annotation makes nothing that warns when it runs
            for part in (*node.targets, node.value):
                self._visit(part, row, symbol, under)
        elif isinstance(node, code.Try):
            self._try(node, row, symbol, under)
        elif isinstance(node, code.If | code.Conditional):
            self._condition(node, row, symbol, under)
        elif isinstance(node, code.Call):
            self._mention(node.function, row, symbol, under, called=True)
            for argument in node.arguments:
                self._visit(argument.value, row, symbol, under)
        elif isinstance(node, code.Name | code.Attribute):
            self._mention(node, row, symbol, under, called=False)
        elif isinstance(node, tuple):
            for part in node:
                if isinstance(part, tuple):
                    self._visit(part, row, symbol, under)

    def _decorator(self, node: code.Expression, row: int, symbol: str, under: tuple[GuardKind, ...]) -> None:
        """What a decorator is given to look at, such as a class whose parameters it copies, is marked so."""
        before = len(self.found)
        self._visit(node, row, symbol, under)
        if isinstance(node, code.Call):
            given = {argument.value.at for argument in node.arguments if isinstance(argument.value, code.Name)}
            places = {(row + start, column) for start, column, _, _ in map(code.unpack, given)}
            for index in range(before, len(self.found)):
                use = self.found[index]
                if (use.site.row, use.site.column) in places:
                    self.found[index] = replace(use, given_to_decorator=True)

    def _mentions_alias(self, body: int) -> bool:
        line = self.facts.body_line(body)
        return any(f'"{alias}"' in line for alias, name in self.aliases.items() if name.startswith(WATCHED_PREFIXES))

    def _try(self, node: code.Try, row: int, symbol: str, under: tuple[GuardKind, ...]) -> None:
        falls_back = any(_names_import_error(handler.type) for handler in node.handlers)
        inside = (*under, GuardKind.EXCEPTIONAL) if falls_back else under
        self._visit(node.body, row, symbol, inside)
        for handler in node.handlers:
            self._visit(handler.body, row, symbol, inside)
        self._visit(node.orelse, row, symbol, under)
        self._visit(node.final, row, symbol, under)

    def _condition(self, node: code.If | code.Conditional, row: int, symbol: str, under: tuple[GuardKind, ...]) -> None:
        self._visit(node.test, row, symbol, under)
        inside = (*under, GuardKind.EXCEPTIONAL) if _tests_version(node.test) else under
        self._visit(node.body, row, symbol, inside)
        self._visit(node.orelse, row, symbol, inside)

    def _imports(self, node: code.Import | code.ImportFrom) -> None:
        for alias in node.names:
            if isinstance(node, code.Import):
                first = alias.name.partition(".")[0]
                self.aliases[alias.bound or first] = alias.name if alias.bound else first
            elif not node.level:
                self.aliases[alias.bound or alias.name] = f"{node.module}.{alias.name}"

    def _mention(
        self, node: code.Expression, row: int, symbol: str, under: tuple[GuardKind, ...], *, called: bool
    ) -> None:
        path = dotted(node)
        first, _, rest = path.partition(".")
        if not path:
            # a chain that starts at a call or an item: look into what it starts from
            for part in node:
                if isinstance(part, tuple):
                    self._visit(part, row, symbol, under)
            return
        name = self.aliases.get(first)
        full = f"{name}.{rest}" if name and rest else name
        if full is None or not full.startswith(WATCHED_PREFIXES):
            return
        start, column, end, end_column = code.unpack(node.at)
        site = Site(self.path, row + start, column, row + end, end_column, symbol)
        if first in self.guarded:
            under = (*under, GuardKind.EXCEPTIONAL)
        self.found.append(NameUse(full, site, called, under))


def _names_import_error(node: code.Expression | None) -> bool:
    if node is None:
        return True
    return any(
        isinstance(item, code.Name) and item.id in ("ImportError", "ModuleNotFoundError", "AttributeError", "Exception")
        for item in code.walk(node)
    )


def _tests_version(test: code.Expression) -> bool:
    words = " ".join(
        item.id if isinstance(item, code.Name) else item.name
        for item in code.walk(test)
        if isinstance(item, code.Name | code.Attribute)
    ).lower()
    return (
        "version" in words
        or "greater_equal" in words
        or "is_torch" in words
        or "torch_1" in words
        or "torch_2" in words
        or "hasattr" in words
    )
