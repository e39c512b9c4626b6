"""Python files, and notebooks, as text: read with the encoding they declare, written back byte for byte."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from trainlint.source.positions import LineIndex
from trainlint.source.system_errors import reason_of

SIZE_LIMIT = 20 * 1024 * 1024
"""Bytes; a larger file is data rather than code, and would hold up everything else."""

NOTEBOOK = ".ipynb"
"""The suffix of notebooks."""

_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:#.*)?$")
_LINE_END = re.compile(rb"\r\n?|\n")
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


class Unreadable(Exception):  # noqa: N818
    """A file has no text that Python could run. `reason` continues a sentence that starts with the file's name."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        """Where in the file, if it is about one place."""


class NotParsed(Unreadable):
    """A notebook is not JSON. `reason` is a sentence; row and column count in the file, from 1."""

    def __init__(self, reason: str, row: int, column: int) -> None:
        super().__init__(reason, row)
        self.column = column


class Unwritable(Exception):  # noqa: N818
    """A changed text cannot be stored in the document's encoding without changing what was not edited."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Place(NamedTuple):
    """A place as users see it, but for the column, which counts characters from 0."""

    cell: int | None
    """Number of a notebook's cell, from 1; rows count within it."""
    row: int
    column: int


@dataclass(frozen=True)
class Document:
    path: Path
    text: str = field(repr=False)
    """Without the byte order mark, with all line ends as they are."""
    encoding: str
    """Python's name of the codec: "utf-8", "iso8859-1"."""
    bom: bool
    """Whether the file starts with a UTF-8 byte order mark."""
    data: bytes = field(repr=False)
    """The file as it is on disk."""

    @cached_property
    def index(self) -> LineIndex:
        return LineIndex(self.text)

    def place(self, row: int, column: int) -> Place:
        """Where users see a row and column of the text."""
        return Place(None, row, column)

    def within(self, place: Place, cell: int | None) -> Place:
        """The place, or the end of the cell if it is beyond that."""
        return place

    def line(self, cell: int | None, row: int) -> str:
        """A row as users see it, without its line end; empty where there is none."""
        return self.index.line(row)

    def stored_row(self, cell: int | None, row: int) -> int:
        """The row of the file, as it is stored, that holds a row as users see it."""
        return row

    def ends_cell(self, row: int, column: int) -> bool:
        """Whether a place is right after the last row of a notebook's cell."""
        return False

    def stored(self, data: bytes) -> str:
        """The text of a state of the file, as it is stored and as differences show it."""
        return data.removeprefix(codecs.BOM_UTF8).decode(self.encoding)

    def encode(self, text: str) -> bytes:
        """Return the bytes of the file with `text` in place of its own.

        Raises:
            Unwritable: the encoding has no room for `text`, or does not keep the bytes of the untouched text.
        """
        if text == self.text:
            return self.data
        mark = codecs.BOM_UTF8 if self.bom else b""
        try:
            if self.encoding != "utf-8" and mark + self.text.encode(self.encoding) != self.data:
                raise Unwritable(f"cannot be written back exactly in its encoding, {self.encoding}")
            return mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start : error.start + 1]
            raise Unwritable(f"declares the encoding {self.encoding}, which cannot store {character!a}") from error


def read_document(path: Path) -> Document:
    """Read a Python file.

    Raises:
        Unreadable: with the reason.
    """
    return decode(path, read_bytes(path))


def decode(path: Path, data: bytes) -> Document:
    """Make a document of the bytes of a file: by its byte order mark, its declaration (PEP 263), or as UTF-8.

    Raises:
        Unreadable: the bytes are not text in that encoding, or not a notebook where the name says so.
    """
    if len(data) > SIZE_LIMIT:
        raise Unreadable(_too_large(len(data)))
    if path.suffix == NOTEBOOK:
        from trainlint.source.notebooks import decode_notebook

        return decode_notebook(path, data)
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    encoding = _encoding(body, bom)
    _refuse_binary(data, body)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        row = _row(body, error.start)
        declared = "its declared encoding" if encoding != "utf-8" else "Python's default encoding"
        reason = (
            f"cannot be decoded at row {row}: byte 0x{body[error.start]:02x} is not valid in {declared}, {encoding}"
        )
        raise Unreadable(reason, row) from error
    except (UnicodeError, ValueError) as error:
        raise Unreadable(f"cannot be decoded as {encoding}: {error}") from error
    if "\0" in text:
        row = LineIndex(text).position(text.index("\0"))[0]
        raise Unreadable(f"holds a null character at row {row}", row)
    return Document(path, text, encoding, bom, data)


