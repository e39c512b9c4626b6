"""Comments that silence findings.

    # trainlint: ignore[TL201, print-in-step] reason     on this logical line
    # noqa: TL201                                         likewise, shared with other tools
    # trainlint: ignore-file[TL2] reason                  in this file
    # trainlint: off[TL201] reason … # trainlint: on      from here to there

Patterns are codes, prefixes of codes, rule names, or `ALL`; without brackets a comment speaks about all rules. Use is
tracked, so that what silences nothing can be reported and removed.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from trainlint.source.lexing import Comment
from trainlint.source.positions import LineIndex, Span

MOST_SWITCHES = 1_000
"""Range comments of a file up to which each `on` is matched with what it ends, which takes time by the square of it."""

ALL = "ALL"
"""The pattern that stands for every rule."""

_SEGMENT = re.compile(r"(?<!#)#++(?:(?=[ \t])|(?=noqa\b|[A-Za-z][\w-]*+:))", re.IGNORECASE)
_OURS = re.compile(r"#+[ \t]*trainlint[ \t]*:[ \t]*(?P<rest>.*)", re.IGNORECASE)
_DIRECTIVE = re.compile(
    r"(?P<verb>ignore-file|ignore|off|on)(?![\w-])[ \t]*(?:\[(?P<patterns>[^\]]*)\])?(?P<reason>.*)", re.IGNORECASE
)
_NOQA = re.compile(r"#+[ \t]*noqa\b(?:[ \t]*:(?P<patterns>.*))?", re.IGNORECASE)
_NOQA_CODE = re.compile(r"[ \t]*(?:[A-Za-z]+[0-9]+|(?<=[:,])[ \t]*(?:TL[0-9]*|[a-z]+(?:-[a-z0-9]+)+))(?![\w-])")
_NOQA_GAP = re.compile(r"[ \t]*(?:,|(?=[ \t]))")
_CODE = re.compile(r"([A-Z]+)([0-9]*)", re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*", re.IGNORECASE)


class Kind(StrEnum):
    LINE = "ignore"
    FILE = "ignore-file"
    OFF = "off"
    ON = "on"
    NOQA = "noqa"


@dataclass(eq=False, slots=True)
class Entry:
    """One pattern of a suppression comment."""

    pattern: str
    """A code, a prefix of one, a rule's name, or `ALL`."""
    start: int
    end: int
    """Offsets of the pattern in the text; equal where nothing is written out."""
    used: bool = False
    closes: list[Entry] = field(default_factory=list)
    """For `on`: the entries of `off` that it ends."""

    def covers(self, code: str, name: str) -> bool:
        """Whether the pattern stands for the rule."""
        if self.pattern.upper() == ALL or self.pattern.lower() == name.lower():
            return True
        wanted, given = _CODE.fullmatch(self.pattern), _CODE.fullmatch(code)
        return (
            wanted is not None
            and given is not None
            and wanted[1].upper() == given[1].upper()
            and given[2].startswith(wanted[2])
        )


