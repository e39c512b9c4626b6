"""The rule contract: all that a rule is, in one class; all that a rule pack must offer.

A rule pack is an importable package registered under the entry point group `trainlint.rules`; every `Rule` subclass
with a code that its modules define is one of its rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from trainlint.fixes.recipe import Applicability, Fix
from trainlint.lint.finding import Family, Finding, RelatedSite, RuntimeFinding, Severity, Tag
from trainlint.probe.evidence import Evidence
from trainlint.probe.verdict import Measurement, Status, Verdict
from trainlint.semantics.project import Context, NameUse, Project, Site
from trainlint.semantics.vocabulary import Confidence

if TYPE_CHECKING:
    from pydantic import BaseModel

    from trainlint.probe.measured import Measured

SECTIONS = (
    "What it does",
    "Why it is slow",
    "When it is fine",
    "Example",
    "Use instead",
    "Fix safety",
    "How the probe confirms it",
    "References",
)
"""The sections of a rule's documentation, in order."""


@dataclass(frozen=True, slots=True)
class Example:
    """A small program that is the rule's test and part of its page.

    The rule is checked on `entry`, with the other files beside it. Lines that must be reported end in the comment
    `# expect: CODE`; every other line must not be.
    """

    written: dict[str, str]
    """Each file by its path, indented as it stands in the rule."""
    entry: str
    because: str
    written_after: str | None = None
    """Likewise the entry after the rule's fix, where it carries edits."""
    valid: bool = False

    @property
    def files(self) -> dict[str, str]:
        """Each file by its path."""
        return {path: _program(text) for path, text in self.written.items()}

    @property
    def fixed(self) -> dict[str, str] | None:
        """The entry after the rule's fix, by its path; None where the fix carries no edits."""
        return None if self.written_after is None else {self.entry: _program(self.written_after)}


def _program(text: str) -> str:
    return inspect.cleandoc(text) + "\n"


def invalid(
    source: str,
    *,
    because: str = "",
    fixed: str | None = None,
    others: dict[str, str] | None = None,
    entry: str = "train.py",
) -> Example:
    """An example that the rule must report, on the lines marked `# expect: CODE` and on no other.

    `fixed` is the text of `entry` after all of the rule's fixes, without the marks.
    """
    return Example({entry: source, **(others or {})}, entry, because, fixed)


def valid(source: str, *, because: str, others: dict[str, str] | None = None, entry: str = "train.py") -> Example:
    """An example on which the rule must stay silent; `because` says why, in a phrase."""
    return Example({entry: source, **(others or {})}, entry, because, valid=True)


_LONGEST_QUOTE = 60


def quote(text: str) -> str:
    """Name an expression in a message: on one line, in backticks, cut after 60 characters."""
    line = " ".join(text.split())
    return f"`{line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + '…'}`"


class Occurrence(Protocol):
    """What any record of the project has."""

    @property
    def site(self) -> Site: ...
    @property
    def context(self) -> Context: ...


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """What the configuration says to a rule: its own table, validated by the rule's `options_model`."""

    values: dict[str, object] = field(default_factory=dict)


