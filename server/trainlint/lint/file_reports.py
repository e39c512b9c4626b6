"""What is reported on each file, made anew only where its text, its settings or what rules say about it changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.extraction import Extraction
from trainlint.lint.projects import ProjectFiles
from trainlint.source.documents import NOTEBOOK

if TYPE_CHECKING:
    from trainlint.lint.governing import Governing
    from trainlint.lint.result import HotLoop, Reported, Withheld
    from trainlint.lint.workers import Outcome
    from trainlint.source.documents import Document

NOTHING = "[]"
"""A stored report where there is nothing to report: the usual case, known without importing what findings are made of.
"""
_REPORT_KIND = "report"
_DIGEST_BYTES = 16
_SPEAKING = (b"noqa", b"trainlint")
"""Words without which a file has no suppressions."""


class FileReports:
    """Reports on files that one configuration governs, in the form in which they are stored."""

    def __init__(self, files: ProjectFiles, extraction: Extraction, governing: Governing, settings: bytes) -> None:
        self.files = files
        self.cache = files.cache
        self.extraction = extraction
        self.governing = governing
        self._settings = settings
        self._notebooks: dict[Path, Document | None] = {}

    def of(self, found: Mapping[Path, Sequence[str]]) -> list[str]:
        """The reports on those files about which there is something to say; `found` has the stored findings in each
        file, of one entry point after the other."""
        keys = {path: self._key(path, texts) for path, texts in found.items() if self._matters(path, texts)}
        stored = dict(self.cache.get_many(_REPORT_KIND, keys.values()))
        reports = [self._report(path, found[path], key, stored.get(key)) for path, key in keys.items()]
        return [report for report in reports if report != NOTHING]

    def _matters(self, path: Path, texts: Sequence[str]) -> bool:
        return bool(
            texts
            or self.extraction.outcome(path) is not None
            or self.extraction.left_out(path)
            or path in self.extraction.undecodable
            or may_speak(self.files.file(path).data)
        )

    def _report(self, path: Path, texts: Sequence[str], key: bytes, stored: str | None) -> str:
        outcome = self.extraction.outcome(path)
        if stored is not None and outcome is None:
            return stored
        from trainlint.lint.stored import dump

        reported = self._made(path, texts, outcome)
        text = dump(reported, self.files.root) if reported else NOTHING
        if outcome is None:
            self.cache.put(_REPORT_KIND, key, text)
        return text

    def _made(
        self, path: Path, texts: Sequence[str], outcome: Outcome | None
    ) -> Sequence[Reported | Withheld | HotLoop]:
        """What is said about one file, given what rules found in it or what kept it from being parsed."""
        from trainlint.lint.finding import Finding
        from trainlint.lint.reporting import read_or_report, unreadable
        from trainlint.lint.result import HotLoop
        from trainlint.lint.stored import load_findings
        from trainlint.lint.workers import Broken, Crashed, Failed, Limited

        selection = self.governing.selection
        if isinstance(outcome, Crashed):
            return unreadable(path, "makes the parser crash", selection)
        if isinstance(outcome, Failed):
            return []
        report = read_or_report(path, self.files.file(path).data, selection, self._document)
        if isinstance(report, list):
            return report
        if isinstance(outcome, Limited):
            return report.beyond_limits(outcome.message, outcome.row)
        if isinstance(outcome, Broken):
            return report.syntax_error(outcome.message, outcome.row, outcome.column)
        found = [one for text in texts for one in load_findings(text, self.files.root)]
        findings = [one for one in found if isinstance(one, Finding)]
        loops = dict.fromkeys(one for one in found if isinstance(one, HotLoop))
        return [
            *report.findings([*findings, *report.left_out(self.extraction.left_out(path))]),
            *(report.loop(loop) for loop in loops),
        ]

    def _key(self, path: Path, texts: Sequence[str]) -> bytes:
        digest = blake2b(self._settings, digest_size=_DIGEST_BYTES)
        digest.update(self.files.digest_of([path]))
        for text in texts:
            digest.update(text.encode() + b"\n")
        if any(NOTEBOOK in text for text in texts):
            # Which cell a row is in follows from a notebook itself, whichever file the finding is in.
            digest.update(self.files.digest_of(self.files.notebooks))
        return digest.digest()

    def _document(self, path: Path) -> Document | None:
        """The notebook that a finding in another file refers to."""
        from trainlint.source.documents import Unreadable, decode

        if path not in self._notebooks:
            try:
                self._notebooks[path] = decode(path, self.files.file(path).data)
            except Unreadable:
                self._notebooks[path] = None
        return self._notebooks[path]


def may_speak(data: bytes) -> bool:
    """Whether a file may hold suppressions."""
    lowered = data.lower()
    return any(word in lowered for word in _SPEAKING)