@dataclass(eq=False, slots=True)
class Suppression:
    """One directive in a comment."""

    kind: Kind
    row: int
    span: Span
    """From its `#` to its end."""
    entries: list[Entry]
    reason: str
    start: int
    end: int
    """Offsets of the directive in the text."""

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(entry.pattern for entry in self.entries)

    def covers(self, code: str, name: str) -> bool:
        return any(entry.covers(code, name) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class _Match:
    """An entry that stands for a rule, with the comment it is in."""

    entry: Entry
    suppression: Suppression

    def use(self) -> Suppression:
        self.entry.used = True
        return self.suppression


@dataclass(frozen=True, slots=True)
class Unused:
    """Patterns of one directive that silenced nothing, and what to remove so that they are gone."""

    suppression: Suppression
    patterns: tuple[str, ...]
    removals: tuple[Span, ...]
    """Disjoint, in order; the whole comment, with its line if nothing else is there, if no pattern is left."""


@dataclass(frozen=True, slots=True)
class Misspelt:
    """A comment that speaks to trainlint, but not so that it could be understood; it silences nothing."""

    row: int
    span: Span
    text: str
    problem: str


class Suppressions:
    """All suppressions of one file."""

    def __init__(self, index: LineIndex) -> None:
        self.index = index
        self.all: list[Suppression] = []
        self.misspelt: list[Misspelt] = []
        self._by_row: dict[int, list[Suppression]] = {}
        """In order of rows."""
        self._file: list[Suppression] = []
        self._switches: list[Suppression] = []
        self._paired = True
        self._on_line: dict[tuple[str, int], list[_Match]] = {}
        """The narrowest entries for a rule on a logical line, by code and first row, in order of rows."""
        self._in_file: dict[str, _Match | None] = {}
        self._ranges: dict[str, list[tuple[int, _Match | None]]] = {}
        """For each code, from which row on which entry of a range silences it."""
        self._naming: dict[str, tuple[bool, frozenset[int]]] = {}

    @classmethod
    def parse(cls, text: str, index: LineIndex | None = None) -> Suppressions:
        """Read the suppressions of a file; one without any costs a search for two words."""
        suppressions = cls(index or LineIndex(text))
        lowered = text.lower()
        if "noqa" in lowered or "trainlint" in lowered:
            for comment in suppressions.index.lexed.comments:
                suppressions._read(comment)
            suppressions._pair_switches()
        return suppressions

    def find(self, code: str, name: str, first_row: int, last_row: int) -> Suppression | None:
        """The suppression that silences a finding of the rule at these rows, which is then marked as used.

        A comment on any row of the logical line at `first_row` counts; the narrowest suppression takes the credit.
        """
        if not self.all:
            return None
        match = (
            self._match_on_line(code, name, first_row, last_row)
            or self._match_in_range(code, name, first_row)
            or self._match_in_file(code, name)
        )
        return match.use() if match else None

    def names(self, code: str, name: str, row: int) -> bool:
        """Whether a comment on the row, or one for the file, speaks about the rule other than by `ALL`."""
        if code not in self._naming:
            naming = [one for one in self.all if any(_names(entry, code, name) for entry in one.entries)]
            rows = frozenset(one.row for one in naming if one.kind in (Kind.LINE, Kind.NOQA))
            self._naming[code] = any(one.kind is Kind.FILE for one in naming), rows
        in_file, rows = self._naming[code]
        return in_file or row in rows

    @cached_property
    def _rows(self) -> list[int]:
        return list(self._by_row)

    def unused(self, selected: Callable[[str], bool]) -> Iterator[Unused]:
        """What silenced nothing, after all findings were looked up.

        Args:
            selected: whether the rules that a pattern (a code, prefix or name, or `ALL`) stands for took part in the
                run; what was not looked for could not be silenced. A bare `# noqa` is never reported, since it speaks
                to other tools as well.
        """
        for suppression in self.all:
            if suppression.kind is Kind.ON:
                if not self._paired:
                    continue
                gone = [entry for entry in suppression.entries if _closes_nothing(entry, selected)]
            else:
                gone = [entry for entry in suppression.entries if not entry.used and selected(entry.pattern)]
            if suppression.kind is Kind.NOQA and suppression.patterns == (ALL,):
                continue
            if gone:
                patterns = tuple(entry.pattern for entry in gone)
                yield Unused(suppression, patterns, tuple(self._removals(suppression, gone)))

    def without_reason(self) -> Iterator[Suppression]:
        """Suppressions that do not say why; a bare `# noqa` belongs to other tools."""
        for one in self.all:
            if not one.reason and one.kind is not Kind.ON and not (one.kind is Kind.NOQA and one.patterns == (ALL,)):
                yield one

    def _match_on_line(self, code: str, name: str, first_row: int, last_row: int) -> _Match | None:
        """The narrowest entry on the logical line; of several, the first one on the rows, else the first one."""
        start, end = self.index.logical_line(first_row)
        matches = self._on_line.get((code, start))
        if matches is None:
            rows = self._rows[bisect_left(self._rows, start) : bisect_right(self._rows, end)]
            matches = _narrowest([one for row in rows for one in self._by_row[row]], code, name)
            self._on_line[code, start] = matches
        if not matches:
            return None
        at = bisect_left(matches, first_row, key=lambda match: match.suppression.row)
        on_rows = at < len(matches) and matches[at].suppression.row <= last_row
        return matches[at] if on_rows else matches[0]

    def _match_in_file(self, code: str, name: str) -> _Match | None:
        if code not in self._in_file:
            self._in_file[code] = next(iter(_narrowest(self._file, code, name)), None)
        return self._in_file[code]

    def _match_in_range(self, code: str, name: str, row: int) -> _Match | None:
        if code not in self._ranges:
            self._ranges[code] = list(self._ranges_of(code, name))
        ranges = self._ranges[code]
        at = bisect_right(ranges, row, key=lambda change: change[0])
        return ranges[at - 1][1] if at else None

    def _ranges_of(self, code: str, name: str) -> Iterator[tuple[int, _Match | None]]:
        active: _Match | None = None
        for switch in self._switches:
            for entry in switch.entries:
                if entry.covers(code, name):
                    if switch.kind is Kind.ON:
                        active = None
                    elif active is None:
                        active = _Match(entry, switch)
            yield switch.row, active

    def _pair_switches(self) -> None:
        """Note which `off` each `on` ends, by what is written; names and codes of one rule are not known as equal."""
        self._paired = sum(len(switch.entries) for switch in self._switches) <= MOST_SWITCHES
        if not self._paired:
            return
        active: list[Entry] = []
        for switch in self._switches:
            if switch.kind is Kind.OFF:
                active += switch.entries
                continue
            for entry in switch.entries:
                ended = [one for one in active if entry.covers(one.pattern, one.pattern)]
                entry.closes = ended or active.copy()
                active = [one for one in active if one not in ended]

    def _removals(self, suppression: Suppression, gone: Sequence[Entry]) -> Iterator[Span]:
        if len(gone) == len(suppression.entries):
            ours_only = suppression.kind is not Kind.NOQA or not _foreign(self.index.text, suppression)
            if ours_only:
                yield self._whole(suppression)
                return
        yield from (self.index.span(start, end) for start, end in _cut(self.index.text, suppression, gone))

    def _whole(self, suppression: Suppression) -> Span:
        """The directive with the space before it, and with its line where nothing else is on it."""
        text, (row, _) = self.index.text, self.index.position(suppression.start)
        line_start, line_end = self.index.bounds(row)
        code_end = suppression.start
        while code_end > line_start and text[code_end - 1].isspace():
            code_end -= 1
        is_last = suppression.end == line_end
        if code_end > line_start:
            end = suppression.end if is_last else self.index.offsets(suppression.span)[1]
            return self.index.span(code_end, end)
        if not is_last:
            return self.index.span(suppression.start, suppression.end)
        next_row = self.index.starts[row] if row < self.index.rows else line_end
        return self.index.span(line_start, next_row)

    def _read(self, comment: Comment) -> None:
        text = self.index.text
        body = text[comment.start : comment.end]
        lowered = body.lower()
        if "noqa" not in lowered and "trainlint" not in lowered:
            return
        starts = [found.start() for found in _SEGMENT.finditer(body)] or [0]
        if starts[0] != 0:
            starts.insert(0, 0)
        for start, end in zip(starts, [*starts[1:], len(body)], strict=True):
            self._read_segment(comment.start + start, comment.start + end)

    def _read_segment(self, start: int, end: int) -> None:
        segment = self.index.text[start:end]
        if ours := _OURS.match(segment):
            self._read_ours(segment, start, end, ours)
        elif noqa := _NOQA.match(segment):
            self._read_noqa(segment, start, end, noqa)

    def _read_ours(self, segment: str, start: int, end: int, ours: re.Match[str]) -> None:
        directive = _DIRECTIVE.match(ours["rest"])
        problem = "the words after trainlint: are ignore, ignore-file, off and on" if directive is None else ""
        entries: list[Entry] = []
        if directive is not None:
            reason = directive["reason"].strip()
            base = start + ours.start("rest")
            if directive["patterns"] is None:
                at = base + directive.end("verb")
                entries = [Entry(ALL, at, at)]
                problem = "the bracket is not closed" if reason.startswith("[") else ""
            else:
                entries = _entries(directive["patterns"], base + directive.start("patterns"))
                problem = _problem(entries)
        if directive is None or problem:
            span = self.index.span(start, start + len(segment.rstrip()))
            self.misspelt.append(Misspelt(span.row, span, segment.strip(), problem))
            return
        self._add(Kind(directive["verb"].lower()), start, end, entries, _reason(directive["reason"]))

    def _read_noqa(self, segment: str, start: int, end: int, noqa: re.Match[str]) -> None:
        if noqa["patterns"] is None:
            self._add(Kind.NOQA, start, end, [Entry(ALL, start + noqa.end(), start + noqa.end())], "")
            return
        entries, at = _noqa_entries(segment, noqa.start("patterns"), start)
        if not entries and not segment[at:].strip(" \t:,"):
            entries = [Entry(ALL, start + at, start + at)]
        ours = [entry for entry in entries if entry.pattern == ALL or _may_be_ours(entry.pattern)]
        if ours:
            self._add(Kind.NOQA, start, end, ours, _reason(segment[at:]))

    def _add(self, kind: Kind, start: int, end: int, entries: list[Entry], reason: str) -> None:
        text = self.index.text
        visible_end = start + len(text[start:end].rstrip())
        span = self.index.span(start, visible_end)
        suppression = Suppression(kind, span.row, span, entries, reason, start, end)
        self.all.append(suppression)
        if kind is Kind.FILE:
            self._file.append(suppression)
        elif kind in (Kind.OFF, Kind.ON):
            self._switches.append(suppression)
        else:
            self._by_row.setdefault(span.row, []).append(suppression)


def _names(entry: Entry, code: str, name: str) -> bool:
    return entry.pattern.upper() != ALL and entry.covers(code, name)


def _closes_nothing(entry: Entry, selected: Callable[[str], bool]) -> bool:
    return all(not one.used and selected(one.pattern) for one in entry.closes)


def _narrowest(suppressions: Iterable[Suppression], code: str, name: str) -> list[_Match]:
    """The entries that stand for the rule and for the fewest others besides, in their order."""
    matches = [_Match(entry, one) for one in suppressions for entry in one.entries if entry.covers(code, name)]
    least = min((_breadth(match.entry, code) for match in matches), default=0)
    return [match for match in matches if _breadth(match.entry, code) == least]


def _breadth(entry: Entry, code: str) -> int:
    """How much more than the rule a pattern stands for: the narrowest one takes the credit."""
    if entry.pattern.upper() == ALL:
        return 100
    return len(code) - len(entry.pattern) if _CODE.fullmatch(entry.pattern) else 0


def _entries(patterns: str, offset: int) -> list[Entry]:
    """The comma-separated patterns of a bracket that starts at `offset`."""
    entries, at = [], 0
    for part in patterns.split(","):
        pattern = part.strip()
        start = offset + at + len(part) - len(part.lstrip())
        entries.append(Entry(pattern, start, start + len(pattern)))
        at += len(part) + 1
    return entries


def _problem(entries: Sequence[Entry]) -> str:
    for entry in entries:
        if not entry.pattern:
            return "the bracket names no rule" if len(entries) == 1 else "a name is missing between the commas"
        if not _CODE.fullmatch(entry.pattern) and not _NAME.fullmatch(entry.pattern):
            return f"{entry.pattern} is neither a code nor a rule's name"
    return ""


def _noqa_entries(segment: str, at: int, offset: int) -> tuple[list[Entry], int]:
    """All codes of a `noqa`, and where in the segment they end."""
    entries: list[Entry] = []
    while found := _NOQA_CODE.match(segment, at):
        pattern = found[0].strip()
        entries.append(Entry(pattern, offset + found.end() - len(pattern), offset + found.end()))
        at = found.end()
        gap = _NOQA_GAP.match(segment, at)
        if gap is None or not _NOQA_CODE.match(segment, gap.end()):
            break
        at = gap.end()
    return entries, at


def _may_be_ours(pattern: str) -> bool:
    return pattern.upper().startswith("TL") or "-" in pattern


def _foreign(text: str, suppression: Suppression) -> bool:
    """Whether a `noqa` names codes of other tools as well."""
    return len(_all_noqa_entries(text, suppression)) > len(suppression.entries)


def _all_noqa_entries(text: str, suppression: Suppression) -> list[Entry]:
    segment = text[suppression.start : suppression.end]
    noqa = _NOQA.match(segment)
    if noqa is None or noqa["patterns"] is None:
        return suppression.entries
    return _noqa_entries(segment, noqa.start("patterns"), suppression.start)[0]


def _cut(text: str, suppression: Suppression, gone: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    """Offsets to remove so that of the patterns only those not `gone` remain, well separated."""
    entries = _all_noqa_entries(text, suppression) if suppression.kind is Kind.NOQA else suppression.entries
    gone_at = {entry.start for entry in gone}
    kept_before = False
    for position, entry in enumerate(entries):
        if entry.start not in gone_at:
            kept_before = True
        elif kept_before:
            yield entries[position - 1].end, entry.end
        else:
            yield entry.start, entries[position + 1].start


def _reason(text: str) -> str:
    return text.strip().lstrip("-–—:, \t").strip()
