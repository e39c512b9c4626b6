"""What the interpreter carries while it walks an entry point: frames, loops, and where it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainlint.semantics import code
from trainlint.semantics.configuration_files import ConfigurationFiles
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.immutable import immutable
from trainlint.semantics.interest import Interest
from trainlint.semantics.node_facts import NodeFacts
from trainlint.semantics.project import (
    Arguments,
    Entry,
    EvaluationForward,
    Loader,
    Pipeline,
    Report,
    Sampler,
    Site,
    SyncPoint,
    Transformation,
)
from trainlint.semantics.values import UNKNOWN, Bound, Class, Function, Instance, Partial, Value
from trainlint.semantics.vocabulary import GradMode, GuardKind, Known, Place

if TYPE_CHECKING:
    from trainlint.semantics.link import LinkOptions
    from trainlint.semantics.modules import ModuleMap

MOST_STATEMENTS = 60_000
"""Statements interpreted per entry point; beyond it, calls are not followed. Real ones need a few thousand."""
NOWHERE = (0, 0)
"""The place that a function is called from which a library calls, or nobody."""
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
    WORKER = "worker"
    """`worker_init_fn`: once in each worker of a loader."""
    EPOCH = "epoch"
    """What a framework calls once per epoch."""
    STEP = "step"
    """What a framework calls once per training step."""
    EVALUATION = "evaluation"
    """What a framework calls once per evaluation batch."""
    FORWARD = "forward"
    """The forward of a module whose calls are not seen."""


class Leaves(Enum):
    """How a block ends: by its end, or before."""

    END = "end"
    TURN = "turn"
    """`continue`."""
    LOOP = "loop"
    """`break`."""
    FUNCTION = "function"
    """`return`."""
    PROGRAM = "program"
    """`raise`, `sys.exit()`."""


@dataclass(eq=False, slots=True)
class Root:
    """Where a chain of calls starts."""

    role: Role
    runs_step: bool = False
    """Whether it runs a backward pass or an optimizer step outside of any loop."""
    updates: bool = False
    """Whether one of these is an optimizer step."""
    for_training: bool = True
    """Whether it is called for a part of training, or names a step: a function that is not, and that only runs backward
    passes, asks for gradients to look at."""
    makes_model: bool = False
    """Whether it makes, outside of any loop and condition, a model or an optimizer: then it is no step, but a run of
    its own that happens to be one step long."""
    runs_passes: bool = False
    """Whether it trains in whole passes over data, its own or those of a framework's `fit`: then it is a run, and an
    update before the passes, which tries out a batch size or a scheduler, makes no step of it."""
    assumed: bool = False
    """Whether its role was inferred rather than proved."""
    doubtful: bool = False
    """Of a forward: whether it may as well be no part of any training step (`participation.is_doubtful`)."""
    trains: bool = True
    """For SAMPLE and COLLATE: whether a training loader, as far as known, uses it."""
    whole_pass: bool = False
    """For SAMPLE: whether it is the `__iter__` of an iterable dataset, which is called once for all items."""
    workers: Known = Known.UNKNOWN
    """For SAMPLE, COLLATE and WORKER: whether forked workers of a loader run it."""

    @property
    def is_step(self) -> bool:
        """Whether each call of it is taken to be a training step, though nobody is seen to call it."""
        run_of_its_own = self.makes_model or self.runs_passes
        return self.runs_step and not run_of_its_own and (self.updates or self.for_training)

    @property
    def fits_something(self) -> bool:
        """Whether it makes the optimizer that it updates parameters with: a fit of its own, from beginning to end."""
        return self.updates and self.makes_model


@dataclass(eq=False, slots=True)
class WrappedModel:
    """A model wrapped for several devices, and how it is used."""

    site: Site
    called: bool = False
    with_gradients: bool = False


@dataclass(eq=False, slots=True)
class LoopRun:
    """One loop in one chain of calls. What it is for is known when the entry point has been walked."""

    site: Site
    loader: Loader | None
    small: bool
    """Whether it goes over a handful of things that are no data: optimizers, parameters, a literal tuple."""
    parent: LoopRun | None
    listed: bool = False
    """Whether the program text spells out what it goes over."""
    starts_anew: bool = False
    """Whether each turn is a run of its own: another attempt, another seed."""
    runs_step: bool = False
    """A step loop: its body runs a backward pass or an optimizer step."""
    holds_steps: bool = False
    """A loop somewhere inside it is a step loop."""
    over_data: bool = False
    """Whether it goes over a loader, known by its construction or by its name."""
    in_evaluation: bool = False
    """Whether its function or loader is named for evaluation, or a model was put into evaluation mode before it."""
    evaluates_from: int = 0
    """How many loops were open as that began: a loop that trains has no evaluation in it that began outside of it."""
    named_for_evaluation: bool = False
    """Whether its function or loader is named so."""
    runs_forward: bool = False
    """Whether a model is called in it."""
    counter: str = ""
    """Name of the variable that counts its turns."""
    backwards: dict[Site, bool] = field(default_factory=dict)
    """Backward passes, with whether each may be one of several to an optimizer step."""
    only_measured: bool = True
    """Whether all of them run in functions that are named for evaluation or measurement, called from this loop."""
    backward_guards: list[tuple[Standing, ...]] = field(default_factory=list)
    """The guards before each backward pass so far."""
    updates: dict[Site, bool] = field(default_factory=dict)
    """Optimizer steps, with whether each follows several backward passes: it stands behind an accumulation test, or
    behind one on the number of steps that none of the backward passes stands behind."""
    no_sync: bool = False
    trains: bool = False
    """Whether a backward pass or an optimizer step stands in it, be it the step loop or a part of its body."""
    micro_batches: bool = False
    """Whether a backward pass stands in a loop over micro-batches inside it."""
    wrapper: str = ""
    ends_early: bool = False
    """Whether a `break`, or an `islice`, may end it before what it goes over does."""
    turns: int | None = None
    """How often it turns, where the program text says so: `range(20)`."""
    where: Where | None = None
    """The circumstances in which the loop is met."""


@immutable
class Standing:
    """A guard in force, with the number of loops that were open when it was met."""

    kind: GuardKind
    test: object
    """The condition, as lowered code or as text."""
    depth: int
    ends_from: int | None = None
    """For EXCEPTIONAL branches that leave loops: the outermost loop, by index, that the branch ends."""


class Occasion(NamedTuple):
    """When a handler of an engine runs: at which event, and under which condition on its count."""

    event: str
    guards: tuple[Standing, ...] = ()


class Handler(NamedTuple):
    """What an engine of Ignite runs on an occasion."""

    occasion: Occasion
    function: Function | Bound | Partial
    arguments: tuple[Value, ...]
    """What it is passed after the engine."""


class Subscription(NamedTuple):
    """`engine.on(…)`, a decorator: the function that it is put on becomes a handler."""

    engine: str
    """By its key in `Run.engines`."""
    occasions: tuple[Occasion, ...]
    arguments: tuple[Value, ...]
    """What the function is passed after the engine."""


@dataclass(eq=False, slots=True)
class EngineRun:
    """An engine of Ignite: what it runs at each step, and what waits for its events."""

    process: Value
    role: Role
    """STEP where it trains, else EVALUATION."""
    output: Value = UNKNOWN
    """What its process returned, which handlers read as `engine.state.output`."""
    batch: Value = UNKNOWN
    handlers: list[Handler] = field(default_factory=list)
    ran: bool = False

    @property
    def trains(self) -> bool:
        return self.role is Role.STEP


class Entered(NamedTuple):
    """A function that is entered. Two calls on one line are two ways into it."""

    name: str
    """`module.function`."""
    called_at: tuple[int, code.Place]
    """The first row of the unit of code that calls it, and the place in that; `NOWHERE` where a library does."""


class Work(NamedTuple):
    """Something that the device surely computes, and that the host goes on without waiting for."""

    node: code.Expression
    site: Site
    where: Where


class Reading(NamedTuple):
    """A clock of the host that is read, for the last time so far at its place."""

    node: code.Expression
    where: Where
    works: int
    """How many works the device had been given by then."""
    waits: int
    """How often the host had waited for the device by then, or may have."""


AHEAD = "before the items of a generator"
"""What stands as the test of a guard around what a generator does outside of the loops that yield, where it is advanced
item by item: it runs once in many items."""
_WITHOUT_EFFECT = frozenset({GuardKind.FLAG, GuardKind.TRAINING})


@immutable
class Where:
    """The circumstances under which the interpreter evaluates a statement."""

    root: Root
    loops: tuple[LoopRun, ...] = ()
    guards: tuple[Standing, ...] = ()
    calls: tuple[Entered, ...] = ()
    """Functions on the way from the entry point."""
    grad: GradMode = GradMode.ENABLED
    no_sync: bool = False
    gradients_asked: bool = False
    """Whether `enable_grad` asks for gradients in so many words."""
    autocast: str = ""
    """dtype of the autocast in effect, or "on"; empty without one."""
    managers: tuple[Site, ...] = ()
    """The context managers in force, outermost first, each by the place of the expression that a `with` enters."""
    compiled: bool = False
    """Whether `torch.compile` traces what runs."""

    @property
    def ahead(self) -> bool:
        """Whether it is what a generator does outside of the loops that yield."""
        return any(guard.test is AHEAD for guard in self.guards)

    def among_items(self) -> tuple[Standing, ...]:
        """The guards that are left inside a loop that yields."""
        return tuple([guard for guard in self.guards if guard.test is not AHEAD]) if self.ahead else self.guards

    def guarded(self, *standing: Standing) -> Where:
        """The same circumstances under further guards."""
        return Where(
            self.root,
            self.loops,
            self.guards + standing,
            self.calls,
            self.grad,
            self.no_sync,
            self.gradients_asked,
            self.autocast,
            self.managers,
            self.compiled,
        )

    def guard_key(self) -> tuple[tuple[GuardKind, int], ...]:
        """What of the guards makes a difference to how often code runs."""
        return tuple([(guard.kind, guard.depth) for guard in self.guards if guard.kind not in _WITHOUT_EFFECT])


class Allocation(NamedTuple):
    """Memory of a CUDA device that the program takes for the first time, or again."""

    origin: object
    """What started the chain of calls in which that happens; see `Frame.origin`."""
    process: object
    """The process, by an object of its own."""
    guards: tuple[Standing, ...]


class Factory(NamedTuple):
    """A call that makes a tensor."""

    site: Site
    name: str
    arguments: Arguments
    loops: int
    """How many loops were open."""


class IteratedByHand(NamedTuple):
    """A loader that `iter()` was called on."""

    loader: Loader
    where: Where
    again: bool
    """Whether a generator starts it again and again."""


class IteratedByFramework(NamedTuple):
    """A loader that a framework goes over."""

    loader: Loader
    trains: bool
    """Whether it trains on it."""


@immutable
class Units:
    """The top-level statements of a file, decoded once for all entry points."""

    statements: tuple[code.Statement, ...]
    binders: Mapping[str, tuple[int, ...]]
    """For each global name, the statements that bind it, by index."""
    stars: tuple[code.ImportFrom, ...]
    effects: tuple[int, ...]
    """Statements that change something beyond the module's own names: the environment, a global switch."""
    names: tuple[frozenset[str], ...]
    """For each statement, the global names that it binds."""


