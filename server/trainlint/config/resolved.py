"""The settings that hold for the files of a folder, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trainlint.config.errors import ConfigError
from trainlint.config.settings import Settings
from trainlint.source.discovery import Filters

DEFAULT = "default"
"""The origin of a setting that nobody set."""


@dataclass(frozen=True)
class Resolved:
    """The settings that hold for the files of a folder."""

    settings: Settings
    origins: Mapping[str, str]
    """For each key, as written in TOML: the file that set it, an option of the command line, or `DEFAULT`. Tables
    have an entry for each of their keys: "severity.TL201"."""
    root: Path
    """The folder that patterns of paths count from: that of the configuration file, else the working directory."""
    file: Path | None = None
    """The configuration file, if there is one."""
    files: tuple[Path, ...] = ()
    """That file and those that it extends."""

    @property
    def filters(self) -> Filters:
        return Filters(self.root, self.settings.all_excludes)

    def error(self, key: str, message: str) -> ConfigError:
        """An error about a setting, which names the file that it stands in."""
        origin = self.origins.get(key) or self.origins.get(key.split(".")[0], DEFAULT)
        return ConfigError(next((file for file in self.files if origin.endswith(str(file))), None), key, message)
