"""Analysis of programs held in memory: what examples, tests and the scaffold run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainlint.semantics.configuration_files import LAUNCHERS, SUFFIXES, ConfigurationFiles
from trainlint.semantics.extract import extract
from trainlint.semantics.link import LinkOptions, link
from trainlint.semantics.project import Project

ROOT = Path("/project")
"""Where the files of a program in memory are said to lie."""


def analyze(files: Mapping[str, str], options: LinkOptions | None = None) -> Project:
    """Extract and link the program whose files are given as relative path and text, configuration files included."""
    code = {path: text for path, text in files.items() if not path.endswith((*SUFFIXES, *LAUNCHERS))}
    others = {ROOT / path: text.encode() for path, text in files.items() if path not in code}
    return link({ROOT / path: extract(text) for path, text in code.items()}, options, ConfigurationFiles(others))
