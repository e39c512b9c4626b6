"""Reading files as Python does, and writing them back byte for byte."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlint.source.documents import SIZE_LIMIT, Unreadable, Unwritable, decode, read_document

READABLE = {
    "utf-8 by default": (b"x = '\xc3\xa9'\n", "x = 'é'\n", "utf-8", False),
    "a byte order mark": (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", True),
    "a mark and a declaration that agrees": (b"\xef\xbb\xbf# coding: utf8\n", "# coding: utf8\n", "utf-8", True),
    "latin-1 declared": (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", None, "iso8859-1", False),
    "declared in the second row": (
        b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'\n",
        None,
        "cp1252",
        False,
    ),
    "declared after a carriage return": (b"# one\r# coding: latin-1\r'\xe9'", None, "iso8859-1", False),
    "a declaration in the third row does not count": (b"\n\n# coding: latin-1\n", None, "utf-8", False),
    "a declaration after code does not count": (b"x = 1\n# coding: latin-1\n", None, "utf-8", False),
    "mixed line ends stay": (b"a\r\nb\rc\n\x0cd\r\r\n", "a\r\nb\rc\n\x0cd\r\r\n", "utf-8", False),
    "an empty file": (b"", "", "utf-8", False),
    "utf-8-sig declared": (b"# coding: utf-8-sig\n", None, "utf-8", False),
    "shift-jis declared": ("# coding: shift_jis\nx = '表'\n".encode("shift_jis"), None, "shift_jis", False),
}


@pytest.mark.parametrize(("data", "text", "encoding", "bom"), READABLE.values(), ids=READABLE)
def test_text_is_decoded_as_declared_and_comes_back_exactly(
    data: bytes, text: str | None, encoding: str, bom: bool
) -> None:
    document = decode(Path("train.py"), data)
    assert (document.encoding, document.bom) == (encoding, bom)
    assert text is None or document.text == text
    assert document.encode(document.text) == data
    assert document.encode(document.text + "y = 2\n") == data + b"y = 2\n"


UNREADABLE = {
    "a bad byte": (b"x = 1\r\ny = 2\rz = '\xff'\n", "cannot be decoded at row 3: byte 0xff", 3),
    "a cut character": (b"x = '\xc3", "cannot be decoded at row 1", 1),
    "an unknown encoding": (b"# coding: klingon\n", "declares the encoding klingon", 1),
    "a codec that is not for text": (b"# coding: base64\n", "not know as a text encoding", 1),
    "a codec name with a null": (b"# coding: rot13\n", "not know as a text encoding", 1),
    "a mark against a declaration": (b"\xef\xbb\xbf# coding: latin-1\n", "byte order mark, but declares", 1),
    "a null byte": (b"x = 1\n\0\n", "holds a null byte at row 2", 2),
    "UTF-16": ("x = 1\n".encode("utf-16"), "is encoded in UTF-16", 1),
    "UTF-32": ("x = 1\n".encode("utf-32"), "is encoded in UTF-32", 1),
    "UTF-16 without a mark": ("x = 1\n".encode("utf-16-le"), "holds a null byte", 1),
    "a null character by another encoding": (b"# coding: utf-7\n'+AAA-'\n", "holds a null character at row 2", 2),
    "a surrogate": (b"x = '\xed\xa0\x80'", "cannot be decoded at row 1", 1),
}


@pytest.mark.parametrize(("data", "reason", "row"), UNREADABLE.values(), ids=UNREADABLE)
def test_bytes_that_are_no_python_source_say_why(data: bytes, reason: str, row: int) -> None:
    with pytest.raises(Unreadable) as error:
        decode(Path("train.py"), data)
    assert reason in error.value.reason
    assert error.value.row == row


def test_characters_that_the_encoding_lacks_are_refused_not_replaced() -> None:
    document = decode(Path("train.py"), b"# coding: latin-1\n")
    with pytest.raises(Unwritable, match="iso8859-1, which cannot store"):
        document.encode("# coding: latin-1\n€\n")


def test_an_encoding_that_does_not_keep_bytes_is_not_written() -> None:
    data = b"# coding: utf-7\nx = '+AOk-+AOk-'\n"
    document = decode(Path("train.py"), data)
    assert document.encode(document.text) == data
    with pytest.raises(Unwritable, match="cannot be written back exactly"):
        document.encode(document.text + "\n")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_with_a_reason(data: bytes) -> None:
    try:
        document = decode(Path("train.py"), data)
    except Unreadable as error:
        assert error.reason
    else:
        assert document.encode(document.text) == data


@given(
    st.sampled_from(["latin-1", "utf-7", "utf-16", "hz", "iso2022_jp", "unicode_escape", "idna", "punycode", "cp037"])
)
def test_strange_declared_encodings_do_no_harm(encoding: str) -> None:
    data = b"# coding: " + encoding.encode() + b"\nx = '\\u0041 \\xe9 ~{ ' + 'a' * 3\n"
    try:
        document = decode(Path("train.py"), data)
    except Unreadable:
        return
    assert document.encode(document.text) == data


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    socket.socket(socket.AF_UNIX).bind(str(path))


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _dangling(path: Path) -> None:
    path.symlink_to("gone.py")


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE_LIMIT + 1)


SPECIAL = {
    "a FIFO does not block": (_fifo, "is a named pipe (FIFO), not a regular file"),
    "a socket": (_socket, "is a socket, not a regular file"),
    "a folder": (lambda path: path.mkdir(), "is a folder, not a regular file"),
    "a looping link": (_loop, "cannot be read: the symbolic link leads back to itself"),
    "a dangling link": (_dangling, "cannot be read: the symbolic link points to gone.py, which does not exist"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "is a character device, not a regular file"),
    "a missing file": (lambda path: None, "cannot be read: the file does not exist"),
    "a huge file": (_large, "is too large: 20.0 MB, and the limit is 20 MB"),
}


@pytest.mark.skipif(os.name == "nt", reason="special files of POSIX")
@pytest.mark.parametrize(("make", "reason"), SPECIAL.values(), ids=SPECIAL)
def test_what_is_no_regular_file_is_not_opened(make, reason: str, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    make(Path("x.py"))
    with pytest.raises(Unreadable) as error:
        read_document(Path("x.py"))
    assert error.value.reason == reason


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_permission_denied_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.touch(0o000)
    with pytest.raises(Unreadable, match="cannot be read: permission denied"):
        read_document(path)


def test_impossible_names_are_unreadable_rather_than_errors() -> None:
    with pytest.raises(Unreadable):
        read_document(Path("a\0b.py"))
    with pytest.raises(Unreadable, match="name too long"):
        read_document(Path("x" * 5000))
