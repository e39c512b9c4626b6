"""The page of a rule in Markdown: what `trainlint explain` prints, and what code hosts show beside a finding."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

from trainlint.lint.finding import Applicability
from trainlint.lint.packs import BUILT_IN_MODULE
from trainlint.lint.pages import DOCUMENTATION, url_of
from trainlint.lint.rule import Rule
from trainlint.report.torch_range import torch_range

ARTICLES = f"\n- What the numbered articles are: {DOCUMENTATION}sources/"
"""The end of the references of a page that cites some."""
_CITES_ARTICLES = re.compile(r"\(articles? \d")


def page_of(rule: type[Rule]) -> str:
    """Return the rule's docstring under a heading, with its metadata between summary and sections."""
    summary, _, sections = inspect.cleandoc(rule.__doc__ or "").partition("\n")
    facts = "\n".join(f"- {fact}" for fact in _facts(rule))
    articles = ARTICLES if rule.__module__.startswith(BUILT_IN_MODULE) and _CITES_ARTICLES.search(sections) else ""
    return f"# {rule.name} ({rule.code})\n\n{summary}\n\n{facts}\n\n{sections.strip()}{articles}"


def _facts(rule: type[Rule]) -> Iterator[str]:
    state = "in the default set" if rule.default else f"opt-in: `--extend-select {rule.code}`"
    yield f"Family: {rule.family.value}; severity: {rule.severity.label}; {state}"
    if rule.fix_class is not Applicability.NONE:
        yield f"Fix: {rule.fix_class.label}"
    if torch := torch_range(rule):
        yield f"PyTorch: `{torch}`"
    if rule.confirmed_by:
        yield f"Confirmed at run time by: {rule.confirmed_by}"
    if url := url_of(rule):
        yield f"Page: {url}"
