"""Edits such as people make, and such as nobody makes, from a source of random numbers."""

from __future__ import annotations

import random
import re

_PIECES = [
    *"()[]{}'\"\\#:,;.=@0é名",
    *('"""', "'''", "\n", "\r\n", "\t", "\f", "1e5", "*args", "**kw"),
]
_LINES = [
    "x = 1",
    "pass",
    "size = 3 \\\n",
    "\ufb01 = x",
    "return x.item()",
    "yield loss",
    "@decorated",
    "@torch.no_grad()",
    "def step(self, batch):",
    "async def run(self) -> None:",
    "def one(): return loss.backward()",
    "class Inner(Base, metaclass=M):",
    "if a and b:",
    "elif c:",
    "else:",
    "try:",
    "except (A, B) as e:",
    "finally:",
    "for i, x in enumerate(loader):",
    "while True:",
    "with a as b, c:",
    "match x:",
    "case [a, *b]:",
    "import torch.nn as nn, os",
    "from ..a import (b,",
    "    c)",
    "# a comment",
    "",
    '"""A docstring."""',
    '"""',
    "'''",
    "x = (",
    ")",
    "x = f'''{",
    "a}'''",
    'x = f"é{a!r:>{w}}" "ü"',
    "x = '''",
    "y = a \\",
    "  + b",
    "a = 1; b = 2;",
    "if x: y; z",
    'if __name__ == "__main__":',
    "lambda: (yield)",
    "model_backward(loss)",
    "global a, b",
    "del x, y",
    "x: int = 1",
    "x = 1 # é: (",
    "    pass",
    "        deeper(x)",
    "type X = int",
    "print 'x'",
    "def typed[T](x: T): pass",
    'x = f"{a["b"]}"',
    "x = f'{'a'}'",
    "except A, B:",
    "f(a=1, b)",
    "f() = 1",
    "x = 1 1",
    "y = (a]",
    'x = "\\N{BAD}"',
]
_ROW = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")


def edited(text: str, choose: random.Random) -> str:
    """The text after one edit."""
    return choose.choice(_EDITS)(text, choose)


def _typed(text: str, choose: random.Random) -> str:
    at = choose.randint(0, len(text))
    return text[:at] + choose.choice(_PIECES) + text[at:]


def _typed_word(text: str, choose: random.Random) -> str:
    words = list(re.finditer(r"\w+", text))
    if not words:
        return text
    word = choose.choice(words)
    return text[: word.end()] + choose.choice("_x1é") + text[word.end() :]


def _deleted(text: str, choose: random.Random) -> str:
    at = choose.randint(0, len(text))
    return text[:at] + text[at + choose.choice((1, 1, 1, 2, 5, 40)) :]


def _replaced(text: str, choose: random.Random) -> str:
    at = choose.randint(0, len(text))
    return text[:at] + choose.choice(_PIECES) + text[at + choose.choice((1, 1, 3)) :]


def _new_line(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randint(0, len(rows))
    near = rows[min(at, len(rows) - 1)] if choose.random() < 0.6 else rows[at - 1]
    indentation = re.match(r"[ \t]*", near)[0]  # type: ignore[index]
    indentation = choose.choice((indentation, indentation, indentation, indentation + "    ", indentation[:-4], ""))
    rows.insert(at, indentation + choose.choice(_LINES) + choose.choice(("\n", "\n", "\n", "\r\n", "\r")))
    return "".join(rows)


def _lines_gone(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    del rows[at : at + choose.choice((1, 1, 1, 2, 3, 10))]
    return "".join(rows)


def _line_replaced(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    indentation = re.match(r"[ \t]*", rows[at])[0]  # type: ignore[index]
    rows[at] = indentation + choose.choice(_LINES) + "\n"
    return "".join(rows)


def _block_moved(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at, to = choose.randrange(len(rows)), choose.randrange(len(rows))
    end = _block_end(rows, at)
    block = rows[at:end]
    del rows[at:end]
    rows[to:to] = block
    return "".join(rows)


def _block_doubled(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    end = _block_end(rows, at)
    rows[at:at] = rows[at:end]
    return "".join(rows)


def _block_gone(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    del rows[at : _block_end(rows, at)]
    return "".join(rows)


def _indented(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    end = _block_end(rows, at) if choose.random() < 0.7 else at + choose.choice((1, 2, 5))
    by = choose.choice(("    ", "    ", "\t", "  ", " "))
    rows[at:end] = [by + row for row in rows[at:end]]
    return "".join(rows)


def _dedented(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    end = _block_end(rows, at) if choose.random() < 0.7 else at + choose.choice((1, 2, 5))
    by = choose.choice((4, 4, 4, 2, 1))
    rows[at:end] = [row[by:] if row[:by].isspace() else row for row in rows[at:end]]
    return "".join(rows)


def _line_ends(text: str, choose: random.Random) -> str:
    rows = _rows(text)
    at = choose.randrange(len(rows))
    end = at + choose.choice((1, 1, 2, 10, 1000))
    newline = choose.choice(("\n", "\r\n", "\r"))
    rows[at:end] = [row.rstrip("\r\n") + newline for row in rows[at:end]]
    return "".join(rows)


def _cut_off(text: str, choose: random.Random) -> str:
    return text.rstrip() + choose.choice(("", "\n", "\n    ", "\n# end", "\\", "\n\n\n")) if text else text


def _rows(text: str) -> list[str]:
    return [row for row in _ROW.findall(text) if row] or [""]


def _block_end(rows: list[str], at: int) -> int:
    """The row behind those that are indented deeper than a row."""

    def depth(row: str) -> int:
        return len(row) - len(row.lstrip())

    end = at + 1
    while end < len(rows) and (not rows[end].strip() or depth(rows[end]) > depth(rows[at])):
        end += 1
    return end


_EDITS = (
    _typed,
    _typed_word,
    _typed_word,
    _typed_word,
    _deleted,
    _replaced,
    _new_line,
    _new_line,
    _new_line,
    _lines_gone,
    _line_replaced,
    _block_moved,
    _block_doubled,
    _block_gone,
    _indented,
    _dedented,
    _line_ends,
    _cut_off,
)
