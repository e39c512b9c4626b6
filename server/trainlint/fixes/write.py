"""Writing a file so that it is, at every moment, either the old one or the new one."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


class FileChanged(Exception):  # noqa: N818
    """The file on disk is not the one that the changes were made for."""


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Replace the content of `path`, which must be `expected`, by `data`.

    Permissions stay; of a symbolic link, the target is replaced. Raises FileChanged if the content is another one
    by now, and OSError where the file cannot be written; the old file is untouched then, with nothing left beside it.
    """
    target = Path(os.path.realpath(path, strict=True))
    _require(target, path, expected)
    if not os.access(target, os.W_OK):
        raise PermissionError(f"{path} is read-only")
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_permissions(target, temporary)
        _require(target, path, expected)
        temporary.replace(target)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise
    _sync_folder(target.parent)


def _require(target: Path, path: Path, expected: bytes) -> None:
    if target.read_bytes() != expected:
        raise FileChanged(f"{path} changed on disk since it was read; nothing was written")


def _copy_permissions(target: Path, temporary: Path) -> None:
    status = target.stat()
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(temporary, status.st_uid, status.st_gid)
    temporary.chmod(stat.S_IMODE(status.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the replacement last through a power failure, where the system lets folders be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
