"""Which rule packs are installed, and a fingerprint of all code that findings depend on.

Reading the metadata of every installed distribution takes longer than linting an unchanged project. So the packs are
remembered in the cache for as long as the folders of installed distributions keep their times: these change with each
distribution that is installed, updated or removed.
"""

# Paths are text here, since every run looks at hundreds of them.
# ruff: noqa: PTH100, PTH116, PTH119, PTH120
from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

ENTRY_POINT_GROUP = "trainlint.rules"
BUILT_IN = "builtin"
"""Name of the entry point of trainlint's own pack."""
BUILT_IN_MODULE = "trainlint_rules"
_PROGRAM = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Pack(NamedTuple):
    """An installed rule pack: the name of its entry point, its module, its version, and the folder it lies in."""

    name: str
    module: str
    version: str
    folder: str


@lru_cache(maxsize=1)
def installed_packs() -> tuple[Pack, ...]:
    """Return the installed packs: the built-in one first, the others by name."""
    from importlib.metadata import entry_points

    from trainlint import __version__

    packs = {BUILT_IN: Pack(BUILT_IN, BUILT_IN_MODULE, __version__, _folder_of(BUILT_IN_MODULE))}
    for point in entry_points(group=ENTRY_POINT_GROUP):
        if point.name not in packs:
            version = point.dist.version if point.dist else ""
            packs[point.name] = Pack(point.name, point.module, version, _folder_of(point.module))
    return tuple(sorted(packs.values(), key=lambda pack: (pack.name != BUILT_IN, pack.name)))


def _folder_of(module: str) -> str:
    """The folder of a package, or of the one file of a module; empty where it cannot be found."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module)
    except Exception:
        return ""
    if spec is None or spec.origin is None:
        return ""
    return os.path.dirname(spec.origin) if spec.submodule_search_locations else spec.origin


def installation_state() -> bytes:
    """Return a digest that changes whenever the set of installed distributions does."""
    digest = blake2b(sys.version.encode(), digest_size=16)
    for entry in sys.path:
        if os.path.basename(entry) in ("site-packages", "dist-packages"):
            try:
                digest.update(f"{entry}\0{os.stat(entry).st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
            except OSError:
                continue
    return digest.digest()


def fingerprint(packs: Iterable[Pack]) -> bytes:
    """Return a digest of the interpreter's version and of trainlint's and the packs' own files, by size and time."""
    # What is kept names files, and the same name is another text where file names have another encoding.
    digest = blake2b(repr((sys.version_info[:2], sys.getfilesystemencoding())).encode(), digest_size=16)
    _add_sources(digest, _PROGRAM)
    for pack in packs:
        digest.update(repr(pack).encode("utf-8", "surrogateescape"))
        _add_sources(digest, pack.folder)
    return digest.digest()


def _add_sources(digest: blake2b, top: str) -> None:
    pending = [top]
    while pending:
        place = pending.pop()
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except NotADirectoryError:
            status = os.stat(place)
            digest.update(f"{place}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
            continue
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                digest.update(
                    f"{entry.path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape")
                )
            elif entry.is_dir() and entry.name != "__pycache__":
                pending.append(entry.path)
