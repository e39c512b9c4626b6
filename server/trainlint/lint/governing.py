"""Which configuration governs a file, known without parsing or validating it where an earlier run did so.

Validation imports pydantic and all rules, which takes longer than checking an unchanged project. The bytes of the
configuration files say as much as their content does about whether anything has changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainlint.source.discovery import Filters, project_root
from trainlint.source.documents import Unreadable, read_bytes

if TYPE_CHECKING:
    from trainlint.config.discovery import Resolver
    from trainlint.config.resolved import Resolved
    from trainlint.lint.cache import Cache
    from trainlint.lint.check_options import CheckOptions
    from trainlint.lint.packs import Pack
    from trainlint.lint.selection import Selection

_KIND = "settings"


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
        if self._stored is None:
            self._validate()
            return self.resolved.filters
        return Filters(self._governance.root_of(self._file), self._stored.exclude)

    @cached_property
    def digest(self) -> bytes:
        """A digest of everything that the settings come from."""
        return self._validate() if self._stored is None else self._stored.digest

    @cached_property
    def resolved(self) -> Resolved:
        """The settings themselves.

        Raises:
            ConfigError: they are wrong.
        """
        if self._stored is not None and self._stored.settings is not None:
            root = self._governance.root_of(self._file)
            return _resolved_from(self._stored.settings, root, self._file)
        return self._governance.resolver.of_folder(self._folder)

    @cached_property
    def selection(self) -> Selection:
        """The rules that the settings select.

        Raises:
            ConfigError: the settings are wrong, or speak about rules that do not exist.
        """
        from trainlint.lint.selection import selection_of

        return selection_of(self.resolved, self._governance.packs)

    def warnings(self) -> tuple[str, ...]:
        """Warnings about rule packs, where these were loaded."""
        return self.selection.registry.warnings if "selection" in self.__dict__ else ()

    @cached_property
    def _key(self) -> bytes:
        return self._governance.key(self._file)

    @cached_property
    def _stored(self) -> _Stored | None:
        """What an earlier run stored, if nothing that it depends on has changed."""
        text = self._cache.get(_KIND, self._key)
        if text is None:
            return None
        try:
            chain, exclude, digest, settings = json.loads(text)
            stored = _Stored(tuple(chain), tuple(map(str, exclude)), bytes.fromhex(digest), settings)
            return stored if _digest_of_chain(self._key, stored.chain) == stored.digest else None
        except (ValueError, TypeError, OSError):
            return None

    def _validate(self) -> bytes:
        """Refuse what is wrong, so that whatever stands in the cache was valid; store the rest and return its digest.

        Settings that come with a warning are not kept, so that each run gives it.
        """
        _ = self.selection.rules
        resolved = self.resolved
        chain = tuple(os.fspath(file) for file in self._governance.chain(self._file))
        digest = _digest_of_chain(self._key, chain)
        if not self.warnings():
            row = [chain, resolved.filters.exclude, digest.hex(), _settings_row(resolved)]
            self._cache.put(_KIND, self._key, json.dumps(row))
        return digest


class _Stored(NamedTuple):
    """What the cache keeps of one configuration."""

    chain: tuple[str, ...]
    """The configuration file and those that it extends."""
    exclude: tuple[str, ...]
    digest: bytes
    settings: list[Any] | None
    """The settings as `_settings_row` writes them."""


def _settings_row(resolved: Resolved) -> list[Any] | None:
    """Settings as JSON, with where they come from; None where the table of a rule holds what JSON has no word for."""
    row = [vars(resolved.settings), dict(resolved.origins), [os.fspath(file) for file in resolved.files]]
    try:
        json.dumps(row)
    except TypeError:
        return None
    return row


def _resolved_from(row: list[Any], root: Path, file: Path | None) -> Resolved:
    """The settings of a row that `_settings_row` wrote: without validation, which the cache's checksum stands for."""
    from trainlint.config.resolved import Resolved
    from trainlint.config.settings import Settings

    values, origins, files = row
    fields: dict[str, Any] = {name: value if name == "rules" else _frozen(value) for name, value in values.items()}
    return Resolved(Settings(**fields), origins, root, file, tuple(map(Path, files)))


def _frozen(value: Any) -> Any:
    """A setting as JSON has it, with tuples for lists."""
    if isinstance(value, dict):
        return {key: _frozen(entry) for key, entry in value.items()}
    return tuple(value) if isinstance(value, list) else value


class Governance:
    """The configurations of all folders in a run."""

    def __init__(
        self, options: CheckOptions, packs: tuple[Pack, ...], fingerprint: bytes, cache_of: Callable[[Path], Cache]
    ) -> None:
        self.options = options
        self.packs = packs
        """The installed rule packs."""
        self.fingerprint = fingerprint
        """A digest of all code that takes part."""
        self.working_directory = Path.cwd()
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
        digest = blake2b(self.fingerprint, digest_size=16)
        overrides = json.dumps(self.options.overrides, sort_keys=True, default=str)
        data = _content(file) if file is not None else b""
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
        return resolver_of(self.options, self.working_directory)

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


def resolver_of(options: CheckOptions, working_directory: Path) -> Resolver:
    """What reads and validates configuration in a run with these options."""
    from trainlint.config.discovery import Overrides, Resolver

    overrides = Overrides(options.config_file, isolated=options.isolated)
    for key, value in options.overrides.items():
        overrides = overrides.with_value(key, value, f"--{key}" if key in options.flags else "--config")
    return Resolver(overrides, working_directory)


def _may_configure(folder: Path) -> bool:
    """Whether `find_in` may find a configuration in the folder: most have none, and need no TOML parser to tell."""
    if os.path.lexists(folder / "trainlint.toml"):
        return True
    return b"trainlint" in _content(folder / "pyproject.toml")


def _content(file: Path) -> bytes:
    """The bytes of a configuration file; none where it cannot be read, which its settings tell when asked."""
    try:
        return read_bytes(file)
    except Unreadable:
        return b""


def _digest_of_chain(key: bytes, chain: Iterable[str]) -> bytes:
    digest = blake2b(key, digest_size=16)
    for file in chain:
        digest.update(_content(Path(file)))
    return digest.digest()