class Rule:
    """Base of all rules. A subclass's docstring is its page: a first line that summarizes, then `SECTIONS`."""

    code: ClassVar[str] = ""
    name: ClassVar[str] = ""
    family: ClassVar[Family]
    severity: ClassVar[Severity] = Severity.WARNING
    fix_class: ClassVar[Applicability] = Applicability.NONE
    """The most that the rule's fix can be; a single finding's fix may be less."""
    default: ClassVar[bool] = True
    """Whether the rule is in the default set."""
    tag: ClassVar[Tag | None] = None
    """How editors may show what the rule flags, besides its severity."""
    confirmed_by: ClassVar[str] = ""
    """What confirms a finding at run time, in a phrase; empty where nothing does."""
    torch: ClassVar[tuple[tuple[int, int] | None, tuple[int, int] | None]] = (None, None)
    """First and last torch release that the rule holds for; None where it is open."""
    examples: ClassVar[tuple[Example, ...]] = ()
    options_model: ClassVar[type[BaseModel] | None] = None
    """Validates the rule's table in the configuration; None where the rule has no options."""
    options: RuleOptions = RuleOptions()
    """What the rule's table says; the engine sets it before `check`."""

    def check(self, project: Project) -> Iterator[Finding]:
        """Yield a finding for each record of the project that the rule is about."""
        raise NotImplementedError

    def fix(self, finding: Finding) -> Fix | None:
        """Return what would mend the finding, or None. `finding.subject` is the record that was reported."""
        return None

    def fix_needs(self, finding: Finding) -> tuple[int, int] | None:
        """First torch release that the fixed code is known to run with: where the project admits older ones, the fix is
        no safe one. By default the first that the rule holds for."""
        return self.torch[0]

    def judge(self, finding: Finding, evidence: Evidence) -> Verdict:
        """Confirm or clear the finding by what was measured."""
        return Verdict(Status.INCONCLUSIVE, note="nothing measured at run time speaks about this rule")

    def finding(
        self,
        subject: Occurrence,
        message: str,
        *,
        help: str = "",
        confidence: Confidence | None = None,
        severity: Severity | None = None,
        site: Site | None = None,
        related: tuple[RelatedSite, ...] = (),
    ) -> Finding:
        """Report `subject`. `confidence` bounds that of the context from above; `site` narrows the place."""
        context = subject.context
        site = site or subject.site
        related = _elsewhere(site, related)
        bound = Confidence.HIGH if confidence is None else confidence
        if context.loop is not None and not related:
            related = (RelatedSite(context.loop, "the loop that runs it"),)
        return Finding(
            code=self.code,
            name=self.name,
            message=message,
            site=site,
            severity=self.severity if severity is None else severity,
            confidence=min(context.confidence, bound),
            context=context,
            help=help,
            related=related,
            subject=subject,
        )

    def mention(
        self, use: NameUse, message: str, *, help: str = "", confidence: Confidence = Confidence.HIGH
    ) -> Finding:
        """Report the mention of a library name, which needs no context: it holds wherever it stands."""
        return Finding(
            code=self.code,
            name=self.name,
            message=message,
            site=use.site,
            severity=self.severity,
            confidence=confidence,
            help=help,
            subject=use,
        )

    @classmethod
    def summary(cls) -> str:
        """The first line of the page."""
        return (cls.__doc__ or "").strip().split("\n", 1)[0].rstrip()


def _elsewhere(site: Site, related: tuple[RelatedSite, ...]) -> tuple[RelatedSite, ...]:
    """The related places that show another row than the finding, each row once."""
    rows = {(one.site.path, one.site.row, one.message): one for one in reversed(related)}
    return tuple(one for one in reversed(rows.values()) if (one.site.path, one.site.row) != (site.path, site.row))


class FileRule(Rule):
    """A rule about a file or a comment rather than about code that runs: the engine reports it through `at`.

    The engine finds these by code: TL001 and TL002 for files that it cannot read, TL003 and TL004 for suppressions.
    """

    def check(self, project: Project) -> Iterator[Finding]:
        """Find nothing: what these rules are about does not reach the project."""
        return iter(())

    @classmethod
    def at(cls, site: Site, message: str, *, help: str = "", subject: object = None) -> Finding:
        """Report `site`; `subject` is what the rule's `fix` needs to know, such as the text to remove."""
        return Finding(
            code=cls.code,
            name=cls.name,
            message=message,
            site=site,
            severity=cls.severity,
            confidence=Confidence.HIGH,
            help=help,
            subject=subject,
        )


class RuntimeRule(Rule):
    """A rule about a run rather than about code: the probe reports what it finds in the measurements."""

    family: ClassVar[Family] = Family.RUNTIME

    def check(self, project: Project) -> Iterator[Finding]:
        """Find nothing: what these rules are about is not in the code."""
        return iter(())

    def measured(self, run: Measured, evidence: Evidence) -> Iterator[RuntimeFinding]:
        """Yield a finding for each thing that the measurements show."""
        raise NotImplementedError

    def shown(
        self, message: str, *evidence: Measurement, path: Path | None = None, row: int | None = None
    ) -> RuntimeFinding:
        """Report what the figures in `evidence` show, at a line where it is about one."""
        return RuntimeFinding(self.code, self.name, message, self.severity, path, row, evidence)
