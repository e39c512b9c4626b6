"""What a program reads from configuration files of its project: YAML, JSON and TOML, OmegaConf and Hydra.

What stands in a file that the code names outright is as sure as the code itself until somebody edits it. Where an
option of the command line names the file, or Hydra lets the command line override it, it is what holds by default.
Values that the program changes afterwards are forgotten, by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from trainlint.semantics import code, naming, object_types
from trainlint.semantics.arguments import Given
from trainlint.semantics.configuration_files import NOTHING_KNOWN, YAML
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    NONE,
    OBJECT,
    STRING,
    UNKNOWN,
    Const,
    Function,
    Instance,
    Listing,
    Object,
    Option,
    Table,
    Tuple,
    Value,
    join,
)

_LONGEST_LIST = 64
_INTERPOLATION = re.compile(r"\$\{([\w.]+)\}")
_PACKAGE = re.compile(r"^\s*#\s*@package\s+(\S+)", re.MULTILINE)
_MISSING = "???"
"""What OmegaConf wants the command line to give."""
_ANY = "*"
_READING = frozenset({"r", "rb", "rt", "br", "tr"})
_HOOKS = frozenset({"object_hook", "object_pairs_hook", "cls"})
"""Arguments of `json.load` by which the program makes something else of what stands in the file."""


# ---------------------------------------------------------------------------------------------------------- paths


class NamedPath(NamedTuple):
    """A path that the program names."""

    text: str
    fixed: bool
    """Whether it is the same in every run."""


def path_of(value: Value | None) -> NamedPath | None:
    """The path that a value names; None where it names none."""
    if isinstance(value, Const) and isinstance(value.value, str):
        return NamedPath(value.value, True)
    if isinstance(value, Option) and isinstance(value.default, str):
        return NamedPath(value.default, value.fixed)
    if isinstance(value, Object) and value.type in (object_types.PATH, object_types.FILE):
        return NamedPath(value.origin, value.proved)
    return None


def joined(frame: Frame, values: list[Value]) -> Value:
    """`os.path.join(…)`, `Path(…) / …`."""
    paths = [path_of(value) for value in values]
    if not frame.run.configurations or not paths:
        return OBJECT
    known = [path for path in paths if path is not None]
    if len(known) < len(paths):
        return OBJECT
    text = os.path.join(*(path.text for path in known))  # noqa: PTH118
    return Object(object_types.PATH, origin=text, proved=all(path.fixed for path in known))


def path_method(frame: Frame, receiver: Object, name: str, given: Given, node: code.Call | None) -> Value:
    """A method of a path."""
    if name in ("resolve", "absolute", "expanduser", "as_posix"):
        return receiver
    if name == "joinpath":
        return joined(frame, [receiver, *given.positional])
    if name in ("open", "read_text", "read_bytes"):
        return opened(frame, receiver, given.get("mode", 0) if name == "open" else None)
    if name in ("write_text", "write_bytes"):
        return opened(frame, receiver, STRING)
    if name == "with_name":
        return joined(frame, [parent_of(receiver), *given.positional])
    return OBJECT


def path_attribute(base: Object, name: str) -> Value:
    """An attribute of a path."""
    return parent_of(base) if name == "parent" else UNKNOWN


def parent_of(value: Value) -> Value:
    """The folder of a path."""
    found = path_of(value)
    if found is None:
        return OBJECT
    return Object(object_types.PATH, origin=os.path.dirname(found.text), proved=found.fixed)  # noqa: PTH120


def opened(frame: Frame, value: Value | None, mode: Value | None = None) -> Value:
    """`open(path)`: a configuration file of the project, where it is one. What the program writes itself is none."""
    found = path_of(value)
    path = None if found is None else frame.run.configurations.find(found.text, frame.run.entry.path)
    if found is None or path is None:
        return OBJECT
    if mode is not None and not (isinstance(mode, Const) and mode.value in _READING):
        frame.run.effects += 1
        frame.run.overwritten.add(path)
        return OBJECT
    return Object(object_types.FILE, origin=found.text, proved=found.fixed)


# --------------------------------------------------------------------------------------------------------- content


def loaded(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`yaml.safe_load(file)`, `json.load(file)`, `OmegaConf.load(path)`: what stands in the file."""
    value = next(iter(given.all()), None)
    if not _HOOKS.isdisjoint(given.keywords):
        return OBJECT
    if isinstance(value, Table):
        return value
    return OBJECT if isinstance(value, Const) else content(frame, value) or OBJECT


