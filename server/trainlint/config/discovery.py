"""Which settings hold for a file: the closest configuration, what it extends, and what the command line says."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainlint.config.errors import ConfigError, nearest
from trainlint.config.resolved import DEFAULT, Resolved
from trainlint.config.settings import RULE_CODE, Settings, is_rule_key, setting_keys, split_rule_tables
from trainlint.source.discovery import Filters, absolute
from trainlint.source.documents import Unreadable, read_bytes

if TYPE_CHECKING:
    from pydantic import ValidationError

_SYNONYMS = {"gpu": "cuda", "nvidia": "cuda", "warn": "warning", "yes": "true", "no": "false"}
"""What people write for an option, where the option that is spelled most like it is another one."""
_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Override:
    key: str
    value: object
    """As TOML has it."""
    origin: str
    """The option that gave it: "--select", "--config"."""


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line, or an editor's settings, say about the configuration."""

    file: Path | None = None
    """Used in place of the files that would be found."""
    values: tuple[Override, ...] = ()
    isolated: bool = False
    """Use no configuration file at all."""

    @classmethod
    def parse(cls, config: Sequence[str], *, isolated: bool = False) -> Overrides:
        """Read the values of `--config`: files and `KEY=VALUE`, with a value as in TOML.

        Raises:
            ConfigError: a value is neither, or two files are named.
        """
        overrides = cls(isolated=isolated)
        for argument in config:
            overrides = overrides._with_argument(argument)
        if overrides.file is not None and isolated:
            raise ConfigError(None, "--config", "a file cannot be combined with --isolated")
        return overrides

    def with_value(self, key: str, value: object, origin: str) -> Overrides:
        """The overrides with one more, which goes before those of the same key."""
        return replace(self, values=(*self.values, Override(key, value, origin)))

    def _with_argument(self, argument: str) -> Overrides:
        is_file = os.path.isfile(argument)  # noqa: PTH113 - Path.is_file fails on long values
        if is_file or "=" not in argument:
            if self.file is not None:
                raise ConfigError(None, "--config", f"two files are named: {self.file} and {argument}")
            return replace(self, file=Path(argument))
        try:
            table = tomllib.loads(argument)
        except (ValueError, RecursionError) as error:  # also for numbers that Python refuses to read
            key, _, value = argument.partition("=")
            hint = f"; strings need quotes, as in '{key.strip()} = \"{value.strip()}\"'" if value.strip() else ""
            raise ConfigError(
                None, "--config", f"{argument!r} is neither a file nor KEY=VALUE as in TOML{hint}"
            ) from error
        overrides = self
        for key, value in table.items():
            if key == "extend":
                raise ConfigError(None, "--config", "extend works in files only; name the file itself instead")
            overrides = overrides.with_value(key, value, "--config")
        return overrides


@dataclass(slots=True)
class _Layers:
    """Settings collected from the most general to the most specific place."""

    values: dict[str, object] = field(default_factory=dict)
    rules: dict[str, dict[str, object]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)

    def add(self, table: Mapping[str, object], file: Path | None, origin: str) -> None:
        """Lay a table over what is there: tables are joined, `extend-` lists grow, other values are replaced."""
        values, others = split_rule_tables(table)
        _validated(values, file, origin)
        for key, value in values.items():
            present = self.values.get(key)
            if isinstance(value, dict):
                self.values[key] = {**present, **value} if isinstance(present, dict) else dict(value)
                self.origins |= {f"{key}.{name}": origin for name in value}
            elif key.startswith("extend-") and isinstance(value, list):
                self.values[key] = [*present, *value] if isinstance(present, list) else value
                before = self.origins.get(key)
                self.origins[key] = f"{before}, {origin}" if before and before != origin else origin
            else:
                self.values[key] = value
                self.origins[key] = origin
        for key, value in others.items():
            options = _rule_table(key, value, file)
            self.rules[key] = {**self.rules.get(key, {}), **options}
            self.origins |= {key: origin} | {f"{key}.{name}": origin for name in options}


