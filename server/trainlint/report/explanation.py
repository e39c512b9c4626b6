"""What `trainlint explain PATH:ROW` prints: why a finding is there or not, and the facts that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainlint.lint.explaining import Dropped, Explanation
from trainlint.lint.questions import Question, Reason, RecordHere
from trainlint.lint.result import Reported
from trainlint.lint.rule import FileRule, Rule, RuntimeRule
from trainlint.report.concise import plain_line
from trainlint.report.full import advice
from trainlint.report.model_words import GUARDS, KINDS, PLACES, fact_of, told
from trainlint.report.paths import shown
from trainlint.report.style import Ink, Style, printable
from trainlint.report.torch_range import torch_range
from trainlint.report.view import View
from trainlint.semantics.context import Context, Entry, Site
from trainlint.semantics.values import Tensor
from trainlint.semantics.vocabulary import Frequency, GradMode, GuardKind, Region

_LONGEST = 100
"""Characters of an expression that are shown."""
_MOST_KINDS = 6
"""Kinds of things that a rule looks for that are named."""
_WHERE_IT_REPEATS = ("syncs", "reports", "evaluations")
"""What the model has records of only where code runs again and again."""
_TWO_SIDED = frozenset(
    {
        *(GuardKind.DEVICE, GuardKind.NOT_DEVICE, GuardKind.DISTRIBUTED, GuardKind.NOT_DISTRIBUTED),
        *(GuardKind.OTHER_RANKS, GuardKind.EVALUATION, GuardKind.TRAINING),
    }
)
"""Conditions of which code stands on the one side or the other: the test alone does not tell which."""
_REGIONS = {
    Region.SETUP: "set-up",
    Region.TRAINING: "training",
    Region.EVALUATION: "evaluation",
    Region.DATA: "making samples",
    Region.COLLATE: "collating",
}


def lines(explanation: Explanation, view: View) -> Iterator[str]:
    """The lines of the text: the verdict and what decides it, then what is known of the row."""
    return _Text(explanation, view).lines()


class _Text:
    def __init__(self, explanation: Explanation, view: View) -> None:
        self.explanation = explanation
        self.view = view
        self.style = Style(view.colour)

    def lines(self) -> Iterator[str]:
        found = self.explanation
        yield f"{self.style.paint(self._asked_place(), Ink.BOLD)}: {self._quoted(self._source())}".rstrip(": ")
        yield ""
        if found.rule is not None:
            yield from self._about(found.rule)
        else:
            yield from self._about_all()
        if found.is_excluded:
            yield ""
            yield "The file is excluded: a check lints it only where it is named itself."
        if found.records:
            yield ""
            yield self._heading("What stands there")
            yield from self._standing()
        elif found.step_loops:
            yield ""
            yield self._heading("What is around it")
            yield from self._around()

    def _heading(self, text: str) -> str:
        return self.style.paint(text, Ink.BOLD)

    # ------------------------------------------------------------------------------------------------------- places

    def _asked_place(self) -> str:
        asking = self.explanation.asking
        cell = "" if asking.cell is None else f"cell {asking.cell}:"
        return f"{printable(shown(asking.path, self.view.root))}:{cell}{asking.row}"

    def _source(self) -> str:
        document, asking = self.explanation.document, self.explanation.asking
        return "" if document is None else document.line(asking.cell, asking.row).strip()

    def _program_row(self, row: int) -> str:
        document = self.explanation.document
        return "" if document is None else document.index.line(row).strip()

    def _place(self, site: Site) -> str:
        return self._row(site.path, site.row)

    def _row(self, path: Path, row: int) -> str:
        """A row of the program as users see it."""
        document = self.view.sources.document(path)
        place = None if document is None else document.place(row, 0)
        cell = "" if place is None or place.cell is None else f"cell {place.cell}:"
        return f"{printable(shown(path, self.view.root))}:{cell}{row if place is None else place.row}"

    def _quoted(self, text: str) -> str:
        text = printable(" ".join(text.split()))
        return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}`" if text else ""

    # -------------------------------------------------------------------------------------------------- the verdict

    def _about(self, rule: type[Rule]) -> Iterator[str]:
        found = self.explanation
        title = f"{rule.code} {rule.name}"
        if found.reported:
            yield self._heading(f"{title}: reported")
            for reported in found.reported:
                yield from self._reported(reported)
            return
        if found.left_out:
            yield from self._left_out()
            return
        dropped = [one for one in found.dropped if one.finding.code == rule.code]
        if dropped:
            yield from self._not_reported(title, *dropped)
            return
        yield self._heading(f"{title}: not found")
        yield f"  {printable(rule.summary())}"
        yield from (f"  - {reason}" for reason in self._why_not_found(rule))

    def _about_all(self) -> Iterator[str]:
        found = self.explanation
        for reported in found.reported:
            yield self._heading(f"{reported.finding.code} {reported.finding.name}: reported")
            yield from self._reported(reported)
        shown_codes = {one.finding.code for one in (*found.reported, *(one for one, _ in found.left_out))}
        for dropped in found.dropped:
            if dropped.finding.code not in shown_codes:
                yield from self._not_reported(f"{dropped.finding.code} {dropped.finding.name}", dropped)
        yield from self._left_out()
        if not (found.reported or found.dropped or found.left_out):
            yield self._heading("No rule finds anything there")
            yield from (f"  - {reason}" for reason in self._about_the_place())

    def _left_out(self) -> Iterator[str]:
        """What options of the check keep out, each with its reason."""
        for reported, reason in self.explanation.left_out:
            yield self._heading(f"{reported.finding.code} {reported.finding.name}: found, not reported")
            yield f"  {printable(reported.finding.message)}"
            yield f"  - {printable(reason)}"

    def _not_reported(self, title: str, *dropped: Dropped) -> Iterator[str]:
        """What was found, and what keeps it out."""
        yield self._heading(f"{title}: found, not reported")
        for one in dropped:
            yield f"  {printable(one.finding.message)}"
            yield from (f"  - {reason}" for reason in self._reasons(one))

    def _reported(self, reported: Reported) -> Iterator[str]:
        """What is reported, with what a check prints below it; how often it runs stands in what is known of it."""
        finding = reported.finding
        yield f"  {printable(finding.message)} ({reported.severity.label}, {finding.confidence.label} confidence)"
        yield from (f"  {line}" for line in advice(reported, self.view, self.style))

    def _reasons(self, dropped: Dropped) -> Iterator[str]:
        """What keeps a finding from being reported."""
        selection, finding = self.explanation.selection, dropped.finding
        if dropped.not_selected:
            choice = selection.choices[finding.code]
            if choice.key == "default":
                yield f"the rule is not in the default set: `--extend-select {finding.code}` selects it"
            elif choice.pattern:
                yield f'`{choice.key}` turns the rule off, by "{choice.pattern}" ({selection.origin(choice.key)})'
            else:
                yield f"`{choice.key}` leaves the rule out ({selection.origin(choice.key)})"
        if dropped.ignored_by is not None:
            key = f"per-file-ignores.{dropped.ignored_by}"
            yield f'`per-file-ignores` turns the rule off for "{dropped.ignored_by}" ({selection.origin(key)})'
        if dropped.wrong_torch:
            yield self._torch(selection.registry.rules[finding.code])
        if dropped.silenced_by is not None:
            comment = dropped.silenced_by
            text = self._text_of(finding.site.path, comment.start, comment.end)
            yield f"{self._quoted(text)} in {self._row(finding.site.path, comment.row)} silences it"
        if dropped.too_uncertain:
            least = selection.min_confidence
            yield (
                f"its confidence is {finding.confidence.label}, and `min-confidence` is {least} "
                f"({selection.origin('min-confidence')})"
            )
        if self.explanation.instead:
            yield "the file is not linted as a whole, as another finding says"

    def _text_of(self, path: Path, start: int, end: int) -> str:
        document = self.view.sources.document(path)
        return "" if document is None else document.text[start:end]

    def _torch(self, rule: type[Rule]) -> str:
        admitted = self.explanation.torch
        newest = f"the newest that the project admits is {told(admitted.newest)} ({admitted.said_by})"
        return f"the rule holds for torch {torch_range(rule)}, and {newest}"

    def _why_not_found(self, rule: type[Rule]) -> Iterator[str]:
        """Why a rule has nothing to say about the row."""
        if issubclass(rule, RuntimeRule):
            yield "only a probe reports it: `trainlint probe`"
            return
        if issubclass(rule, FileRule):
            yield "it is about files and comments, and there is nothing of the kind"
            return
        yield from self._about_the_place()
        found = self.explanation
        if found.wrong_torch:
            yield self._torch(rule)
        reasons = _simplest([one for one in found.reasons if one.proved]) or found.reasons
        yield from dict.fromkeys(map(self._passed_over, reasons))
        if found.records and not reasons:
            once = [record for kind, record in found.records if kind == "calls" and self._runs_once(record)]
            if once and len(once) == len(found.records):
                yield f"{self._name(once[0])}: it {self._why(once[0].context, once[0].site)}"
            else:
                yield f"what stands there is nothing that the rule is about{self._looked_for()}"

    def _runs_once(self, record: Any) -> bool:
        """Whether a call runs once, and the rule is about what is only looked for where code runs again and again."""
        context = getattr(record, "context", None)
        looked_for = {kind for kind, _ in self.explanation.looked_for}
        is_once = isinstance(context, Context) and context.frequency is Frequency.ONCE
        return is_once and not looked_for.isdisjoint(_WHERE_IT_REPEATS)

    def _looked_for(self) -> str:
        """What the rule is about, to end a sentence."""
        wanted = sorted(self.explanation.looked_for, key=lambda sought: (bool(sought.name), sought))
        each = [f"{KINDS[sought.kind]} {sought.name}".rstrip() for sought in wanted]
        # What a rule asks for by name it asks of calls in general as well.
        named = [text for text in dict.fromkeys(each) if not text.endswith((" of", ":"))]
        told = ", ".join(named[:_MOST_KINDS]) + (", …" if len(named) > _MOST_KINDS else "")
        return f": it looks for {told}" if told else ""

    def _about_the_place(self) -> Iterator[str]:
        """What keeps any rule from saying anything about the row."""
        found = self.explanation
        if found.instead:
            for reported in found.instead:
                yield f"the file cannot be linted: {plain_line(reported, self.view)}"
            return
        source = self._source()
        if not source or source.startswith("#"):
            yield "the row holds no code"
            return
        if found.is_text:
            yield "the row holds no code: it is part of a text, such as a docstring"
            return
        if not found.is_linked:
            yield "neither the file, nor what it imports or what imports it, mentions a training library"
            return
        if not found.is_walked and found.function.rpartition(".")[2].startswith("test_"):
            yield f"`{found.function}` counts as a unit test, which is no training code"
        elif not found.is_walked and "." in found.function:
            # a model's forward in which nothing matters is not looked into, though it is called
            yield f"nothing calls `{found.function}`, or nothing in its class is something that a rule could be about"
        elif not found.is_walked:
            yield f"nothing in the project calls `{found.function}`, and by itself it shows no part in training"
        elif not found.records:
            whose = "a rule could be" if found.rule is None else "the rule is"
            yield f"nothing stands there that {whose} about{self._looked_for()}"

    # -------------------------------------------------------------------------------------------------- the questions

    def _passed_over(self, reason: Reason) -> str:
        facts = dict.fromkeys(self._fact(one, reason.record) for one in reason.questions)
        lead = "" if reason.proved else "the rule goes no further than this: "
        return f"{self._name(reason.record)}: {lead}{'; and '.join(facts)}"

    def _fact(self, question: Question, record: Any) -> str:
        """What a rule was told, as part of a sentence about the record; of how often it runs, with why."""
        context = getattr(record, "context", None)
        if not isinstance(context, Context) or question.of is not Context:
            return fact_of(question)
        if question.name in ("hot", "frequency", "region") and question.answer is not True:
            outside = context.region is not Region.TRAINING
            part = f"it is part of {_REGIONS[context.region]}, and " if outside else ""
            under = f", under {self._guards(context)}" if context.guards else ""
            return f"{part}it {self._why(context, record.site)}{under}"
        stands_there = question.answer is (question.name != "routine")
        if question.name in ("under", "routine", "on_request") and context.guards and stands_there:
            return f"it stands under {self._guards(context)}"
        return fact_of(question)

    # ------------------------------------------------------------------------------------------------------ the facts

    def _name(self, record: Any) -> str:
        return self._quoted(str(getattr(record, "text", "") or getattr(record, "name", ""))) or self._quoted(
            self._source()
        )

    def _standing(self) -> Iterator[str]:
        """What stands at the row, and what is known of it; what several ways lead to, once a way."""
        by_text: dict[str, list[RecordHere]] = {}
        for standing in self.explanation.records:
            by_text.setdefault(self._name(standing.record), []).append(standing)
        for text, records in by_text.items():
            kinds = dict.fromkeys(_kind(*one) for one in self._most_telling(records))
            yield f"  {text}: {', '.join(kinds)}"
            facts = dict.fromkeys(tuple(self._facts(record)) for _, record in records)
            largest = [one for one in facts if one and not any(set(one) < set(other) for other in facts)]
            for number, block in enumerate(largest):
                yield from (
                    f"    {'-' if index == 0 or not number else ' '} {fact}" for index, fact in enumerate(block)
                )
        for entry in {entry.path: entry for entry in self.explanation.entries}.values():
            yield f"  {self._entry(entry)}"

    def _most_telling(self, records: list[RecordHere]) -> list[RecordHere]:
        """Records without the plain calls and mentions, where they are something else besides."""
        return [one for one in records if one.kind not in ("calls", "name_uses")] or records

    def _around(self) -> Iterator[str]:
        """The step loops around a row in which nothing stands that the model has a record of."""
        by_text: dict[str, list[str]] = {}
        for loop in self.explanation.step_loops:
            title = f"the step loop at {self._place(loop.site)}, {self._quoted(self._program_row(loop.site.row))}"
            by_text.setdefault(title, []).append(self._why(loop.context, loop.site))
        for text, reasons in by_text.items():
            yield f"  {text}"
            yield from (f"    - {reason}" for reason in dict.fromkeys(reasons))

    def _facts(self, record: Any) -> Iterator[str]:
        context = getattr(record, "context", None)
        if not isinstance(context, Context):
            return
        yield self._why(context, record.site)
        if context.uncalled and record.site.symbol:
            yield "nothing calls the function: it is taken as what its name and code say it is for"
        value = getattr(record, "value", None)
        if isinstance(value, Tensor):
            proved = "" if value.proved else ", by its name"
            yield f"{'the tensors are' if value.container else 'the tensor is'} {PLACES[value.place]}{proved}"
        if context.guards:
            yield f"it stands under {self._guards(context)}"
        yield f"it is part of {_REGIONS[context.region]}" + _autograd(context)
        if context.compiled:
            yield "`torch.compile` traces it"

    def _why(self, context: Context, site: Site) -> str:
        """How often what stands at a site runs, with the loop and the calls that make it so, each with its row."""
        evaluates = context.phrase.endswith("evaluation")
        text = "runs at every step of evaluation" if evaluates else f"runs {context.frequency.phrase}"
        if context.loop is not None and context.loop != site:
            text += f", in the loop at {self._place(context.loop)}"
        if len(context.path) > 1:
            text += f", reached by {' > '.join(self._function(context, name) for name in context.path)}"
        return text

    def _function(self, context: Context, name: str) -> str:
        definition = self.explanation.definitions.get((context.entry.path, name))
        return name if definition is None else f"{name} ({self._row(definition.path, definition.row)})"

    def _guards(self, context: Context) -> str:
        each = (f"{self._quoted(one.text)} ({_branch(one.kind)})" for one in context.guards)
        return ", ".join(dict.fromkeys(each))

    def _entry(self, entry: Entry) -> str:
        facts = [f"framework {entry.framework.value}", f"on CUDA: {told(entry.cuda)}"]
        facts.append(f"several processes: {told(entry.distributed)}")
        facts.append("trains" if entry.trains else "no training seen")
        return f"entry point {printable(shown(entry.path, self.view.root))}: {'; '.join(facts)}"


def _simplest(reasons: list[Reason]) -> list[Reason]:
    """The reasons of the fewest facts: what is one fact away from being reported is what the reader means."""
    least = min((len(one.questions) for one in reasons), default=0)
    return [one for one in reasons if len(one.questions) == least]


def _branch(kind: GuardKind) -> str:
    """What a condition stands for; of one that has two sides, which of them the code is on."""
    return f"the branch for {GUARDS[kind]}" if kind in _TWO_SIDED else GUARDS[kind]


def _autograd(context: Context) -> str:
    words = {GradMode.ENABLED: "; autograd records", GradMode.DISABLED: "; autograd does not record"}
    return words.get(context.grad, "")


def _kind(name: str, record: Any) -> str:
    named = getattr(record, "name", "") or getattr(record, "library", "")
    text = KINDS[name]
    return f"{text} {named}" if text.endswith(" of") else text
