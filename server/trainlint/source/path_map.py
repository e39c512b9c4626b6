"""Paths of another machine: which folder there is which one here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from trainlint.source.discovery import absolute


class WrongPathMapError(ValueError):
    """A text that is no `REMOTE=LOCAL`; the message says what is wrong, and continues a sentence that names it."""


@dataclass(frozen=True, slots=True)
class PathMap:
    """Finds the files here that paths there name."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Of a folder there and the folder here that stands for it."""

    @classmethod
    def of(cls, texts: Iterable[str]) -> Self:
        """Read `REMOTE=LOCAL` texts.

        Raises:
            WrongPathMapError: one is none.
        """
        return cls(tuple(map(_pair, texts)))

    def local(self, remote: str) -> Path:
        """The path here, by the longest folder that fits; one that no folder fits is taken as it is."""
        fitting = [(there, here) for there, here in self.pairs if _rest(remote, there) is not None]
        if not fitting:
            return absolute(Path(remote))
        there, here = max(fitting, key=lambda pair: len(pair[0]))
        rest = _rest(remote, there) or ""
        separator = "\\" if "\\" in there or "\\" in rest else "/"
        return absolute(Path(here, *(part for part in rest.split(separator) if part)))


def _pair(text: str) -> tuple[str, str]:
    there, separator, here = text.partition("=")
    if not separator:
        raise WrongPathMapError("has no `=`; it is written REMOTE=LOCAL")
    if not there.startswith(("/", "\\")) and there[1:2] != ":":
        raise WrongPathMapError("names no absolute path of the other machine before its `=`")
    if not here:
        raise WrongPathMapError("names no folder of this machine after its `=`")
    return there.rstrip("/\\") or there[:1], os.path.expanduser(here)  # noqa: PTH111 - of a text that may be no path


def _rest(remote: str, there: str) -> str | None:
    """What follows the folder in a path; None where the path does not lie in it."""
    if remote == there:
        return ""
    if not remote.startswith(there):
        return None
    rest = remote[len(there) :]
    return rest if rest[:1] in ("/", "\\") or there[-1:] in ("/", "\\") else None
