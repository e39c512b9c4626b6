"""Checks the rules that a configuration names against those that are installed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trainlint.config.errors import nearest
from trainlint.config.resolved import Resolved
from trainlint.config.settings import setting_keys

_CODE_PREFIX = re.compile(r"[A-Z]+[0-9]*")


def check_rule_names(resolved: Resolved, names: Mapping[str, str]) -> None:
    """Refuse settings that speak about rules which do not exist.

    Args:
        resolved: the settings.
        names: for each installed rule, its name by its code.

    Raises:
        ConfigError: with the nearest code or name.
    """
    for key, pattern in _patterns(resolved):
        if not matching(pattern, names):
            known = [*names, *names.values()]
            raise resolved.error(key, f'no rule has the code or name "{pattern}"{nearest(pattern, known)}')
    for table in resolved.settings.rules:
        if table not in names and table not in names.values():
            known = [*names, *names.values(), *setting_keys()]
            raise resolved.error(table, f"is neither a setting nor a rule{nearest(table, known)}")


def matching(pattern: str, names: Mapping[str, str]) -> frozenset[str]:
    """The codes of the rules that a code, a code prefix, a rule name or `ALL` stands for."""
    if pattern == "ALL":
        return frozenset(names)
    if _CODE_PREFIX.fullmatch(pattern):
        return frozenset(code for code in names if code.startswith(pattern))
    return frozenset(code for code, name in names.items() if name == pattern)


def _patterns(resolved: Resolved) -> Iterator[tuple[str, str]]:
    settings = resolved.settings
    lists = {"select": settings.select or (), "extend-select": settings.extend_select, "ignore": settings.ignore}
    for key, patterns in lists.items():
        for pattern in patterns:
            yield key, pattern
    for path, patterns in settings.per_file_ignores.items():
        for pattern in patterns:
            yield f"per-file-ignores.{path}", pattern
    for pattern in settings.severity:
        yield f"severity.{pattern}", pattern
