"""The files of a project as an editor has them: those on disk read once, those that are open under change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.cache import Cache
from trainlint.lint.extraction import Extraction
from trainlint.lint.projects import Plan, ProjectFiles, SourceFile, content_digest, plan_of
from trainlint.lint.workers import Outcome, guarded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.incremental import LiveModule
from trainlint.source.documents import Unreadable, decode

if TYPE_CHECKING:
    from trainlint.lint.closure import Outline


class LiveFiles(ProjectFiles):
    """The files of a project, each read once until it is said to have changed."""

    def __init__(self, root: Path, texts: Mapping[Path, bytes], cache: Cache, fingerprint: bytes) -> None:
        super().__init__(root, texts, cache, fingerprint)
        self._outlined: dict[Path, tuple[bytes, Outline]] = {}
        self._planned: tuple[dict[Path, Outline], Plan] | None = None

    def renew(self, texts: Mapping[Path, bytes]) -> None:
        """Take other texts in place of what is on disk."""
        before, self._texts = self._texts, texts
        self._drop(path for path in {*before, *texts} if before.get(path) != texts.get(path))

    def forget(self, paths: Iterable[Path]) -> None:
        """Read these files again when they are next asked for, and what says which torch the project needs."""
        self._drop(paths)
        self.__dict__.pop("requirements", None)

    def _drop(self, paths: Iterable[Path]) -> None:
        for path in paths:
            self._files.pop(path, None)
            self._configurations.pop(path, None)
            self.unreadable.pop(path, None)

    def is_open(self, path: Path) -> bool:
        """Whether a text stands in for what is on disk."""
        return path in self._texts

    def plan(self, paths: Iterable[Path]) -> Plan:
        outlines = self._outlines(self.read(paths))
        if self._planned is None or self._planned[0] != outlines:
            self._planned = outlines, plan_of(outlines)
        return self._planned[1]

    def _outlines(self, files: list[SourceFile]) -> dict[Path, Outline]:
        unknown = [file for file in files if self._outlined.get(file.path, (b"",))[0] != file.digest]
        for path, outline in super()._outlines(unknown).items() if unknown else ():
            self._outlined[path] = self._files[path].digest, outline
        return {file.path: self._outlined[file.path][1] for file in files}


class LiveExtraction(Extraction):
    """The facts of a project's files, kept from check to check. Those of texts that an editor has open come of what
    changed in them."""

    def __init__(self, files: LiveFiles, jobs: int, progress: Callable[[int, int], None] | None = None) -> None:
        super().__init__(files, jobs, progress)
        self._files: LiveFiles = files
        self._known: dict[Path, tuple[bytes, ModuleFacts]] = {}
        self._live: dict[Path, LiveModule] = {}
        """The texts that are open."""
        self._failed: dict[Path, bytes] = {}
        """The content of open texts that have no facts."""

    def knows(self, path: Path, data: bytes) -> bool:
        """Whether there are facts of this content of a file."""
        return self._known.get(path, (b"", None))[0] == content_digest(path, data)

    def prepare(self, paths: Iterable[Path]) -> None:
        unknown = []
        for path in paths:
            if self._files.is_open(path):
                self.update(path, self.files.file(path).data)
            else:
                self._live.pop(path, None)
                if not self._is_known(path):
                    unknown.append(path)
        super().prepare(unknown)

    def facts(self, paths: Sequence[Path]) -> dict[Path, ModuleFacts]:
        missing = [path for path in paths if not self._is_known(path) and self.outcome(path) is None]
        for path, facts in super().facts(missing).items():
            self._known[path] = self.files.file(path).digest, facts
        # The order of the files is part of the answer.
        return {path: self._known[path][1] for path in paths if self._is_known(path)}

    def update(self, path: Path, data: bytes) -> Outcome | None:
        """Find out the facts of a text that is open in an editor; return what keeps it from having any."""
        digest = content_digest(path, data)
        if self._known.get(path, (b"", None))[0] == digest:
            return None
        if self._failed.get(path) == digest:
            return self._outcomes[digest]
        try:
            text = decode(path, data).text
        except Unreadable:
            return None
        live = self._live.setdefault(path, LiveModule())
        outcome = guarded(lambda: live.update(text))
        self._outcomes.pop(self._failed.pop(path, b""), None)
        if isinstance(outcome, ModuleFacts):
            before, _ = self._known.get(path, (b"", None))
            self._left_out.pop(before, None)
            self._known[path] = digest, outcome
            self._left_out[digest] = outcome.left_out
            return None
        self._outcomes[digest] = outcome
        self._failed[path] = digest
        return outcome

    def _is_known(self, path: Path) -> bool:
        return self._known.get(path, (b"", None))[0] == self.files.file(path).digest
