"""Which rules take part for a file, and with which severity, by the settings that hold for it.

A rule is on if the most specific selector that speaks about it selects it; at equal length `ignore` wins. Rules that
say why a file could not be linted take part always.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from trainlint.config.errors import nearest
from trainlint.config.resolved import DEFAULT, Resolved
from trainlint.config.rule_names import check_pack_names, check_rule_names, matching
from trainlint.lint.finding import CANNOT_LINT, Severity
from trainlint.lint.packs import Pack, installed_packs
from trainlint.lint.registry import Registry, load_registry
from trainlint.lint.rule import Rule, RuleOptions, RuntimeRule
from trainlint.source.ignores import PatternList, patterns_of_setting

_WITHOUT_REASON = "TL004"
_NAME_LENGTH = 1000
"""A rule's name is as specific as a selector can be."""


def selection_of(resolved: Resolved, installed: tuple[Pack, ...] | None = None) -> Selection:
    """What the settings select among the rules of the packs that they choose.

    Args:
        resolved: the settings.
        installed: the installed packs, where they are known.

    Raises:
        ConfigError: they speak about a pack or a rule that is not installed.
    """
    installed = installed_packs() if installed is None else installed
    check_pack_names(resolved, [pack.name for pack in installed])
    return Selection(load_registry(resolved.settings.plugins, installed), resolved)


class Choice(NamedTuple):
    """Whether a rule is selected, and what decides that."""

    selected: bool
    key: str
    """The setting; "default" where none speaks about the rule."""
    pattern: str = ""
    """What of it stands for the rule; empty where nothing does."""


class Selection:
    """The rules that the settings of one configuration select.

    Raises:
        ConfigError: a selector means no known rule, or a rule's table says what the rule does not know; the message
            names the nearest spelling.
    """

    def __init__(self, registry: Registry, resolved: Resolved) -> None:
        self.registry = registry
        self._resolved = resolved
        self._settings = resolved.settings
        self._root = os.path.join(resolved.root, "")  # noqa: PTH118 - with the separator at its end
        rule_names = {code: rule.name for code, rule in registry.rules.items()}
        self._names = rule_names
        check_rule_names(resolved, rule_names)
        self._options = {rule.code: _options(rule, resolved) for rule in registry.rules.values()}

    @cached_property
    def rules(self) -> Mapping[str, type[Rule]]:
        """The selected rules by code, before `per-file-ignores`."""
        return {code: rule for code, rule in self.registry.rules.items() if self.choices[code].selected}

    @cached_property
    def choices(self) -> Mapping[str, Choice]:
        """Of each installed rule, by code, whether it is selected and what decides that."""
        settings = self._settings
        if settings.select is None:
            chosen = {code: Choice(rule.default, "default") for code, rule in self.registry.rules.items()}
        else:
            chosen = dict.fromkeys(self.registry.rules, Choice(False, "select"))
        choices = [Choice(True, "select", pattern) for pattern in settings.select or ()]
        choices += [Choice(True, "extend-select", pattern) for pattern in settings.extend_select]
        choices += [Choice(True, "require-suppression-reason", _WITHOUT_REASON)] * settings.require_suppression_reason
        choices += [Choice(False, "ignore", pattern) for pattern in settings.ignore]
        for choice in sorted(choices, key=lambda one: (specificity(one.pattern), not one.selected)):
            chosen |= dict.fromkeys(matching(choice.pattern, self._names), choice)
        return chosen | {code: Choice(True, "default") for code in CANNOT_LINT if code in chosen}

    def codes(self, path: Path) -> frozenset[str]:
        """The codes of the rules that may report on a file."""
        ignored = self._ignored(path)
        return self._codes if not ignored else self._codes - (ignored - CANNOT_LINT)

    def ignored_by(self, path: Path, code: str) -> str | None:
        """The pattern of `per-file-ignores` that turns a rule off for a file."""
        if code in CANNOT_LINT:
            return None
        relative = self._relative(path)
        for pattern, (files, codes) in zip(self._settings.per_file_ignores, self._file_patterns, strict=True):
            if code in codes and files.covers(relative):
                return pattern
        return None

    def origin(self, key: str) -> str:
        """Where a setting comes from: a file, an option of the command line, or "default"."""
        return self._resolved.origins.get(key, DEFAULT)

    def severity(self, code: str, otherwise: Severity) -> Severity:
        """The severity that the settings give to a rule."""
        return self._severities.get(code, otherwise)

    @property
    def min_confidence(self) -> str:
        """The least confidence of the findings to report."""
        return self._settings.min_confidence

    def instance(self, code: str) -> Rule:
        """Make a rule, selected or not, ready to run, with the options of its own table."""
        rule = self.registry.rules[code]()
        rule.options = RuleOptions(self._options[code])
        return rule

    def took_part(self, pattern: str) -> bool:
        """Whether all that a suppression's pattern stands for was looked for, so that its silence means something.

        Of what a prefix stands for, rules outside the default set count only where they are selected. A pattern that
        stands for nothing silences nothing. What a probe reports is never looked for here.
        """
        meant = self._meant(pattern)
        if not meant:
            return True
        rules = [rule for code in meant if not issubclass(rule := self.registry.rules[code], RuntimeRule)]
        expected = {rule.code for rule in rules if rule.default or len(meant) == 1}
        return expected <= self._codes if expected else any(rule.code in self._codes for rule in rules)

    def knows(self, pattern: str) -> bool:
        """Whether a suppression's pattern stands for any rule that is installed."""
        return bool(self._meant(pattern))

    def _meant(self, pattern: str) -> frozenset[str]:
        return matching(pattern.upper(), self._names) or matching(pattern.lower(), self._names)

    @cached_property
    def _codes(self) -> frozenset[str]:
        return frozenset(self.rules)

    @cached_property
    def _severities(self) -> Mapping[str, Severity]:
        found: dict[str, Severity] = {}
        for pattern, label in sorted(self._settings.severity.items(), key=lambda one: specificity(one[0])):
            found |= dict.fromkeys(matching(pattern, self._names), Severity[label.upper()])
        return found

    @cached_property
    def _file_patterns(self) -> Sequence[tuple[PatternList, frozenset[str]]]:
        return [
            (patterns_of_setting((path,)), _union(matching(pattern, self._names) for pattern in patterns))
            for path, patterns in self._settings.per_file_ignores.items()
        ]

    def _ignored(self, path: Path) -> frozenset[str]:
        if not self._file_patterns:
            return frozenset()
        relative = self._relative(path)
        return _union(codes for patterns, codes in self._file_patterns if patterns.covers(relative))

    def _relative(self, path: Path) -> str:
        """A file as the patterns of `per-file-ignores` name it."""
        text = os.fspath(path)
        return text.removeprefix(self._root).replace(os.sep, "/") if text.startswith(self._root) else path.name


