"""`trainlint clean`: remove caches."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from trainlint.cli.arguments import VerbParser
from trainlint.cli.failure import Failure
from trainlint.lint.cache import FOLDER
from trainlint.source.discovery import DEFAULT_EXCLUDES, project_root
from trainlint.source.system_errors import reason_of

TAG = "CACHEDIR.TAG"
"""The file by which a folder says that it is a cache; the engine writes one into each of its own."""


def parser() -> VerbParser:
    verb = VerbParser("clean", "[PATH] [--cache-dir FOLDER]", "Remove the caches of the projects in a folder.")
    verb.add_argument("path", nargs="?", type=Path, default=Path(), metavar="PATH", help="folder (default: .)")
    verb.add_argument("--cache-dir", type=Path, metavar="FOLDER", help="remove the cache in this folder instead")
    return verb


def main(arguments: Sequence[str]) -> int:
    found = parser().parse(arguments)
    if not found.path.exists():
        raise Failure(f"{found.path}: no such file or folder")
    caches = sorted(set(_caches(found.path.absolute()))) if found.cache_dir is None else [found.cache_dir]
    for cache in caches:
        _remove(cache)
    return 0


def _caches(path: Path) -> Iterator[Path]:
    """The cache of the project that `path` belongs to, and those of the projects below it."""
    yield from _if_there(project_root(path))
    skipped = set(DEFAULT_EXCLUDES)
    for folder, folders, _ in os.walk(path):
        yield from _if_there(Path(folder))
        folders[:] = [name for name in folders if name not in skipped]


def _if_there(folder: Path) -> Iterator[Path]:
    cache = folder / FOLDER
    if cache.is_dir() and not cache.is_symlink():
        yield cache


def _remove(cache: Path) -> None:
    """Remove a folder, which must be a cache: a wrong `--cache-dir` must not cost anyone a folder of theirs."""
    if not cache.exists():
        return
    try:
        if "trainlint" not in (cache / TAG).read_text(encoding="utf-8", errors="replace"):
            raise Failure(f"{cache} is not a cache of trainlint; nothing was removed")
        shutil.rmtree(cache)
    except FileNotFoundError as error:
        raise Failure(f"{cache} is not a cache of trainlint (it holds no {TAG}); nothing was removed") from error
    except OSError as error:
        raise Failure(f"the cache {cache} cannot be removed: {reason_of(error)}") from error
    print(f"trainlint: removed {cache}", file=sys.stderr)
