"""What a rule asks about the records that stand at one place, in the order in which it asks.

Why a rule passes over a line is written down nowhere: rules are code. But all that they know they ask of records, in
the words of the model. So the reason can be tried out, for any rule: it is the answer with another one in whose place
the rule would report the line. The last answer that it asked for need not be that one: a rule may look at more than it
decides by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from enum import Enum
from types import MethodType
from typing import Any, NamedTuple

from trainlint.lint.finding import Finding
from trainlint.lint.rule import Rule
from trainlint.semantics.context import Context, Entry, Site
from trainlint.semantics.project import RECORD_LISTS, Arguments, Call, NameUse, Project
from trainlint.semantics.values import Const, Tensor

PARTS = (Context, Entry, Arguments, Tensor)
"""What records hold that rules ask in turn."""

ABOUT_ITSELF = frozenset({"site", "text", "name", "library"})
"""Questions by which a rule looks for the records that it is about, and words its message."""
_LOOKED_THROUGH = frozenset({"kind", "guards", "uses"})
"""Questions that a rule asks of whatever it meets on the way to what it is about."""
_MOST_TOGETHER = 3
"""Answers that are supposed together to be others."""
_MOST_TRIALS = 400
"""Of a rule, with other answers, for one row: what a few hundred milliseconds allow."""


class Question(NamedTuple):
    """Something that a rule asked, and what it was told."""

    of: type
    """What was asked: the class of a record, `Context`, `Entry`, …"""
    name: str
    """Of its attribute or method."""
    arguments: tuple[object, ...]
    """Of the method."""
    answer: object


class RecordHere(NamedTuple):
    """A record that stands at the place that is asked about."""

    kind: str
    """Name of the list of the project that holds it."""
    record: Any


class Sought(NamedTuple):
    """What a rule looks through."""

    kind: str
    """Name of a list of the project."""
    name: str = ""
    """What it looks for there; empty where it goes by other things."""


class Asked(NamedTuple):
    """What a rule asked about one record, in order."""

    record: Any
    questions: tuple[Question, ...]


class Reason(NamedTuple):
    """Why a rule passes over a record."""

    record: Any
    questions: tuple[Question, ...]
    """Those that were answered such that it does: had all of them had other answers, the rule would report the record.
    Where nothing of the kind is found, the last that it asked."""
    proved: bool
    """Whether it was tried out."""


@dataclass(slots=True)
class _Ear:
    """Hears what is asked, between the answers: what a record asks itself for an answer is no question of the rule."""

    wanted: dict[int, Any]
    """The records to listen for, by identity."""
    heard: dict[int, list[Question]] = field(default_factory=dict)
    current: int = 0
    """The record that the rule is at."""
    answering: bool = False
    about: int = 0
    """The record of which `supposed` is."""
    supposed: tuple[Question, ...] = ()
    """Questions with the answers that are given in place of the model's."""

    def answer(self, question: Question) -> Any:
        """Note a question, and tell what is answered."""
        if self.current not in self.wanted:
            return question.answer
        self.heard.setdefault(self.current, []).append(question)
        if self.current == self.about:
            for one in self.supposed:
                if is_same(one, question):
                    return one.answer
        return question.answer

    @contextmanager
    def closed(self) -> Iterator[None]:
        before, self.answering = self.answering, True
        try:
            yield
        finally:
            self.answering = before


def listen(
    rule: Rule, project: Project, stands_here: Callable[[Site], bool]
) -> tuple[list[Finding], tuple[Asked, ...]]:
    """What a rule finds in a project, and what it asked of the records that stand at a place.

    Nothing is said to have been asked where the rule comes to something else while it is listened to.
    """
    findings = list(rule.check(project))
    ear = _Ear({id(record): record for _, record in records_at(project, stands_here)})
    if not ear.wanted:
        return findings, ()
    with _listening(project, ear):
        try:
            again = [(one.site, one.message) for one in rule.check(project)]
        except Exception:  # of any pack's rule, which then has nothing to say
            return findings, ()
    if again != [(one.site, one.message) for one in findings]:
        return findings, ()
    return findings, tuple(Asked(ear.wanted[key], tuple(heard)) for key, heard in ear.heard.items())


