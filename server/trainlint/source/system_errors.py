"""Why the system refused something, in words."""

from __future__ import annotations


def reason_of(error: OSError) -> str:
    """Return what the system says went wrong, to stand within a sentence."""
    return (error.strerror or str(error) or "the system refused").lower()
