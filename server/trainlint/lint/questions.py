"""What a rule asks about the records that stand at one place, in the order in which it asks.

Why a rule passes over a line is written down nowhere: rules are code. But all that they know they ask of records, in
the words of the model, and they stop once an answer rules a record out. So the last answer tells why, for any rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import MethodType
from typing import Any, NamedTuple

from trainlint.lint.finding import Finding
from trainlint.lint.rule import Rule
from trainlint.semantics.context import Context, Entry, Site
from trainlint.semantics.project import RECORD_LISTS, Arguments, Call, NameUse, Project
from trainlint.semantics.values import Tensor

PARTS = (Context, Entry, Arguments, Tensor)
"""What records hold that rules ask in turn."""


class Question(NamedTuple):
    """Something that a rule asked, and what it was told."""

    of: type
    """What was asked: the class of a record, `Context`, `Entry`, …"""
    name: str
    """Of its attribute or method."""
    arguments: tuple[object, ...]
    """Of the method."""
    answer: object


class Asked(NamedTuple):
    """What a rule asked about one record, in order."""

    record: Any
    questions: tuple[Question, ...]


@dataclass(slots=True)
class _Ear:
    """Hears what is asked, between the answers: what a record asks itself for an answer is no question of the rule."""

    wanted: dict[int, Any]
    """The records to listen for, by identity."""
    heard: dict[int, list[Question]] = field(default_factory=dict)
    current: int = 0
    """The record that the rule is at."""
    answering: bool = False

    def note(self, question: Question) -> None:
        if self.current in self.wanted:
            self.heard.setdefault(self.current, []).append(question)

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


def looked_for(rule: Rule, project: Project) -> frozenset[tuple[str, str]]:
    """The lists of a project that a rule looks through, each with the name of what it looks for there; without one
    where it goes by other things."""
    found: set[tuple[str, str]] = set()
    silent = [False]

    class Watched(Project):
        def __getattribute__(self, name: str) -> Any:
            if name in RECORD_LISTS and not silent[0]:
                found.add((name, ""))
            return super().__getattribute__(name)

        def calls_of(self, *names: str) -> Iterator[Call]:
            found.update(("calls", name) for name in names)
            return iter(self._quietly(super().calls_of, names))

        def uses_of(self, *names: str) -> Iterator[NameUse]:
            found.update(("name_uses", name) for name in names)
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


def records_at(project: Project, stands_here: Callable[[Site], bool]) -> Iterator[tuple[str, Any]]:
    """The records that stand at a place, each with the name of the list of the project that holds it."""
    for name in RECORD_LISTS:
        for record in getattr(project, name):
            if stands_here(record.site):
                yield name, record


@contextmanager
def _listening(project: Project, ear: _Ear) -> Iterator[None]:
    """Have the ear hear what is asked of the project's records. Objects keep their identity: they are given another
    class meanwhile, of the same layout."""
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
        for name in RECORD_LISTS:
            for record in getattr(project, name):
                change(record)
        for record in ear.wanted.values():
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
                ear.note(Question(Project, name, (), value))
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
        ear.note(Question(own, name, (), value))
        return value

    def ask_method(name: str, method: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        with ear.closed():
            value = method(*arguments, **named)
        ear.note(Question(own, name, (*arguments, *named.values()), value))
        return value

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
