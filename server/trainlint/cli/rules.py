"""`trainlint rules`: list all rules."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

from trainlint.cli.arguments import VerbParser, add_text_or_json
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Rule


def parser() -> VerbParser:
    verb = VerbParser("rules", "[--output-format text|json]", "List all rules, those of installed rule packs too.")
    add_text_or_json(verb)
    return verb


def main(arguments: Sequence[str]) -> int:
    as_json = parser().parse(arguments).output_format == "json"
    registry = load_registry()
    for warning in registry.warnings:
        print(f"trainlint: warning: {warning}", file=sys.stderr)
    rules = list(registry.rules.values())
    if as_json:
        print(_json(rules))
    else:
        for line in _table(rules):
            print(line)
    return 0


def _json(rules: Sequence[type[Rule]]) -> str:
    import json

    from trainlint.lint.pages import url_of
    from trainlint.report.rule_model import RuleJson

    return json.dumps([RuleJson.of(rule, url_of(rule)).model_dump() for rule in rules], indent=2, ensure_ascii=False)


def _table(rules: Sequence[type[Rule]]) -> Iterator[str]:
    """One block a family, below a row of headings; a rule that is not in the default set is marked `off`."""
    width = max((len(rule.name) for rule in rules), default=0)
    yield f"  {'code':<5}  {'name':<{width}}  {'severity':<8}  {'default':<7}  {'fix':<6}  what it finds"
    yield ""
    for family, group in groupby(rules, key=lambda rule: rule.family):
        yield family.value
        for rule in group:
            state = "on" if rule.default else "off"
            cells = f"{rule.severity.label:<8}  {state:<7}  {rule.fix_class.label:<6}"
            yield f"  {rule.code}  {rule.name:<{width}}  {cells}  {rule.summary()}"
        yield ""
