"""The part of a file that a fix is about, parsed, with the exact place of every node.

Only the enclosing top-level statement is parsed, and of a class only its header and the method in question, which keeps
a fix cheap in a long file. Places come from libcst printing its tree through a recorder; where the print differs from
the text in the least, no fix is offered.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeVar, cast

import libcst as cst
from libcst._nodes.internal import CodegenState

from trainlint.fixes.edits import CannotFix, Range, TextEdit, apply_edits
from trainlint.semantics.extract import collector_off
from trainlint.semantics.nesting import too_deep
from trainlint.source.positions import LineIndex

Node = TypeVar("Node", bound=cst.CSTNode)
Statement: TypeAlias = cst.BaseSmallStatement | cst.BaseCompoundStatement
SimpleLine: TypeAlias = cst.SimpleStatementLine | cst.SimpleStatementSuite

# Named here once, since mypy rejects abstract classes as arguments though these are only used for isinstance.
SCOPES: tuple[type[cst.CSTNode], ...] = (cst.FunctionDef, cst.Lambda, cst.ClassDef)
"""What has names of its own."""
EXPRESSION: type[cst.BaseExpression] = cst.BaseExpression  # type: ignore[type-abstract]
COMPOUND_STATEMENT: type[cst.BaseCompoundStatement] = cst.BaseCompoundStatement  # type: ignore[type-abstract]

_CONTINUES_STATEMENT = re.compile(r"(?:else|elif|except|finally)\b")
_CLASS = re.compile(r"class\b")
_FUNCTION = re.compile(r"(?:async\b.*)?def\b")
_INDENTATION = re.compile(r"[ \t]*")
_CODE = re.compile(r"[ \t\f]*[^ \t\f#\r\n\\]")
_FIRST_INDENTATION = re.compile(r":[ \t]*(?:#[^\r\n]*)?(?:\r\n?|\n)([ \t]+)[^\s#]")
_LINE_END = re.compile(r"\r\n?|\n")
_PAGE_BREAK = re.compile(r"[ \t\f]*\f(?=[ \t]*[^\s])")
"""A form feed before the code of a row, with what stands before it. Python counts the indentation from there."""
_BLANK_OR_COMMENT = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n|\Z)")


class _Recorder(CodegenState):
    """Notes where each node is printed, as offsets into the printed text, and which node it belongs to."""

    def __init__(self, module: cst.Module) -> None:
        super().__init__(module.default_indent, module.default_newline)
        self.offset = 0
        self.inner: dict[cst.CSTNode, Range] = {}
        """Without the whitespace and parentheses that the node owns, where libcst makes the difference."""
        self.whole: dict[cst.CSTNode, Range] = {}
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self._open: list[tuple[cst.CSTNode, int]] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        self.offset += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if self._open:
            self.parents[node] = self._open[-1][0]
        self._open.append((node, self.offset))

    def after_codegen(self, node: cst.CSTNode) -> None:
        _, start = self._open.pop()
        self.whole[node] = Range(start, self.offset)
        self.inner.setdefault(node, self.whole[node])

    @contextmanager
    def record_syntactic_position(
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> Iterator[None]:
        start = self.offset
        yield
        if start_node is not None:
            start = self.inner[start_node].start
        end = self.offset if end_node is None else self.inner[end_node].end
        self.inner[node] = Range(start, end)


class Part(NamedTuple):
    """What of a text is parsed."""

    whole: Range
    left_out: Range
    """What is left out of it, whole statements of a class; empty where nothing is."""


class _Kept:
    """A part of a text without what is left out of it, and without the form feeds that stand before code, which libcst
    parses and does not print."""

    def __init__(self, text: str, part: Part) -> None:
        source = text[part.whole.start : part.whole.end]
        left_out = Range(*(offset - part.whole.start for offset in part.left_out))
        removed = [TextEdit(*left_out, "")] if part.left_out.start < part.left_out.end else []
        if "\f" in source:
            removed += [edit for edit in _page_breaks(source) if not left_out.start <= edit.start < left_out.end]
            removed.sort()
        self.text = apply_edits(source, removed)
        self._removed_at: list[int] = []
        """Offsets in the text from which on one more of the removed stretches is missing."""
        self._missing = [0]
        """How much is missing before the first of them, and from each of them on."""
        for edit in removed:
            self._removed_at.append(edit.start - self._missing[-1])
            self._missing.append(self._missing[-1] + edit.end - edit.start)

    def in_source(self, places: dict[cst.CSTNode, Range]) -> dict[cst.CSTNode, Range]:
        """Places in the text as places in the part, where rows begin after what was removed before them."""
        if not self._removed_at:
            return places
        return {node: Range(self._offset(place.start), self._offset(place.end)) for node, place in places.items()}

    def _offset(self, offset: int) -> int:
        return offset + self._missing[bisect_right(self._removed_at, offset)]


def _page_breaks(source: str) -> Iterator[TextEdit]:
    """The edits that remove the form feeds before code."""
    for start in _logical_line_starts(source):
        found = _PAGE_BREAK.match(source, start)
        if found is not None:
            yield TextEdit(start, found.end(), "")


class Tree:
    """A parsed stretch of `text`, whole statements. All places are offsets into the whole text."""

    @collector_off()
    def __init__(self, text: str, part: Part) -> None:
        """Parse `part` of `text`. Raises CannotFix where that is not possible."""
        self.text = text
        self.part, self._left_out = part
        kept = _Kept(text, part)
        self.module = parse(kept.text)
        recorder = _Recorder(self.module)
        try:
            self.module._codegen(recorder)
        except RecursionError as error:
            raise CannotFix("the statement nests too deep") from error
        # A carriage return alone at the very end is the one thing that libcst is known not to print.
        if "".join(recorder.tokens).removesuffix("\r") != kept.text.removesuffix("\r"):
            raise CannotFix("the statement is written in a way that its syntax tree does not keep")
        self._inner = kept.in_source(recorder.inner)
        self._whole = kept.in_source(recorder.whole)
        self._parents = recorder.parents
        self._nodes = list(self._whole)
        self._numbers: dict[type[cst.CSTNode], list[int]] = {}
        """The indices of the nodes of each class."""
        for number, node in enumerate(self._nodes):
            self._numbers.setdefault(type(node), []).append(number)
        self._of_kind: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        """The nodes of each class that was asked for, of classes below it too."""

    @staticmethod
    def around(text: str, place: Range) -> Tree:
        """Parse the top-level statement that holds `place`, of a class only the method where `place` is in the body of
        one, or the whole text where that does not parse by itself."""
        try:
            return _tree(text, part_around(text, place))
        except CannotFix:
            return Tree.of_file(text)

    @staticmethod
    def of_file(text: str) -> Tree:
        """Parse the whole text."""
        return _tree_of_file(text)

    # ------------------------------------------------------------------------------------------------------ places

    def inner(self, node: cst.CSTNode) -> Range:
        """Where the node stands, without whitespace and parentheses around it."""
        return self._shifted(self._inner[node])

    def whole(self, node: cst.CSTNode) -> Range:
        """Where the node stands, with all that libcst counts as its own: parentheses, commas, leading lines."""
        return self._shifted(self._whole[node])

    def source(self, place: Range) -> str:
        return self.text[place.start : place.end]

    def _shifted(self, place: Range) -> Range:
        return Range(place.start + self.part.start, place.end + self.part.start)

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around `node`, from the inside out."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def nodes(self, kind: type[Node]) -> Iterator[Node]:
        """All nodes of a class, children before what holds them."""
        if kind not in self._of_kind:
            kinds = [one for one in self._numbers if issubclass(one, kind)]
            numbers = sorted(number for one in kinds for number in self._numbers[one])
            self._of_kind[kind] = [self._nodes[number] for number in numbers]
        return iter(cast("list[Node]", self._of_kind[kind]))

    # ------------------------------------------------------------------------------------------------------ search

    def find(self, kind: type[Node], place: Range) -> Node:
        """The node of a class that stands exactly at `place`. Raises CannotFix if there is none."""
        for node in self.nodes(kind):
            if self.whole(node).start <= place.start and place in self._places(node):
                return node
        raise CannotFix("the code that it is about is no longer there")

    def _places(self, node: cst.CSTNode) -> Iterator[Range]:
        """Where Python's parser may say that the node stands: with some of its parentheses, or with none."""
        yield self.inner(node)
        if isinstance(node, cst.BaseExpression):
            for left, right in zip(node.lpar, reversed(node.rpar), strict=True):
                yield Range(self.whole(left).start, self.whole(right).end)

    def find_block(self, kind: type[Node], place: Range) -> Node:
        """The compound statement of a class that starts where `place` does and covers it."""
        for node in self.nodes(kind):
            here = self.inner(node)
            if here.start == place.start and place.end <= here.end:
                return node
        raise CannotFix("the statement that it is about is no longer there")

    def line_of(self, statement: cst.BaseSmallStatement) -> SimpleLine:
        """The logical line that a small statement stands on."""
        line = self.parent(statement)
        if not isinstance(line, cst.SimpleStatementLine | cst.SimpleStatementSuite):
            raise CannotFix("the statement stands in a place that is not understood")
        return line

    # ------------------------------------------------------------------------------------------------------- lines

    def line_start(self, offset: int) -> int:
        return line_start(self.text, offset)

    def line_end(self, offset: int) -> int:
        """Offset of the first character after the row's line end."""
        return line_end(self.text, offset)

    def indentation(self, offset: int) -> str:
        """The whitespace before the statement at `offset`. Raises CannotFix if other text stands there."""
        before = self.text[self.line_start(offset) : offset]
        if before.strip(" \t\f"):
            raise CannotFix("other code stands before it on its line")
        return before

    def newline(self, offset: int) -> str:
        return newline_at(self.text, offset)

    def indentation_step(self, node: cst.CSTNode) -> str:
        """What one more level of indentation looks like around `node`."""
        for block in (getattr(node, "body", None), *self.ancestors(node)):
            if isinstance(block, cst.IndentedBlock):
                return self.module.default_indent if block.indent is None else block.indent
        found = _FIRST_INDENTATION.search(self.text)
        return found[1] if found else "    "

    def strings(self, place: Range) -> list[Range]:
        """The string literals within `place`, f-strings as a whole."""
        found = [self.inner(node) for kind in _STRINGS for node in self.nodes(kind)]
        return [string for string in found if place.start <= string.start and string.end <= place.end]

    def inner_line_starts(self, place: Range) -> list[int]:
        """Where rows start within `place`, but for the first one and for rows that start inside a string."""
        strings = self.strings(place)
        ends = (end.end() for end in _LINE_END.finditer(self.text, place.start, place.end))
        starts = [_after_page_break(self.text, end) for end in ends]
        return [start for start in starts if not any(string.start < start < string.end for string in strings)]

    # ------------------------------------------------------------------------------------------------ verification

    def verify(self, edits: Iterable[TextEdit]) -> None:
        """Raise CannotFix if the edits, all within this part, leave code that does not parse, or do not fit into the
        f-string that they stand in."""
        edits = list(edits)
        for edit in edits:
            self._verify_in_strings(self._in_part(edit))
        parse(self._changed(edits))

    def changed(self, edits: Sequence[TextEdit], place: Range) -> tuple[Tree, Range]:
        """What is parsed here as edits, all within `place`, leave it, and where `place` is then. Raises CannotFix as a
        parse does."""
        text = self._changed(edits)
        missing = self._left_out.end - self._left_out.start if self._left_out.end <= place.start else 0
        start = place.start - self.part.start - missing
        growth = sum(len(edit.content) - (edit.end - edit.start) for edit in edits)
        return Tree(text, whole_of(text)), Range(start, start + place.end - place.start + growth)

    def _changed(self, edits: Sequence[TextEdit]) -> str:
        """The text that is parsed here, once the edits are made."""
        left_out = TextEdit(*self._left_out, "")
        return apply_edits(self.source(self.part), [self._in_part(edit) for edit in (left_out, *edits)])

    def _in_part(self, edit: TextEdit) -> TextEdit:
        return TextEdit(edit.start - self.part.start, edit.end - self.part.start, edit.content)

    def _verify_in_strings(self, edit: TextEdit) -> None:
        for string in (node for kind in _TEMPLATES for node in self.nodes(kind)):
            here = self._inner[string]
            if not (here.start < edit.start and edit.end < here.end):
                continue
            if any(self._prints(part, edit) for part in string.parts):
                raise CannotFix("an f-string prints the code itself")
            # Before Python 3.12, a replacement field holds no quote of its string, no backslash and no comment.
            forbidden = (string.end[0], "\\", "#", "\n", "\r")
            if any(character in edit.content for character in forbidden):
                raise CannotFix("it would put quotes or line ends into an f-string")
            if edit.content.startswith("{") or edit.content.endswith("}"):
                raise CannotFix("it would put braces next to those of an f-string")

    def _prints(self, part: cst.CSTNode, edit: TextEdit) -> bool:
        """Whether a part of an f-string such as `{loss=}` prints the text that the edit changes."""
        if not isinstance(part, cst.FormattedStringExpression | cst.TemplatedStringExpression) or part.equal is None:
            return False
        return self._whole[part].start <= edit.start and edit.end <= self._whole[part].end


