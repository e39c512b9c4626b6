"""Which of the rules that a command line selects are about runs, so that a check of code alone finds nothing."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.config.rule_names import matching
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import RuntimeRule


def probe_only(patterns: object) -> Iterator[tuple[str, str]]:
    """The patterns that stand for nothing but such rules, each with what it stands for, in words."""
    rules = load_registry().rules
    names = {code: rule.name for code, rule in rules.items()}
    for pattern in patterns if isinstance(patterns, list) else ():
        found = sorted(matching(pattern, names))
        if found and all(issubclass(rules[code], RuntimeRule) for code in found):
            one = f"{found[0]} {names[found[0]]}"
            yield pattern, one if len(found) == 1 else f"what {found[0]} to {found[-1]} are about"
