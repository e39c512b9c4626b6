"""`--watch`: lint, then again whenever something changes that the findings depend on, until Ctrl-C."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, NoReturn

from watchfiles import watch as file_changes

from trainlint.cli.failure import Failure
from trainlint.cli.program import report_failure
from trainlint.cli.terminal import is_terminal
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.watched import MANNER, Watched, is_read_with_its_folder, watched
from trainlint.report.paths import shown
from trainlint.source.documents import is_on_disk

LOOK_UP_MS = 50
"""How often to see whether what is watched is still there."""
CLEAR_SCREEN = "\x1b[H\x1b[2J"


class Linted(NamedTuple):
    """What is known after a run."""

    written: Mapping[Path, bytes]
    """What it wrote, by absolute path."""
    inputs: frozenset[str]
    """Where files may lie that the code names, on which what it found depends."""


class Watch:
    """Runs again and again."""

    def __init__(
        self,
        lint: Callable[[], Linted],
        paths: Iterable[Path],
        options: CheckOptions,
        inputs: Iterable[Path],
        *,
        quiet: bool,
    ) -> None:
        """Prepare; nothing is linted yet.

        Args:
            lint: lints and reports.
            inputs: files besides the code and its configuration that decide about the findings.
            quiet: whether to say nothing about when and why a run starts.
        """
        self._lint = lint
        self._paths = tuple(paths)
        self._options = options
        self._inputs = tuple(inputs)
        self._quiet = quiet
        self._written: Mapping[Path, bytes] = {}
        self._named: frozenset[Path] = frozenset()
        """Files, or places for such, that the code named in the last run."""

    def run(self) -> NoReturn:
        """Go on until something ends the program: Ctrl-C as KeyboardInterrupt, a closed pipe as BrokenPipeError.

        Raises:
            Failure: the system cannot watch that many folders.
        """
        known: Watched | None = None
        pending: set[Path] = set()
        while True:
            folders = self._watched().folders
            with closing(_changes_in(folders)) as changes:
                if next(changes, None) is None:
                    continue
                now = self._watched()
                if now.folders != folders:
                    continue
                named = self._named
                if known is None:
                    self._run_once("Linting now and after every change. Ctrl-C ends.")
                else:
                    self._run_for(pending | self._foreign(now.differences(known)))
                now = self._with_named(now, named)
                known, pending = (now, set()) if now.folders != folders else self._follow(changes, now)

    def _follow(self, changes: Iterable[set[Path]], known: Watched) -> tuple[Watched, set[Path]]:
        """Run for each change until folders come or go; return the state then, and what changed with them."""
        for paths in changes:
            if not any(map(known.may_matter, paths)):
                continue
            now = self._watched()
            # Files that come or go with their folder are not told of; those that are only excluded did not change.
            direct = paths & (known.files.keys() | now.files.keys()) or self._beside_named(paths)
            changed = self._foreign(direct or known.came_or_went(now))
            if now.folders != known.folders:
                return now, changed
            named = self._named
            self._run_for(changed)
            known = self._with_named(now, named)
            if known.folders != now.folders:
                return known, set()
        raise AssertionError("watching does not end by itself")

    def _watched(self) -> Watched:
        return watched(self._paths, self._options, (*self._inputs, *self._named))

    def _with_named(self, before: Watched, named_before: frozenset[Path]) -> Watched:
        """The state before a run, with that of the files that only the run has told of, and without those that only the
        run before told of."""
        if self._named == named_before:
            return before
        now = self._watched()
        gone = named_before - now.files.keys()
        stamps = {path: stamp for path, stamp in before.files.items() if path not in gone}
        told = {path: now.files[path] for path in self._named if path not in stamps}
        return Watched(now.folders, stamps | told)

    def _beside_named(self, paths: set[Path]) -> set[Path]:
        """Those of the paths that lie in a folder that the code means as a whole."""
        return {path for path in paths if path.parent in self._named and is_read_with_its_folder(path)}

    def _foreign(self, paths: Iterable[Path]) -> set[Path]:
        """Those of the paths that hold something else than the last run wrote."""
        return {path for path in paths if path not in self._written or not is_on_disk(path, self._written[path])}

    def _run_for(self, changed: set[Path]) -> None:
        if not changed:
            return
        folder = Path.cwd()
        first, *others = sorted(shown(path, folder) for path in changed)
        more = f" and {len(others)} more" if others else ""
        self._run_once(f"{first}{more} changed.")

    def _run_once(self, reason: str) -> None:
        """Lint, whatever comes of it: a mistake in a configuration is shown, and may be mended while we watch."""
        if is_terminal(sys.stdout):
            print(CLEAR_SCREEN, end="", flush=True)
        if not self._quiet:
            print(f"[{time.strftime('%H:%M:%S')}] {reason}", file=sys.stderr)
        self._written = {}
        try:
            done = self._lint()
            self._written, self._named = done.written, frozenset(map(Path, done.inputs))
        except BrokenPipeError:
            raise
        except Exception as error:
            report_failure(error)
        sys.stdout.flush()


def _changes_in(folders: Iterable[Path]) -> Generator[set[Path], None, None]:
    """Yield, several times a second, the paths that changed directly in the folders; from the first time on, nothing
    is missed. Ends at once if one of the folders has gone in the meantime.

    Raises:
        Failure: they cannot be watched.
    """
    names = {os.path.realpath(folder): folder for folder in folders}
    batches = file_changes(*names, rust_timeout=LOOK_UP_MS, **MANNER)
    try:
        for batch in batches:
            yield {_named(path, names) for _, path in batch}
    except FileNotFoundError:
        return
    except OSError as error:
        raise Failure(
            f"{len(names)} folders cannot be watched: {str(error).rstrip('.').lower()}; "
            "WATCHFILES_FORCE_POLLING=1 in the environment does without the system's help"
        ) from error


def _named(path: str, names: Mapping[str, Path]) -> Path:
    """A path that the system tells, below the folder as it was named: without resolving symbolic links."""
    folder, name = os.path.split(path)
    return names[folder] / name if folder in names else Path(path)
