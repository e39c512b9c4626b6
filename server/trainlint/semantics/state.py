"""What the interpreter carries while it walks an entry point: frames, loops, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainlint.semantics import code
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.project import Entry, Loader, Sampler, Site
from trainlint.semantics.values import UNKNOWN, Class, Function, Instance, Value
from trainlint.semantics.vocabulary import GradMode, GuardKind

if TYPE_CHECKING:
    from trainlint.semantics.link import LinkOptions
    from trainlint.semantics.modules import ModuleMap

MOST_STATEMENTS = 60_000
"""Statements interpreted per entry point; beyond it, calls are no longer followed. Real entry points need few thousand."""
DEEPEST_CALL = 24
"""Calls are followed this deep; deeper code is not reached."""


class Role(Enum):
    """What a root of the call graph is called for."""

    PROGRAM = "program"
    FUNCTION = "function"
    """A function that nothing in the project calls."""
    SAMPLE = "sample"
    """`__getitem__` of a dataset, `__iter__` of an iterable one, a function mapped over a dataset per item."""
    COLLATE = "collate"
    STEP = "step"
    """What a framework calls once per training step."""
    EVALUATION = "evaluation"
    """What a framework calls once per evaluation batch."""
    FORWARD = "forward"
    """The forward of a module whose calls are not seen."""


@dataclass(eq=False, slots=True)
class Root:
    """Where a chain of calls starts."""

    role: Role
    runs_step: bool = False
    """Whether it runs a backward pass or an optimizer step outside of any loop."""
    assumed: bool = False
    """Whether its role was inferred rather than proved."""
    trains: bool = True
    """For SAMPLE and COLLATE: whether a training loader, as far as known, uses it."""


@dataclass(eq=False, slots=True)
class LoopRun:
    """One loop in one chain of calls. What it is for is known when the entry point has been walked."""

    site: Site
    over: Value
    loader: Loader | None
    small: bool
    """Whether it goes over a handful of things that are no data: optimizers, parameters, a literal tuple."""
    parent: LoopRun | None
    alias: LoopRun | None = None
    """The loop whose items this generator's loop produces."""
    runs_step: bool = False
    """A step loop: its body runs a backward pass or an optimizer step."""
    holds_steps: bool = False
    """A loop somewhere inside it is a step loop."""
    in_evaluation: bool = False
    """Whether its function or loader is named for evaluation."""
    counter: str = ""
    """Name of the variable that counts its turns."""
    backwards: dict[Site, None] = field(default_factory=dict)
    updates: dict[Site, bool] = field(default_factory=dict)
    """Optimizer steps, with whether each stands behind an accumulation test."""
    no_sync: bool = False
    wrapper: str = ""

    @property
    def real(self) -> LoopRun:
        return self.alias.real if self.alias is not None else self


@dataclass(frozen=True, slots=True)
class Standing:
    """A guard in force, with the number of loops that were open when it was met."""

    kind: GuardKind
    text: str
    depth: int
    ends_from: int | None = None
    """For EXCEPTIONAL branches that leave loops: the outermost loop, by index, that the branch ends."""


@dataclass(frozen=True, slots=True)
class Where:
    """The circumstances under which the interpreter evaluates a statement."""

    root: Root
    loops: tuple[LoopRun, ...] = ()
    guards: tuple[Standing, ...] = ()
    calls: tuple[tuple[str, int], ...] = ()
    """Functions on the way from the entry point, each with the row it was called from."""
    grad: GradMode = GradMode.ENABLED
    no_sync: bool = False
    autocast: str = ""
    """dtype of the autocast in effect, or "on"; empty without one."""


@dataclass(eq=False)
class ModuleState:
    """A module as one entry point has it in memory."""

    path: Path
    name: str
    facts: ModuleFacts
    variables: dict[str, Value] = field(default_factory=dict)
    started: bool = False
    is_main: bool = False
    defined: dict[int, Function] = field(default_factory=dict)
    """Functions whose `def` was met, by index of their body."""
    classes: dict[str, Class] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class Frame:
    """A function body, class body or module body under evaluation."""

    run: Run
    module: ModuleState
    where: Where
    row: int
    symbol: str
    variables: dict[str, Value]
    enclosing: Frame | None = None
    function: Function | None = None
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    returned: list[Value] = field(default_factory=list)
    loop_base: int = 0
    """Number of loops that were open when the function was entered."""
    yields: Callable[[Value], None] | None = None
    """What to do with each value a generator yields: run the body of the loop that consumes it."""
    yielded: list[Value] = field(default_factory=list)
    backpropagated: frozenset[str] = frozenset()
    """Names that `.backward()` is called on in this function, or that flow into such."""
    before_loops: list[frozenset[str]] = field(default_factory=list)
    """For each open loop of this function, the names that were bound before it."""

    def site(self, at: code.Place) -> Site:
        row, column, end_row, end_column = code.unpack(at)
        return Site(self.module.path, self.row + row, column, self.row + end_row, end_column, self.symbol)

    def lookup(self, name: str) -> Value | None:
        """The value of a variable, by Python's scoping; None where nothing binds it."""
        frame: Frame | None = self
        if name not in self.globals:
            while frame is not None:
                if name in frame.variables:
                    return frame.variables[name]
                frame = frame.enclosing
        return self.module.variables.get(name)

    def bind(self, name: str, value: Value) -> None:
        if name in self.globals:
            self.module.variables[name] = value
            return
        if name in self.nonlocals:
            frame = self.enclosing
            while frame is not None:
                if name in frame.variables:
                    frame.variables[name] = value
                    return
                frame = frame.enclosing
        self.variables[name] = value


Pending = tuple[Callable[..., Any], dict[str, Any], Where]


@dataclass(eq=False)
class Run:
    """The interpretation of one entry point."""

    entry: Entry
    facts: Mapping[Path, ModuleFacts]
    map: ModuleMap
    options: LinkOptions
    modules: dict[Path, ModuleState] = field(default_factory=dict)
    instances: dict[tuple[object, ...], Instance] = field(default_factory=dict)
    memo: dict[tuple[object, ...], Value] = field(default_factory=dict)
    open_calls: list[object] = field(default_factory=list)
    """Definitions of the functions being interpreted, for recursion."""
    reached: set[tuple[Path, int]] = field(default_factory=set)
    """Functions entered, by module and index of their body."""
    pending: dict[tuple[object, ...], Pending] = field(default_factory=dict)
    """Records whose context is not known before all loops are."""
    loops: dict[tuple[object, ...], LoopRun] = field(default_factory=dict)
    loaders: dict[tuple[object, ...], Loader] = field(default_factory=dict)
    loader_where: dict[int, Where] = field(default_factory=dict)
    samplers: dict[tuple[object, ...], Sampler] = field(default_factory=dict)
    sampler_where: dict[int, Where] = field(default_factory=dict)
    datasets_seen: set[int] = field(default_factory=set)
    statements: int = 0
    exhausted: bool = False

    def record(self, make: Callable[..., Any], frame: Frame, key: object, **fields: Any) -> None:
        """Keep a record until its context can be told; a later one of the same place and way replaces it."""
        where = frame.where
        identity = (
            make,
            fields.get("site"),
            key,
            tuple(id(loop) for loop in where.loops),
            tuple((guard.kind, guard.depth) for guard in where.guards),
            where.calls,
            where.root.role,
        )
        self.pending[identity] = (make, fields, where)


def value_or_unknown(value: Value | None) -> Value:
    return UNKNOWN if value is None else value
