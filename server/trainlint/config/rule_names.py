"""Checks the rules that a configuration names against those that are installed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from trainlint.config.errors import nearest
from trainlint.config.resolved import Resolved
from trainlint.config.settings import setting_keys

_CODE_LIKE = re.compile(r"[A-Za-z]{2,4}[0-9]\w*")
_DIGITS_MISREAD = str.maketrans("OIL", "011")
_CODE_PREFIX = re.compile(r"[A-Z]+[0-9]*")


def check_pack_names(resolved: Resolved, installed: Collection[str]) -> None:
    """Refuse rule packs that are not installed.

    Raises:
        ConfigError: with the nearest name.
    """
    for name in resolved.settings.plugins or ():
        if name not in installed:
            listed = ", ".join(f'"{one}"' for one in installed)
            hint = nearest(name, installed) or f"; installed are {listed}"
            raise resolved.error("plugins", f'no rule pack "{name}" is installed{hint}')


def check_rule_names(resolved: Resolved, names: Mapping[str, str]) -> None:
    """Refuse settings that speak about rules which do not exist.

    Args:
        resolved: the settings.
        names: for each installed rule, its name by its code.

    Raises:
        ConfigError: with the nearest code or name.
    """
    known = [*names, *names.values()]
    for key, pattern in _patterns(resolved):
        if matching(pattern, names):
            continue
        likely = nearest_rule(pattern, names)
        hint = f'; did you mean "{likely}"?' if likely else "; `trainlint rules` lists all"
        raise resolved.error(key, f'no rule has the code or name "{pattern}"{hint}')
    for table in resolved.settings.rules:
        if table not in known:
            keys = setting_keys()
            raise resolved.error(table, f"is neither a setting nor a rule{nearest(table, [*known, *keys])}")


def nearest_rule(word: str, names: Mapping[str, str]) -> str | None:
    """The code or name of a rule that a word may be meant for; one of several codes that differ in a digit is not."""
    code = word.upper()
    code = code[:2] + code[2:].translate(_DIGITS_MISREAD)
    if code in names or _CODE_LIKE.fullmatch(word):
        return code if code in names else None
    from difflib import get_close_matches

    form = word.lower().replace("_", "-")
    return next(iter(get_close_matches(form, names.values(), n=1)), None)


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
