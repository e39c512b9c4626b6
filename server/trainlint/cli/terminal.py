"""What the user's terminal can show, by the conventions that terminal programs share."""

from __future__ import annotations

import os
from typing import TextIO


def wants_colour(choice: str, stream: TextIO) -> bool:
    """Decide on colour: `--color` first, then NO_COLOR (https://no-color.org), then FORCE_COLOR, then the stream."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return is_terminal(stream)


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream, through a terminal that knows escape sequences."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and _understands_escapes()


def _understands_escapes() -> bool:
    if os.name != "nt":
        return True
    # An empty command makes the console of Windows 10 and later interpret escape sequences.
    return os.system("") == 0