def is_same(one: Question, other: Question) -> bool:
    """Whether the same is asked, whatever was answered."""
    return one[:3] == other[:3]


def telling(questions: Iterable[Question]) -> list[Question]:
    """The questions whose answers may rule a record out, each once."""
    found: list[Question] = []
    for question in questions:
        about_itself = question.name in ABOUT_ITSELF or isinstance(question.answer, PARTS)
        if not about_itself and not any(is_same(one, question) for one in found):
            found.append(question)
    return found


def reasons(rule: Rule, project: Project, asked: Iterable[Asked], stands_here: Callable[[Site], bool]) -> list[Reason]:
    """Why a rule passes over records of a project, given what it asked about them; none for a record of which it asked
    nothing but whether it is one that the rule is about."""
    found = []
    for one in asked:
        questions = telling(one.questions)
        decisive = _Trials(rule, project, one.record, stands_here).decisive(questions)
        last = [question for question in questions if question.name not in _LOOKED_THROUGH][-1:]
        if decisive or last:
            found.append(Reason(one.record, decisive or tuple(last), bool(decisive)))
    return found


class _Trials:
    """Runs of a rule in which answers about one record are supposed to be others."""

    def __init__(self, rule: Rule, project: Project, record: Any, stands_here: Callable[[Site], bool]) -> None:
        self._rule = rule
        self._project = project
        self._record = record
        self._stands_here = stands_here
        self._left = _MOST_TRIALS

    def decisive(self, questions: list[Question]) -> tuple[Question, ...]:
        """The questions, as few as possible, that with other answers make the rule report the record: the last that was
        asked before others. None where no few do."""
        ear = _Ear({id(self._record): self._record}, about=id(self._record))
        with _listening(self._project, ear, alone=True):
            return self._decisive(ear, questions, (), ())

    def _decisive(
        self, ear: _Ear, questions: list[Question], supposed: tuple[Question, ...], changed: tuple[Question, ...]
    ) -> tuple[Question, ...]:
        furthest: tuple[int, Question, Question, list[Question]] | None = None
        for question in reversed(questions):
            if any(is_same(question, one) for one in supposed):
                continue
            for answer in _other_answers(question.answer):
                if self._left == 0:
                    return ()
                self._left -= 1
                other = question._replace(answer=answer)
                reports, asked = self._run(ear, (*supposed, other))
                if reports:
                    return (*changed, question)
                if len(asked) > len(questions) and (furthest is None or len(asked) > furthest[0]):
                    furthest = len(asked), question, other, asked
        if furthest is None or len(supposed) + 1 == _MOST_TOGETHER:
            return ()
        _, question, other, asked = furthest
        return self._decisive(ear, asked, (*supposed, other), (*changed, question))

    def _run(self, ear: _Ear, supposed: tuple[Question, ...]) -> tuple[bool, list[Question]]:
        """Whether the rule reports the record where these answers are given, and what it asks then."""
        ear.heard.clear()
        ear.current, ear.supposed = 0, supposed
        try:
            reports = any(self._stands_here(one.site) for one in self._rule.check(self._project))
        except Exception:  # of a rule that is told what cannot be
            return False, []
        return reports, telling(ear.heard.get(id(self._record), ()))


def _other_answers(answer: object) -> Iterator[object]:
    """What might have been answered instead, as far as it can be made up."""
    match answer:
        case bool():
            yield not answer
        case Enum():
            yield from (one for one in type(answer) if one is not answer)
        case int():
            yield from (one for one in (0, 1) if one != answer)
        case Const(value=bool() as value):
            yield Const(not value)
        case str():
            yield ""
        case (int(), int()):  # a release
            yield from (None, (99, 0), (0, 0))
        case tuple() | list() | frozenset():
            yield type(answer)()
        case None:
            return
        case _:
            yield None


