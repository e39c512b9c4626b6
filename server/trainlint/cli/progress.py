"""A progress bar on standard error, for long runs that a person watches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from trainlint.cli.terminal import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Tell: TypeAlias = Callable[[int, int], None]
"""Is told how many of how many files are analysed."""

PATIENCE_S = 1.0
"""A run that ends sooner shows no bar; rich, which draws it, takes a tenth of that to import."""


@contextmanager
def progress_bar(wanted: bool) -> Iterator[Tell | None]:
    """Give what is to be told about progress; None where nobody would see it."""
    if not (wanted and is_terminal(sys.stderr)):
        yield None
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Bar:
    """Drawn from the first report after `PATIENCE_S` on."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._progress is None:
            if time.monotonic() - self._started < PATIENCE_S:
                return
            self._open()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=total)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("analysing"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("files"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("")
        self._progress.start()
