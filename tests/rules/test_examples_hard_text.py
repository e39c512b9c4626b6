"""The fixes of every example, on the same program written in ways that are hard to edit."""

from __future__ import annotations

import ast
import codecs
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import libcst as cst
import libcst.matchers as m
import pytest
from test_examples import FIXED, Linter, unmarked

from trainlint.fixes.apply import converge
from trainlint.lint.rule import Example, FileRule, Rule
from trainlint.source.documents import decode

Rewrite: TypeAlias = Callable[[str], str]
LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Case:
    rule: type[Rule]
    example: Example

    def __str__(self) -> str:
        return f"{self.rule.code} {self.example.because}"


CASES = [Case(rule, example) for rule, example in FIXED]


@dataclass(frozen=True)
class Fixed:
    text: str
    rounds: int
    left: int
    """Fixes with edits that the fixed text still gets."""


def fix(case: Case, text: str, folder: Path) -> Fixed:
    linter, files, entry = Linter(case.rule, folder), unmarked(case.example.files), case.example.entry
    offered: list[int] = []

    def lint(written: str) -> list[object]:
        fixes = linter.fixes(files | {entry: written}, entry)
        offered.append(sum(bool(one.recipes) for one in fixes))
        return fixes

    outcome = converge(text, lint)  # type: ignore[arg-type]
    assert outcome.converged
    return Fixed(outcome.text, outcome.rounds, offered[-1])


def source(case: Case) -> str:
    return unmarked(case.example.files)[case.example.entry]


def wanted(case: Case) -> str:
    assert case.example.fixed is not None
    return case.example.fixed[case.example.entry]


# ------------------------------------------------------------------------------------------------------ ways to write


def line_ends(*ends: str) -> Rewrite:
    def rewrite(text: str) -> str:
        chosen = cycle(ends)
        return "".join(line + next(chosen) for line in text.split("\n")[:-1])

    return rewrite


def below(head: str) -> Rewrite:
    return lambda text: head + text


def an_argument_a_row(comment: str = "") -> Rewrite:
    """Puts every argument on a row of its own, with a comma at the end and this comment after it."""
    break_ = cst.ParenthesizedWhitespace(
        first_line=cst.TrailingWhitespace(comment=cst.Comment(comment) if comment else None),
        indent=True,
        last_line=cst.SimpleWhitespace("        "),
    )

    def rewrite(call: cst.Call) -> cst.Call:
        if not call.args or any(isinstance(one.value, cst.GeneratorExp) for one in call.args):
            return call
        rows = [one.with_changes(comma=cst.Comma(whitespace_after=break_)) for one in call.args]
        return call.with_changes(args=rows, whitespace_before_args=break_)

    return _calls(rewrite)


def continued(call: cst.Call) -> cst.Call:
    """Continues the row by a backslash, before the arguments."""
    return call.with_changes(whitespace_after_func=cst.SimpleWhitespace(" \\\n  "))


def _calls(rewrite: Callable[[cst.Call], cst.Call]) -> Rewrite:
    """Rewrites all calls, but for those in f-strings, which may hold no line ends."""
    return lambda text: cst.parse_module(text).visit(_Calls(rewrite)).code


