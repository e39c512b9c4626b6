"""Text of the system that has to be written as UTF-8."""

from __future__ import annotations


def encodable(text: str) -> str:
    """Return `text` with escapes for what UTF-8 cannot hold: bytes of file names and arguments that are no text."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
