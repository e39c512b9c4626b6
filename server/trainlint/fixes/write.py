"""Writing a file so that it is, at every moment, either the old one or the new one."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_ATTEMPTS = 10
_PAUSE_S = 0.05
"""Windows refuses to replace a file while a virus scanner or an indexer has it open, which is over in an instant."""


class FileChanged(Exception):  # noqa: N818
    """The file on disk is not the one that the changes were made for."""


def write_atomically(path: Path, data: bytes, expected: bytes) -> None:
    """Replace the content of `path`, which must be `expected`, by `data`.

    Permissions, extended attributes and, as far as the system allows it, the owner stay; of a symbolic link, the
    target is replaced; other names of the file (hard links) keep the old content. Raises FileChanged if the content is
    another one by now, and OSError where the file cannot be written; the old file is untouched then, with nothing left
    beside it.
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
    if path.exists() and not replaces(path):
        with path.open("wb") as stream:
            stream.write(data)
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    _replace(target, data, lambda: None)


def replaces(path: Path) -> bool:
    """Whether `write_output` would put another content in the place of one that is there."""
    return os.path.isfile(path) and not _is_descriptor(path)  # noqa: PTH113 - Path.is_file fails without permission


def _is_descriptor(path: Path) -> bool:
    """Whether the path stands for an open file, as `/dev/stdout` and `/dev/fd/1` do."""
    folder = Path(os.path.realpath(path.parent))
    return folder == Path("/dev") or Path("/proc") in folder.parents


def _replace(target: Path, data: bytes, require: Callable[[], None]) -> None:
    """Write beside the target, and then put that in its place if `require` does not raise."""
    # A short name, since a name may be as long as names can be, and not one of a source.
    temporary = target.with_name(f".trainlint-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _copy_metadata(target, temporary)
        require()
        _move(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _move(temporary: Path, target: Path) -> None:
    for _ in range(_ATTEMPTS - 1 if sys.platform == "win32" else 0):
        with suppress(PermissionError):
            temporary.replace(target)
            return
        time.sleep(_PAUSE_S)
    temporary.replace(target)


def _require(target: Path, path: Path, expected: bytes) -> None:
    if target.read_bytes() != expected:
        raise FileChanged(f"{path} changed on disk since it was read; nothing was written")


def _copy_metadata(target: Path, temporary: Path) -> None:
    """Give the file what the one has that it replaces; a new file has what new files have."""
    try:
        status = target.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        # Who may not give a file away may still keep its group.
        for owner in (-1, status.st_uid):
            with suppress(PermissionError):
                os.chown(temporary, owner, status.st_gid)
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(target):
                with suppress(OSError):
                    os.setxattr(temporary, name, os.getxattr(target, name))
    temporary.chmod(stat.S_IMODE(status.st_mode))


def _sync_folder(folder: Path) -> None:
    """Make the replacement last through a power failure, where the system lets folders be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
