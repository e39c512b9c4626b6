"""The JSON of one rule, as `trainlint rules --output-format json` prints it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from trainlint.lint.finding import Applicability
from trainlint.lint.rule import Rule
from trainlint.report.torch_range import torch_range


class RuleJson(BaseModel):
    """One rule, for tools that list or configure rules."""

    model_config = ConfigDict(frozen=True)

    code: str
    name: str
    family: str
    summary: str
    default: bool
    severity: str
    fix: str | None
    """The most that a fix of the rule can be: "safe", "unsafe" or "display"; null where it offers none."""
    confirmed_by: str | None
    torch: str | None
    """The torch releases it holds for, as a version specifier (PEP 440); null for all."""
    url: str | None
    """The page of the rule; null where its pack publishes none."""

    @classmethod
    def of(cls, rule: type[Rule], url: str | None) -> RuleJson:
        return cls(
            code=rule.code,
            name=rule.name,
            family=rule.family.value,
            summary=rule.summary(),
            default=rule.default,
            severity=rule.severity.label,
            fix=None if rule.fix_class is Applicability.NONE else rule.fix_class.value,
            confirmed_by=rule.confirmed_by or None,
            torch=torch_range(rule) or None,
            url=url,
        )