class _Calls(m.MatcherDecoratableTransformer):
    def __init__(self, rewrite: Callable[[cst.Call], cst.Call]) -> None:
        super().__init__()
        self.rewrite = rewrite

    @m.call_if_not_inside(m.FormattedString())
    @m.leave(m.Call())
    def rewritten(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        return self.rewrite(updated)


LAYOUTS: dict[str, Rewrite] = {
    "CRLF": line_ends("\r\n"),
    "carriage returns": line_ends("\r"),
    "all line ends in turn": line_ends("\r\n", "\n", "\r"),
    "tabs": lambda text: re.sub(r"^(?:    )+", lambda found: "\t" * (len(found[0]) // 4), text, flags=re.MULTILINE),
    "no line end at the end": lambda text: text.removesuffix("\n"),
    "blanks at the end of rows": lambda text: re.sub(r"$(?=\n)", " \t", text, flags=re.MULTILINE),
    "blank rows between all rows": lambda text: text.replace("\n", "\n\n"),
    "form feeds on rows of their own": lambda text: text.replace("\n\n", "\n\f\n"),
    "a comment at the end of each row": lambda text: re.sub(r"(?<=[\w)\]:])$", "  # größe", text, flags=re.MULTILINE),
    "an argument a row": an_argument_a_row(),
    "rows continued by backslashes": _calls(continued),
}
"""Ways to write a program that leave its syntax tree as it is."""

PROLOGUES: dict[str, Rewrite] = {
    "a docstring": below('"""Doc."""\n'),
    "an import from the future": below('"""Doc."""\n\nfrom __future__ import annotations\n\n'),
}


@pytest.mark.parametrize("name", [*LAYOUTS, *PROLOGUES])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_fix_is_the_same_however_the_program_is_written(case: Case, name: str, tmp_path: Path) -> None:
    rewrite = (LAYOUTS | PROLOGUES)[name]
    before = rewrite(source(case))
    after = fix(case, before, tmp_path)
    assert (after.left, after.rounds) == (0, 1)
    assert _tree(after.text) == _tree(rewrite(wanted(case)))
    _require_untouched_rows(before, after.text)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fix_that_would_lose_a_comment_is_not_made(case: Case, tmp_path: Path) -> None:
    rewrite = an_argument_a_row("# why")
    before = rewrite(source(case))
    after = fix(case, before, tmp_path)
    if after.left:
        assert after.text == before
    else:
        assert _tree(after.text) == _tree(wanted(case))
        _require_untouched_rows(before, after.text)


ENCODINGS = {
    "Latin-1": (b"", "# -*- coding: latin-1 -*-\n# gr\xf6\xdfe\n", "latin-1"),
    "Windows-1252": (b"", "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n# 5 \u20ac\n", "cp1252"),
    "UTF-8 with a mark": (codecs.BOM_UTF8, "# gr\xf6\xdfe\n", "utf-8"),
    "UTF-8 with a mark and a declaration": (codecs.BOM_UTF8, "# coding: utf-8-sig\n# \U0001f600\n", "utf-8"),
}


@pytest.mark.parametrize("name", ENCODINGS)
@pytest.mark.parametrize("case", [case for case in CASES if not issubclass(case.rule, FileRule)], ids=str)
def test_the_fixed_text_goes_back_into_the_encoding_of_the_file(case: Case, name: str, tmp_path: Path) -> None:
    mark, head, encoding = ENCODINGS[name]
    document = decode(tmp_path / case.example.entry, mark + (head + source(case)).encode(encoding))
    after = fix(case, document.text, tmp_path)
    written = document.encode(after.text)
    assert written.startswith(mark + head.encode(encoding))
    assert written[len(mark) :].decode(encoding) == after.text
    assert _tree(after.text) == _tree(wanted(case))


# ------------------------------------------------------------------------------------------------------------- checks


def _tree(text: str) -> str:
    return _dumped(LINE_END.sub("\n", text))


@cache
def _dumped(text: str) -> str:
    return ast.dump(_Merged().visit(ast.parse(text)))


class _Merged(ast.NodeTransformer):
    """Makes one of guards with the same condition that follow each other; a fix does so unless comments are between."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        body: list[ast.stmt] = []
        for statement in getattr(node, "body", None) or [] if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            above = body[-1] if body else None
            if isinstance(statement, ast.If) and isinstance(above, ast.If) and _same(statement.test, above.test):
                above.body += statement.body
            else:
                body.append(statement)
        if body:
            node.body = body  # type: ignore[attr-defined]
        return node


def _same(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)


def _require_untouched_rows(before: str, after: str) -> None:
    """No row changes its line end only, and new rows end as rows around them do."""
    old, new = _rows(before), _rows(after)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    removed = 0
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            removed += end - start
            around = {line_end for _, line_end in old[max(start - 1, 0) : end + 1]}
            assert {line_end for _, line_end in new[new_start:new_end]} <= around
    texts = SequenceMatcher(None, [text for text, _ in old], [text for text, _ in new], autojunk=False)
    # a guard that takes in the row above it moves up, and ends as that row did
    assert removed <= len(old) - sum(block.size for block in texts.get_matching_blocks()) + 1


def _rows(text: str) -> list[tuple[str, str]]:
    """The rows with their line ends."""
    ends = LINE_END.findall(text)
    rows = list(zip(LINE_END.split(text), [*ends, ""], strict=True))
    return rows if rows[-1][0] else rows[:-1]
