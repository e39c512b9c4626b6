"""`trainlint config`: print the settings that hold for a path, and where each comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainlint.cli.arguments import VerbParser, add_configuration, add_text_or_json
from trainlint.cli.failure import Failure
from trainlint.config.discovery import Overrides, resolve
from trainlint.config.resolved import DEFAULT, Resolved
from trainlint.lint.selection import selection_of
from trainlint.source.discovery import absolute, project_root


def parser() -> VerbParser:
    verb = VerbParser("config", "[PATH] [OPTIONS]", "Print the settings that hold for a file or a folder.")
    verb.add_argument("path", nargs="?", type=Path, default=Path(), metavar="PATH", help="file or folder (default: .)")
    add_configuration(verb)
    add_text_or_json(verb)
    verb.add_argument("--schema", action="store_true", help="print the JSON schema of configuration files instead")
    return verb


def main(arguments: Sequence[str]) -> int:
    found = parser().parse(arguments)
    if found.schema:
        print(_schema(), end="")
        return 0
    if not found.path.exists():
        raise Failure(f"{found.path}: no such file or folder")
    resolved = resolve(found.path, Overrides.parse(found.config, isolated=found.isolated))
    selection_of(resolved)
    project = project_root(absolute(found.path))
    if found.output_format == "json":
        print(_json(resolved, project))
    else:
        for line in _lines(resolved, project):
            print(line)
    return 0


def _schema() -> str:
    """The schema with the options of all installed rules, for editors."""
    from trainlint.config.schema import dump
    from trainlint.lint.options import option_schemas
    from trainlint.lint.registry import load_registry

    return dump(option_schemas(load_registry().rules.values()))


def _settings(resolved: Resolved) -> dict[str, object]:
    """The value of each key, as JSON has it; a rule's table stands under the name that the user gave it."""
    return resolved.settings.by_key() | dict(resolved.settings.rules)


def _json(resolved: Resolved, project: Path) -> str:
    document = {
        "file": None if resolved.file is None else str(resolved.file),
        "root": str(resolved.root),
        "project": str(project),
        "settings": _settings(resolved),
        "origins": dict(resolved.origins),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _lines(resolved: Resolved, project: Path) -> Iterator[str]:
    """One line a setting, in TOML, with its origin behind it; null settings have no spelling in TOML."""
    yield f"# configuration file: {resolved.file or 'none'}"
    yield f"# paths in patterns count from: {resolved.root}"
    yield f"# project: {project}"
    for key, value in _settings(resolved).items():
        if isinstance(value, Mapping) and value:
            for name, entry in value.items():
                dotted = f"{key}.{_key(name)}"
                yield f"{dotted} = {_toml(entry)}  # {resolved.origins.get(f'{key}.{name}', DEFAULT)}"
        else:
            text = f"{key} = {_toml(value)}" if value is not None else f"# {key} is not set"
            yield f"{text}  # {resolved.origins.get(key, DEFAULT)}"


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if bare else json.dumps(name)


def _toml(value: object) -> str:
    """Return a value as TOML has it; strings and numbers are the same in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=False, default=str)
