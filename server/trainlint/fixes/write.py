"""Writing a file so that it is, at every moment, either the old one or the new one."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
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
    _replace(target, data, lambda: _require(target, path, expected))


def write_output(path: Path, data: bytes) -> None:
    """Make `data` the content of a file that is the program's own, there already or not.

    Devices, pipes and open descriptors (`/dev/stdout`) are written to. Raises OSError where the file cannot be written;
    what it held is untouched then, and no half file is left.
    """
    if path.exists() and (not path.is_file() or _is_descriptor(path)):
        with path.open("wb") as stream:
            stream.write(data)
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    _replace(target, data, lambda: None)


def _is_descriptor(path: Path) -> bool:
    """Whether the path stands for an open file, as `/dev/stdout` and `/dev/fd/1` do."""
    folder = Path(os.path.realpath(path.parent))
    return folder == Path("/dev") or Path("/proc") in folder.parents


def _replace(target: Path, data: bytes, require: Callable[[], None]) -> None:
    """Write beside the target, and then put that in its place if `require` does not raise."""
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_permissions(target, temporary)
        require()
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
    """Give the file those of the one that it replaces, or those of a new file."""
    try:
        status = target.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        return
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
