"""Which files a run is about: folders walked with `.gitignore` and exclusions, and the project around a file."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainlint.source.documents import Unreadable, read_bytes
from trainlint.source.ignores import PatternList, patterns_of_file, patterns_of_setting
from trainlint.source.system_errors import reason_of

DEFAULT_EXCLUDES = (
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".mypy_cache",
    ".nox",
    ".pytest_cache",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".trainlint_cache",
    ".venv",
    "__pycache__",
    "__pypackages__",
    "_build",
    "buck-out",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)
CODE_SUFFIXES = (".py", ".ipynb")
"""Of what is linted where it is found in a folder."""
CONFIGURATION_FILES = frozenset({"trainlint.toml", "pyproject.toml"})
ROOT_MARKERS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
"""What a project has in its top folder. A `trainlint.toml` may also stand for settings of a part of it."""
CONTEXT_LIMIT = 20_000
"""Files; a folder with more is not one project, and reading them all as context would take minutes."""
_CONTEXT_FOLDER_LIMIT = 20_000


class PathNotFound(Exception):  # noqa: N818
    """A path given by the user does not exist."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: no such file or folder")
        self.path = path


@dataclass(frozen=True, slots=True)
class Filters:
    """What the configuration says about which files to take."""

    root: Path
    """Absolute; the folder that the patterns count from."""
    exclude: tuple[str, ...] = DEFAULT_EXCLUDES
    """Patterns as in `.gitignore`."""
    suffixes: tuple[str, ...] = CODE_SUFFIXES

    @property
    def patterns(self) -> PatternList:
        return patterns_of_setting(self.exclude)

    @property
    def prefix(self) -> str:
        """The root with a separator at its end."""
        return os.path.join(self.root, "")  # noqa: PTH118


FiltersFor = Callable[[Path], Filters]
"""Gives the filters for a folder: those of its closest configuration."""


def default_filters(folder: Path) -> Filters:
    return Filters(folder)


def discover(
    paths: Sequence[Path],
    filters_for: FiltersFor = default_filters,
    *,
    force_exclude: bool = False,
    unreadable: Callable[[Path, str], None] = lambda _path, _reason: None,
) -> list[Path]:
    """Find the files to lint: absolute, each once, sorted.

    Folders are walked; symbolic links to folders are not followed, unless named. A file named outright is taken
    whatever its suffix and though excluded, unless `force_exclude` is set. Of several links to a file that are
    walked, the first is taken, and the file itself before any link.

    Args:
        unreadable: told about folders that cannot be listed, with the reason.

    Raises:
        PathNotFound: one of the paths does not exist.
    """
    found: set[str] = set()
    links: set[str] = set()
    for path in paths:
        place = absolute(path)
        if os.path.isdir(place):  # noqa: PTH112 - Path.is_dir fails without permission
            if not (force_exclude and is_excluded(place, filters_for(place.parent), is_folder=True)):
                for file, is_link in _Walk(filters_for, unreadable).files(place):
                    (links if is_link else found).add(file)
        elif not os.path.lexists(place):
            raise PathNotFound(path)
        elif not (force_exclude and is_excluded(place, filters_for(place.parent), is_folder=False)):
            found.add(str(place))
    return _sorted_paths(found | _new_targets(links, found) if links else found)


