"""The configuration files that the code of a component names: inputs of its analysis, like the code itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from trainlint.semantics.configuration_files import AROUND, SUFFIXES, YAML, is_launcher

MOST_PLACES = 2_000
"""Places in which files are looked for, for one component."""
_FOLDERS_OF_LAUNCHERS = ("scripts", "script", "launch", "jobs", "slurm", "bin")
"""Where projects keep the scripts that start their programs, beside the programs or above them."""
_MOST_IN_FOLDER = 300
"""Configuration files below one folder of files that name one another."""
_MOST_LOOKED_AT = 10_000
"""Files and folders below a folder of files that name one another; where there are more, they are data."""
_DEEPEST_FOLDER = 6
"""Levels below a folder of files that name one another."""


class ConfigurationNames(NamedTuple):
    """What a file of code calls configuration files."""

    code: Path
    names: tuple[str, ...]


def places(root: Path, named: Sequence[ConfigurationNames]) -> list[str]:
    """Where the files may lie that code means by relative names, and the folders that it means: in or below the folders
    between the code and the root of its project, since nobody knows where programs are started. Absolute, each once."""
    found: dict[str, None] = {}
    for place in _places(os.fspath(root), named):
        found[place] = None
        if len(found) >= MOST_PLACES:
            break
    return list(found)


def is_file_of_interest(place: str) -> bool:
    """Whether a place is that of a file to be read, rather than a folder."""
    return place.endswith(SUFFIXES) or is_launcher(place)


def _places(root: str, named: Sequence[ConfigurationNames]) -> Iterator[str]:
    inside = os.path.join(root, "")  # noqa: PTH118 - with the separator at its end
    launchers_looked_for: set[str] = set()
    for code, names in named:
        home = os.path.dirname(code)  # noqa: PTH120
        folders = list(_folders_up_to(root, home))
        within = inside if folders[-1] == root else f"{home}{os.sep}"
        for name in names:
            if name == AROUND:
                for folder in folders:
                    if folder not in launchers_looked_for:
                        launchers_looked_for.add(folder)
                        yield from _launchers_around(folder)
            elif os.path.isabs(name):  # noqa: PTH117
                continue
            elif name.endswith("/"):
                top = os.path.normpath(f"{home}{os.sep}{name}")
                if f"{top}{os.sep}".startswith(within):
                    yield from _below(top)
            else:
                is_simple = not name.startswith(".") and "/." not in name
                for folder in folders:
                    place = f"{folder}{os.sep}{name}"
                    place = place if is_simple and os.sep == "/" else os.path.normpath(place)
                    if place.startswith(within):
                        yield place


def _folders_up_to(root: str, folder: str) -> Iterator[str]:
    """The folder and those above it, up to the root; just the folder where it is not below the root."""
    if folder != root and not folder.startswith(os.path.join(root, "")):  # noqa: PTH118
        yield folder
        return
    while folder != root:
        yield folder
        folder = os.path.dirname(folder)  # noqa: PTH120
    yield root


def _below(top: str) -> Iterator[str]:
    """A folder and the configuration files below it, in an order that does not change."""
    yield top
    count = looked_at = 0
    for folder, folders, files in os.walk(top):
        looked_at += len(folders) + len(files)
        if looked_at > _MOST_LOOKED_AT:
            return
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if folder.count(os.sep) - top.count(os.sep) >= _DEEPEST_FOLDER:
            folders.clear()
        for name in sorted(files):
            if name.endswith(YAML):
                yield f"{folder}{os.sep}{name}"
                count += 1
                if count >= _MOST_IN_FOLDER:
                    return


def _launchers_around(folder: str) -> Iterator[str]:
    """The scripts in a folder that may start programs; the folders in it for scripts, with those in them."""
    for place in (folder, *(f"{folder}{os.sep}{name}" for name in _FOLDERS_OF_LAUNCHERS)):
        if place != folder:
            yield place
        try:
            names = sorted(os.listdir(place))  # noqa: PTH208
        except OSError:
            continue
        yield from (f"{place}{os.sep}{name}" for name in names if is_launcher(name))