class Resolver:
    """Finds and remembers the settings of each folder. Make a new one when a configuration file has changed."""

    def __init__(self, overrides: Overrides | None = None, working_directory: Path | None = None) -> None:
        self.overrides = overrides or Overrides()
        self.working_directory = working_directory or Path.cwd()
        self._by_folder: dict[Path, Resolved] = {}
        self._by_file: dict[Path | None, Resolved] = {}

    def resolve(self, path: Path) -> Resolved:
        """The settings for a file or a folder.

        Raises:
            ConfigError: the configuration is broken.
        """
        place = absolute(self.working_directory / path)
        folder = place if os.path.isdir(place) else place.parent  # noqa: PTH112
        return self.of_folder(folder)

    def filters_for(self, folder: Path) -> Filters:
        """What `source.discovery.discover` asks for."""
        return self.of_folder(folder).filters

    def of_folder(self, folder: Path) -> Resolved:
        """The settings for the files of a folder, named by an absolute path."""
        pending: list[Path] = []
        for above in (folder, *folder.parents):
            if above in self._by_folder:
                resolved = self._by_folder[above]
                break
            pending.append(above)
            if self.overrides.file is None and not self.overrides.isolated:
                found = find_in(above)
                if found is not None:
                    resolved = self._of_file(found)
                    break
        else:
            resolved = self._of_file(self.overrides.file)
        self._by_folder |= dict.fromkeys(pending, resolved)
        return resolved

    def _of_file(self, file: Path | None) -> Resolved:
        if file not in self._by_file:
            self._by_file[file] = self._read(file)
        return self._by_file[file]

    def _read(self, file: Path | None) -> Resolved:
        layers = _Layers()
        root = self.working_directory
        files: tuple[Path, ...] = ()
        if file is not None:
            file = self.working_directory / file
            chain = _chain(file)
            for layer, table in reversed(chain):
                layers.add(table, layer, str(layer))
            files = tuple(layer for layer, _ in chain)
            root = root if self.overrides.file is not None else file.parent
        for override in self.overrides.values:
            layers.add({override.key: override.value}, None, override.origin)
        return Resolved(*_settings(layers), root=root, file=file, files=files)


def resolve(path: Path, overrides: Overrides | None = None) -> Resolved:
    """The settings for one file or folder; see `Resolver` for many.

    Raises:
        ConfigError: the configuration is broken.
    """
    return Resolver(overrides).resolve(path)


def find_in(folder: Path) -> Path | None:
    """The configuration file of a folder: `trainlint.toml`, or a `pyproject.toml` that has [tool.trainlint].

    Raises:
        ConfigError: the `pyproject.toml` speaks of trainlint but cannot be parsed.
    """
    own = folder / "trainlint.toml"
    if os.path.isfile(own):  # noqa: PTH113 - Path.is_file fails without permission
        return own
    shared = folder / "pyproject.toml"
    try:
        if b"trainlint" not in read_bytes(shared):
            return None
    except Unreadable:
        return None
    tool = read_toml(shared).get("tool")
    return shared if isinstance(tool, dict) and "trainlint" in tool else None


def read_toml(file: Path) -> dict[str, object]:
    """Parse a TOML file.

    Raises:
        ConfigError: with row and column where the syntax is wrong.
    """
    try:
        return tomllib.loads(read_bytes(file).decode("utf-8").replace("\r\n", "\n"))
    except Unreadable as error:
        missing = not os.path.lexists(file)
        raise ConfigError(file, "", "no such file" if missing else error.reason) from error
    except UnicodeDecodeError as error:
        raise ConfigError(file, "", f"is not UTF-8 at byte {error.start}") from error
    except (ValueError, RecursionError) as error:  # also for numbers that Python refuses to read
        raise ConfigError(file, "", _syntax_message(str(error))) from error


def _syntax_message(text: str) -> str:
    place = _TOML_PLACE.fullmatch(text)
    if place is None:
        return f"is not valid TOML: {text}"
    where = f"at row {place[2]}, column {place[3]}" if place[2] else "at the end of the file"
    return f"is not valid TOML {where}: {place[1]}"