def absolute(path: str | Path) -> Path:
    """The absolute path, which keeps symbolic links: findings name files as the user does."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - resolve() follows links


def scripts_in(folder: Path) -> Iterator[Path]:
    """The Python files and notebooks right in a folder."""
    return (path for kind in ("*.py", "*.ipynb") for path in folder.glob(kind) if path.is_file())


def _sorted_paths(paths: Iterable[str]) -> list[Path]:
    """In the order that `Path` defines, at a fraction of the cost."""
    return [Path(path) for path in sorted(paths, key=lambda path: path.split(os.sep))]  # noqa: PTH206


def _new_targets(links: set[str], found: set[str]) -> set[str]:
    """The links to files that are not found under another name."""
    seen = {os.path.realpath(path) for path in found}
    chosen = set()
    for link in sorted(links - found):
        target = os.path.realpath(link)
        if target not in seen:
            seen.add(target)
            chosen.add(link)
    return chosen


def is_excluded(path: Path, filters: Filters, *, is_folder: bool = False) -> bool:
    """Whether settings or a `.gitignore` exclude an absolute path, or a folder above it."""
    relative = _relative(str(path), filters.prefix)
    if filters.patterns.covers(relative + "/." if is_folder else relative):
        return True
    top = _repository(path.parent) or path.parent
    chain = [top, *reversed([folder for folder in path.parents if folder != top and folder.is_relative_to(top)])]
    ignores: tuple[_IgnoreFile, ...] = ()
    for folder, below in zip(chain, [*chain[1:], path], strict=True):
        ignores += _ignore_files(folder)
        if _ignored(ignores, str(below), below.name, below != path or is_folder):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    prefix: str
    """The folder of the file, ending in a separator."""
    patterns: PatternList


@dataclass(frozen=True, slots=True)
class _Folder:
    path: str
    filters: Filters
    excludes: PatternList
    prefix: str
    ignores: tuple[_IgnoreFile, ...]


class _Walk:
    """Walks a folder breadth first, so that the closest files come first where the walk is cut short."""

    def __init__(self, filters_for: FiltersFor, unreadable: Callable[[Path, str], None]) -> None:
        self.filters_for = filters_for
        self.unreadable = unreadable
        self.folders: list[str] = []
        """Those that were entered."""

    def files(self, top: Path) -> Iterator[tuple[str, bool]]:
        """The files below `top`, with whether each is a symbolic link."""
        filters = self.filters_for(top)
        queue = deque([_Folder(str(top), filters, filters.patterns, filters.prefix, _ignores_above(top))])
        while queue:
            folder = queue.popleft()
            self.folders.append(folder.path)
            entries = self.entries(folder.path)
            folder = self.entered(folder, {entry.name for entry in entries}, is_top=len(self.folders) == 1)
            suffixes = folder.filters.suffixes
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                if not is_folder and not entry.name.endswith(suffixes):
                    continue
                if self.skipped(folder, entry, is_folder):
                    continue
                if is_folder:
                    queue.append(replace(folder, path=entry.path))
                elif not (entry.is_symlink() and os.path.isdir(entry.path)):  # noqa: PTH112
                    yield entry.path, entry.is_symlink()

    def entries(self, path: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(path) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.unreadable(Path(path), reason_of(error))
            return []

    def entered(self, folder: _Folder, names: set[str], *, is_top: bool) -> _Folder:
        """The folder with what its own files change: configuration, `.gitignore`, a repository of its own."""
        ignores = folder.ignores
        if not is_top and not CONFIGURATION_FILES.isdisjoint(names):
            filters = self.filters_for(Path(folder.path))
            folder = replace(folder, filters=filters, excludes=filters.patterns, prefix=filters.prefix)
        if ".git" in names and not is_top:
            ignores = ()
        if ".gitignore" in names or ".git" in names:
            ignores += _ignore_files(Path(folder.path))
        return replace(folder, ignores=ignores)

    @staticmethod
    def skipped(folder: _Folder, entry: os.DirEntry[str], is_folder: bool) -> bool:
        if entry.name.startswith(".#"):  # the lock that Emacs keeps beside a file being edited: a dangling link
            return True
        if folder.excludes.decide(_relative(entry.path, folder.prefix), entry.name, is_folder):
            return True
        return _ignored(folder.ignores, entry.path, entry.name, is_folder)


def _relative(path: str, prefix: str) -> str:
    """The path from the folder that patterns count from; outside of it, only patterns of names can match."""
    relative = path[len(prefix) :] if path.startswith(prefix) else path.lstrip(os.sep)
    return relative.replace(os.sep, "/")


def _ignored(ignores: Sequence[_IgnoreFile], path: str, name: str, is_folder: bool) -> bool:
    for ignore in reversed(ignores):
        relative = path[len(ignore.prefix) :].replace(os.sep, "/")
        decision = ignore.patterns.decide(relative, name, is_folder)
        if decision is not None:
            return decision
    return False


def _ignores_above(top: Path) -> tuple[_IgnoreFile, ...]:
    """The `.gitignore` files of the folders between the repository's root and `top`, without that of `top`."""
    repository = _repository(top)
    if repository is None or repository == top:
        return ()
    folders = [folder for folder in reversed(top.parents) if folder.is_relative_to(repository)]
    return tuple(ignore for folder in folders for ignore in _ignore_files(folder))


