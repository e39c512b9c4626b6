"""Edits of lists between commas: arguments of a call, imported names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainlint.fixes.edits import TextEdit
from trainlint.fixes.tree import line_end, line_start, newline_at, only_comment_follows


@dataclass(frozen=True, slots=True)
class Item:
    """One element: where its text starts and ends, and where the comma after it ends, if there is one."""

    start: int
    end: int
    comma_end: int | None

    @property
    def stop(self) -> int:
        return self.end if self.comma_end is None else self.comma_end


@dataclass(frozen=True, slots=True)
class CommaList:
    """The elements between `start` and `end`, which exclude the brackets."""

    text: str
    start: int
    end: int
    items: Sequence[Item]
    bracketed: bool = True
    """Whether brackets stand around it, so that line ends and a comma after the last element are allowed."""

    def append(self, contents: Sequence[str]) -> list[TextEdit]:
        """Add elements after the last one, in its style: each on a row of its own if that one has its own."""
        if not contents:
            return []
        if not self.items:
            return self._fill(", ".join(contents))
        last = self.items[-1]
        if not self._starts_row(last):
            if last.comma_end is None:
                return [TextEdit(last.end, last.end, "".join(f", {content}" for content in contents))]
            return [TextEdit(last.stop, last.stop, "".join(f" {content}," for content in contents))]
        between = newline_at(self.text, last.start) + self.text[line_start(self.text, last.start) : last.start]
        rows = f",{between}".join(contents)
        row_end = self._end_of_row_text(last.stop)
        if last.comma_end is not None:
            return [TextEdit(row_end, row_end, f"{between}{rows},")]
        if row_end == last.end:
            return [TextEdit(last.end, last.end, f",{between}{rows}")]
        return [TextEdit(last.end, last.end, ","), TextEdit(row_end, row_end, between + rows)]

    def insert_before(self, index: int, contents: Sequence[str]) -> list[TextEdit]:
        """Add elements before the one at `index`, each on a row of its own if that one has its own."""
        if not contents:
            return []
        item = self.items[index]
        between = " "
        if self._starts_row(item):
            between = newline_at(self.text, item.start) + self.text[line_start(self.text, item.start) : item.start]
        return [TextEdit(item.start, item.start, "".join(f"{content},{between}" for content in contents))]

    def remove(self, index: int) -> TextEdit:
        """Remove an element with its comma, and with the comment after it if its row holds nothing else."""
        item = self.items[index]
        if len(self.items) == 1 and "#" not in self.text[self.start : item.start] + self.text[item.stop : self.end]:
            return TextEdit(self.start, self.end, "")
        if self.bracketed and self._starts_row(item) and only_comment_follows(self.text, item.stop):
            return TextEdit(line_start(self.text, item.start), line_end(self.text, item.stop), "")
        if index + 1 < len(self.items):
            following = self.items[index + 1].start
            if "#" not in self.text[item.stop : following]:
                return TextEdit(item.start, following, "")
        if index and "#" not in self.text[self.items[index - 1].end : item.start]:
            return TextEdit(self.items[index - 1].end, item.end, "")
        return TextEdit(item.start, item.stop, "")

    def _fill(self, content: str) -> list[TextEdit]:
        if self.text[self.start : self.end].strip():
            return [TextEdit(self.start, self.start, content)]
        return [TextEdit(self.start, self.end, content)]

    def _starts_row(self, item: Item) -> bool:
        """Whether an element stands first on its row, below the opening bracket."""
        start = line_start(self.text, item.start)
        return start > self.start and not self.text[start : item.start].strip()

    def _end_of_row_text(self, offset: int) -> int:
        """End of the row's text at `offset` if only a comment follows there, else `offset`."""
        if not only_comment_follows(self.text, offset):
            return offset
        row = self.text[offset : line_end(self.text, offset)]
        return offset + len(row.rstrip()) if row.strip() else offset