def _table_of(file: Path) -> dict[str, object]:
    """The trainlint settings that a file holds."""
    document = read_toml(file)
    if file.name != "pyproject.toml":
        tool = document.get("tool")
        if isinstance(tool, dict) and "trainlint" in tool:
            raise ConfigError(file, "tool.trainlint", "in this file the settings stand at the top, without a table")
        return document
    tool = document.get("tool", {})
    table = tool.get("trainlint", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise ConfigError(file, "tool.trainlint", "must be a table")
    return table


def chain_of(file: Path) -> list[Path]:
    """The configuration file and those that it extends, the file first.

    Raises:
        ConfigError: one of them cannot be read.
    """
    return [one for one, _ in _chain(file)]


def _chain(file: Path) -> list[tuple[Path, dict[str, object]]]:
    """The file and what it extends, the file first, with the settings of each."""
    chain: list[tuple[Path, dict[str, object]]] = []
    seen: list[Path] = []
    current: Path | None = file
    while current is not None:
        real = current.resolve()
        if real in seen:
            circle = " -> ".join(str(one) for one in [*seen[seen.index(real) :], real])
            raise ConfigError(chain[-1][0], "extend", f"the files extend each other in a circle: {circle}")
        seen.append(real)
        table = _table_of(current)
        chain.append((current, table))
        current = _extended(current, table.get("extend"))
    return chain


def _extended(file: Path, value: object) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(file, "extend", f"must be the path of a file, not {_shown(value)}")
    try:
        target = (file.parent / Path(value).expanduser()).resolve()
        exists = target.is_file()
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(file, "extend", f"cannot be followed: {error}") from error
    if not exists:
        raise ConfigError(file, "extend", f"{target} does not exist or is not a file")
    return target


def _rule_table(key: str, value: object, file: Path | None) -> dict[str, object]:
    """The options of a rule, where the key can be a rule's and is no misspelt setting."""
    misspelt = bool(nearest(key, setting_keys(), likeness=0.85))
    if is_rule_key(key) and not misspelt and isinstance(value, dict):
        return value
    if re.match(RULE_CODE, key):
        raise ConfigError(file, key, f"the options of a rule must be a table, not {_shown(value)}")
    raise ConfigError(file, key, f"unknown setting{nearest(key, setting_keys())}")


def _validated(values: Mapping[str, object], file: Path | None, origin: str) -> None:
    if not values:  # what is not there cannot be wrong, and needs no import of pydantic
        return
    from pydantic import ValidationError

    from trainlint.config.validation import validated

    try:
        validated(values)
    except ValidationError as error:
        raise _config_error(error, file, origin) from error


def _settings(layers: _Layers) -> tuple[Settings, dict[str, str]]:
    settings = Settings()
    if layers.values or layers.rules:
        from trainlint.config.validation import validated

        settings = validated({**layers.values, "rules": layers.rules})
    set_keys = {key.split(".")[0] for key in layers.origins}
    return settings, {key: DEFAULT for key in setting_keys() if key not in set_keys} | layers.origins


def _config_error(error: ValidationError, file: Path | None, origin: str) -> ConfigError:
    """The first thing that pydantic found wrong, in terms of TOML."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"] if isinstance(part, str) and part not in ("[key]",))
    message = _message(first["type"], first["input"], first.get("ctx", {}))
    return ConfigError(file, key if file or origin == "--config" else origin, message)


def _message(kind: str, value: object, context: Mapping[str, object]) -> str:
    shown = _shown(value)
    match kind:
        case "literal_error":
            options = re.findall(r"'([^']*)'", str(context.get("expected", "")))
            hint = _meant(value, options) if isinstance(value, str) else ""
            return f"must be {_listed(options)}, not {shown}{hint}"
        case "string_pattern_mismatch":
            return f'must be a version such as "2.4", not {shown}'
        case "string_type":
            return f"must be a string, not {shown}"
        case "tuple_type":
            return f"must be a list of strings, not {shown}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, not {shown}"
        case "dict_type":
            return f"must be a table, not {shown}"
        case _:
            return f"has the wrong value {shown} ({kind})"


def _meant(value: str, options: Sequence[str]) -> str:
    """A hint at the option that a word most likely stands for."""
    synonym = _SYNONYMS.get(value.lower())
    return f'; did you mean "{synonym}"?' if synonym in options else nearest(value, options)


def _listed(options: Sequence[str]) -> str:
    quoted = [f'"{option}"' for option in options]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]]) if len(quoted) > 1 else "".join(quoted)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Iterable):
        return "a list"
    return str(value)