def specificity(pattern: str) -> int:
    """How much a selector says: nothing for `ALL`, more for a longer prefix of codes, most for a rule's name."""
    if pattern == "ALL":
        return 0
    return len(pattern) if pattern[:1].isupper() else _NAME_LENGTH


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)


def _options(rule: type[Rule], resolved: Resolved) -> dict[str, object]:
    """What the rule's table says, with the defaults of what it does not say.

    Raises:
        ConfigError: the table has a key or a value that the rule does not know.
    """
    table = resolved.settings.options(rule.code, rule.name)
    model = rule.options_model
    if model is None:
        if table:
            raise resolved.error(_written_as(rule, (next(iter(table)),), resolved), "the rule has no options")
        return {}
    from pydantic import ValidationError

    try:
        return model.model_validate(table).model_dump()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = _written_as(rule, first["loc"], resolved)
        if first["type"] == "extra_forbidden":
            known = list(model.model_json_schema()["properties"])
            hint = nearest(str(first["loc"][-1]), known)
            raise resolved.error(key, f"unknown option{hint or f'; it has {_listed(known)}'}") from error
        raise resolved.error(key, f"{first['msg'][:1].lower()}{first['msg'][1:]}") from error


def _written_as(rule: type[Rule], place: Iterable[str | int], resolved: Resolved) -> str:
    """The dotted key of an option, with the rule as the configuration writes it."""
    first, *others = map(str, place)
    by_name = first in resolved.settings.rules.get(rule.name, {}) or rule.code not in resolved.settings.rules
    return ".".join([rule.name if by_name else rule.code, first, *others])


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
