"""What the answer of a run depends on: the folders and files whose changes call for another run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

from trainlint.config.errors import ConfigError
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.governing import resolver_of
from trainlint.semantics.configuration_files import WITHIN_FOLDERS
from trainlint.source.dependencies import REQUIREMENTS, lock_files, requirement_files
from trainlint.source.discovery import (
    CONFIGURATION_FILES,
    Filters,
    absolute,
    default_filters,
    is_shared_place,
    project_root,
    scripts_in,
    walked,
)

_GOVERNING_FILES = (*CONFIGURATION_FILES, ".gitignore")
"""What decides in any folder about the files below it."""
_SUFFIXES = (".py", ".ipynb", ".toml", ".txt", ".cfg", ".yml", ".yaml", ".lock", ".gitignore")
"""How the names of files end that a run may depend on."""


def is_read_with_its_folder(path: Path) -> bool:
    """Whether a file may be read because code means the folder that it lies in: a part of Hydra's configuration, a
    script that starts programs."""
    return path.name.endswith(WITHIN_FOLDERS)


class Manner(TypedDict):
    """Arguments of `watchfiles.watch` and `awatch`."""

    watch_filter: None
    recursive: bool
    debounce: int
    step: int
    yield_on_timeout: bool
    ignore_permission_denied: bool


MANNER: Manner = {
    "watch_filter": None,
    # Folders are watched one by one, so that the system need not watch what is excluded: environments, data.
    "recursive": False,
    # Changes are told once there was none for 50 ms, so that saving many files, or one in steps, is one change; where
    # they never pause that long, after 1000 ms.
    "step": 50,
    "debounce": 1000,
    "yield_on_timeout": True,
    "ignore_permission_denied": True,
}
"""How folders are watched."""


class Stamp(NamedTuple):
    """What tells one state of a file from another."""

    modified_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Watched:
    """The state of all that a run depends on."""

    folders: frozenset[Path]
    """Absolute, existing. A change that matters happens directly in one of them."""
    files: Mapping[Path, Stamp | None]
    """By absolute path; None for those that are not there."""

    def may_matter(self, path: Path) -> bool:
        """Whether a change at the path may be one of what is watched. Cheap, and right whenever it says no."""
        return (
            path in self.files
            or path.name.endswith(_SUFFIXES)
            or path in self.folders
            or path.parent in self.files
            or os.path.isdir(path)  # noqa: PTH112
        )

    def differences(self, other: Watched) -> set[Path]:
        """The files whose state is another one, or that one of the two knows alone."""
        return {path for path, _ in self.files.items() ^ other.files.items()}

    def came_or_went(self, other: Watched) -> set[Path]:
        """The files that are there, and taken into account, in one of the two only."""
        return {path for path in self.files.keys() | other.files if self._has(path) is not other._has(path)}

    def _has(self, path: Path) -> bool:
        return self.files.get(path) is not None


def watched(paths: Iterable[Path], options: CheckOptions, inputs: Iterable[Path] = ()) -> Watched:
    """Look up what linting the named paths depends on: their projects, without what is excluded there, and
    configuration wherever it lies, broken or not.

    Args:
        inputs: further files that decide about the outcome, and folders of such.
    """
    survey = _Survey(options)
    for path in paths:
        survey.add(absolute(path))
    survey.files.update(map(absolute, inputs))
    return survey.result()


class _Survey:
    def __init__(self, options: CheckOptions) -> None:
        self.files: set[Path] = set()
        self.folders: set[Path] = set()
        self._resolver = resolver_of(options, Path.cwd())

    def add(self, path: Path) -> None:
        """Take in a named path and the project around it."""
        folder = path if path.is_dir() else path.parent
        if folder != path:
            self.files.add(path)
        root = project_root(folder)
        if is_shared_place(root):
            self.folders.add(root)
            self.files.update(scripts_in(root))
        else:
            self._walk(root)
        self.files.update([root / "setup.cfg", root / "setup.py", *requirement_files(root), *lock_files(root)])
        if (root / REQUIREMENTS).is_dir():
            self.folders.add(root / REQUIREMENTS)
        if folder == path:
            self._walk(path)
        self._filters_for(folder)

    def result(self) -> Watched:
        beside = {_existing(file.parent) for file in self.files}
        governing = {folder / name for folder in self.folders for name in _GOVERNING_FILES}
        stamps = {file: _stamp(file) for file in self.files}
        stamps |= {file: stamp for file in governing if (stamp := _stamp(file)) is not None}
        return Watched(frozenset(self.folders | beside), stamps)

    def _walk(self, top: Path) -> None:
        if top in self.folders:
            return
        found = walked(top, self._filters_for)
        self.files |= found.files
        self.folders |= found.folders

    def _filters_for(self, folder: Path) -> Filters:
        """The filters of a folder, with its configuration noted; where that is broken, as if it had none."""
        try:
            resolved = self._resolver.of_folder(folder)
        except ConfigError as error:
            if error.file is not None:
                self.files.add(absolute(error.file))
            return default_filters(folder)
        self.files.update(map(absolute, resolved.files))
        return resolved.filters


def _existing(folder: Path) -> Path:
    """The folder, or the closest one above it that is there."""
    return next((above for above in (folder, *folder.parents) if above.is_dir()), Path(folder.anchor))


def _stamp(file: Path) -> Stamp | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return Stamp(status.st_mtime_ns, status.st_size, status.st_ino)
