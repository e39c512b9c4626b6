"""`--output-format sarif`: SARIF 2.1.0, https://docs.oasis-open.org/sarif/sarif/v2.1.0/, for code scanning."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from trainlint import __version__
from trainlint.lint.finding import RelatedSite, Severity
from trainlint.lint.pages import DOCUMENTATION
from trainlint.lint.registry import load_registry
from trainlint.lint.result import Position, Reported, Result
from trainlint.lint.rule import Rule
from trainlint.report.fingerprint import fingerprints
from trainlint.report.json_model import VerdictJson
from trainlint.report.paths import repository_root, uri_of
from trainlint.report.rule_page import page_of
from trainlint.report.verdicts import phrase
from trainlint.report.view import View
from trainlint.source.encodable import encodable

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = dict[str, Json]

LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note", Severity.HINT: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
ROOT = "%SRCROOT%"
"""The name that code hosts give to the top of the repository."""


def render(result: Result, view: View) -> Iterator[str]:
    base = repository_root(view.root)
    reported_rules = _rules(result.findings)
    index = {code: position for position, code in enumerate(reported_rules)}
    identities = fingerprints(result.findings, view, base)
    log: Object = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(list(reported_rules.values()))},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {ROOT: {"uri": base.as_uri() + "/"}},
                "invocations": [_invocation(result)],
                "results": [
                    _result(reported, identity, index, view, base)
                    for reported, identity in zip(result.findings, identities, strict=True)
                ],
            }
        ],
    }
    yield json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rules(findings: Sequence[Reported]) -> dict[str, Object]:
    """A descriptor of each rule that was reported, by code."""
    known = load_registry().rules
    first: dict[str, Reported] = {}
    for reported in sorted(findings, key=lambda reported: reported.finding.code):
        first.setdefault(reported.finding.code, reported)
    return {code: _descriptor(reported, known.get(code)) for code, reported in first.items()}


def _descriptor(reported: Reported, rule: type[Rule] | None) -> Object:
    finding = reported.finding
    descriptor: Object = {"id": finding.code, "name": finding.name}
    if reported.url is not None:
        descriptor["helpUri"] = reported.url
    if rule is not None:
        descriptor["shortDescription"] = {"text": rule.summary()}
        descriptor["help"] = {"text": page_of(rule), "markdown": page_of(rule)}
        descriptor["defaultConfiguration"] = {"enabled": rule.default, "level": LEVELS[rule.severity]}
        descriptor["properties"] = {"tags": ["performance", rule.family.value]}
    return descriptor


def _driver(rules: list[Object]) -> Object:
    return {
        "name": "trainlint",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": DOCUMENTATION,
        "rules": list(rules),
    }


def _invocation(result: Result) -> Object:
    notifications: list[Json] = [{"level": "warning", "message": {"text": text}} for text in result.warnings]
    return {"executionSuccessful": True, "toolExecutionNotifications": notifications}


def _result(reported: Reported, identity: str, index: dict[str, int], view: View, base: Path) -> Object:
    finding = reported.finding
    result: Object = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": LEVELS[reported.severity],
        "message": {"text": _message(reported)},
        "locations": [_location(reported, view, base)],
        "partialFingerprints": {"trainlintFinding/v1": identity},
        "properties": _properties(reported),
    }
    related = _related(reported, view, base)
    if related:
        result["relatedLocations"] = related
    fix = _fix(reported, view, base)
    if fix is not None:
        result["fixes"] = [fix]
    return result


def _properties(reported: Reported) -> Object:
    properties: Object = {"confidence": reported.finding.confidence.label, "severity": reported.severity.label}
    if reported.verdict is not None:
        properties["verdict"] = VerdictJson.of(reported.verdict).model_dump()
    return properties


def _message(reported: Reported) -> str:
    finding = reported.finding
    sentences = [finding.message]
    if reported.cell is not None:
        sentences[0] = f"cell {reported.cell}, row {reported.location.row}: {finding.message}"
    if finding.context is not None:
        sentences.append(f"It {finding.context.why}")
    if reported.verdict is not None:
        verdict = phrase(reported.verdict)
        sentences.append(verdict[0].upper() + verdict[1:])
    if finding.help:
        sentences.append(finding.help[0].upper() + finding.help[1:])
    return encodable("".join(f"{sentence.rstrip('.')}. " for sentence in sentences).rstrip())


def _about(related: RelatedSite) -> str:
    site = related.site
    return related.message if site.cell is None else f"cell {site.cell}, row {site.row}: {related.message}"


def _location(reported: Reported, view: View, base: Path) -> Object:
    """Where a finding is; in a notebook, the rows of the JSON, which has other columns."""
    place: Object = {"artifactLocation": _artifact(reported.path, base)}
    start, end = reported.location, reported.end_location
    if reported.cell is None:
        place["region"] = _region(start, end)
    else:
        place["region"] = _rows(view, reported.path, reported.cell, start.row, end.row)
    location: Object = {"physicalLocation": place}
    if reported.finding.site.symbol:
        location["logicalLocations"] = [{"fullyQualifiedName": reported.finding.site.symbol}]
    return location


def _related(reported: Reported, view: View, base: Path) -> list[Json]:
    return [
        {
            "id": number,
            "message": {"text": _about(related)},
            "physicalLocation": {
                "artifactLocation": _artifact(related.site.path, base),
                "region": _rows(view, site.path, site.cell, site.row, site.end_row),
            },
        }
        for number, related in enumerate(reported.finding.related, 1)
        for site in [related.site]
    ]


def _rows(view: View, path: Path, cell: int | None, start: int, end: int) -> Object:
    first, last = (view.sources.stored_row(path, cell, row) for row in (start, end))
    return {"startLine": first, "endLine": last}


def _fix(reported: Reported, view: View, base: Path) -> Object | None:
    """The fix where it has edits of a file's own rows."""
    fix = reported.finding.fix
    if fix is None or reported.cell is not None:
        return None
    replacements: list[Json] = [
        {
            "deletedRegion": _region(edit.location, edit.end_location),
            "insertedContent": {"text": edit.content},
        }
        for edit in view.sources.edits(reported)
    ]
    if not replacements:
        return None
    return {
        "description": {"text": f"{fix.message} ({fix.applicability.value})"},
        "artifactChanges": [{"artifactLocation": _artifact(reported.path, base), "replacements": replacements}],
    }


def _artifact(path: Path, base: Path) -> Object:
    uri = uri_of(path, base)
    return {"uri": uri, "uriBaseId": ROOT} if path.is_relative_to(base) else {"uri": uri}


def _region(start: Position, end: Position) -> Object:
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}
