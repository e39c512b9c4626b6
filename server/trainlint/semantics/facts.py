"""What is known of one file alone: the output of `extract`, the input of `link`, and the unit of the cache."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, overload

from trainlint.semantics import code, library

_QUOTED = re.compile(r'"([A-Za-z_]\w*)"')
FORMAT = 4
"""Raised whenever the lowered code or the layout below changes, so that older caches are not read."""


@dataclass(frozen=True, slots=True)
class ImportedModule:
    """A module that a file imports, anywhere in it: the raw material of the import closure."""

    module: str
    """Dotted name as written, without leading dots."""
    level: int
    """Number of leading dots."""
    names: tuple[str, ...]
    """What is imported from it ("*" included); empty for `import module`."""


@dataclass(frozen=True, slots=True)
class FunctionSummary:
    """What is known of a function without decoding its body."""

    qualname: str
    """Dotted path within the module, "<locals>" left out: `Trainer.fit`, `main.train_step`."""
    row: int
    """First row of the unit that the body's places count from; rows start at 1."""
    mentions: frozenset[str]
    """Names among `extract.WATCHED` that the body names as a variable, an attribute or a method; "backward" also where
    it is a part of a name, such as `model_backward_and_update`."""


class LeftOut(NamedTuple):
    """A statement that was not analysed."""

    row: int
    """Its first row, from 1."""
    why: str
    """What it does that is beyond the limits of the analysis: "brackets nest deeper than 150 levels"."""


class LazyLines(Sequence[str]):
    """The lines of a text that is read once the first of them is asked for."""

    def __init__(self, read: Callable[[], str], count: int) -> None:
        self._read = read
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._lines[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[tuple[str, ...]]]:
        """Another process is sent the lines themselves."""
        return tuple, (self._lines,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._lines == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def _lines(self) -> tuple[str, ...]:
        return tuple(self._read().split("\n")) if self._count else ()


@dataclass(frozen=True)
class ModuleFacts:
    """One file, lowered. `units` and `bodies` are lines of JSON that `unit` and `body` decode."""

    functions: tuple[FunctionSummary, ...]
    """The functions of the file, indexed as `code.Define.body` is."""
    unit_rows: tuple[int, ...]
    """First row of each top-level statement; rows start at 1."""
    imports: tuple[ImportedModule, ...]
    mentions: frozenset[str]
    """Names among `extract.WATCHED` that module-level code names; those of functions stand with them."""
    starts: bool
    """Whether module-level code asks whether the file is `__main__`."""
    lines: Sequence[str] = field(repr=False)
    """JSON of each top-level statement, then of each function's body."""
    left_out: tuple[LeftOut, ...] = ()
    """Statements that stand for nothing here, since they were not analysed."""

    def unit(self, index: int) -> code.Statement:
        """Decode the top-level statement `index`."""
        return code.decode_block([json.loads(self.lines[index])])[0]

    def body_line(self, index: int) -> str:
        """The body of function `index` as it is stored: one line of JSON."""
        return self.lines[len(self.unit_rows) + index]

    def body(self, index: int) -> code.Block:
        """Decode the body of function `index`."""
        return code.decode_block(json.loads(self.body_line(index)))

    def words(self, index: int) -> frozenset[str]:
        """The names and one-word texts in the body of function `index`, found once."""
        words = self._words.get(index)
        if words is None:
            words = self._words[index] = frozenset(_QUOTED.findall(self.body_line(index)))
        return words

    @cached_property
    def packages(self) -> frozenset[str]:
        """The packages that the file imports, by the first part of their names."""
        return frozenset(one.module.partition(".")[0] for one in self.imports if not one.level)

    @cached_property
    def is_of_another_framework(self) -> bool:
        """Whether the file computes with another framework than torch, whose objects have the same names."""
        return not self.packages.isdisjoint(library.OTHER_FRAMEWORKS) and self.packages.isdisjoint(library.TORCH_FAMILY)

    @cached_property
    def unit_words(self) -> frozenset[str]:
        """The names and one-word texts in module-level code."""
        return frozenset().union(*(_QUOTED.findall(self.lines[index]) for index in range(len(self.unit_rows))))

    @cached_property
    def _words(self) -> dict[int, frozenset[str]]:
        return {}

    def is_continuation_of(self, before: ModuleFacts) -> bool:
        """Whether it begins as `before`, but for what is inside functions, and only has further functions, classes and
        statements that import nothing else at its end."""
        units, functions = len(before.unit_rows), len(before.functions)
        return (
            before.imports == self.imports
            and before.mentions == self.mentions
            and before.starts == self.starts
            and before.left_out == self.left_out
            and before.unit_rows == self.unit_rows[:units]
            and before.functions == self.functions[:functions]
            and before.lines[:units] == self.lines[:units]
        )

    @cached_property
    def all_mentions(self) -> frozenset[str]:
        """What the whole file mentions."""
        return self.mentions.union(*(function.mentions for function in self.functions))

    def dump(self) -> str:
        """Write the facts as lines of JSON: a header, which tells what is in the file, then `lines`, its code."""
        header = [
            [[f.qualname, f.row, sorted(f.mentions)] for f in self.functions],
            self.unit_rows,
            [[i.module, i.level, i.names] for i in self.imports],
            sorted(self.mentions),
            self.starts,
            self.left_out,
        ]
        return "\n".join((json.dumps(header, separators=(",", ":")), *self.lines))

    @classmethod
    def load(cls, text: str) -> ModuleFacts:
        """Read what `dump` wrote.

        Raises:
            ValueError: the text is not what `dump` writes.
        """
        header, code_text = split(text)
        return cls.load_lazily(header, lambda: code_text, code_text.count("\n") + 1 if code_text else 0)

    @classmethod
    def load_lazily(cls, header: str, read_code: Callable[[], str], lines: int | None = None) -> ModuleFacts:
        """Read the header that `dump` wrote, and what follows it once somebody asks for code.

        Raises:
            ValueError: the text is not what `dump` writes, or is followed by another number of `lines` than it says.
        """
        try:
            functions, unit_rows, imports, mentions, starts, left_out = _header(json.loads(header))
        except (TypeError, IndexError, KeyError) as error:
            raise ValueError(f"not a facts file: {error}") from error
        count = len(unit_rows) + len(functions)
        if lines not in (None, count):
            raise ValueError("not a facts file: lines are missing")
        return cls(functions, unit_rows, imports, mentions, starts, LazyLines(read_code, count), left_out)


def split(text: str) -> tuple[str, str]:
    """Part what `ModuleFacts.dump` wrote: the header, the code."""
    header, _, code_text = text.partition("\n")
    return header, code_text


def _header(array: Any) -> tuple[Any, ...]:
    functions, unit_rows, imports, mentions, starts, left_out = array
    return (
        tuple(FunctionSummary(qualname, row, frozenset(names)) for qualname, row, names in functions),
        tuple(unit_rows),
        tuple(ImportedModule(module, level, tuple(names)) for module, level, names in imports),
        frozenset(mentions),
        bool(starts),
        tuple(LeftOut(row, why) for row, why in left_out),
    )
