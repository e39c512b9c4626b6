"""What is wrong with a configuration, said so that it can be mended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class ConfigError(Exception):
    """A configuration that cannot be used.

    Args:
        file: the configuration file, or None for the command line.
        key: dotted key that is wrong, as written; empty if it is about the file as a whole.
        message: what is wrong and what would be right, without a full stop.
    """

    def __init__(self, file: Path | None, key: str, message: str) -> None:
        where = str(file) if file else "command line"
        super().__init__(f"{where}: {key}: {message}" if key else f"{where}: {message}")
        self.file = file
        self.key = key
        self.message = message


def nearest(word: str, words: Iterable[str], likeness: float = 0.6) -> str:
    """A hint at the nearest valid spelling, to append to a message; empty if none is near.

    Args:
        likeness: how near it must be, from 0 (anything) to 1 (the same).
    """
    from difflib import get_close_matches

    by_form = {_form(valid): valid for valid in words}
    found = get_close_matches(_form(word), by_form, n=1, cutoff=likeness)
    return f'; did you mean "{by_form[found[0]]}"?' if found else ""


def _form(word: str) -> str:
    return word.lower().replace("_", "-")