_TEMPLATES: tuple[type[cst.FormattedString | cst.TemplatedString], ...] = (cst.FormattedString, cst.TemplatedString)
_STRINGS: tuple[type[cst.CSTNode], ...] = (cst.SimpleString, *_TEMPLATES)


@lru_cache(maxsize=2)
def _tree(text: str, part: Part) -> Tree:
    """Parse; kept for the last ones, since findings that follow each other often share a function."""
    return Tree(text, part)


@lru_cache(maxsize=3)
def _tree_of_file(text: str) -> Tree:
    """Parse; kept for a file as it is, which each of its findings may ask, and for the two texts that a fix makes of it
    on the way: with its edits, and with guards merged."""
    return Tree(text, whole_of(text))


@lru_cache(maxsize=2)
@collector_off()
def parse(source: str) -> cst.Module:
    """Parse with libcst. Raises CannotFix where that fails, or where nesting could overflow its stack."""
    deep = too_deep(source)
    if deep is not None:
        raise CannotFix(deep[0])
    try:
        return cst.parse_module(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise CannotFix("the code around it would not parse") from error


def bracketed_expression(module: cst.Module) -> cst.BaseExpression:
    """The expression of a module that is one expression in parentheses. Raises CannotFix if it is anything else."""
    if len(module.body) == 1 and isinstance(line := module.body[0], cst.SimpleStatementLine) and len(line.body) == 1:
        statement = line.body[0]
        if isinstance(statement, cst.Expr) and statement.value.lpar:
            return statement.value
    raise CannotFix("what it would write is not an expression")


@lru_cache(maxsize=4)
def line_index(text: str) -> LineIndex:
    """The rows of a text; kept for the last few, since a file's fixes are realized one after the other."""
    return LineIndex(text)


def whole_of(text: str) -> Part:
    return Part(Range(0, len(text)), Range(0, 0))


def part_around(text: str, place: Range) -> Part:
    """What has to be parsed for a fix at `place`: top-level statements from their first decorator on, or a class of
    which only the header and the method that `place` is in are kept."""
    whole = top_level_part(text, place)
    return _method_part(text, whole, place) or Part(whole, Range(whole.start, whole.start))


def top_level_part(text: str, place: Range) -> Range:
    """From the top-level statement that holds the start of `place` to the end of the one that holds its end."""
    starts = _top_level_starts(text)
    first = bisect_right(starts, place.start)
    after = bisect_right(starts, max(place.start, place.end - 1))
    return Range(starts[first - 1] if first else 0, starts[after] if after < len(starts) else len(text))


def _method_part(text: str, whole: Range, place: Range) -> Part | None:
    """Of a class, its header and the method that `place` is in the body of; None where it is in none."""
    members = _members(text, whole)
    index = bisect_right(members, place.start) - 1
    if index < 0:
        return None
    member = Range(members[index], members[index + 1] if index + 1 < len(members) else whole.end)
    lines = _code_lines(text)
    own = lines[bisect_left(lines, member.start) : bisect_right(lines, place.start)]
    indentation = _indentation(text, member.start)
    heads = [at for at in own if _indentation(text, at) == indentation]
    in_body = heads[-1] < own[-1] and _FUNCTION.match(text, heads[-1] + len(indentation))
    if not in_body or place.end > member.end:
        return None
    return Part(Range(whole.start, member.end), Range(members[0], member.start))


@lru_cache(maxsize=4)
def _members(text: str, whole: Range) -> list[int]:
    """Offsets at which the statements in the body of a class start, decorators included; none where it is no class."""
    lines = _code_lines(text)
    own = lines[bisect_left(lines, whole.start) : bisect_left(lines, whole.end)]
    head = next((index for index, at in enumerate(own) if text[at] != "@"), len(own))
    body = own[head + 1 :]
    if not body or not _CLASS.match(text, own[head]):
        return []
    indentation = _indentation(text, body[0])
    if not all(_indentation(text, at).startswith(indentation) for at in body):
        return []
    return _statement_starts(text, body, indentation)


def _indentation(text: str, line: int) -> str:
    found = _INDENTATION.match(text, line)
    return found[0] if found else ""


def _statement_starts(text: str, lines: Iterable[int], indentation: str) -> list[int]:
    """Which of the rows of code are the first ones of statements with an indentation, decorators included."""
    starts: list[int] = []
    decorated = False
    for at in lines:
        begin = at + len(indentation)
        if text[begin] not in " \t\f" and not _CONTINUES_STATEMENT.match(text, begin):
            if not decorated:
                starts.append(at)
            decorated = text[begin] == "@"
    return starts


@lru_cache(maxsize=4)
def _top_level_starts(text: str) -> list[int]:
    """Offsets at which top-level statements start, decorators included."""
    return _statement_starts(text, _code_lines(text), "")


@lru_cache(maxsize=4)
def _code_lines(text: str) -> list[int]:
    """Offsets at which rows start that hold code and continue no other row."""
    return [at for at in _logical_line_starts(text) if _CODE.match(text, at)]


def _logical_line_starts(text: str) -> Iterator[int]:
    """Offsets at which rows start that continue no other row; the last one may be the end of the text."""
    yield 0
    for end in line_index(text).lexed.line_ends:
        line = _LINE_END.match(text, end)
        if line is not None:
            yield line.end()


def line_start(text: str, offset: int) -> int:
    """Offset of the first character of the row at `offset`, the two characters of a CRLF belonging to one row; in a row
    of code that starts with a form feed, what comes after it."""
    if offset and text[offset - 1 : offset + 1] == "\r\n":
        offset -= 1
    start = max(text.rfind("\n", 0, offset), text.rfind("\r", 0, offset)) + 1
    after = _after_page_break(text, start)
    return after if after <= offset else start


def _after_page_break(text: str, start: int) -> int:
    found = _PAGE_BREAK.match(text, start)
    return start if found is None else found.end()


def line_end(text: str, offset: int) -> int:
    found = _LINE_END.search(text, offset)
    return found.end() if found else len(text)


def newline_at(text: str, offset: int) -> str:
    """The line end of the row at `offset`; of the row before it, if it is the last one and has none."""
    after = _LINE_END.search(text, offset)
    if after is not None:
        return after[0]
    before = line_start(text, offset)
    return "\r\n" if text[:before].endswith("\r\n") else text[before - 1] if before else "\n"


def only_comment_follows(text: str, offset: int) -> bool:
    """Whether nothing but whitespace and a comment follows on the row."""
    return _BLANK_OR_COMMENT.match(text, offset) is not None
