"""Which configuration governs a file, known without parsing or validating it where an earlier run did so.

Validation imports pydantic and all rules, which takes longer than checking an unchanged project. The bytes of the
configuration files say as much as their content does about whether anything has changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.source.discovery import Filters, project_root

if TYPE_CHECKING:
    from trainlint.config.discovery import Resolved, Resolver
    from trainlint.lint.cache import Cache
    from trainlint.lint.engine import CheckOptions
    from trainlint.lint.selection import Selection

_KIND = "settings"
_FLAGS = frozenset({"select", "extend-select", "ignore", "min-confidence"})
"""Settings that have an option of their own on the command line."""


class Governing:
    """The settings that one configuration file, or none, means in this run."""

    def __init__(self, governance: Governance, folder: Path, file: Path | None, cache: Cache) -> None:
        self._governance = governance
        self._folder = folder
        self._file = file
        self._cache = cache

    @property
    def root(self) -> Path:
        """The folder that patterns of paths count from."""
        return self.filters.root

    @cached_property
    def filters(self) -> Filters:
        """Which files the settings exclude."""
        return self._remembered[0]

    @cached_property
    def digest(self) -> bytes:
        """A digest of everything that the settings come from."""
        return self._remembered[1]

    @cached_property
    def resolved(self) -> Resolved:
        """The settings themselves.

        Raises:
            ConfigError: they are wrong.
        """
        return self._governance.resolver.of_folder(self._folder)

    @cached_property
    def selection(self) -> Selection:
        """The rules that the settings select.

        Raises:
            ConfigError: the settings are wrong, or speak about rules that do not exist.
        """
        from trainlint.lint.registry import load_registry
        from trainlint.lint.selection import Selection

        return Selection(load_registry(self.resolved.settings.plugins), self.resolved)

    def warnings(self) -> tuple[str, ...]:
        """Warnings about rule packs, where these were loaded."""
        return self.selection.registry.warnings if "selection" in self.__dict__ else ()

    @cached_property
    def _remembered(self) -> tuple[Filters, bytes]:
        """Filters and digest, from the cache if nothing that they depend on has changed."""
        key = self._governance.key(self._file)
        stored = self._cache.get(_KIND, key)
        if stored is not None and (found := self._from_entry(stored, key)) is not None:
            return found
        # Wrong selectors are refused here, so that whatever stands in the cache was valid. Settings that come with a
        # warning are not kept, so that each run gives it.
        _ = self.selection.rules
        chain = [os.fspath(file) for file in self._governance.chain(self._file)]
        digest = _digest_of_chain(key, chain)
        filters = self.resolved.filters
        if not self.warnings():
            self._cache.put(_KIND, key, json.dumps([chain, filters.exclude, digest.hex()]))
        return filters, digest

    def _from_entry(self, text: str, key: bytes) -> tuple[Filters, bytes] | None:
        try:
            chain, exclude, digest = json.loads(text)
            if _digest_of_chain(key, chain).hex() != digest:
                return None
            return Filters(self._governance.root_of(self._file), tuple(map(str, exclude))), bytes.fromhex(digest)
        except (ValueError, TypeError, OSError):
            return None


class Governance:
    """The configurations of all folders in a run."""

    def __init__(self, options: CheckOptions, fingerprint: bytes, cache_of: Callable[[Path], Cache]) -> None:
        self.options = options
        self.working_directory = Path.cwd()
        self._fingerprint = fingerprint
        self._cache_of = cache_of
        self._by_folder: dict[Path, Governing] = {}
        self._by_file: dict[Path | None, Governing] = {}

    def of_folder(self, folder: Path) -> Governing:
        """What governs the files of a folder, named by an absolute path.

        Raises:
            ConfigError: a configuration file that speaks of trainlint cannot be parsed.
        """
        pending: list[Path] = []
        for above in (folder, *folder.parents):
            if above in self._by_folder:
                governing = self._by_folder[above]
                break
            pending.append(above)
            file = self._file_in(above)
            if file is not None:
                governing = self._of_file(file, above)
                break
        else:
            governing = self._of_file(self.options.config_file, folder)
        self._by_folder |= dict.fromkeys(pending, governing)
        return governing

    def filters_for(self, folder: Path) -> Filters:
        """What `source.discovery.discover` asks for."""
        return self.of_folder(folder).filters

    def warnings(self) -> Iterator[str]:
        """Warnings about the rule packs that were loaded."""
        for governing in self._by_file.values():
            yield from governing.warnings()

    def key(self, file: Path | None) -> bytes:
        """A digest of the configuration file's own bytes and of everything that is laid over it."""
        digest = blake2b(self._fingerprint, digest_size=16)
        overrides = json.dumps(self.options.overrides, sort_keys=True, default=str)
        data = file.read_bytes() if file is not None else b""
        text = f"{file}\n{self.options.config_file}\n{self.options.isolated}\n{overrides}\n"
        digest.update(text.encode("utf-8", "surrogateescape"))
        digest.update(data)
        return digest.digest()

    def chain(self, file: Path | None) -> list[Path]:
        """The configuration file and those that it extends."""
        from trainlint.config.discovery import chain_of

        return [] if file is None else chain_of(file)

    def root_of(self, file: Path | None) -> Path:
        """The folder that the patterns of a configuration file count from."""
        found = file is not None and self.options.config_file is None
        return file.parent if found and file is not None else self.working_directory

    @cached_property
    def resolver(self) -> Resolver:
        """What reads and validates configuration."""
        from trainlint.config.discovery import Overrides, Resolver

        overrides = Overrides(self.options.config_file, isolated=self.options.isolated)
        for key, value in self.options.overrides.items():
            overrides = overrides.with_value(key, value, f"--{key}" if key in _FLAGS else "--config")
        return Resolver(overrides, self.working_directory)

    def _file_in(self, folder: Path) -> Path | None:
        if self.options.config_file is not None or self.options.isolated:
            return None
        if not _may_configure(folder):
            return None
        from trainlint.config.discovery import find_in

        return find_in(folder)

    def _of_file(self, file: Path | None, folder: Path) -> Governing:
        file = file if file is None else self.working_directory / file
        if file not in self._by_file:
            cache = self._cache_of(project_root(file.parent if file is not None else folder))
            self._by_file[file] = Governing(self, folder, file, cache)
        return self._by_file[file]


def _may_configure(folder: Path) -> bool:
    """Whether `find_in` may find a configuration in the folder: most have none, and need no TOML parser to tell."""
    if os.path.lexists(folder / "trainlint.toml"):
        return True
    try:
        return b"trainlint" in (folder / "pyproject.toml").read_bytes()
    except OSError:
        return False


def _digest_of_chain(key: bytes, chain: list[str]) -> bytes:
    digest = blake2b(key, digest_size=16)
    for file in chain:
        digest.update(Path(file).read_bytes())
    return digest.digest()
