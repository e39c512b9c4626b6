"""The page of a rule in Markdown: what `trainlint explain` prints, and what code hosts show beside a finding."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from trainlint.lint.finding import Applicability
from trainlint.lint.pages import url_of
from trainlint.lint.rule import Rule
from trainlint.report.torch_range import torch_range


def page_of(rule: type[Rule]) -> str:
    """Return the rule's docstring under a heading, with its metadata between summary and sections."""
    summary, _, sections = inspect.cleandoc(rule.__doc__ or "").partition("\n")
    facts = "\n".join(f"- {fact}" for fact in _facts(rule))
    return f"# {rule.name} ({rule.code})\n\n{summary}\n\n{facts}\n\n{sections.strip()}"


def _facts(rule: type[Rule]) -> Iterator[str]:
    state = "in the default set" if rule.default else f"opt-in: `--extend-select {rule.code}`"
    yield f"Family: {rule.family.value}; severity: {rule.severity.label}; {state}"
    if rule.fix_class is not Applicability.NONE:
        yield f"Fix: {rule.fix_class.value}"
    if torch := torch_range(rule):
        yield f"PyTorch: `{torch}`"
    if rule.confirmed_by:
        yield f"Confirmed at run time by: {rule.confirmed_by}"
    if url := url_of(rule):
        yield f"Page: {url}"
