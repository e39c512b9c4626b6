"""The one exception by which a verb says that the user has to change something."""

from __future__ import annotations


class Failure(Exception):  # noqa: N818 - it ends the program with a message; nothing else treats it as an error
    """Wrong usage: the message says what is wrong, where, and what to do. It ends the program with status 2."""
