"""The settings, as users write them in TOML: every key, its type and its default.

`config.validation` makes them of what a file says; a run that finds them in the cache does without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, TypeAlias

from trainlint.source.discovery import DEFAULT_EXCLUDES

RULE_CODE = r"^[A-Z]+[0-9]+$"
RULE_NAME = r"^[a-z][a-z0-9]*(-[a-z0-9]+)*$"
TORCH_VERSION = r"^[0-9]+\.[0-9]+(\.[0-9]+)?$"

SeverityLabel: TypeAlias = Literal["error", "warning", "info", "hint"]
ConfidenceLabel: TypeAlias = Literal["high", "medium", "low"]
Device: TypeAlias = Literal["auto", "cuda", "cpu", "mps", "xpu"]
Distributed: TypeAlias = Literal["auto", "true", "false"]
Patterns: TypeAlias = tuple[str, ...]
RuleOptions: TypeAlias = dict[str, Any]
"""The table of one rule; the rule's own model validates it."""


def is_rule_key(key: str) -> bool:
    """Whether a key is spelled as a rule's code or name is."""
    return re.match(RULE_CODE, key) is not None or re.match(RULE_NAME, key) is not None


def _kebab(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True)
class Settings:
    """Configuration of trainlint: the table [tool.trainlint] of pyproject.toml, or trainlint.toml."""

    __pydantic_config__: ClassVar[dict[str, object]] = {
        "alias_generator": _kebab,
        "extra": "forbid",
        "use_attribute_docstrings": True,
    }

    extend: str | None = None
    """Another configuration file to start from, relative to this one."""
    select: Patterns | None = None
    """Rules to run: codes, code prefixes, rule names, or "ALL". Default: the default set."""
    extend_select: Patterns = ()
    """Rules to run besides those selected."""
    ignore: Patterns = ()
    """Rules not to run: codes, code prefixes or rule names."""
    per_file_ignores: dict[str, Patterns] = field(default_factory=dict)
    """Rules not to report in some files: from a pattern of paths, as in .gitignore, to rules."""
    exclude: Patterns = DEFAULT_EXCLUDES
    """Files and folders not to lint, as patterns of .gitignore. Replaces the default list."""
    extend_exclude: Patterns = ()
    """Files and folders not to lint besides those of `exclude`."""
    severity: dict[str, SeverityLabel] = field(default_factory=dict)
    """Severity of rules: from a code, a code prefix or a rule name to error, warning, info or hint."""
    min_confidence: ConfidenceLabel = "medium"
    """The least confidence of the findings to report."""
    device: Device = "auto"
    """What the project trains on, whatever its code says: "cuda" or "cpu". The others leave it to the code so far."""
    distributed: Distributed = "auto"
    """Whether the project trains on several GPUs, whatever its code says; "auto" leaves it to the code."""
    step_functions: Patterns = ()
    """Names of functions that run once per training step."""
    sync_functions: Patterns = ()
    """Names of functions that wait for the GPU."""
    rank_guards: Patterns = ()
    """Names of functions and variables that are true on one rank only."""
    loader_factories: Patterns = ()
    """Names of functions that return a DataLoader."""
    torch_version: str | None = None
    """The PyTorch release that the code runs with, as "2.4". Default: what lock files pin or dependencies admit."""
    require_suppression_reason: bool = False
    """Report suppression comments that do not say why (TL004)."""
    plugins: Patterns | None = None
    """Names of the installed rule packs to use. Default: all that are installed."""
    rules: dict[str, RuleOptions] = field(default_factory=dict)
    """The tables of single rules, by code or name as written. Not a key of its own in TOML."""

    @property
    def all_excludes(self) -> Patterns:
        return self.exclude + self.extend_exclude

    def options(self, code: str, name: str) -> RuleOptions:
        """What the table of a rule says, whether it is under the rule's code or its name; the name goes before."""
        return {**self.rules.get(code, {}), **self.rules.get(name, {})}

    def by_key(self) -> dict[str, object]:
        """The value of each key, as written in TOML; the tables of rules are left out."""
        return {key: getattr(self, name) for key, name in _NAMES.items()}


_NAMES = {_kebab(one.name): one.name for one in fields(Settings) if one.name != "rules"}
"""The name of each key's field."""


def setting_keys() -> tuple[str, ...]:
    """The keys that a configuration may have besides rule tables, as written in TOML."""
    return tuple(_NAMES)


def split_rule_tables(table: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Separate the settings from the tables that are named like rules."""
    settings = {key: value for key, value in table.items() if key in _NAMES}
    others = {key: value for key, value in table.items() if key not in _NAMES}
    return settings, others
