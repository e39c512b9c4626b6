"""The files of one project, and what of them must be looked at to say something about some of them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.lint.cache import Cache
from trainlint.lint.configurations import ConfigurationNames, is_file_of_interest, places
from trainlint.semantics.configuration_files import MOST_BYTES
from trainlint.source.dependencies import dependency_files
from trainlint.source.documents import NOTEBOOK, Unreadable, decode, read_bytes

if TYPE_CHECKING:
    from trainlint.lint.closure import Outline

_OUTLINE_KIND = "outline"
_PLAN_KIND = "plan"
_DIGEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The bytes of a file, and a digest of them."""

    path: Path
    data: bytes
    digest: bytes


@dataclass(frozen=True, slots=True)
class PlannedComponent:
    """Relevant files that belong together."""

    files: tuple[Path, ...]
    """Sorted."""
    named: tuple[ConfigurationNames, ...]
    """Of those of them that name configuration files."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which files belong together, and which need a look of their own."""

    components: tuple[PlannedComponent, ...]
    plain: tuple[Path, ...]
    """The files that are not relevant."""


@dataclass(frozen=True, slots=True)
class Configurations:
    """The configuration files that the code of a component names."""

    places: tuple[str, ...] = ()
    """Where such files, and folders of them, may lie: absolute paths."""
    contents: Mapping[Path, bytes] = field(default_factory=dict)
    """Of those that are there."""

    def digest(self, name: Callable[[Path], str]) -> bytes:
        """A digest of which there are, and of what is in them."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for path, data in self.contents.items():
            digest.update(name(path).encode("utf-8", "surrogateescape") + b"\0")
            digest.update(blake2b(data, digest_size=_DIGEST_BYTES).digest())
        return digest.digest()


class ProjectFiles:
    """The files below a project's root that are read, each once."""

    def __init__(self, root: Path, texts: Mapping[Path, bytes], cache: Cache, fingerprint: bytes) -> None:
        self.root = root
        self.cache = cache
        self.fingerprint = fingerprint
        self.unreadable: dict[Path, str] = {}
        """Why a file could not be read."""
        self._texts = texts
        self._files: dict[Path, SourceFile] = {}
        self._configurations: dict[Path, bytes | None] = {}
        self._prefix = os.path.join(root, "")  # noqa: PTH118 - with the separator at its end

    def read(self, paths: Iterable[Path]) -> list[SourceFile]:
        """Return those of the files that can be read."""
        found = []
        for path in paths:
            file = self._files.get(path) or self._read(path)
            if file is not None:
                found.append(file)
        return found

    def file(self, path: Path) -> SourceFile:
        """Return a file that `read` returned before."""
        return self._files[path]

    def relative(self, path: Path) -> str:
        """The path as it is written in the cache: relative to the root for files below it."""
        return os.fspath(path).removeprefix(self._prefix)

    def digest_of(self, paths: Iterable[Path], *parts: bytes, earlier: Mapping[Path, bytes] | None = None) -> bytes:
        """A digest of the names and contents of files that were read, and of `parts`; with other contents for those
        that have digests in `earlier`."""
        digest = blake2b(self.fingerprint, digest_size=_DIGEST_BYTES)
        for part in parts:
            digest.update(part)
        for path in paths:
            digest.update(self.relative(path).encode("utf-8", "surrogateescape"))
            content = None if earlier is None else earlier.get(path)
            digest.update(b"\0" + (content or self._files[path].digest))
        return digest.digest()

    def content_key(self, path: Path) -> bytes:
        """The key of what depends on nothing but the content of a file."""
        return self.content_key_of(self._files[path].digest)

    def content_key_of(self, digest: bytes) -> bytes:
        """The key of what depends on nothing but the content that has this digest."""
        return self.fingerprint[:8] + digest

    def plan(self, paths: Iterable[Path]) -> Plan:
        """Group the files (sorted) by what they import."""
        files = self.read(paths)
        key = self.digest_of([file.path for file in files])
        stored = self.cache.get(_PLAN_KIND, key)
        plan = None if stored is None else _plan_from(stored, files)
        if plan is not None:
            self.cache.note_use(_OUTLINE_KIND, [self.content_key(file.path) for file in files])
        else:
            plan = plan_of(self._outlines(files))
            index = {file.path: number for number, file in enumerate(files)}
            rows = [[index[path] for path in component.files] for component in plan.components]
            names = [[[index[path], list(those)] for path, those in one.named] for one in plan.components]
            self.cache.put(_PLAN_KIND, key, json.dumps([rows, names], separators=(",", ":")))
        return plan

    def configurations(self, component: PlannedComponent) -> Configurations:
        """The configuration files that files of a component name."""
        found = places(self.root, component.named) if component.named else []
        wanted = [Path(place) for place in found if is_file_of_interest(place) and self._may_be_there(place)]
        contents = {path: data for path in wanted if (data := self._configuration(path)) is not None}
        return Configurations(tuple(found), contents)

    def _may_be_there(self, place: str) -> bool:
        return os.path.exists(place) or any(os.fspath(path) == place for path in self._texts)  # noqa: PTH110

    def _configuration(self, path: Path) -> bytes | None:
        """The content of a configuration file; None where there is none that can be read."""
        if path not in self._configurations:
            data = self._texts.get(path)
            try:
                self._configurations[path] = read_bytes(path, MOST_BYTES) if data is None else data
            except Unreadable:
                self._configurations[path] = None
        return self._configurations[path]

    @property
    def notebooks(self) -> list[Path]:
        """The notebooks that were read, sorted."""
        return sorted(path for path in self._files if path.suffix == NOTEBOOK)

    @cached_property
    def requirements(self) -> bytes:
        """A digest of the files that may say which torch release the project needs."""
        digest = blake2b(digest_size=_DIGEST_BYTES)
        for file, data, _ in dependency_files(self.root):
            digest.update(file.name.encode("utf-8", "surrogateescape") + b"\0" + data)
        return digest.digest()

    def _read(self, path: Path) -> SourceFile | None:
        data = self._texts.get(path)
        try:
            data = read_bytes(path) if data is None else data
        except Unreadable as error:
            self.unreadable[path] = error.reason
            return None
        self._files[path] = file = SourceFile(path, data, content_digest(path, data))
        return file

    def _outlines(self, files: list[SourceFile]) -> dict[Path, Outline]:
        from trainlint.lint.closure import outline_of

        stored = dict(self.cache.get_many(_OUTLINE_KIND, {self.content_key(file.path) for file in files}))
        outlines = {}
        for file in files:
            key = self.content_key(file.path)
            outline = _outline_from(stored[key]) if key in stored else None
            if outline is None:
                outline = outline_of(_code_of(file))
                self.cache.put(_OUTLINE_KIND, key, _outline_text(outline))
            outlines[file.path] = outline
        return outlines