def looked_for(rule: Rule, project: Project) -> frozenset[Sought]:
    """What a rule looks through in a project."""
    found: set[Sought] = set()
    silent = [False]

    class Watched(Project):
        def __getattribute__(self, name: str) -> Any:
            if name in RECORD_LISTS and not silent[0]:
                found.add(Sought(name))
            return super().__getattribute__(name)

        def calls_of(self, *names: str) -> Iterator[Call]:
            found.update(Sought("calls", name) for name in names)
            return iter(self._quietly(super().calls_of, names))

        def uses_of(self, *names: str) -> Iterator[NameUse]:
            found.update(Sought("name_uses", name) for name in names)
            return iter(self._quietly(super().uses_of, names))

        def _quietly(self, ask: Callable[..., Iterable[Any]], names: tuple[str, ...]) -> list[Any]:
            silent[0] = True
            try:
                return list(ask(*names))
            finally:
                silent[0] = False

    project.__class__ = Watched
    try:
        for _ in rule.check(project):
            pass
    except Exception:  # of any pack's rule: what it looked for so far is known
        pass
    finally:
        project.__class__ = Project
    return frozenset(found)


def records_at(project: Project, stands_here: Callable[[Site], bool]) -> Iterator[RecordHere]:
    """The records that stand at a place."""
    for name in RECORD_LISTS:
        for record in getattr(project, name):
            if stands_here(record.site):
                yield RecordHere(name, record)


@contextmanager
def _listening(project: Project, ear: _Ear, *, alone: bool = False) -> Iterator[None]:
    """Have the ear hear what is asked of the project's records. Objects keep their identity: they are given another
    class meanwhile, of the same layout.

    With `alone`, only those that are wanted are: a rule then runs about as fast as it does unheard, and what it asks of
    parts that other records share may be taken for a question about the record before.
    """
    classes: dict[type, type] = {}
    former: list[tuple[Any, type]] = []
    seen: set[int] = set()

    def change(one: Any) -> None:
        if id(one) not in seen:
            seen.add(id(one))
            own = type(one)
            former.append((one, own))
            one.__class__ = classes.get(own) or classes.setdefault(own, _heard_class(own, ear))

    try:
        for name in RECORD_LISTS if not alone else ():
            for record in getattr(project, name):
                change(record)
        for record in ear.wanted.values():
            change(record)
            for part in [getattr(record, one.name) for one in fields(record)]:
                if isinstance(part, PARTS):
                    change(part)
                if isinstance(part, Context):
                    change(part.entry)
        ear.current = 0
        ear.heard.clear()
        project.__class__ = _heard_project(ear)
        yield
    finally:
        project.__class__ = Project
        for one, own in former:
            one.__class__ = own


def _heard_project(ear: _Ear) -> type[Project]:
    """A project that tells when a rule asks for the release of torch, which is known of all records alike."""

    class Heard(Project):
        def __getattribute__(self, name: str) -> Any:
            value = super().__getattribute__(name)
            if name == "torch_version" and not ear.answering:
                return ear.answer(Question(Project, name, (), value))
            return value

    return Heard


def _heard_class(own: Any, ear: _Ear) -> type:
    """A class that behaves as `own`, and lets the ear hear which attributes are asked for."""
    read = own.__getattribute__
    is_record = own not in PARTS
    names = tuple(one.name for one in fields(own))
    by_identity = own.__eq__ is object.__eq__

    def ask(self: Any, name: str) -> Any:
        if ear.answering or name.startswith("_"):
            return read(self, name)
        if is_record:
            ear.current = id(self)
        with ear.closed():
            value = read(self, name)
        if isinstance(value, MethodType):
            return lambda *arguments, **named: ask_method(name, value, arguments, named)
        return ear.answer(Question(own, name, (), value))

    def ask_method(name: str, method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with ear.closed():
            value = method(*arguments, **named)
        return ear.answer(Question(own, name, (*arguments, *named.values()), value))

    def equals(self: Any, other: object) -> bool:
        if by_identity or self is other:
            return self is other
        with ear.closed():
            same = isinstance(other, own)
            return same and all(getattr(self, name) == getattr(other, name) for name in names)

    def digest(self: Any) -> int:
        with ear.closed():
            found: int = own.__hash__(self)
        return found

    return type(own.__name__, (own,), {"__slots__": (), "__getattribute__": ask, "__eq__": equals, "__hash__": digest})