def _encoding(body: bytes, bom: bool) -> str:
    """The name of the codec to decode `body` with.

    Raises:
        Unreadable: what the file declares is no encoding, or contradicts its byte order mark.
    """
    name = declared_encoding(body)
    if name is None:
        return "utf-8"
    try:
        codec = codecs.lookup(name)
        "".encode(codec.name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise Unreadable(f"declares the encoding {name}, which Python does not know as a text encoding", 1) from error
    encoding = "utf-8" if codec.name == "utf-8-sig" else codec.name
    if bom and encoding != "utf-8":
        raise Unreadable(f"starts with a UTF-8 byte order mark, but declares the encoding {name}", 1)
    return encoding


def declared_encoding(body: bytes) -> str | None:
    """The encoding that a comment in the first two rows names; the second counts if the first holds no code."""
    start = 0
    for _ in range(2):
        end = _LINE_END.search(body, start)
        line = body[start : end.start() if end else len(body)]
        if found := _DECLARATION.match(line):
            return found[1].decode("ascii", "replace")
        if end is None or not _BLANK.match(line):
            return None
        start = end.end()
    return None


def encoded(text: str) -> bytes:
    """The bytes that a text would be saved as: in the encoding that it declares, where that is one and can hold it."""
    data = text.encode("utf-8", "surrogatepass")
    name = declared_encoding(data)
    if name is not None:
        with suppress(LookupError, ValueError):
            return text.encode(name)
    return data


def is_on_disk(path: Path, data: bytes) -> bool:
    """Whether a file holds exactly these bytes."""
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _refuse_binary(data: bytes, body: bytes) -> None:
    for mark, name in _WIDE_MARKS.items():
        if data.startswith(mark):
            raise Unreadable(f"is encoded in {name}, which Python does not accept for source code", 1)
    at = body.find(b"\0")
    if at >= 0:
        row = _row(body, at)
        raise Unreadable(f"holds a null byte at row {row}: it is not Python source", row)


def _row(body: bytes, offset: int) -> int:
    return 1 + sum(1 for _ in _LINE_END.finditer(body, 0, offset))


def _too_large(size: int, limit: int = SIZE_LIMIT) -> str:
    return f"is too large: {size / 1024 / 1024:.1f} MB, and the limit is {limit // 1024 // 1024} MB"


def read_bytes(path: Path, limit: int = SIZE_LIMIT) -> bytes:
    """The bytes of a regular file, at most `limit`. Nothing else is opened: a FIFO would block, a device could act.

    Raises:
        Unreadable: with the reason.
    """
    try:
        _require_regular(path.stat().st_mode)
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        with open(os.open(path, flags), "rb") as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            _require_regular(status.st_mode)
            if status.st_size > limit:
                raise Unreadable(_too_large(status.st_size, limit))
            return file.read(limit + 1)
    except OSError as error:
        raise Unreadable(_why(path, error)) from error
    except ValueError as error:
        raise Unreadable("cannot be read: its name holds a null character") from error


def _require_regular(mode: int) -> None:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a named pipe (FIFO)",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a character device",
        stat.S_IFBLK: "a block device",
    }
    kind = stat.S_IFMT(mode)
    if kind != stat.S_IFREG:
        raise Unreadable(f"is {kinds.get(kind, 'a special file')}, not a regular file")


def _why(path: Path, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return "cannot be read: the symbolic link leads back to itself"
    if error.errno == errno.ENOENT:
        if path.is_symlink():
            return f"cannot be read: the symbolic link points to {os.readlink(path)}, which does not exist"  # noqa: PTH115
        return "cannot be read: the file does not exist"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "cannot be read: permission denied"
    return f"cannot be read: {reason_of(error)}"
