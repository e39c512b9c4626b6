"""Where the documentation of rules is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.rule import Rule

DOCUMENTATION = "https://trainlint.readthedocs.io/en/latest/"
"""The project's documentation, as its package metadata declares it too."""


def url_of_name(name: str) -> str:
    """Return the address of the page of the rule with this name."""
    return f"{DOCUMENTATION}rules/{name}/"


def url_of(rule: type[Rule]) -> str:
    """Return the address of a rule's page."""
    return url_of_name(rule.name)
