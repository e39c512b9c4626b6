"""The state of the server: what is open, how it is to be checked, and what is shown of it.

Texts go to the analysis process as snapshots with versions. What comes back about a version that is no longer current
is dropped; by then the next check is under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

from trainlint.fixes.edits import Range
from trainlint.lint.finding import CANNOT_LINT
from trainlint.lint.result import Reported
from trainlint.lsp.analysis import Analysis, AnalysisEnded
from trainlint.lsp.diagnostics import BEFORE_BREAKING, BEFORE_EDITS, Placing, Shown
from trainlint.lsp.documents import Documents, Opened, OpenText, Units
from trainlint.lsp.evidence import Evidence
from trainlint.lsp.messages import Answer, Check, Checked, Drop, Fault, Forget, Judge, Progress, Question, Settle
from trainlint.lsp.settings import Settings
from trainlint.semantics.configuration_files import LAUNCHERS, SUFFIXES
from trainlint.source.dependencies import may_say_dependencies
from trainlint.source.discovery import CONFIGURATION_FILES

_LOG = logging.getLogger(__name__)
NO_FOLDER = ""
"""Stands for the folder of what lies in none of the workspace."""


@dataclass
class Folder:
    """A folder of the workspace."""

    uri: str
    """Its address; empty for what lies in none."""
    path: Path | None
    settings: Settings = field(default_factory=Settings)
    is_settled: bool = False
    """Whether the analysis knows how to check it."""
    changes: int = 1
    """How often something changed that matters to it."""
    checked: int = 1
    """Which of these changes the last check of its open texts knew."""
    wholly_checked: int = 0
    """Which of them the last check of all of it knew."""
    sent: dict[Path, bytes] = field(default_factory=dict)
    """The open texts that the analysis has."""
    whole: tuple[Shown, ...] = ()
    """What was found when all of it was last checked."""
    configuration_error: str | None = None
    """What is wrong with its configuration, as the person was told."""
    inputs: frozenset[str] | None = None
    """Configuration files that the checked code names, and folders of such; None before the first check."""

    @property
    def wants_check(self) -> bool:
        return self.checked != self.changes

    @property
    def wants_whole(self) -> bool:
        return self.wholly_checked != self.changes


@dataclass(frozen=True)
class Published:
    """What is shown of one open file or notebook."""

    versions: tuple[int, ...]
    """Of the texts that it is about."""
    shown: tuple[Shown, ...]
    judgement: int = field(default=0, compare=False)
    """How often the evidence had changed when it was checked."""

    def of(self, uri: str) -> tuple[Shown, ...]:
        """What is shown in one text of it."""
        return tuple(one for one in self.shown if one.uri == uri)


@dataclass(frozen=True, slots=True)
class ShownLoop:
    """A step loop in an open text."""

    uri: str
    row: int
    entry: Path
    """The entry point that runs it."""


def result_id(shown: Iterable[Shown]) -> str:
    """A name of what is shown: the same for the same diagnostics."""
    return blake2b(repr([one.diagnostic for one in shown]).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class Client(Protocol):
    """What the session tells whoever uses it."""

    def show(self, opened: Opened, before: Published | None, now: Published) -> None:
        """What is shown of an open file is another than before, or about another version."""

    def refresh_figures(self) -> None:
        """What is shown besides diagnostics may be another than before."""

    def complain(self, message: str) -> None:
        """Tell the person that something is wrong, and what to do."""

    def tell_progress(self, progress: Progress | None) -> None:
        """Tell the person how far a check is; None once it is done."""


class Session:
    """All that changes while the server runs. Everything here happens in the server's own thread."""

    def __init__(self, client: Client, analysis: Analysis) -> None:
        self.client = client
        self.analysis = analysis
        analysis.told = client.tell_progress
        analysis.restarted = self._restarted
        self.trusted = True
        self.units = Units(None)
        self.documents = Documents()
        self.folders: dict[str, Folder] = {NO_FOLDER: Folder(NO_FOLDER, None)}
        self.evidence = Evidence()
        self._judgement = 0
        """How often the evidence changed."""
        self._published: dict[str, Published] = {}
        self._loops: dict[str, tuple[ShownLoop, ...]] = {}
        """The step loops of each open file, or notebook."""
        self._work = asyncio.Event()
        self._done = asyncio.Condition()
        self._whole_asked = False
        self._complaints: set[str] = set()

    # --------------------------------------------------------------------------------------- what the client tells

    def add_folder(self, uri: str, path: Path) -> None:
        """A folder is now part of the workspace."""
        self.folders[uri] = Folder(uri, path)
        self.check_all()

    def remove_folder(self, uri: str) -> None:
        """A folder is no longer part of the workspace."""
        folder = self.folders.pop(uri, None)
        if folder is not None and folder.is_settled:
            self.analysis.order(Drop(uri))
        self.check_all()

    def settle(self, folder: Folder, settings: Settings) -> None:
        """Check a folder with these settings from now on."""
        if settings != folder.settings:
            folder.settings = settings
            folder.is_settled = False
            self._want(folder)

    def changed(self, opened: Opened) -> None:
        """A file was opened, or its text changed."""
        self._want(self.folder_of(opened.path))

    def closed(self, opened: Opened) -> None:
        """A file is no longer open; what is on disk counts."""
        self._published.pop(opened.uri, None)
        self._loops.pop(opened.uri, None)
        self._want(self.folder_of(opened.path))

    def changed_on_disk(self, paths: Sequence[Path]) -> None:
        """Files were made, changed or removed, by whomever."""
        paths = [path for path in paths if self._may_matter(path)]
        if not paths:
            return
        self.analysis.order(Forget(tuple(paths)))
        self.check_all()

    def _may_matter(self, path: Path) -> bool:
        """Whether anything may depend on a file: of those that hold data as often as a configuration, and that jobs may
        write all the time, only those do that the checked code names."""
        if not path.name.endswith((*SUFFIXES, *LAUNCHERS)) or path.name in CONFIGURATION_FILES:
            return True
        if may_say_dependencies(path):
            return True
        inputs = [folder.inputs for folder in self.folders.values() if folder.is_settled]
        places = [str(path), *map(str, path.parents)]
        return any(one is None or not one.isdisjoint(places) for one in inputs)

    def judge(self) -> None:
        """The evidence is another."""
        self._judgement += 1
        self.analysis.order(Judge(self.evidence.verdicts))
        self.check_all()
        self.client.refresh_figures()

    def check_all(self) -> None:
        """Check everything that is open."""
        for folder in self.folders.values():
            self._want(folder)

    def _want(self, folder: Folder) -> None:
        folder.changes += 1
        self._work.set()

    # ------------------------------------------------------------------------------------------ what the client asks

    def folder_of(self, path: Path) -> Folder:
        """The innermost folder of the workspace that a file lies in."""
        around = [folder for folder in self.folders.values() if folder.path and path.is_relative_to(folder.path)]
        return max(around, key=lambda folder: len(str(folder.path)), default=self.folders[NO_FOLDER])

    def text(self, uri: str) -> OpenText | None:
        """The open text with exactly this address."""
        opened = self.documents.get(uri)
        return None if opened is None else next((text for text in opened.texts if text.uri == uri), None)

    def published(self, uri: str) -> Published | None:
        """What is shown of the file, or the notebook's cell, with this address."""
        opened = self.documents.get(uri)
        return None if opened is None else self._published.get(opened.uri)

    def loops(self, uri: str) -> tuple[ShownLoop, ...]:
        """The step loops of the file, or of the notebook that a cell belongs to, with this address."""
        opened = self.documents.get(uri)
        return () if opened is None else self._loops.get(opened.uri, ())

    def is_current(self, uri: str) -> bool:
        """Whether what is shown of a file is about its text as it is, and what runs say about that."""
        opened, published = self.documents.get(uri), self.published(uri)
        if opened is None or published is None:
            return False
        return published.versions == opened.versions and published.judgement == self._judgement

    async def current(self, uri: str) -> Published | None:
        """What there is to show of a file once its present text is checked; None if it is not open, or is closed."""
        async with self._done:
            await self._done.wait_for(lambda: self.documents.get(uri) is None or self.is_current(uri))
        return self.published(uri)

    async def whole(self) -> list[Shown]:
        """What is found in all files of the workspace, open or not."""
        self._whole_asked = True
        self._work.set()
        async with self._done:
            await self._done.wait_for(lambda: not any(folder.wants_whole for folder in self._real_folders()))
        return [one for folder in self._real_folders() for one in folder.whole]

    async def ask(self, question: Question) -> Answer | None:
        """Ask the analysis something; None where it cannot say."""
        try:
            answer = await self.analysis.ask(question)
        except AnalysisEnded:
            return None
        if isinstance(answer, Fault):
            _LOG.error("the analysis failed: %s\n%s", answer.summary, answer.traceback)
            self.complain(f"trainlint: internal error: {answer.summary}; {_SEE_LOG}")
            return None
        return answer

    # ------------------------------------------------------------------------------------------------------- checks

    async def run(self) -> None:
        """Check whatever wants to be checked, for as long as the server runs."""
        while True:
            await self._work.wait()
            folder = next((folder for folder in self.folders.values() if folder.wants_check), None)
            if folder is not None:
                await self._guarded(folder, self._check(folder))
            elif self._whole_asked and (stale := [one for one in self._real_folders() if one.wants_whole]):
                await self._guarded(stale[0], self._check_whole(stale[0]))
            else:
                self._work.clear()
            async with self._done:
                self._done.notify_all()

    async def _guarded(self, folder: Folder, check: Awaitable[None]) -> None:
        """Go on after a defect: whoever waits for the check is answered, and the next one may do better."""
        try:
            await check
        except Exception as error:
            _LOG.exception("a check failed")
            self.complain(f"trainlint: internal error: {type(error).__name__}: {error}; {_SEE_LOG}")
            folder.checked = folder.wholly_checked = folder.changes
            for one in self._opened_of(folder):
                self._published[one.uri] = Published(one.versions, (), self._judgement)

    def _real_folders(self) -> list[Folder]:
        return [folder for folder in self.folders.values() if folder.path is not None]

    async def _check(self, folder: Folder) -> None:
        """Check what is open of a folder."""
        folder.checked = folder.changes
        opened = self._opened_of(folder)
        versions, judgement = {one.uri: one.versions for one in opened}, self._judgement
        checked: Checked | None = Checked(0)
        if folder.settings.enable and (opened or folder.sent):
            checked = await self._ask_check(folder, opened, [one.path for one in opened])
        for one in opened:
            if self.documents.get(one.uri) is one and one.versions == versions[one.uri]:
                self._publish(one, checked, judgement)

    async def _check_whole(self, folder: Folder) -> None:
        """Check all of a folder, unless something more urgent comes up."""
        assert folder.path is not None
        known = folder.changes
        opened = self._opened_of(folder)
        checked: Checked | None = Checked(0)
        if folder.settings.enable:
            checked = await self._ask_check(folder, opened, [folder.path], background=True)
        if checked is not None and checked.gave_way:
            return
        if checked is not None and known == folder.changes:
            folder.whole = tuple(self._shown_of_whole(folder, opened, checked))
        folder.wholly_checked = known

    def _shown_of_whole(self, folder: Folder, opened: Sequence[Opened], checked: Checked) -> Iterator[Shown]:
        """What was found in a folder, but for what lies in a folder of its own within it."""
        for one in opened:
            yield from self._shown(one, checked)
        placing = Placing(self.units, self.documents, checked.lines, checked.broken)
        paths = {one.path for one in opened}
        for reported in checked.findings:
            hidden = folder.settings.hide_refuted and _is_refuted(reported)
            if reported.path not in paths and self.folder_of(reported.path) is folder and not hidden:
                yield placing.shown(reported)

    def _opened_of(self, folder: Folder) -> list[Opened]:
        return [one for one in self.documents if self.folder_of(one.path) is folder]

    async def _ask_check(
        self, folder: Folder, opened: Sequence[Opened], paths: Sequence[Path], *, background: bool = False
    ) -> Checked | None:
        """What a check comes to; None if it failed."""
        if not folder.is_settled:
            options = folder.settings.options(folder.path, trusted=self.trusted)
            self.analysis.order(Settle(folder.uri, options))
            folder.is_settled = True
            folder.sent = {}
        texts = {one.path: one.data for one in opened}
        changed: dict[Path, bytes | None] = {
            path: data for path, data in texts.items() if folder.sent.get(path) != data
        }
        changed |= dict.fromkeys(folder.sent.keys() - texts.keys())
        folder.sent = texts
        answer = await self.ask(Check(folder.uri, changed, tuple(paths), background))
        self.client.tell_progress(None)
        if not isinstance(answer, Checked):
            return None
        # What the settings from before, or a check that was broken off, had to say is no news.
        if not answer.gave_way and folder.is_settled and self.folders.get(folder.uri) is folder:
            self._tell(folder, answer)
            if answer.configuration_error is None:
                folder.inputs = answer.inputs if folder.inputs is None else folder.inputs | answer.inputs
        return answer if answer.configuration_error is None else None

    def _publish(self, opened: Opened, checked: Checked | None, judgement: int) -> None:
        """Show what a check found in a file; after a failed one, what was shown before."""
        before = self._published.get(opened.uri)
        if checked is None:
            now = Published(opened.versions, () if before is None else tuple(self._kept(opened, before)), judgement)
        else:
            loops = tuple(self._shown_loops(opened, checked))
            now = Published(opened.versions, tuple(self._shown(opened, checked)), judgement)
            if self._loops.get(opened.uri) != loops:
                self._loops[opened.uri] = loops
                self.client.refresh_figures()
        self._published[opened.uri] = now
        self.client.show(opened, before, now)

    def _shown_loops(self, opened: Opened, checked: Checked) -> Iterator[ShownLoop]:
        """The step loops of a file, where they are by now. Those of a text that does not parse are about the last one
        that did."""
        is_broken = opened.path in checked.broken
        for loop in checked.loops:
            text = opened.text_of(loop.site.cell) if loop.path == opened.path else None
            if text is None:
                continue
            row: int | None = loop.site.row
            if is_broken:
                start, _ = text.checked.bounds(loop.site.row)
                place = text.now(Range(start, start + 1))
                row = None if place is None else text.index.position(place.start)[0]
            if row is not None:
                yield ShownLoop(text.uri, row, loop.entry)

    def _kept(self, opened: Opened, before: Published) -> Iterator[Shown]:
        """What was shown before, where it is by now."""
        if before.versions == opened.versions:
            yield from before.shown
            return
        placing = Placing(self.units, self.documents, {}, {opened.path})
        texts = {text.uri: text for text in opened.texts}
        for shown in before.shown:
            text = texts.get(shown.uri)
            # What keeps a text from parsing is about that text, and was never about the last one that did.
            if text is not None and shown.code not in CANNOT_LINT:
                moved = placing.shown_moved(shown.reported, text, BEFORE_EDITS)
                if moved is not None:
                    yield moved

    def _shown(self, opened: Opened, checked: Checked) -> list[Shown]:
        placing = Placing(self.units, self.documents, checked.lines, checked.broken)
        own = [reported for reported in checked.findings if reported.path == opened.path]
        if self.folder_of(opened.path).settings.hide_refuted:
            own = [reported for reported in own if not _is_refuted(reported)]
        if opened.path not in checked.broken:
            for text in opened.texts:
                text.note_checked()
            return [placing.shown(reported) for reported in own]
        as_it_is = Placing(self.units, self.documents, checked.broken_lines)
        shown = [as_it_is.shown(error) for error in checked.broken[opened.path]]
        for reported in own:
            within = opened.text_of(reported.cell)
            earlier = None if within is None else placing.shown_moved(reported, within, BEFORE_BREAKING)
            if earlier is not None:
                shown.append(earlier)
        return shown

    def _tell(self, folder: Folder, checked: Checked) -> None:
        """Tell the person what went wrong besides, each thing once."""
        error = checked.configuration_error
        if error is not None and all(error != one.configuration_error for one in (folder, *self.folders.values())):
            self.client.complain(f"trainlint: the configuration is wrong, so the last findings are kept: {error}")
        folder.configuration_error = error
        for message in (*checked.warnings, *checked.errors):
            self.complain(f"trainlint: {message}")

    def complain(self, message: str) -> None:
        """Tell the person something that is wrong, once."""
        if message not in self._complaints:
            self._complaints.add(message)
            self.client.complain(message)

    def _restarted(self) -> None:
        """The analysis process is a new one, or none will come."""
        if self.analysis.is_given_up:
            self.complain(
                "trainlint: the analysis process ended several times in a row, so nothing is checked any more; "
                "restart the server, and please report what it says in its log"
            )
            return
        for folder in self.folders.values():
            folder.is_settled = False
        if not self.evidence.is_empty:
            self.analysis.order(Judge(self.evidence.verdicts))
        self.check_all()


def _is_refuted(reported: Reported) -> bool:
    return reported.verdict is not None and reported.verdict.status.value == "refuted"


_SEE_LOG = "the log of the server has more, and restarting it may help"
