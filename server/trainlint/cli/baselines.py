"""Baselines for `trainlint check`: reading, writing, and saying what is stale."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainlint.cli.failure import Failure
from trainlint.cli.outcome import Outcome
from trainlint.fixes.write import replaces, write_output
from trainlint.report.baseline import Baseline, BrokenBaseline, Known, as_json, baseline_of, read_baseline
from trainlint.report.sources import Sources
from trainlint.source.discovery import absolute
from trainlint.source.system_errors import reason_of


def load(file: Path) -> Baseline:
    """Read a baseline.

    Raises:
        Failure: it cannot be read, or is none.
    """
    try:
        return read_baseline(file.read_bytes(), file.absolute().parent)
    except FileNotFoundError as error:
        raise Failure(f"`--baseline {file}`: there is no such file; `--write-baseline {file}` makes it") from error
    except OSError as error:
        raise Failure(f"`--baseline {file}` cannot be read: {reason_of(error)}") from error
    except BrokenBaseline as error:
        advice = f"; `--write-baseline {file}` makes it anew" if error.damaged else ""
        raise Failure(f"`--baseline {file}` {error}{advice}") from error


@dataclass(frozen=True, slots=True)
class Saved:
    """How many findings the new baseline lists that the old one did not, and so on, where there was an old one."""

    added: int
    removed: int
    kept: int
    """Those of files that lie in none of the named paths."""


class Rewriting:
    """A baseline that is to be written, perhaps in the place of an old one."""

    def __init__(self, file: Path, paths: Iterable[Path]) -> None:
        """Look at what is there.

        Raises:
            Failure: it is something else, which would be lost.
        """
        self.file = file
        self._paths = [absolute(path) for path in paths]
        self._old = _replaced(file)

    def save(self, outcome: Outcome) -> Saved | None:
        """Write down all that remains, and what the old baseline lists of other paths.

        Raises:
            Failure: the file cannot be written.
        """
        found = baseline_of(outcome.result.findings, Sources(outcome.texts), absolute(self.file).parent)
        saved = None
        if self._old is not None:
            kept = self._old.elsewhere([*self._paths, *outcome.result.paths])
            found.counts.update(kept.counts)
            added, removed = found.counts - self._old.counts, self._old.counts - found.counts
            saved = Saved(added.total(), removed.total(), kept.counts.total())
        try:
            write_output(self.file, as_json(found).encode("utf-8", "backslashreplace"))
        except OSError as error:
            raise Failure(f"`--write-baseline {self.file}` cannot be written: {reason_of(error)}") from error
        return saved


def _replaced(file: Path) -> Baseline | None:
    """The baseline that a new one would replace; None where nothing would be lost.

    Raises:
        Failure: the file is no baseline.
    """
    if not replaces(file):
        return None
    try:
        return read_baseline(file.read_bytes(), absolute(file).parent)
    except OSError as error:
        raise Failure(f"`--write-baseline {file}` cannot be read: {reason_of(error)}") from error
    except BrokenBaseline as error:
        if error.damaged:
            return None
        raise Failure(
            f"`--write-baseline {file}` would destroy what is in that file, which {error}; name another file"
        ) from error


def stale_lines(stale: Counter[Known], file: Path, paths: Sequence[Path]) -> Iterator[str]:
    """Say what of the baseline is there no more when these paths are linted."""
    for (path, code, symbol, _), count in sorted(stale.items()):
        place = f"{path}, {symbol}" if symbol else path
        times = f" ({count} times)" if count > 1 else ""
        yield f"{file} is stale: {code} in {place} is not found any more{times}"
    if stale:
        command = shlex.join(["trainlint", *map(str, paths), "--write-baseline", str(file)])
        yield f"`{command}` drops what is stale, and lists what is new"
