"""The scanner agrees with Python's tokenizer, and goes on where the tokenizer gives up."""

from __future__ import annotations

import io
import sysconfig
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainlint.source.lexing import scan
from trainlint.source.positions import LineIndex

STANDARD_LIBRARY = Path(sysconfig.get_path("stdlib"))
MODULES = ["ast", "argparse", "difflib", "inspect", "re/_parser", "tokenize", "turtle", "typing", "textwrap", "zipfile"]


def comments(text: str) -> list[str]:
    return [text[comment.start : comment.end] for comment in scan(text).comments]


@pytest.mark.parametrize("module", MODULES)
def test_comments_and_logical_lines_of_the_standard_library(module: str) -> None:
    file = STANDARD_LIBRARY / f"{module}.py"
    if not file.exists():
        pytest.skip("not in this Python")
    text = file.read_text("utf-8")
    index = LineIndex(text)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    assert comments(text) == [token.string for token in tokens if token.type == tokenize.COMMENT]
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            assert index.noqa_row(token.start[0]) == token.start[0]
            assert index.noqa_row(token.start[0] + 1) > token.start[0]


COMMENTS = {
    "after code": ("x = 1  # a", ["# a"]),
    "not in strings": ("'# a' \"# b\" '''# c\n# d''' # e", ["# e"]),
    "not after an escaped quote": (r"'\'# a' # b", ["# b"]),
    "a raw string keeps its backslash": (r"r'\' # a' # b", ["# b"]),
    "a string that ends in a backslash": ("'a\\\\' # b", ["# b"]),
    "a string goes on after an escaped line end": ("'a\\\n# b' # c", ["# c"]),
    "likewise with windows line ends": ("'a\\\r\n# b' # c", ["# c"]),
    "a string without an end stops at its row": ("'a # b\n# c", ["# c"]),
    "a triple-quoted string without an end hides the rest": ("'''a\n# c", []),
    "not in f-strings": ("f'# a{x}# b' # c", ["# c"]),
    "doubled braces": ("f'{{# a}}' # b", ["# b"]),
    "nested quotes": ("f'{d['# a']}' # b", ["# b"]),
    "a nested f-string": ("f'{f'{1}# a'}# b' # c", ["# c"]),
    "a named character": (r"f'\N{NUMBER SIGN}# a' # b", ["# b"]),
    "a raw f-string": (r"rf'\{x}\N{y}# a' # b", ["# b"]),
    "a format specification": ("f'{x:#x}' # b", ["# b"]),
    "a conversion and a nested field": ("f'{x!r:#>{w}}# a' # b", ["# b"]),
    "a lambda in brackets": ("f'{(lambda x: 1)(2)}# a' # b", ["# b"]),
    "a slice": ("f'{x[1:2]:#}' # b", ["# b"]),
    "a comment in a field of more rows": ("f'''{x # a\n}# b''' # c", ["# a", "# c"]),
    "a template string": ("t'{x:#}' # b", ["# b"]),
    "bytes": ("rb'# a' # b", ["# b"]),
    "a name that ends like a prefix": ("printf'{' # b", ["# b"]),
    "an f-string without an end stops at its row": ("f'{{ # a\n# b", ["# b"]),
}


@pytest.mark.parametrize(("text", "expected"), COMMENTS.values(), ids=COMMENTS)
def test_comments_are_told_from_strings(text: str, expected: list[str]) -> None:
    assert comments(text) == expected


@given(st.text(alphabet="#'\"{}()[]:\\\r\nfrNx!"))
def test_any_text_is_scanned_to_its_end(text: str) -> None:
    lexed = scan(text)
    assert lexed.line_ends[-1] == len(text)
    assert all(text[comment.start] == "#" for comment in lexed.comments)
    assert list(lexed.line_ends) == sorted(lexed.line_ends)


def test_deep_and_long_text_is_scanned_without_recursion() -> None:
    deep = "f'{" * 20_000
    assert scan(deep).line_ends == (len(deep),)
    long = "'" + "\\a" * 500_000 + "' # end"
    assert comments(long) == ["# end"]
