"""The options of rules, as configuration files hold them in a table for each rule."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trainlint.lint.rule import Rule


def option_schemas(rules: Iterable[type[Rule]]) -> dict[str, dict[str, Any]]:
    """The JSON schema of each rule's table, by its code and by its name; without properties where it has no options."""
    found: dict[str, dict[str, Any]] = {}
    for rule in rules:
        found |= dict.fromkeys((rule.code, rule.name), option_schema(rule))
    return found


def option_schema(rule: type[Rule]) -> dict[str, Any]:
    """The JSON schema of one rule's table."""
    described = {"type": "object", "description": f"Options of {rule.code} {rule.name}."}
    if rule.options_model is None:
        return described
    return rule.options_model.model_json_schema() | described
