"""Which line of the job's own code is running: the innermost frame that is of no library."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from types import CodeType, FrameType

FRAMES_AT_MOST = 60
CODES_AT_MOST = 20_000
"""Code that is made anew again and again does not fill the memory."""


class UserLines:
    """Looks up the job's line, with a memory for code that was seen."""

    def __init__(self, cwd: str, libraries: tuple[str, ...], number: Callable[[str], int]) -> None:
        """`cwd` is what relative file names mean, `libraries` are folders that are not the job's own code, `number`
        gives the number of a text."""
        self._cwd = cwd
        self._libraries = libraries
        self._number = number
        self._own: dict[CodeType, bool] = {}
        self._lines: dict[tuple[CodeType, int, str], int] = {}

    def name(self, frame: FrameType | None, prefix: str = "") -> int:
        """The number of `prefix` and `PATH:ROW` of the innermost own frame, from `frame` outwards; 0 if none."""
        own = self._own
        for _ in range(FRAMES_AT_MOST):
            if frame is None:
                return 0
            code = frame.f_code
            mine = own.get(code)
            if mine is None:
                mine = self._learn(code)
            if mine:
                key = (code, frame.f_lineno, prefix)
                found = self._lines.get(key)
                return found if found is not None else self._add(key)
            frame = frame.f_back
        return 0

    def path(self, filename: str) -> str:
        return os.path.normpath(os.path.join(self._cwd, filename))

    def is_own(self, filename: str) -> bool:
        """Whether a file is of the job's own code."""
        if is_generated(filename):
            return False
        path = self.path(filename)
        return not path.startswith(self._libraries) and not _PACKAGES & set(path.split(os.sep))

    def _learn(self, code: CodeType) -> bool:
        if len(self._own) >= CODES_AT_MOST:
            self._own.clear()
            self._lines.clear()
        own = self._own[code] = self.is_own(code.co_filename)
        return own

    def _add(self, key: tuple[CodeType, int, str]) -> int:
        code, row, prefix = key
        number = self._lines[key] = self._number("%s%s:%d" % (prefix, self.path(code.co_filename), row))
        return number


_INDUCTOR_FILE = re.compile(r"(?:^|[/\\])c[a-z2-7]{51}\.py$")
"""`c` and 51 characters of a digest in base 32, in whatever folder the cache is (`torch._inductor.codecache`)."""


def is_generated(filename: str) -> bool:
    """Whether a file's code was generated while the job ran, as by Inductor: nobody can look it up or mend it, and the
    line that runs it is the job's."""
    return filename.startswith("<") or _INDUCTOR_FILE.search(filename) is not None


_PACKAGES = frozenset({"site-packages", "dist-packages"})


def library_folders() -> tuple[str, ...]:
    """Folders of the standard library, of torch and of the agent."""
    own = os.path.dirname(os.path.abspath(__file__))
    torch = os.path.dirname(os.path.abspath(str(sys.modules["torch"].__file__)))
    standard = os.path.dirname(os.path.abspath(os.__file__))
    return tuple(folder + os.sep for folder in (standard, torch, own))
