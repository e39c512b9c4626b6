"""The JSON of a notebook: where the sources of its cells stand, and how one is changed with all else left as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, NamedTuple

FORMAT = 4
"""The major version of the notebook format that is read; Jupyter has written it since 2014."""

_LONGEST_WHOLE_NUMBER = 300
"""Digits; Python refuses to read much longer ones, and none that matters here is."""


def _whole_number(digits: str) -> float:
    return int(digits) if len(digits) <= _LONGEST_WHOLE_NUMBER else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole_number)
_DATABRICKS = "application/vnd.databricks.v1+notebook"
"""Under which Databricks writes about its own notebooks."""
_OTHER_KERNEL = re.compile(
    r"(?:bash|deno|gophernotes|ir|javascript|julia|matlab|octave|rust|scala|xcpp)(?![a-z])", re.IGNORECASE
)
"""Kernels of other languages, which Colab names without their language."""
_OTHER_LANGUAGE = re.compile(r"\s*%(?:md|md-sandbox|r|scala|sh|sql)(?!\S)")
"""What makes a whole cell of Databricks another language; elsewhere such a magic is one row."""
_SPACE = re.compile(r"[ \t\r\n]*")
_RAW_LINE = re.compile(r"(?:[^\\]|\\(?!n|u000[aA]).)*+(?:\\n|\\u000[aA])|(?:[^\\]|\\(?!n|u000[aA]).)++", re.DOTALL)
_ESCAPED_BEYOND_ASCII = re.compile(r"\\u(?!00[0-7])")


class NotANotebook(Exception):  # noqa: N818
    """JSON that is not a notebook, or not one of this format; the message continues a sentence about the file."""


@dataclass(frozen=True, slots=True)
class CodeCell:
    number: int
    """Among all cells of the notebook, from 1."""
    source: str
    start: int
    end: int
    """Where the value of `source` stands in the JSON: offsets in characters."""


class _Value(NamedTuple):
    key: str
    """Empty in a list."""
    value: Any
    start: int
    end: int


def code_cells(text: str) -> list[CodeCell]:
    """Find the code cells of a notebook; none where it is in another language than Python.

    Raises:
        json.JSONDecodeError: the text is not JSON.
        NotANotebook: it is JSON of something else.
    """
    notebook = _loaded(text)
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        if isinstance(notebook, dict) and isinstance(notebook.get("worksheets"), list):
            raise NotANotebook("is a notebook of an old format: open it with Jupyter and save it, which converts it")
        raise NotANotebook('is not a notebook: it has no list of "cells"')
    version = notebook.get("nbformat", FORMAT)
    if version != FORMAT:
        raise NotANotebook(f"is a notebook of format {version!r}, and only format {FORMAT} is read")
    if not _is_python(notebook.get("metadata")):
        return []
    start = _SPACE.match(text).end()  # type: ignore[union-attr]
    cells = [member for member in _members(text, start) if member.key == "cells"][-1]
    found = [
        cell for number, item in enumerate(_items(text, cells.start), 1) for cell in _code_cell(text, number, item)
    ]
    if _DATABRICKS not in (notebook.get("metadata") or ()):
        return found
    return [cell for cell in found if not _OTHER_LANGUAGE.match(cell.source)]


def _loaded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except RecursionError:
        raise NotANotebook("is not a notebook: its JSON nests too deep") from None


def _is_python(metadata: Any) -> bool:
    """Whether the notebook's kernel runs Python, as far as the metadata tells."""
    if not isinstance(metadata, dict):
        return True
    for part, key in (("language_info", "name"), ("kernelspec", "language"), (_DATABRICKS, "language")):
        entry = metadata.get(part)
        name = entry.get(key) if isinstance(entry, dict) else None
        if isinstance(name, str):
            return "python" in name.lower()
    kernel = metadata.get("kernelspec")
    name = kernel.get("name") if isinstance(kernel, dict) else None
    return not (isinstance(name, str) and _OTHER_KERNEL.match(name))


def _code_cell(text: str, number: int, item: _Value) -> Iterator[CodeCell]:
    if not isinstance(item.value, dict):
        raise NotANotebook(f"is not a valid notebook: cell {number} is not an object")
    if item.value.get("cell_type") != "code":
        return
    sources = [member for member in _members(text, item.start) if member.key == "source"]
    source = sources[-1].value if sources else None
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = "".join(source)
    if not isinstance(source, str):
        raise NotANotebook(
            f"is not a valid notebook: the source of cell {number} is neither a text nor a list of lines"
        )
    yield CodeCell(number, source, sources[-1].start, sources[-1].end)


def _members(text: str, at: int) -> Iterator[_Value]:
    """The members of the object at `at`, which is valid JSON."""
    at = _after_space(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _after_space(text, _after_space(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield _Value(key, value, at, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _items(text: str, at: int) -> Iterator[_Value]:
    """The items of the list at `at`, which is valid JSON."""
    at = _after_space(text, at + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield _Value("", value, at, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def source_place(text: str, cell: CodeCell, offset: int) -> int:
    """Where the JSON holds what is at `offset` of a cell's source: the start of the text in quotes that has it."""
    if text[cell.start] != "[":
        return cell.start
    place = cell.start
    for item in _items(text, cell.start):
        place = item.start
        offset -= len(item.value)
        if offset < 0:
            break
    return place


# ------------------------------------------------------------------------------------------------------------ changing


def with_source(text: str, cell: CodeCell, source: str) -> str:
    """Return the JSON with another source for the cell; lines that stay keep their spelling.

    Cells are changed from the last one to the first, since offsets are those of the original text.
    """
    lines = [line for line in re.split(r"(?<=\n)", source) if line]
    escape = text.isascii() and _ESCAPED_BEYOND_ASCII.search(text) is not None
    raw = text[cell.start : cell.end]
    changed = _list_of(raw, lines, escape) if raw.startswith("[") else _string_of(raw, lines, escape)
    return text[: cell.start] + changed + text[cell.end :]


def _string_of(raw: str, lines: Sequence[str], escape: bool) -> str:
    pieces = [found[0] for found in _RAW_LINE.finditer(raw, 1, len(raw) - 1)]
    old = [json.loads(f'"{piece}"') for piece in pieces]
    return '"' + "".join(_spelt(old, pieces, lines, escape)) + '"'


def _list_of(raw: str, lines: Sequence[str], escape: bool) -> str:
    items = list(_items(raw, 0))
    pieces = [raw[item.start + 1 : item.end - 1] for item in items]
    spelt = [f'"{piece}"' for piece in _spelt([item.value for item in items], pieces, lines, escape)]
    if not spelt or not items:
        return "[" + ", ".join(spelt) + "]"
    before, after = raw[: items[0].start], raw[items[-1].end :]
    separator = raw[items[0].end : items[1].start] if len(items) > 1 else "," + (before[1:] or " ")
    return before + separator.join(spelt) + after


def _spelt(old: Sequence[str], pieces: Sequence[str], new: Sequence[str], escape: bool) -> list[str]:
    """The new lines as they stand between quotes in JSON: those that were there before as they were."""
    spelt: list[str] = []
    for tag, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            spelt += pieces[start:end]
        else:
            spelt += [json.dumps(line, ensure_ascii=escape)[1:-1] for line in new[new_start:new_end]]
    return spelt