@dataclass(eq=False)
class ModuleState:
    """A module as one entry point has it in memory.

    The entry point's own module is run from top to bottom. An imported one is run statement by statement as its names
    are asked for: most of a code base is never touched by a given script.
    """

    path: Path
    name: str
    facts: ModuleFacts
    units: Units
    variables: dict[str, Value] = field(default_factory=dict)
    ran: set[int] = field(default_factory=set)
    """Statements that were run, by index."""
    started: bool = False
    is_main: bool = False
    grad: GradMode = GradMode.ENABLED
    """What `torch.set_grad_enabled` as a statement of the module left in force."""
    evaluating: bool = False
    training: set[str] = field(default_factory=set)
    """Models that `.train()` put into training mode, by dotted name."""
    defined: dict[int, Function] = field(default_factory=dict)
    """Functions whose `def` was met, by index of their body."""
    classes: dict[str, Class] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """Names that it was asked for and that no statement of its own binds."""
    star_sources: Iterable[ModuleState] | None = None
    """The modules that it has names from by star imports; None until one of these is asked for."""
    whole: bool = False
    """Whether something depends on all its statements, or on which names they bind."""


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
    caller: Frame | None = None
    called_at: code.Place | None = None
    """The call, in the caller's function, that entered this frame."""
    guard_base: int = 0
    """Number of guards that were in force when the function was entered."""
    called_by: code.Call | None = None
    """The same, as it is written; None where a library calls, or nobody."""
    open_loops: list[code.For | code.While] = field(default_factory=list)
    """The loops of this function that are open."""
    function: Function | None = None
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    returned: list[Value] = field(default_factory=list)
    returned_in_tracing: list[Value] = field(default_factory=list)
    """What it returns while its model is taken down for export."""
    loop_base: int = 0
    """Number of loops that were open when the function was entered."""
    yields: Callable[[Value], None] | None = None
    """What to do with each value a generator yields: run the body of the loop that consumes it."""
    yield_where: Where | None = None
    """The circumstances at the latest `yield`."""
    yielded: list[Value] = field(default_factory=list)
    backpropagated: frozenset[str] = frozenset()
    """Names that `.backward()` is called on in this function, or that flow into such."""
    last_grad: GradMode | None = None
    """What `torch.set_grad_enabled` as a statement left in force."""
    evaluating: bool = False
    """Whether a model was put into evaluation mode last: `model.eval()`."""
    evaluating_from: int = 0
    """How many loops were open then."""
    training: set[str] = field(default_factory=set)
    """Models that this function put into training mode, by dotted name."""
    accumulating: bool = False
    """Whether the expression under evaluation is only added to a running total or appended to a list."""
    rebinding: frozenset[str] = frozenset()
    """Dotted names that the statement under evaluation assigns."""
    standing_alone: int = -1
    """`at` of the call that is a statement of its own."""
    choosing: int = -1
    """`at` of the call under evaluation that may be of one function or another."""
    factories: dict[int, Factory] = field(default_factory=dict)
    """Factory calls met in this function, by the identity of their node."""
    factory_names: dict[str, Factory] = field(default_factory=dict)
    """The same, by the variable that the tensor was bound to."""
    before_loops: list[frozenset[str]] = field(default_factory=list)
    """For each open loop of this function, the names that were bound before it."""
    loop_bodies: list[code.Block] = field(default_factory=list)
    """For each open loop of this function, its body."""

    def site(self, at: code.Place) -> Site:
        """Where a node of this frame's code stands in its file."""
        row, column, end_row, end_column = code.unpack(at)
        return Site(self.module.path, self.row + row, column, self.row + end_row, end_column, self.symbol)

    @property
    def undecided(self) -> bool:
        """Whether a condition of this function decides about the statement under evaluation."""
        return len(self.where.guards) > self.guard_base

    @property
    def is_traced(self) -> bool:
        """Whether a condition of this function holds only while a model is taken down for export."""
        own = self.where.guards[self.guard_base :]
        return any(
            guard.kind is GuardKind.EXCEPTIONAL and guard.ends_from is None and not isinstance(guard.test, str)
            for guard in own
        )

    @property
    def origin(self) -> object:
        """What started the chain of calls that it stands in, and within which code runs in the order in which it is
        met: the entry point's module, or a single statement of another. None where a library calls a function on the
        way, at a time of its own."""
        frame = self
        while frame.caller is not None:
            if frame.called_by is None:
                return None
            frame = frame.caller
        return frame.module if frame.module.is_main else frame

    def made_by(self, node: code.Expression) -> Factory | None:
        """The factory call of this function, at the same depth of loops, that made the tensor that `node` names."""
        while isinstance(node, code.Call) and isinstance(node.function, code.Attribute):
            if id(node) in self.factories:
                return self.factories[id(node)]
            node = node.function.value
        made = self.factory_names.get(node.id) if isinstance(node, code.Name) else None
        return made if made is not None and made.loops == len(self.where.loops) else None

    def lookup(self, name: str) -> Value | None:
        """The value of a variable, by Python's scoping; None where nothing binds it."""
        frame: Frame | None = self
        if name not in self.globals:
            while frame is not None:
                if name in frame.variables:
                    return frame.variables[name]
                frame = frame.enclosing
        return self.run.find_global(self.module, name)

    def bind(self, name: str, value: Value) -> None:
        """Give a variable its value, by Python's scoping."""
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


