"""Configuration files of a project: which of them a program means, and what stands in them; and the scripts that start
its programs, with the options that they pass.

Files are read as the program's own libraries would read them, and not trusted: what is too large, nests too deep, does
not parse or is no text says nothing.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

YAML = (".yaml", ".yml")
"""How the names of YAML files end."""
SUFFIXES = (*YAML, ".json", ".toml")
"""How the names of configuration files end."""
LAUNCHERS = (".sh", ".bash", ".slurm", ".sbatch", "Makefile")
"""How the names of scripts end that start programs."""
AROUND = "*.sh"
"""Stands for the scripts around a program, among the names that it gives to configuration files."""
WITHIN_FOLDERS = (*YAML, *LAUNCHERS)
"""Of what is read because of the folder that it lies in: the parts of a configuration of Hydra, scripts."""
MOST_BYTES = 100_000
"""Of a file; what is larger is data, and takes PyYAML long without its C library."""
DEEPEST = 60
"""Nesting beyond which a file is not read: parsers recurse, some of them in C."""
MOST_VALUES = 20_000
"""Values in one file, with those counted again that aliases repeat."""
MOST_BITS = 1024
"""Of a number, above what any setting holds: Python refuses to write out numbers of more than 4300 digits."""
_PASSED = r"(?<![\w-])--?([A-Za-z_][\w-]*)|(?<![\w./$-])\+{0,2}(?:\w+\.)*([A-Za-z_]\w*)="
"""`--num-workers 4`, `-j 4`, `-j4`, or `data.workers=4` as Hydra has it. Compiled where it is asked, since
most runs read no file."""
_BRACKETS = r"[\[\]{}]"
_DEEP_KEY = rf"(?:\.[^.,=\n]*){{{DEEPEST}}}"
"""A key of TOML with that many dots: `tomllib` takes a time that grows with their square."""


class NothingKnown:
    """Stands for the content of a file that cannot be read."""


NOTHING_KNOWN = NothingKnown()


def is_launcher(name: str) -> bool:
    """Whether a file's name is that of a script that may start programs."""
    return name.endswith(LAUNCHERS)


class ConfigurationFiles:
    """The configuration files that code of a project names, each parsed once it is asked for."""

    def __init__(self, contents: Mapping[Path, bytes]) -> None:
        self.contents = contents
        self._parsed: dict[Path, object] = {}

    def __bool__(self) -> bool:
        return bool(self.contents)

    def __reduce__(self) -> tuple[type[ConfigurationFiles], tuple[Mapping[Path, bytes]]]:
        """Another process parses for itself."""
        return ConfigurationFiles, (self.contents,)

    @cached_property
    def passed(self) -> frozenset[str]:
        """Names of the options that the project's own scripts pass to programs, whatever the defaults of these are."""
        # what follows one letter may be its value
        letters = {match[1][0] for match in self._passed if match[1] and not match[0].startswith("--")}
        return frozenset((match[1] or match[2]).replace("-", "_") for match in self._passed) | letters

    @cached_property
    def _passed(self) -> list[re.Match[str]]:
        texts = [data.decode("utf-8", "replace") for path, data in self.contents.items() if is_launcher(path.name)]
        return [match for text in texts for match in re.finditer(_PASSED, text)]

    @cached_property
    def _beginnings(self) -> tuple[str, ...]:
        return tuple({match[1].replace("-", "_") for match in self._passed if match[0].startswith("--")})

    def pass_option(self, *names: str) -> bool:
        """Whether the project's own scripts pass an option that has these names: by one of them, or by the beginning of
        one, which argparse takes for it."""
        return any(name in self.passed or name.startswith(self._beginnings) for name in names)

    def find(self, name: str, entry: Path) -> Path | None:
        """The file that a program means by a name, where the project has just one such: a program may be started in
        its own folder or in any above it."""
        if not name.endswith(SUFFIXES):
            return None
        if os.path.isabs(name):  # noqa: PTH117
            path = Path(os.path.normpath(name))
            return path if path in self.contents else None
        found = {Path(os.path.normpath(folder / name)) for folder in entry.parents}
        found &= self.contents.keys()
        return found.pop() if len(found) == 1 else None

    def read(self, path: Path) -> object:
        """What stands in a file: dicts, lists and scalars; `NOTHING_KNOWN` where it cannot be read."""
        if path not in self._parsed:
            self._parsed[path] = _parse(path, self.contents[path]) if path in self.contents else NOTHING_KNOWN
        return self._parsed[path]


def _parse(path: Path, data: bytes) -> object:
    if len(data) > MOST_BYTES:
        return NOTHING_KNOWN
    try:
        text = data.decode("utf-8-sig")
        if path.suffix in YAML:
            found = _parse_yaml(text)
        elif _depth(text) > DEEPEST:
            return NOTHING_KNOWN
        elif path.suffix == ".toml":
            import tomllib

            if re.search(_DEEP_KEY, text) is not None:
                return NOTHING_KNOWN
            found = tomllib.loads(text)
        else:
            found = json.loads(text)
        return found if _is_plain(found) else NOTHING_KNOWN
    except (ValueError, RecursionError, OverflowError):
        return NOTHING_KNOWN


def _depth(text: str) -> int:
    """How deep brackets nest, at most: those in texts count as well."""
    deepest = depth = 0
    for match in re.finditer(_BRACKETS, text):
        depth += 1 if match[0] in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _parse_yaml(text: str) -> object:
    """Raises ValueError where it is no YAML that can be taken, or nothing here reads YAML."""
    try:
        import yaml
    except ImportError as error:
        raise ValueError("PyYAML is missing") from error
    fastest: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(fastest):  # type: ignore[misc]
        left = MOST_VALUES

        def flatten_mapping(self, node: Any) -> None:
            """Merge keys repeat what they name, and may be nested."""
            merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
            if sum(len(one.value) for one in merged) > self.left:
                raise ValueError("merge keys name too much")
            for value in merged:
                named = value.value if isinstance(value, yaml.SequenceNode) else [value]
                self.left -= sum(len(one.value) for one in named)
                if isinstance(value, yaml.SequenceNode):
                    # PyYAML before 6.0.4 copies what is named again as often as it is named
                    value.value = list({id(one): one for one in named}.values())
            if self.left < 0:
                raise ValueError("merge keys repeat too much")
            super().flatten_mapping(node)
            if len(node.value) > MOST_VALUES:
                raise ValueError("merge keys repeat too much")

    try:
        depth = 0
        for count, event in enumerate(yaml.parse(text, Loader=fastest)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
            if depth > DEEPEST or count > 3 * MOST_VALUES:
                raise ValueError("nests too deep, or is too long")
        return yaml.load(text, Loader=Loader)
    except (yaml.YAMLError, TypeError, AttributeError, LookupError) as error:
        raise ValueError(f"no YAML: {error}") from error


def _is_plain(found: object) -> bool:
    """Whether a document holds few enough values, none of which holds itself or is a number that Python will not
    write out."""
    left = MOST_VALUES
    waiting: list[tuple[object, int]] = [(found, 0)]
    while waiting:
        one, depth = waiting.pop()
        left -= 1
        if left < 0 or depth > DEEPEST or (isinstance(one, int) and one.bit_length() > MOST_BITS):
            return False
        below = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        waiting += [(each, depth + 1) for each in below]
    return True
