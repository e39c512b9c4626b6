"""Where a process leaves what it saw: its ring of records and its notes.

Nothing of it stands in the job's way: the ring is mapped without keeping a descriptor, notes are appended by opening
their file for each, high up among the descriptors, so that a job may close or reuse any of its own. A forked child
leaves its parent's files alone and opens its own once it has something to say. Disk space for the ring is reserved
before it is written, since a mapped page that the disk has no room for would end the job.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import itertools
import json
import mmap
import os
import struct
import time
from _thread import RLock
from collections.abc import Callable
from typing import Any

from . import control, records

HIGH_DESCRIPTOR = 200
RESERVED_AT_ONCE = 1 << 13
"""Records for which disk space is reserved at a time."""


class Channel:
    """The ring and the notes of one process."""

    def __init__(self, folder: str, capacity: int, describe: Callable[[], dict[str, object]]) -> None:
        """`folder` is the recording. `describe` gives the note of the process, which is the first. The files are made
        when there is something to write: a child that is forked to run another program leaves none."""
        self._folder = os.path.join(folder, "processes")
        self._base = ""
        self._describe = describe
        self._capacity = capacity
        self._numbers = itertools.count()
        self._names: dict[str, int] = {}
        self._name_numbers = itertools.count(1)
        self._ring: Any = None
        self._complete = False
        """Whether the files are made, and begun with the note of the process."""
        self._making = RLock()
        self._reserved = 0
        self._pack = records.RECORD.pack_into

    def record(
        self, kind: int, flags: int, thread: int, name: int, start: float, duration: float, value: float
    ) -> None:
        """Append a record; the oldest is overwritten where the ring is full.

        Raises:
            OSError: the disk has no room.
        """
        number = next(self._numbers)
        place = number % self._capacity
        if place >= self._reserved:
            self._reserve()
        self._pack(self._ring, records.HEADER_BYTES + place * 32, kind, flags, thread, name, start, duration, value)
        _WRITTEN.pack_into(self._ring, records.WRITTEN_OFFSET, number + 1)

    def note(self, kind: str, **fields: object) -> None:
        """Append a note.

        Raises:
            OSError: it cannot be written.
        """
        self._ensure()
        line = json.dumps({"note": kind, **fields}, default=str) + "\n"
        opened = _open_high(self._base + ".notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(opened, line.encode("utf-8", "replace"))
        finally:
            os.close(opened)

    def name(self, text: str) -> int:
        """The number by which records refer to a text; 0 stands for none."""
        number = self._names.get(text)
        if number is None:
            number = self._names[text] = next(self._name_numbers)
            self.note("name", id=number, text=text)
        return number

    def state(self, phase: int, steps: int, clean: int, off: bool) -> None:
        """Say how far the process is, for the probe to read."""
        self._ensure()
        control.STATE.pack_into(self._ring, control.STATE_OFFSET, phase, steps, clean, int(off))

    def text(self, number: int) -> str | None:
        """The text that a number stands for."""
        return next((text for text, known in self._names.items() if known == number), None)

    def _ensure(self) -> None:
        """Have the files: made once, whichever of the job's threads comes first."""
        if not self._complete:
            with self._making:
                if self._ring is None:
                    self._create()
                    self._complete = True

    def _create(self) -> None:
        os.makedirs(self._folder, exist_ok=True)
        self._base = os.path.join(self._folder, "%d-%d" % (os.getpid(), time.time_ns()))
        self._ring = _create(self._base + ".ring", records.HEADER_BYTES + self._capacity * records.RECORD.size)
        now = time.perf_counter(), time.time()
        records.HEADER.pack_into(self._ring, 0, records.MAGIC, os.getpid(), self._capacity, 0, *now)
        self.note("process", **self._describe())

    def _reserve(self) -> None:
        self._ensure()
        more = min(self._reserved + RESERVED_AT_ONCE, self._capacity)
        opened = _open_high(self._base + ".ring", os.O_RDWR)
        try:
            _allocate(opened, records.HEADER_BYTES + more * records.RECORD.size)
        finally:
            os.close(opened)
        self._reserved = more


class Control:
    """The word by which the probe commands all processes of the job."""

    def __init__(self, folder: str) -> None:
        """Map it; without one there are no commands."""
        self._word: Any = None
        try:
            opened = _open_high(os.path.join(folder, "control"), os.O_RDONLY)
        except OSError:
            return
        try:
            if os.fstat(opened).st_size >= control.CONTROL.size:
                self._word = _map(opened, control.CONTROL.size, mmap.PROT_READ)
        finally:
            os.close(opened)

    def read(self) -> tuple[int, int]:
        """The commands, and the step after which to end: 0 for as planned."""
        commands, _, step = self._fields()
        return commands, step

    @property
    def probe(self) -> int:
        """The process id of the probe; 0 where it is not known."""
        return self._fields()[1]

    def _fields(self) -> tuple[int, int, int]:
        if self._word is None:
            return 0, 0, 0
        magic, commands, probe, step = control.CONTROL.unpack_from(self._word)
        return (commands, probe, step) if magic == control.CONTROL_MAGIC else (0, 0, 0)


_WRITTEN = struct.Struct("<Q")


def _create(path: str, size: int) -> Any:
    opened = _open_high(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        os.ftruncate(opened, size)
        _allocate(opened, records.HEADER_BYTES)
        return _map(opened, size, mmap.PROT_READ | mmap.PROT_WRITE)
    finally:
        os.close(opened)


def _open_high(path: str, flags: int) -> int:
    """Open a file at a high descriptor, closed on exec: a low one may be a standard stream that the job has closed."""
    low = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        return fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
    except OSError:
        if low > 2:
            return os.dup(low)
        raise
    finally:
        os.close(low)


def _allocate(opened: int, size: int) -> None:
    """Have the disk keep room for the file's first bytes."""
    try:
        os.posix_fallocate(opened, 0, size)
    except AttributeError:  # macOS has none; the file system there reserves on its own
        return
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
            raise


def _map(opened: int, size: int, protection: int) -> Any:
    """Map a file; `mmap.mmap` would keep a descriptor, the lowest free one."""
    libc = ctypes.CDLL(None, use_errno=True)
    map_file = libc.mmap
    map_file.restype = ctypes.c_void_p
    map_file.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    address: int | None = map_file(None, size, protection, mmap.MAP_SHARED, opened, 0)
    if address is None or address == ctypes.c_void_p(-1).value:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return (ctypes.c_char * size).from_address(address)
