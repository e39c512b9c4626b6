"""The little of Python's lexical structure that comments need: where comments stand and where logical lines end.

Python's own `tokenize` takes five times as long before 3.12, stops at the first error, and misreads the nested quotes
that f-strings may hold since PEP 701 when the interpreter is older than the code. This scanner jumps from one string,
comment, bracket or line end to the next, and knows PEP 701 whatever the interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: `start` is the offset of its `#`, `end` that of the line end after it, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Lexed:
    comments: tuple[Comment, ...]
    line_ends: tuple[int, ...]
    """Offsets of the line ends (or of the end of the text) that end a logical line or a line without code."""


_STOP = re.compile(r"""[#"'()\[\]{}\r\n\\]""")
_STOP_IN_FIELD = re.compile(r"""[#"'()\[\]{}\r\n\\:]""")
_COMMENT = re.compile(r"[^\r\n]*")
_PREFIX = re.compile(r"(?<!\w)[rbuft]{1,2}\Z", re.IGNORECASE)
_STRING_END = {
    '"': re.compile(r'(?:[^"\\\r\n]|\\(?:\r\n|[\s\S]))*+"?'),
    "'": re.compile(r"(?:[^'\\\r\n]|\\(?:\r\n|[\s\S]))*+'?"),
    '"""': re.compile(r'(?:[^"\\]|\\[\s\S]|"(?!""))*+(?:""")?'),
    "'''": re.compile(r"(?:[^'\\]|\\[\s\S]|'(?!''))*+(?:''')?"),
}
_LITERAL_STOP = {
    quote: re.compile(rf"\\N\{{[^}}'\"\r\n]*\}}|\\(?:\r\n|[^{{}}])|\{{\{{|\}}\}}|[{{}}]|{quote}|[\r\n]")
    for quote in _STRING_END
}
_RAW_LITERAL_STOP = {
    quote: re.compile(rf"\\(?:\r\n|[^{{}}])|\{{\{{|\}}\}}|[{{}}]|{quote}|[\r\n]") for quote in _STRING_END
}
_FORMAT_STOP = {quote: re.compile(rf"\\(?:\r\n|[^{{}}])|[{{}}]|{quote}|[\r\n]") for quote in _STRING_END}


@dataclass(slots=True)
class _FormattedString:
    """An f-string or t-string that the scanner is inside of."""

    quote: str
    raw: bool
    fields: list[int]
    """For each open replacement field: how many brackets are open within it; -1 in its format specification."""


def scan(text: str) -> Lexed:
    """Find the comments and logical lines of `text`. Never fails: what is broken is read to the end of its line."""
    return _Scanner(text).run()


def read_lines(text: str, passed_over: Callable[[int], int]) -> None:
    """Go through a text that holds lines of another language between logical lines of Python.

    Args:
        passed_over: is given the offset at which each logical line starts, and returns where the next line of Python
            starts: the same offset where this line is Python.
    """
    scanner = _Scanner(text)
    scanner.at = passed_over(0)
    lines = 0
    while scanner.at < len(text):
        scanner.advance()
        if len(scanner.line_ends) > lines:
            lines = len(scanner.line_ends)
            scanner.at = passed_over(scanner.at)


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.strings: list[_FormattedString] = []
        self.comments: list[Comment] = []
        self.line_ends: list[int] = []

    def run(self) -> Lexed:
        while self.at < len(self.text):
            self.advance()
        if not self.line_ends or self.line_ends[-1] < len(self.text):
            self.line_ends.append(len(self.text))
        return Lexed(tuple(self.comments), tuple(self.line_ends))

    def advance(self) -> None:
        """Take the next stretch of the text, which ends at most one logical line."""
        if self.strings and (not self.strings[-1].fields or self.strings[-1].fields[-1] < 0):
            self.literal(self.strings[-1])
        else:
            self.code()

    def code(self) -> None:
        """Take the next character that matters, with what it starts."""
        text = self.text
        found = (_STOP_IN_FIELD if self.strings else _STOP).search(text, self.at)
        if found is None:
            self.at = len(text)
            return
        start = found.start()
        self.at = start + 1
        stop = text[start]
        if stop in "([{":
            self.bracket(1)
        elif stop in ")]}":
            self.bracket(-1)
        elif stop in "\r\n":
            self.at += text.startswith("\r\n", start)
            if self.depth == 0 and not self.strings:
                self.line_ends.append(start)
        elif stop in "\"'":
            self.string(start, stop)
        elif stop == "#":
            self.at = _end(_COMMENT, text, start)
            self.comments.append(Comment(start, self.at))
        elif stop == "\\":
            self.at += 2 if text.startswith("\r\n", self.at) else 1
        elif self.strings[-1].fields[-1] == 0:
            self.strings[-1].fields[-1] = -1

    def string(self, start: int, quote: str) -> None:
        quote = quote * 3 if self.text.startswith(quote * 3, start) else quote
        self.at = start + len(quote)
        prefix = _PREFIX.search(self.text, max(0, start - 3), start)
        kinds = prefix[0].lower() if prefix else ""
        if "f" in kinds or "t" in kinds:
            self.strings.append(_FormattedString(quote, "r" in kinds, []))
        else:
            self.at = _end(_STRING_END[quote], self.text, self.at)

    def bracket(self, change: int) -> None:
        if not self.strings:
            self.depth = max(0, self.depth + change)
            return
        fields = self.strings[-1].fields
        fields[-1] += change
        if fields[-1] < 0:
            fields.pop()

    def literal(self, string: _FormattedString) -> None:
        """Take the literal text of an f-string, or a format specification, up to what changes the state."""
        in_format = bool(string.fields)
        stops = _FORMAT_STOP if in_format else _RAW_LITERAL_STOP if string.raw else _LITERAL_STOP
        found = stops[string.quote].search(self.text, self.at)
        if found is None:
            self.at = len(self.text)
            return
        self.at = found.end()
        token = found[0]
        if token == string.quote:
            self.strings.pop()
        elif token == "{":
            string.fields.append(0)
        elif token == "}" and in_format:
            string.fields.pop()
        elif token in "\r\n" and len(string.quote) == 1:
            self.strings.clear()
            self.at = found.start()


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    """Where the match of a pattern that also matches nothing ends."""
    found = pattern.match(text, start)
    return found.end() if found else start
