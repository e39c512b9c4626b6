"""The facts of a project's files: parsed once for each content, then kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.cache import Cache
    from trainlint.lint.projects import ProjectFiles
    from trainlint.lint.workers import Outcome
    from trainlint.semantics.facts import LeftOut, ModuleFacts

FACTS_KIND = "facts"
CODE_KIND = "code"
"""The code of a file, which is read once it is walked; its facts tell what there is to walk."""
_BROKEN = "!"
"""Starts what is stored in place of the facts of a file that does not parse."""
_LIMITED = "?"
"""Likewise of a file that is beyond the limits of the analysis."""
_IN_MEMORY = 50
"""Files whose stored facts are read at once."""


def stored_facts(cache: Cache, key: bytes) -> ModuleFacts | None:
    """The facts of the content of a file that an earlier run looked at, while all of them are in the cache."""
    from trainlint.semantics.facts import ModuleFacts

    header, code = cache.get(FACTS_KIND, key), cache.get(CODE_KIND, key)
    if header is None or code is None or header.startswith((_BROKEN, _LIMITED)):
        return None
    try:
        return ModuleFacts.load_lazily(header, lambda: code)
    except ValueError:
        return None


class Extraction:
    """Has the facts of files, and knows what came of those that have none."""

    def __init__(self, files: ProjectFiles, jobs: int, progress: Callable[[int, int], None] | None = None) -> None:
        self.files = files
        self.cache = files.cache
        self.jobs = jobs
        self.progress = progress
        self.undecodable: set[Path] = set()
        self._outcomes: dict[bytes, Outcome] = {}
        """What came of the files that have no facts, by content."""
        self._left_out: dict[bytes, tuple[LeftOut, ...]] = {}
        """The statements that the facts of a file leave out, by content."""

    def outcome(self, path: Path) -> Outcome | None:
        """What kept a file from being analysed; None where nothing did, as far as it was looked at."""
        return self._outcomes.get(self.files.file(path).digest)

    def left_out(self, path: Path) -> tuple[LeftOut, ...]:
        """The statements of a file that were not analysed, as far as it was looked at."""
        return self._left_out.get(self.files.file(path).digest, ())

    def prepare(self, paths: Iterable[Path]) -> None:
        """Have the facts of all these files in the cache, as far as they have any."""
        keys = {self.files.content_key(path): path for path in paths}
        known = self.cache.holds(FACTS_KIND, keys)
        unknown = [path for key, path in keys.items() if key not in known]
        texts = {path: text for path in unknown if (text := self.text(path)) is not None}
        if texts:
            from trainlint.lint.workers import extract_all

            todo = list(texts)
            outcomes = extract_all([texts[path] for path in todo], self.jobs)
            for done, (index, outcome) in enumerate(outcomes, start=1):
                self._keep(todo[index], outcome)
                if self.progress is not None:
                    self.progress(done, len(todo))
            self.cache.flush()

    def facts(self, paths: Sequence[Path]) -> dict[Path, ModuleFacts]:
        """The facts of those of the files that have any; the others have outcomes afterwards."""
        found = {}
        for start in range(0, len(paths), _IN_MEMORY):
            part = paths[start : start + _IN_MEMORY]
            stored = dict(self.cache.get_many(FACTS_KIND, {self.files.content_key(path) for path in part}))
            for path in part:
                facts = self._facts_of(path, stored.get(self.files.content_key(path)))
                if facts is not None:
                    found[path] = facts
        return found

    def parses(self, path: Path) -> None:
        """Find out whether libcst parses a file, for its outcome."""
        self.prepare([path])
        self.facts([path])

    def text(self, path: Path) -> str | None:
        """The text of a file; None where it cannot be decoded."""
        from trainlint.source.documents import Unreadable, decode

        try:
            return decode(path, self.files.file(path).data).text
        except Unreadable:
            # Reported where the file is reported on.
            self.undecodable.add(path)
            return None

    def _facts_of(self, path: Path, stored: str | None) -> ModuleFacts | None:
        found = None if stored is None else self._decoded(path, stored)
        if found is None and self.outcome(path) is None:
            self._extract_again(path)
            header = self.cache.get(FACTS_KIND, self.files.content_key(path))
            return None if header is None else self._decoded(path, header)
        return found

    def _code_of(self, path: Path) -> str:
        """The code that follows the header of a file's facts."""
        key = self.files.content_key(path)
        stored = self.cache.get(CODE_KIND, key)
        if stored is None:
            self._extract_again(path)
            stored = self.cache.get(CODE_KIND, key)
        return stored or ""

    def _extract_again(self, path: Path) -> None:
        """Extract the facts of a file of which a part is missing in the cache."""
        text = self.text(path)
        if text is not None:
            from trainlint.lint.workers import outcome_of

            self._keep(path, outcome_of(text))

    def _decoded(self, path: Path, stored: str) -> ModuleFacts | None:
        """What was stored; None, with an outcome, for a file that does not parse, without one if it was damaged."""
        from trainlint.semantics.facts import ModuleFacts

        try:
            if stored.startswith((_BROKEN, _LIMITED)):
                self._outcomes[self.files.file(path).digest] = _without_facts(stored)
                return None
            facts = ModuleFacts.load_lazily(stored, lambda: self._code_of(path))
            if facts.left_out:
                self._left_out[self.files.file(path).digest] = facts.left_out
            return facts
        except ValueError:
            return None

    def _keep(self, path: Path, outcome: Outcome) -> None:
        from trainlint.lint.workers import Broken, Extracted, Limited

        key = self.files.content_key(path)
        if isinstance(outcome, Extracted):
            from trainlint.semantics.facts import split

            header, code = split(outcome.facts)
            self.cache.put(FACTS_KIND, key, header)
            self.cache.put(CODE_KIND, key, code)
        else:
            self._outcomes[self.files.file(path).digest] = outcome
            if isinstance(outcome, Broken):
                self.cache.put(FACTS_KIND, key, _BROKEN + json.dumps(outcome))
            elif isinstance(outcome, Limited):
                self.cache.put(FACTS_KIND, key, _LIMITED + json.dumps(outcome))


def _without_facts(stored: str) -> Outcome:
    from trainlint.lint.workers import Broken, Limited

    if stored.startswith(_LIMITED):
        message, row = json.loads(stored.removeprefix(_LIMITED))
        return Limited(str(message), int(row))
    message, row, column = json.loads(stored.removeprefix(_BROKEN))
    return Broken(str(message), int(row), int(column))
