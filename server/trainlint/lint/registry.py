"""The installed rule packs and their rules.

A rule pack is an importable package registered under the entry point group `trainlint.rules`. A pack that cannot be
imported, or that holds a rule that breaks the contract, is left out as a whole and named in a warning: half a pack
would report half the truth.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType

from trainlint.lint.packs import BUILT_IN, Pack, installed_packs
from trainlint.lint.rule import SECTIONS, Rule

_CODE = re.compile(r"[A-Z]{2,4}\d{3}")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SECTION = re.compile(r"^[ \t]*## (.*\S)", re.MULTILINE)


class BrokenPackError(Exception):
    """A rule pack that breaks the contract; the message says where and how."""


@dataclass(frozen=True)
class Registry:
    """The rules of all packs in use, by code, with a warning for each pack that was left out."""

    rules: Mapping[str, type[Rule]]
    packs: tuple[Pack, ...]
    warnings: tuple[str, ...] = ()
    codes: Mapping[str, str] = field(init=False)
    """Code of each rule name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", {rule.name: code for code, rule in self.rules.items()})

    def find(self, code_or_name: str) -> type[Rule] | None:
        """Return the rule with this code or name."""
        return self.rules.get(self.codes.get(code_or_name, code_or_name))

    def nearest(self, code_or_name: str) -> str | None:
        """Return the code or name of a rule that is spelled most like the given one."""
        from trainlint.config.rule_names import nearest_rule

        return nearest_rule(code_or_name, {code: rule.name for code, rule in self.rules.items()})


def load_registry(plugins: Sequence[str] | None = None, installed: tuple[Pack, ...] | None = None) -> Registry:
    """Load the built-in pack and the installed packs that `plugins` names; None takes all that are installed.

    `installed` spares the search for what is installed, where that is known.
    """
    return _load(None if plugins is None else tuple(plugins), installed_packs() if installed is None else installed)


@lru_cache(maxsize=8)
def _load(plugins: tuple[str, ...] | None, installed: tuple[Pack, ...]) -> Registry:
    warnings: list[str] = []
    rules: dict[str, type[Rule]] = {}
    used: list[Pack] = []
    for pack in installed:
        if pack.name != BUILT_IN and plugins is not None and pack.name not in plugins:
            continue
        try:
            rules |= _rules_of(pack, rules)
            used.append(pack)
        except BrokenPackError as error:
            warnings.append(f"rule pack `{pack.name}` ({pack.module}) is left out: {error}")
    return Registry(dict(sorted(rules.items())), tuple(used), tuple(warnings))


def _rules_of(pack: Pack, others: Mapping[str, type[Rule]]) -> dict[str, type[Rule]]:
    """Return the rules of one pack; `others` are those already taken.

    Raises:
        BrokenPackError: a module does not import, or a rule breaks the contract.
    """
    found: dict[str, type[Rule]] = {}
    names = {rule.name for rule in others.values()}
    for rule in _rule_classes(pack.module):
        where = f"{rule.__module__}.{rule.__qualname__}"
        problem = _problem(rule)
        if problem is None and (rule.code in others or rule.code in found):
            problem = f"the code {rule.code} is taken"
        if problem is None and rule.name in names:
            problem = f"the name `{rule.name}` is taken"
        if problem is not None:
            raise BrokenPackError(f"{where}: {problem}")
        found[rule.code] = rule
        names.add(rule.name)
    return found


def _rule_classes(package: str) -> Iterator[type[Rule]]:
    """Every `Rule` subclass with a code that the modules of a package define, in order of module and of definition."""
    for module in _modules(package):
        for value in vars(module).values():
            defined_here = inspect.isclass(value) and value.__module__ == module.__name__
            if defined_here and issubclass(value, Rule) and value.code:
                yield value


def _modules(package: str) -> Iterator[ModuleType]:
    root = _import(package)
    yield root
    locations = getattr(root, "__path__", None)
    if locations is None:
        return
    names = [found.name for found in pkgutil.walk_packages(locations, f"{package}.", onerror=_walk_failed)]
    for name in sorted(names):
        yield _import(name)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise BrokenPackError(f"`import {name}` fails: {type(error).__name__}: {error}") from error


def _walk_failed(name: str) -> None:
    _import(name)
    raise BrokenPackError(f"`{name}` cannot be searched for rules")


def _problem(rule: type[Rule]) -> str | None:
    """What is wrong with a rule, or None."""
    if not _CODE.fullmatch(rule.code):
        return f"the code `{rule.code}` is not two to four capital letters and three digits"
    if not _NAME.fullmatch(rule.name):
        return f"the name `{rule.name}` is not lower-case words joined by hyphens"
    if not hasattr(rule, "family"):
        return "it has no family"
    if not rule.summary():
        return "its docstring has no first line that says what the rule reports"
    present = _SECTION.findall(rule.__doc__ or "")
    missing = [section for section in SECTIONS if section not in present]
    if missing:
        return f"its docstring lacks the section `## {missing[0]}`"
    return None