HOT_ONLY: set[object] = {SyncPoint, Report, EvaluationForward}
"""Records that no rule asks for where code runs once; the others say something about the set-up."""


class Pending(NamedTuple):
    """A record to be made once its context can be told."""

    make: Callable[..., Any]
    fields: dict[str, Any]
    where: Where


@dataclass(eq=False)
class Run:
    """The interpretation of one entry point."""

    entry: Entry
    facts: Mapping[Path, ModuleFacts]
    map: ModuleMap
    options: LinkOptions
    units: Callable[[Path], Units]
    """The decoded statements of a file."""
    run_units: Callable[[Run, ModuleState, str], Value | None]
    """Runs the statements of a module that bind a name, and returns what it is bound to."""
    interest: Interest
    modules: dict[Path, ModuleState] = field(default_factory=dict)
    instances: dict[tuple[object, ...], Instance] = field(default_factory=dict)
    memo: dict[tuple[object, ...], Value] = field(default_factory=dict)
    open_calls: list[object] = field(default_factory=list)
    """Definitions of the functions being interpreted, for recursion."""
    reached: set[tuple[Path, int]] = field(default_factory=set)
    """Functions entered, by module and index of their body."""
    pending: dict[tuple[object, ...], Pending] = field(default_factory=dict)
    """By what tells one record from another."""
    loops: dict[tuple[object, ...], LoopRun] = field(default_factory=dict)
    loaders: dict[tuple[object, ...], Loader] = field(default_factory=dict)
    loader_where: dict[int, Where] = field(default_factory=dict)
    samplers: dict[tuple[object, ...], Sampler] = field(default_factory=dict)
    sampler_where: dict[int, Where] = field(default_factory=dict)
    command_line: dict[str, Value] = field(default_factory=dict)
    """Options that an argument parser declares, by the name of their attribute."""
    defaults_replaced: bool = False
    """Whether the program has given options defaults that are not known."""
    options_read: bool = False
    """Whether a parser has read the command line."""
    wrapped_models: dict[Site, WrappedModel] = field(default_factory=dict)
    wrapper: str = ""
    """Canonical name of the latest wrapper that averages gradients."""
    resumes: list[bool] = field(default_factory=list)
    optimizer_files: set[str] = field(default_factory=set)
    """Places of `torch.load` from whose content an optimizer takes its state."""
    started_from_saved: set[str] = field(default_factory=set)
    """Library classes of models whose weights are read from where an option says."""
    started_from_nothing: set[str] = field(default_factory=set)
    """Library classes of models and layers that are made with fresh weights."""
    training_places: set[Place] = field(default_factory=set)
    """Where the losses live that backward passes start from; also unknown, where a model runs that may be anywhere."""
    saved_kinds: set[str] = field(default_factory=set)
    """Kinds of training state that any save of this entry point writes."""
    hand_iterated: list[IteratedByHand] = field(default_factory=list)
    framework_loaders: list[IteratedByFramework] = field(default_factory=list)
    engines: dict[str, EngineRun] = field(default_factory=dict)
    """Engines of Ignite, by the place and the way that they are made."""
    subscriptions: list[Subscription] = field(default_factory=list)
    roots: dict[tuple[Role, bool, bool, bool, Known], Root] = field(default_factory=dict)
    mentions: frozenset[str] = frozenset()
    """The names among `extract.WATCHED` that the files of the closure mention."""
    rank_names: frozenset[str] = frozenset()
    """Names that the configuration says are true on one rank only."""
    decoded: Decoded = field(default_factory=Decoded)
    configurations: ConfigurationFiles = field(default_factory=lambda: ConfigurationFiles({}))
    """The configuration files that the code names."""
    reassigned: set[str] = field(default_factory=set)
    """Names of settings that come from a configuration file and that the program gives other values somewhere; "*" for
    any."""
    overwritten: set[Path] = field(default_factory=set)
    """Configuration files that the program writes."""
    imported_whole: set[Path] = field(default_factory=set)
    """Modules whose star imports a main module has followed, so that circles end."""
    changed_datasets: set[int] = field(default_factory=set)
    """Datasets, by identity, that the main process changes from within a loop."""
    driven_objects: set[int] = field(default_factory=set)
    """Datasets, trainers and callbacks, by identity, whose methods were run as whatever drives them calls those."""
    quiet: dict[tuple[object, ...], Value] = field(default_factory=dict)
    """Results of calls, by function and arguments alone, that left nothing behind that depends on where they stand."""
    unwrapping: int = 0
    """How many iterators around iterators are being looked through."""
    advancing: int = 0
    """How many generators are being advanced by hand: their loops turn with the loop that advances them."""
    generated_items: dict[Value, Value] = field(default_factory=dict)
    """What generators that are advanced by hand yield."""
    passed_up: dict[int, Any] = field(default_factory=dict)
    """Arguments that constructors hand to a library's base class, by the identity of the object."""
    results: dict[int, Value] = field(default_factory=dict)
    """The latest result of each function, by the identity of its definition."""
    walked: dict[tuple[int, bool], int] = field(default_factory=dict)
    """How often each large function was walked, for training and for evaluation."""
    read: set[tuple[Path, int]] = field(default_factory=set)
    """The functions whose bodies were looked at, by file and index: on the others nothing depends."""
    asked: dict[tuple[Path, str | int], bool] = field(default_factory=dict)
    """Classes, by name, and functions, by index, of which it was asked whether they may do what rules speak about."""
    copies_under_way: list[Site] = field(default_factory=list)
    """Copies to the host that were issued without waiting for them, in the order in which they were met."""
    waited_for: int = 0
    """How many of them something has, or may have, waited for since."""
    allocations: list[Allocation] = field(default_factory=list)
    """Where something is put on a CUDA device outside of loops, in the order in which it was met."""
    process: object = field(default_factory=object)
    """The process that runs what is interpreted: another one in a function that is spawned."""
    pipelines: dict[tuple[object, ...], Pipeline] = field(default_factory=dict)
    """Transforms of images, by the place and the way on which they are made."""
    transformations: list[Transformation] = field(default_factory=list)
    """Items of datasets that go through one, in the order in which it was met."""
    transformations_of: dict[int, tuple[Transformation, ...]] = field(default_factory=dict)
    """Those of each dataset of the project, by its identity."""
    differentiating: dict[int, bool] = field(default_factory=dict)
    """Whether the forward of a model of the project asks for derivatives, by the identity of its class."""
    differentiated: set[Site] = field(default_factory=set)
    """The calls of such models."""
    buffers_alone: dict[int, bool] = field(default_factory=dict)
    """Whether modules of a class of the project, by its identity, keep buffers and no parameters."""
    works: list[Work] = field(default_factory=list)
    """What the device was given to compute, in the order in which it was met."""
    waits: int = 0
    """Counts the places at which the host waits for the device, or may do so, in the order in which they were met."""
    waiting_calls: dict[tuple[object, ...], bool] = field(default_factory=dict)
    """For each remembered call, whether the host waits for the device in it, or may do so for all that is known; also
    where it reads a clock, so that what follows is not counted from an earlier time."""
    readings: dict[Site, Reading] = field(default_factory=dict)
    """The clocks that were read, by the place of the call."""
    reads: int = 0
    """Counts how often one was read."""
    effects: int = 0
    """Counts what was recorded or learned, so that a call without any can be told."""
    statements: int = 0
    exhausted: bool = False

    def count_statement(self) -> bool:
        """Count one interpreted statement; False once the entry point has used up what it may."""
        self.statements += 1
        if self.statements > MOST_STATEMENTS:
            self.exhausted = True
        return not self.exhausted

    def find_global(self, module: ModuleState, name: str) -> Value | None:
        """A global of a module; the statements that bind it are run now if they were not before."""
        found = module.variables.get(name)
        if found is None and not module.is_main:
            return self.run_units(self, module, name)
        return found

    def body(self, module: ModuleState, index: int) -> code.Block:
        """The body of a function."""
        self.read.add((module.path, index))
        return self.decoded.body(module.path, module.facts, index)

    @property
    def nodes(self) -> NodeFacts:
        """What nodes tell by themselves."""
        return self.decoded.nodes

    def body_text(self, module: ModuleState, index: int) -> str:
        """The body of a function as it is stored."""
        self.read.add((module.path, index))
        return module.facts.body_line(index)

    def may_matter(self, path: Path, what: str | int) -> bool:
        """Whether a class, by its name, or a function, by its index, may do what rules speak about."""
        found = self.asked.get((path, what))
        if found is None:
            found = self.asked[path, what] = self.interest.answer(path, what)
        return found

    def module(self, path: Path) -> ModuleState:
        """The state of a module of the project; it may not have run yet."""
        state = self.modules.get(path)
        if state is None:
            name = self.map.module_name(path) or path.stem
            state = self.modules[path] = ModuleState(path, name, self.facts[path], self.units(path))
        return state

    def root(
        self,
        role: Role,
        *,
        assumed: bool = False,
        trains: bool = True,
        whole_pass: bool = False,
        workers: Known = Known.UNKNOWN,
    ) -> Root:
        """The root for code that is called from outside in this role."""
        root = Root(role, assumed=assumed, trains=trains, whole_pass=whole_pass, workers=workers)
        return self.roots.setdefault((role, assumed, trains, whole_pass, workers), root)

    def backpropagated(self, module: ModuleState, index: int) -> frozenset[str]:
        """Dotted names in a function that a backward pass starts from, or that flow into such."""
        line = self.body_text(module, index)
        return self._flows(module, index)[0] if "backward" in line or "scaler" in line else frozenset()

    def assigned_attributes(self, frame: Frame) -> frozenset[str]:
        """Dotted attributes that the function of `frame` assigns outright."""
        define = frame.function.define if frame.function is not None else None
        return self._flows(frame.module, define.body)[1] if isinstance(define, code.Define) else frozenset()

    def reset_sums(self, frame: Frame) -> frozenset[str]:
        """Names that a loop of the function of `frame` both adds to and sets back to a constant in its own body."""
        define = frame.function.define if frame.function is not None else None
        if not isinstance(define, code.Define):
            return frozenset()
        return self.nodes.resets(self.body(frame.module, define.body))

    def _flows(self, module: ModuleState, index: int) -> tuple[frozenset[str], frozenset[str]]:
        return self.nodes.flows(self.body(module, index))

    def note_wait(self) -> None:
        """The host waits for the device here, or may do so: what was under way has arrived."""
        self.waits += 1
        self.waited_for = len(self.copies_under_way)

    def note_possible_wait(self) -> None:
        """The host may wait for the device here, for all that is known."""
        self.waits += 1

    def note_remembered_call(self, key: tuple[object, ...]) -> None:
        """A call that was followed before is met again: it may wait for copies, and for the device if it did then."""
        self.waits += self.waiting_calls.get(key, True)
        self.waited_for = len(self.copies_under_way)

    def record(self, make: Callable[..., Any], frame: Frame, key: object, **fields: Any) -> None:
        """Keep a record until its context can be told; a later one of the same place and way replaces it."""
        where = frame.where
        self.effects += 1
        if not where.loops and where.root.role is Role.PROGRAM and make in HOT_ONLY:
            return
        identity = (
            make,
            fields.get("site"),
            key,
            tuple(id(loop) for loop in where.loops),
            where.guard_key(),
            where.calls,
            where.root.role,
        )
        held = self.pending.get(identity)
        if held is not None and held.where.root.workers is Known.YES:
            # Another loader, without workers, takes nothing from what those of the first one run.
            where = replace(where, root=held.where.root)
        self.pending[identity] = Pending(make, fields, where)
