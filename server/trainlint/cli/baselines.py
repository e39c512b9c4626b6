"""Baselines for `trainlint check`: reading, writing, and saying what is stale."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from trainlint.cli.failure import Failure
from trainlint.cli.outcome import Outcome
from trainlint.fixes.write import write_output
from trainlint.report.baseline import Baseline, BrokenBaseline, Known, as_json, baseline_of, read_baseline
from trainlint.report.sources import Sources
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
        raise Failure(f"`--baseline {file}` {error}; `--write-baseline {file}` makes it anew") from error


def save(outcome: Outcome, file: Path) -> None:
    """Write down all that remains.

    Raises:
        Failure: the file cannot be written.
    """
    baseline = baseline_of(outcome.result.findings, Sources(outcome.texts), file.absolute().parent)
    data = as_json(baseline).encode("utf-8", "backslashreplace")
    try:
        write_output(file, data)
    except OSError as error:
        raise Failure(f"`--write-baseline {file}` cannot be written: {reason_of(error)}") from error


def stale_lines(stale: Counter[Known], file: Path) -> Iterator[str]:
    """Say what of the baseline is there no more."""
    for (path, code, symbol, _), count in sorted(stale.items()):
        place = f"{path}, {symbol}" if symbol else path
        times = f" ({count} times)" if count > 1 else ""
        yield f"{file} is stale: {code} in {place} is not found any more{times}"
    if stale:
        yield f"`--write-baseline {file}` drops what is stale"
