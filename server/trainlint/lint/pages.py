"""Where the documentation of rules is read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trainlint.lint.packs import BUILT_IN_MODULE

if TYPE_CHECKING:
    from trainlint.lint.rule import Rule

DOCUMENTATION = "https://trainlint.readthedocs.io/en/latest/"
"""The project's documentation, as its package metadata declares it too."""
PACK_PAGES = "RULE_PAGES"
"""The variable of a pack's package that holds the address below which each of its rules has a page, by name."""


def url_of(rule: type[Rule]) -> str | None:
    """Return the address of a rule's page; None where its pack publishes none."""
    package, _, _ = rule.__module__.partition(".")
    if package == BUILT_IN_MODULE:
        return f"{DOCUMENTATION}rules/{rule.name}/"
    base = _declared(rule.__module__)
    return f"{base.rstrip('/')}/{rule.name}/" if base else None


def _declared(module: str) -> str:
    """The address that the module's own package declares, or the nearest one around it; empty where none does."""
    while module:
        base = getattr(sys.modules.get(module), PACK_PAGES, None)
        if isinstance(base, str):
            return base
        module = module.rpartition(".")[0]
    return ""
