"""The engine behind `trainlint check`: from named paths to findings, reading no more than the answer needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainlint.lint.result import Result


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to run, as the command line or the editor says; everything else comes from configuration files."""

    overrides: Mapping[str, object] = field(default_factory=dict)
    """Settings that win over the configuration files, by key: "select", "ignore", "min-confidence", …, with values as
    TOML would give them. Flags such as `--select` and `--config KEY=VALUE` end here."""
    config_file: Path | None = None
    """The one configuration file to use (`--config FILE`), in place of those found beside the code."""
    isolated: bool = False
    """Ignore all configuration files."""
    force_exclude: bool = False
    """Leave out excluded files though they are named."""
    cache: bool = True
    cache_dir: Path | None = None
    """Where the cache lies; None for `.trainlint_cache` in each project's root."""
    jobs: int | None = None
    """Most processes to work with, this one included; None for one per core."""
    min_severity: str | None = None
    """Leave out findings below this level: "hint", "info", "warning" or "error"."""
    texts: Mapping[Path, bytes] = field(default_factory=dict)
    """Content that stands in for what is on disk, by absolute path: standard input, open documents."""
    verbose: bool = False
    """Whether internal errors carry their traceback."""
    timings: bool = False
    """Whether the result says how long each rule took."""


def check(paths: Sequence[Path], options: CheckOptions | None = None) -> Result:
    """Lint the named files and folders.

    Findings of a file are the same however it was named. Standard input is a path of its own (the file name it is said
    to have, existing or not) whose content stands in `options.texts`.

    Raises:
        ConfigurationError: a configuration file or an override is wrong; the message names file, key and spelling.
    """
    raise NotImplementedError
