"""What a check is told besides the files to check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.verdicts import Verdicts


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """How to run, as the command line or the editor says; everything else comes from configuration files."""

    overrides: Mapping[str, object] = field(default_factory=dict)
    """Settings that win over the configuration files, by key: "select", "ignore", "min-confidence", …, with values as
    TOML would give them. Flags such as `--select` and `--config KEY=VALUE` end here."""
    flags: frozenset[str] = frozenset()
    """Keys of `overrides` that an option of their own gave, as `--select` does: what messages call them."""
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
    """Most processes to parse with; 1 for none besides this one, None for one per core."""
    min_severity: str | None = None
    """Leave out findings below this level: "hint", "info", "warning" or "error"."""
    texts: Mapping[Path, bytes] = field(default_factory=dict)
    """Content that stands in for what is on disk, by absolute path: standard input, open documents."""
    verdicts: Verdicts | None = None
    """What runs that were measured say about the findings."""
    verbose: bool = False
    """Whether internal errors carry their traceback."""
    timings: bool = False
    """Whether the result says how long each rule took."""
    progress: Callable[[int, int], None] | None = None
    """Is told, after each file that is parsed, how many of how many of its project that makes."""