def loaded_by_path(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """Likewise where a text is a path: `OmegaConf.load("config.yaml")`."""
    return content(frame, next(iter(given.all()), None)) or UNKNOWN


def content(frame: Frame, value: Value | None) -> Value | None:
    """What stands in the file that a value names or has opened; None where that is not known."""
    found = path_of(value)
    path = None if found is None else frame.run.configurations.find(found.text, frame.run.entry.path)
    if found is None or path is None or path in frame.run.overwritten:
        return None
    read = frame.run.configurations.read(path)
    reader = _Reader(path.name, found.fixed, read, frame.run.configurations.passed)
    return reader.value("", read) if isinstance(read, dict | list) else None


class _Reader:
    """Turns what stands in one file into values."""

    def __init__(self, file: str, fixed: bool, root: object, passed: frozenset[str]) -> None:
        """`passed` has the names that the project's own scripts give other values than those by default."""
        self._passed = passed
        self._file = file
        self._fixed = fixed
        self._root = root

    def value(self, name: str, data: object) -> Value:
        """The value of what stands under a key."""
        if isinstance(data, dict):
            items = tuple((key, self.value(key, one)) for key, one in data.items() if isinstance(key, str))
            whole = self._fixed and len(items) == len(data)
            return Table(items, None if whole else UNKNOWN, self._file)
        if isinstance(data, list):
            values = tuple(self.value(name, one) for one in data[:_LONGEST_LIST])
            return Tuple(values) if len(values) == len(data) else Listing(UNKNOWN)
        if naming.RANK.search(name):
            return UNKNOWN
        if isinstance(data, str) and ("${" in data or data == _MISSING):
            data = self._interpolated(data)
        if isinstance(data, bool | int | float | str | None) and (self._fixed or name not in self._passed):
            return Option(name, data, True, self._file, self._fixed)
        return Option(name, file=self._file)

    def _interpolated(self, text: str) -> object:
        """What OmegaConf puts in the place of `${data.workers}`."""
        reference = _INTERPOLATION.fullmatch(text)
        found: object = self._root
        for key in reference[1].split(".") if reference is not None else ("",):
            found = found.get(key, NOTHING_KNOWN) if isinstance(found, dict) else NOTHING_KNOWN
        return NOTHING_KNOWN if isinstance(found, str) and "${" in found else found


# --------------------------------------------------------------------------------------------- values that change


def current(frame: Frame, value: Value) -> Value:
    """A value from a configuration as it is read: without its default where the program gives the name others."""
    if isinstance(value, Option) and value.file:
        names = frame.run.reassigned
        return value.without_default() if value.name in names or _ANY in names else value
    return value


def perhaps(value: Value) -> Value:
    """A value that another one may have replaced."""
    if isinstance(value, Option):
        return value.without_default()
    return UNKNOWN if isinstance(value, Const) else value


def is_as_read(frame: Frame, table: Table) -> bool:
    """Whether a configuration has just the keys that stand in its file, as far as the program was seen to change any
    of them."""
    return table.rest is None and not frame.run.reassigned


def fallback(frame: Frame, table: Table, key: str, given: Value) -> Value:
    """`config.get(key, given)` of a configuration that may lack the key."""
    value = current(frame, table.get(key))
    if value is not UNKNOWN or not is_as_read(frame, table) or not isinstance(given, Const):
        return value
    return Option(key, given.value, True, fixed=True)


def changed(frame: Frame, base: Table, name: str, value: Value) -> Table:
    """A dict, or a configuration, with another value under a key; where a condition decides about a configuration, it
    holds the former one perhaps."""
    note_change(frame, base, name, value)
    if base.file and frame.where.guards:
        value = join(base.get(name), value)
    return replace(base, items=tuple((dict(base.items) | {name: value}).items()))


def note_change(frame: Frame, base: Table, key: Value | str, value: Value | None = None) -> None:
    """The program puts another value in a configuration, which it may read by another name."""
    if not base.file:
        return
    name = key if isinstance(key, str) else str(key.value) if isinstance(key, Const) else _ANY
    before = dict(base.items).get(name)
    if isinstance(before, Table) and isinstance(value, Table):
        for below, one in value.items:
            note_change(frame, before, below, one)
    elif before is None or before != value:
        frame.run.effects += 1
        frame.run.reassigned.add(name)


def note_changes(frame: Frame, base: Table, given: Given) -> None:
    """`config.update(…)`, `config.merge_from_list(…)`."""
    tables = [value for value in given.positional if isinstance(value, Table) and value.rest is None]
    if len(tables) < len(given.positional) or not given.complete:
        note_change(frame, base, _ANY)
    for table in tables:
        for name, value in table.items:
            note_change(frame, base, name, value)
    for name, value in given.keywords.items():
        note_change(frame, base, name, value)


def note_any_change(frame: Frame, base: Table) -> None:
    """The program puts values in a configuration under names that are not known."""
    note_change(frame, base, _ANY)


def updated(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`OmegaConf.update(config, "data.workers", 8)`."""
    base, key, value = given.get("cfg", 0), given.get("key", 1), given.get("value", 2)
    if isinstance(base, Table):
        known = isinstance(key, Const) and isinstance(key.value, str)
        note_change(frame, base, str(key.value).rpartition(".")[2] if known and isinstance(key, Const) else _ANY, value)
    return NONE


def perhaps_overridden(items: Mapping[str, Value]) -> dict[str, Value]:
    """The items of a dict into which others go that are not known: what they were set to, they may no longer be."""
    return {name: _perhaps_overridden(value) for name, value in items.items()}


def _perhaps_overridden(value: Value) -> Value:
    if isinstance(value, Table) and value.file:
        return Table(tuple(perhaps_overridden(dict(value.items)).items()), UNKNOWN, value.file)
    return UNKNOWN if isinstance(value, Const) else value.without_default() if isinstance(value, Option) else value


def merged(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`OmegaConf.merge(one, other)`: the later ones count; what is not known may set anything."""
    result: Value = UNKNOWN
    for position, value in enumerate(given.positional):
        if isinstance(value, Table) and isinstance(result, Table):
            result = overlaid(result, value)
        elif isinstance(value, Table):
            result = value if position == 0 else replace(value, rest=UNKNOWN)
        else:
            result = value if position == 0 else _by_default(result)
    if not isinstance(result, Table | Instance):
        return UNKNOWN
    return result if given.complete else _by_default(result)


def overlaid(one: Table, other: Table) -> Table:
    """A configuration with the values of another on top."""
    items = dict(one.items)
    for name, value in other.items:
        below = items.get(name)
        items[name] = overlaid(below, value) if isinstance(below, Table) and isinstance(value, Table) else value
    return Table(tuple(items.items()), one.rest if other.rest is None else UNKNOWN, one.file or other.file)


def _by_default(value: Value) -> Value:
    """A configuration whose values whoever starts the job may change."""
    if isinstance(value, Table):
        return Table(tuple((name, _by_default(one)) for name, one in value.items), UNKNOWN, value.file)
    if isinstance(value, Tuple):
        return Tuple(tuple(map(_by_default, value.items)))
    return replace(value, fixed=False) if isinstance(value, Option) else value


def from_keywords(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`argparse.Namespace(**config)`, `SimpleNamespace(workers=4)`: attributes by name."""
    files = [value.file for value in given.keywords.values() if isinstance(value, Option | Table) and value.file]
    if not files:
        return OBJECT
    return Table(tuple(given.keywords.items()), None if given.complete else UNKNOWN, files[0])


# ---------------------------------------------------------------------------------------------------------- Hydra


def hydra_main(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`@hydra.main(config_path="conf", config_name="config")`: a decorator that fills the function's parameter."""
    folder, name = given.get("config_path", 0), given.get("config_name", 1)
    if not isinstance(name, Const) or not isinstance(name.value, str):
        return UNKNOWN
    if not isinstance(folder, Const):
        return UNKNOWN
    top = frame.module.path.parent / str(folder.value or ".")
    composed = _Composition(frame, Path(os.path.normpath(top))).primary(name.value)
    return UNKNOWN if composed is None else Object(object_types.HYDRA, inner=composed)


def filled_by_hydra(function: Function) -> Value | None:
    """The configuration that Hydra passes to a function; None where it passes none that is known."""
    return next(
        (one.inner for one in function.decorators if isinstance(one, Object) and one.type == object_types.HYDRA), None
    )


class _Composition:
    """Puts together what Hydra reads from one folder."""

    def __init__(self, frame: Frame, top: Path) -> None:
        self._files = frame.run.configurations
        self._top = top
        self._open: list[Path] = []

    def primary(self, name: str) -> Table | None:
        """The configuration with a name, and all that its list of defaults names; None where it is not known."""
        return self._composed("", name)

    def _composed(self, group: str, name: str) -> Table | None:
        path = self._path(group, name)
        data = self._files.read(path) if path is not None else NOTHING_KNOWN
        if path is None or not isinstance(data, dict) or path in self._open:
            return None
        own = {key: value for key, value in data.items() if key != "defaults"}
        layers: list[Table] = []
        placed = False
        self._open.append(path)
        defaults = data.get("defaults", [])
        for one in defaults if isinstance(defaults, list) else []:
            if one == "_self_":
                layers.append(self._values(path, own))
                placed = True
            else:
                layers += self._layers(group, one)
        self._open.pop()
        if not placed:
            layers.append(self._values(path, own))
        result = Table((), UNKNOWN, path.name)
        for layer in layers:
            result = overlaid(result, layer)
        return result

    def _values(self, path: Path, data: Mapping[object, object]) -> Table:
        # names in `${…}` count from the whole of what is put together
        value = _Reader(path.name, False, {}, self._files.passed).value("", dict(data))
        assert isinstance(value, Table)
        return value

    def _layers(self, group: str, item: object) -> Iterator[Table]:
        """What one item of a list of defaults brings: `model: resnet`, `optional db: mysql`, `experiment/small`."""
        if isinstance(item, str):
            parts = [("", item)]
        elif isinstance(item, dict):
            parts = [(str(key), value) for key, value in item.items()]
        else:
            return
        for key, value in parts:
            words = key.split()
            if "override" in words:
                # another choice for a group that stands elsewhere in the list
                yield Table(((words[-1].strip("/").rpartition("/")[2], UNKNOWN),))
                continue
            inner, _, package = (words[-1] if words else "").partition("@")
            for name in value if isinstance(value, list) else [value]:
                if isinstance(name, str):
                    yield from self._layer(group, inner, package, name)

    def _layer(self, group: str, inner: str, package: str, name: str) -> Iterator[Table]:
        is_absolute = inner.startswith("/")
        inner = inner.strip("/")
        folder, _, last = name.strip("/").rpartition("/")
        if (is_absolute and group) or (inner and folder):
            return  # which package these go to is left open
        below = inner or folder
        whole = "/".join(filter(None, (group, below)))
        found, path = self._composed(whole, last), self._path(whole, last)
        if found is None or path is None:
            return
        header = _PACKAGE.search(self._files.contents[path].decode("utf-8", "replace"))
        place = package or (header[1] if header is not None else below.replace("/", "."))
        if "_global_" in place and group:
            return
        for word in reversed(place.split(".")):
            if word not in ("", "_global_"):
                found = Table(((word, found),), UNKNOWN, found.file)
        yield found

    def _path(self, group: str, name: str) -> Path | None:
        stem = name if name.endswith(YAML) else f"{name}.yaml"
        path = Path(os.path.normpath(self._top / group / stem))
        return path if path in self._files.contents else None
