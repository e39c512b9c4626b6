"""What notebooks hold besides Python: magic commands, shell lines, questions about objects.

Each such line is masked by Python that has as many rows, and put back once the program around it has been fixed.
https://ipython.readthedocs.io/en/stable/interactive/reference.html#ipython-reference describes the syntax.
"""

from __future__ import annotations

import re

from trainlint.source.lexing import read_lines

PYTHON_CELLS = frozenset({"capture", "debug", "prun", "time", "timeit", "wandb"})
"""Cell magics whose cell is run as Python in the notebook itself; the cells of all others are no part of its program.
"""

_CELL_MAGIC = re.compile(r"(?:[ \t]*+(?:\r\n?+|\n))*+[ \t]*%%(\w*)[^\r\n]*(?:\r\n?|\n)?")
_MARGIN = re.compile(r"(?:[ \t]*+(?:\r\n?+|\n))*+(?:[ \t]+[^\s#]|>>>|In \[[0-9]+\]:)")
# Magics that IPython runs without their sign as well, where what follows makes no Python of the line.
_BARE = r"(?:cat|cd|conda|cp|ls|mamba|mkdir|mv|pip|rm|rmdir|uv)[ \t]+(?!(?:and|if|in|is|not|or)\b)(?=[\w~\"']|\.\.)"
_CANDIDATE = re.compile(rf"^[ \t]*(?:[%!?,;/]|{_BARE})|\?[ \t]*\r?$|=[ \t]*[!%]", re.MULTILINE)
_ESCAPED = re.compile(rf"[ \t]*(?={_BARE}|[%!?]|[,;/][ \t]*[A-Za-z_]|[^#'\"\r\n?]+\?\??[ \t]*(?:[\r\n]|$))")
_ASSIGNED = re.compile(r"[ \t]*[A-Za-z_][\w.,:*\[\]\"' \t]*=[ \t]*(?=[!%])")
_CONTINUED = re.compile(r"[^\r\n]*")
_LINE_END = re.compile(r"\r\n?|\n")


def split_cell_magic(text: str) -> tuple[str, str]:
    """Split the source of a cell into what is no part of the notebook's program, with its line end, and the rest."""
    found = _CELL_MAGIC.match(text)
    if found is not None:
        runs = found[1] in PYTHON_CELLS
        return (text[: found.end()], text[found.end() :]) if runs else (text, "")
    # Jupyter takes away what all rows are indented by, and prompts, before it runs a cell; these are left aside.
    return (text, "") if _MARGIN.match(text) else ("", text)


class Masks:
    """The masked lines of one notebook, by number."""

    def __init__(self, mark: str) -> None:
        """`mark` starts with `#` and occurs nowhere in the notebook's code."""
        self._mark = mark
        self._number = re.compile(rf"(?:pass  |get_ipython\(\)  )?{re.escape(mark)}([0-9]+)~")
        self._originals: list[str] = []

    def __len__(self) -> int:
        return len(self._originals)

    def mask(self, text: str) -> str:
        """Return the source of a cell as Python with the same rows."""
        if not _CANDIDATE.search(text):
            return text
        parts: list[str] = []
        copied = 0

        def passed_over(start: int) -> int:
            nonlocal copied
            at = start
            while found := _ESCAPED.match(text, at) or _ASSIGNED.match(text, at):
                parts.append(text[copied : found.end()])
                copied = self._masked(text, found, parts)
                end = _LINE_END.match(text, copied)
                at = end.end() if end else copied
            return at

        read_lines(text, passed_over)
        return "".join(parts) + text[copied:]

    def _masked(self, text: str, found: re.Match[str], parts: list[str]) -> int:
        """Mask the line whose code starts where `found` ends, with those that continue it; return where they end."""
        keeps_block = "pass  " if found[0] else ""
        instead = "get_ipython()  " if found[0].strip() else keeps_block
        at = found.end()
        while True:
            end = at + len(_row(text, at))
            parts.append(f"{instead}{self._mark}{len(self._originals)}~")
            self._originals.append(text[at:end])
            line_end = _LINE_END.match(text, end)
            if line_end is None or not text.startswith("\\", end - 1) or line_end.end() == len(text):
                return end
            parts.append(line_end[0])
            instead, at = "", line_end.end()

    def restore(self, text: str, expected: range) -> str | None:
        """Put back the masked lines with these numbers; None if one of them is gone, or not in its place."""
        numbers: list[int] = []

        def original(found: re.Match[str]) -> str:
            numbers.append(int(found[1]))
            return self._originals[numbers[-1]]

        restored = self._number.sub(original, text)
        return restored if numbers == list(expected) else None


def _row(text: str, start: int) -> str:
    found = _CONTINUED.match(text, start)
    return found[0] if found else ""