def content_digest(path: Path, data: bytes) -> bytes:
    """What facts are known by; the same bytes are another program in a notebook."""
    kind = b"notebook" if path.suffix == NOTEBOOK else b""
    return blake2b(data, digest_size=_DIGEST_BYTES, person=kind).digest()


def plan_of(outlines: Mapping[Path, Outline]) -> Plan:
    """Group files by what they import."""
    from trainlint.lint.closure import closure

    found = closure(outlines).components
    grouped = {path for component in found for path in component}
    named = (
        tuple(ConfigurationNames(path, names) for path in component if (names := outlines[path].configurations))
        for component in found
    )
    components = tuple(map(PlannedComponent, found, named))
    return Plan(components, tuple(path for path in outlines if path not in grouped))


def _code_of(file: SourceFile) -> bytes:
    """The code of a file; none in a notebook that cannot be read, which is reported where it is reported on."""
    if file.path.suffix != NOTEBOOK:
        return file.data
    try:
        return decode(file.path, file.data).text.encode()
    except Unreadable:
        return b""


def _outline_text(outline: Outline) -> str:
    rows = [[one.module, one.level, one.names] for one in outline.imports]
    return json.dumps([outline.relevant, rows, outline.configurations], separators=(",", ":"))


def _outline_from(text: str) -> Outline | None:
    from trainlint.lint.closure import Outline
    from trainlint.semantics.facts import ImportedModule

    try:
        relevant, rows, configurations = json.loads(text)
        imports = [ImportedModule(module, level, tuple(names)) for module, level, names in rows]
        return Outline(bool(relevant), tuple(imports), tuple(map(str, configurations)))
    except (ValueError, TypeError):
        return None


def _plan_from(text: str, files: list[SourceFile]) -> Plan | None:
    try:
        rows, names = json.loads(text)
        components = tuple(
            PlannedComponent(
                tuple(files[number].path for number in row),
                tuple(ConfigurationNames(files[number].path, tuple(map(str, those))) for number, those in named),
            )
            for row, named in zip(rows, names, strict=True)
        )
        grouped = {number for row in rows for number in row}
    except (ValueError, TypeError, IndexError):
        return None
    return Plan(components, tuple(file.path for number, file in enumerate(files) if number not in grouped))
