"""How reports name files."""

from __future__ import annotations

import os
from pathlib import Path

from trainlint.source.encodable import encodable


def shown(path: Path, root: Path) -> str:
    """Return `path` as users typed it: relative to `root` where it lies below, else absolute.

    Bytes of a file name that are no text are shown as escapes, so that every report stays valid UTF-8.
    """
    try:
        relative = path.relative_to(root)
    except ValueError:
        relative = path
    return text_of(relative)


def slashed(path: Path, root: Path) -> str:
    """Return `path` as `shown` does, with forward slashes on every system: what code hosts and git call the file."""
    return shown(path, root).replace(os.sep, "/")


def text_of(path: Path) -> str:
    """Return the whole path as text that can be encoded."""
    return encodable(str(path))


def uri_of(path: Path, base: Path) -> str:
    """Return a reference to `path`, relative to the folder `base` where it lies below, else a file URI."""
    from urllib.parse import quote_from_bytes

    try:
        return quote_from_bytes(os.fsencode(path.relative_to(base).as_posix()))
    except ValueError:
        return path.as_uri()


def repository_root(start: Path) -> Path:
    """Return the closest folder at or above `start` that holds `.git`, else `start`; code hosts resolve against it."""
    for folder in (start, *start.parents):
        if (folder / ".git").exists():
            return folder
    return start
