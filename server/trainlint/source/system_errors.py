"""Why the system refused something, in words."""

from __future__ import annotations

import re
import shutil

_NUMBER = re.compile(r"^\[Errno \d+\] ")


def reason_of(error: OSError) -> str:
    """Return what the system says went wrong, to stand within a sentence; of many files of a folder, what it says of
    the first."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        first = error.args[0][0]
        return _NUMBER.sub("", str(first[-1])) if isinstance(first, tuple) else str(first)
    return (error.strerror or str(error) or "the system refused").lower()