def _repository(folder: Path) -> Path | None:
    return next((above for above in (folder, *folder.parents) if _exists(above, ".git")), None)


def _exists(folder: Path, name: str) -> bool:
    """Whether a folder holds a name, as far as it may be looked at; `Path.exists` fails without permission."""
    return os.path.exists(os.path.join(folder, name))  # noqa: PTH110, PTH118


def _ignore_files(folder: Path) -> tuple[_IgnoreFile, ...]:
    """The patterns that a folder sets for what is below it; `.gitignore` last, since it decides first."""
    files = []
    for name in (".git/info/exclude", ".gitignore"):
        try:
            text = read_bytes(folder / name).decode("utf-8", "surrogateescape")
        except Unreadable:
            continue
        files.append(_IgnoreFile(os.path.join(folder, ""), patterns_of_file(text)))  # noqa: PTH118
    return tuple(files)


def project_root(path: Path) -> Path:
    """The folder whose files are read as context for a file (or folder), named by an absolute path.

    The closest folder that holds one of `ROOT_MARKERS`; else the closest with a `trainlint.toml`; else the topmost
    folder that is reached through folders with Python files in them: the top of a package, the scripts around it. A
    folder in which a project with a marker lies is a place for several, and belongs to none of them.
    """
    folder = path if os.path.isdir(path) else path.parent  # noqa: PTH112
    for markers in (ROOT_MARKERS, ("trainlint.toml",)):
        for above in (folder, *folder.parents):
            if any(_exists(above, marker) for marker in markers):
                return above
    root = folder
    while root.parent != root and (_exists(root, "__init__.py") or _holds_python(root.parent)):
        root = root.parent
    return root


def _holds_python(folder: Path) -> bool:
    """Whether a folder may be a project, and has Python files of its own."""
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return False
    return any(name.endswith(".py") for name in names) and not (is_shared_place(folder) or _holds_project(folder))


def _holds_project(folder: Path) -> bool:
    """Whether a project of its own lies right in a folder that has no marker itself."""
    try:
        with os.scandir(folder) as entries:
            below = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    return any(_exists(one, marker) for one in below for marker in ROOT_MARKERS)


def is_shared_place(folder: Path) -> bool:
    """Whether unrelated things lie side by side in a folder, unless a marker says otherwise: a home, a temporary
    folder, the top of a file system."""
    if any(_exists(folder, marker) for marker in ROOT_MARKERS):
        return False
    if folder == folder.parent or _is_home(folder):
        return True
    try:
        return bool(folder.stat().st_mode & stat.S_ISVTX)
    except OSError:  # It may exist only in an editor, which names it for standard input.
        return False


def _is_home(folder: Path) -> bool:
    try:
        return folder == Path.home()
    except RuntimeError:  # Nothing says where it is, as for a user of a container that has no entry of its own.
        return False


def context_files(root: Path, filters: Filters | None = None, limit: int = CONTEXT_LIMIT) -> list[Path]:
    """The Python files and notebooks below `root`, sorted; of more than `limit`, those closest to it."""
    walk = _Walk(lambda _folder: filters or Filters(root), lambda _path, _reason: None)
    files: list[str] = []
    for file, is_link in walk.files(root):
        if not is_link:
            files.append(file)
        if len(files) >= limit or len(walk.folders) >= _CONTEXT_FOLDER_LIMIT:
            break
    return _sorted_paths(files)


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk came through, as absolute paths."""

    files: frozenset[Path]
    folders: frozenset[Path]


def walked(top: Path, filters_for: FiltersFor, limit: int = CONTEXT_LIMIT) -> Walked:
    """The files below a folder that may be linted, with the folders that may hold such files; cut short where either
    are more than `limit`."""
    walk = _Walk(filters_for, lambda _path, _reason: None)
    files: set[Path] = set()
    for file, _ in walk.files(top):
        files.add(Path(file))
        if len(files) >= limit or len(walk.folders) >= limit:
            break
    return Walked(frozenset(files), frozenset(map(Path, walk.folders)))
