"""`--changed-since` for `trainlint check`: which findings lie on lines that git says changed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainlint.cli.failure import Failure
from trainlint.lint.result import Reported
from trainlint.report.sources import Sources
from trainlint.source.changes import Changes, NoChanges, working_tree


class ChangedLines:
    """What changed since a revision in the working trees that files lie in; git is asked once for each."""

    def __init__(self, revision: str, paths: Iterable[Path]) -> None:
        """Ask about the named paths.

        Raises:
            Failure: one of them is in no git repository, or in one that does not know the revision.
        """
        self._revision = revision
        self._trees: dict[Path, Path] = {}
        self._changes: dict[Path, Changes] = {}
        for path in paths:
            self._of(Path(os.path.realpath(path)))

    def among(self, findings: Iterable[Reported], texts: Mapping[Path, bytes]) -> list[Reported]:
        """The findings of which a row changed; `texts` were linted in place of what is on disk.

        Raises:
            Failure: git cannot say.
        """
        linted, on_disk = Sources(texts), Sources()
        rows: dict[Path, frozenset[int] | None] = {}
        found = []
        for reported in findings:
            path = reported.path
            if path not in rows:
                rows[path] = self._rows(path, linted, on_disk)
            changed = rows[path]
            if changed is None or not changed.isdisjoint(_stored_rows(reported, linted)):
                found.append(reported)
        return found

    def _rows(self, path: Path, linted: Sources, on_disk: Sources) -> frozenset[int] | None:
        real = Path(os.path.realpath(path))
        changes = self._of(real)
        document, known = linted.document(path), on_disk.document(path)
        before = "" if known is None else known.stored(known.data)
        after = None if document is None else document.stored(document.data)
        return changes.rows(real.relative_to(changes.root).as_posix(), before, after)

    def _of(self, path: Path) -> Changes:
        """What changed in the working tree that the path, without symbolic links, lies in."""
        folder = path if path.is_dir() else path.parent
        try:
            if folder not in self._trees:
                self._trees[folder] = working_tree(folder)
            root = self._trees[folder]
            if root not in self._changes:
                self._changes[root] = Changes.since(self._revision, root)
        except NoChanges as error:
            raise Failure(f"`--changed-since {self._revision}`: {error}") from error
        return self._changes[root]


def _stored_rows(reported: Reported, sources: Sources) -> Iterator[int]:
    """The rows of the file that hold the finding; git counts those, and in a notebook they are rows of the JSON."""
    for row in range(reported.location.row, reported.end_location.row + 1):
        yield sources.stored_row(reported.path, reported.cell, row)
