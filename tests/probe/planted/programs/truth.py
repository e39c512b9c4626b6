"""What a program knows about itself: when its steps ended, and how long the watched lines took.

With TRAINLINT_EXAMPLE_TRUTH=FILE each process appends lines `NAME START SECONDS` to FILE.PID, on the clock of
`time.perf_counter`, which all processes of a machine share on Linux. Without it, nothing is written.
"""

import os
import time

FILE = os.environ.get("TRAINLINT_EXAMPLE_TRUTH")
files = {}


class watch:  # noqa: N801
    """Times the lines in its block."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.start = time.perf_counter()

    def __exit__(self, *error):
        write(self.name, self.start, time.perf_counter() - self.start)


def mark(name):
    """Note that this moment has come: `epoch` begins, `batch` is there, `step` has updated the weights."""
    write(name, time.perf_counter(), 0.0)


def write(name, start, seconds):
    if FILE is None:
        return
    pid = os.getpid()
    if pid not in files:
        files[pid] = os.open(f"{FILE}.{pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    os.write(files[pid], f"{name} {start!r} {seconds!r}\n".encode())


def value(name, number):
    """Note a number in the place of seconds, such as the share of real tokens in a batch."""
    write(name, time.perf_counter(), number)
