"""Abstract values: what the interpreter knows of a Python value without running the program.

Values are small and immutable, except for instances of the project's own classes, whose attributes are learned as
assignments are met. `join` merges what two branches leave in one variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from trainlint.semantics.immutable import immutable, replace
from trainlint.semantics.vocabulary import Confidence, GuardKind, Place

if TYPE_CHECKING:
    from trainlint.semantics import code
    from trainlint.semantics.context import Site
    from trainlint.semantics.project import Loader, Pipeline, Sampler
    from trainlint.semantics.state import Frame, ModuleState, WrappedModel


@immutable
class Unknown:
    """Nothing is known."""


@immutable
class Const:
    """A literal of the program text: None, a bool, a number or a string."""

    value: bool | int | float | str | None


@immutable
class Option:
    """A value that the code leaves to others: a command-line option, a field of a configuration."""

    name: str
    default: bool | int | float | str | None = None
    has_default: bool = False
    """Whether `default` is what it holds, unless whoever starts the job says otherwise."""
    file: str = ""
    """The configuration file that gives the default, by its name; empty where the code does."""
    fixed: bool = False
    """Whether the code reads that file whoever starts the job, and nothing that is known changes what it says."""

    @property
    def certainty(self) -> Confidence:
        """How sure it is at most what holds for the default alone, such as that there are no workers: what the command
        line may change, nobody knows."""
        return Confidence.MEDIUM if self.fixed and self.has_default else Confidence.LOW

    @property
    def told(self) -> str:
        """Who sets it, as messages say it."""
        if self.file:
            return f"{self.file} sets `{self.name}` to {self.default}"
        return f"`{self.name}` is {self.default} by default"

    def without_default(self) -> Option:
        """The same setting, of which nothing is known but its name."""
        return Option(self.name)


@immutable
class Test:
    """What a condition stands for, also where it is kept in a variable: `is_main = rank == 0`."""

    positive: tuple[GuardKind, ...] = ()
    """What holds where it is true: the guards of the code that it lets run."""
    negative: tuple[GuardKind, ...] = ()
    """What holds where it is false: the guards of the code that it keeps from running."""
    text: str = ""
    """What code calls it, where that is known: decorators are told by it."""

    @property
    def negated(self) -> Test:
        """What `not condition` stands for."""
        return Test(self.negative, self.positive, f"not {self.text}" if self.text else "")

    def also(self, other: Test) -> Test:
        """What a condition stands for that is this and something else as well."""
        return Test(self.positive + other.positive, self.negative + other.negative, self.text)

    @property
    def has_kinds(self) -> bool:
        """Whether either side is known to be a guard of some kind."""
        return bool(self.positive or self.negative)


@immutable
class Host:
    """A value on the host that is not a tensor: "number", "string", "array" (numpy), "frame" (a table or a column of
    pandas), "path" (of pathlib), "rank", "world-size", "object"."""

    kind: str = "object"
    whole: bool = False
    """Of an array: whether it is known to be one, rather than a scalar of numpy."""
    fetched: bool = False
    """Of an array: whether its values are known to have been computed on the device."""
    double: bool = False
    """Of an array: whether it is known to hold float64 because nothing says otherwise: `numpy.linspace(0, 1, 64)`."""
    ranks: int = 0
    """Of a number: how often the number of processes, or of GPUs, is known to be a factor of it; negative where it is
    divided by it."""
    clock: Site | None = None
    """Of a time: the call that read the host's clock, and nothing else, to tell it."""


@immutable
class Tensor:
    """A tensor, or a collection of tensors that live at one place."""

    place: Place = Place.UNKNOWN
    proved: bool = True
    """False where the place was inferred from a name or an idiom."""
    loader: Loader | None = None
    """The loader whose batch this is, or a part of."""
    keeps_graph: bool = False
    """Whether autograd's graph hangs on it: an output or a loss, not detached."""
    pinned: bool = False
    created: bool = False
    """Made on the host by a factory (`torch.zeros`, `torch.tensor`), not loaded."""
    number: bool = False
    """Known to hold one element: a loss, the result of a full reduction."""
    container: bool = False
    """A dict, list or tuple of tensors rather than one."""
    registered: bool = False
    """A parameter or a buffer of a module, which moves with it."""
    gradient: bool = False
    """The `.grad` of a parameter."""
    figure: bool = False
    """Computed from single numbers that had a graph, such as losses, and from nothing else; detached or not."""
    double: bool = False
    """Known to hold float64, and more than one number, because it was made of an array of numpy that does so by
    default."""
    boolean: bool = False
    """Known to hold truth values: what a comparison returned."""
    arriving: int = 0
    """Number of the copy to the host, among those that the program issued without waiting, that fills it; 0 where
    nothing is under way."""
    autocast: str = ""
    """dtype of the autocast under which a model computed it, or "on" where that is not known; empty without one."""
    scaled: bool = False
    """Multiplied by the factor of a gradient scaler."""
    fetched: bool = False
    """Of a tensor on the host: whether it is known to have been brought there from the device."""
    single: bool = False
    """Known to be one tensor, rather than perhaps several, because an operation on tensors returned it."""
    remade: bool = False
    """Of a batch: whether the host has copied it since the loader gave it, into memory that is not pinned."""


@immutable
class DeviceValue:
    """A `torch.device`, a device string or index: where may it point?"""

    cuda: bool
    """Whether it is a CUDA device in a set-up that has one."""
    cpu: bool = False
    """Whether it is, or falls back to, the CPU."""
    rank_local: bool = False
    """Chosen by the local rank."""
    other: bool = False
    """Whether it may be another accelerator: mps, xpu."""
    mps: bool = False
    """Whether that accelerator may be Apple's."""
    proved: bool = True
    bare: bool = False
    """Whether it is surely CUDA without a number, which is GPU 0 unless the process was told another: `"cuda"`."""


@immutable
class Object:
    """An object of a library: `type` is its canonical class, e.g. "torch.optim.Optimizer".

    Modules of torch and of model libraries have the type "torch.nn.Module"; `origin` keeps what made them.
    """

    type: str
    origin: str = ""
    place: Place = Place.UNKNOWN
    proved: bool = True
    frozen: bool = False
    """For a model: whether it was told that nothing in it requires gradients."""
    inner: Value | None = None
    """What it wraps: a progress bar's iterable, a DDP model's module, a Subset's dataset, an iterator's loader."""
    fact: Loader | Sampler | WrappedModel | Pipeline | None = None
    """What the model learns of it. Of a library's dataset, the pipeline that its images go through."""


@immutable
class Reference:
    """A name of a library, by its full dotted path: `torch.cuda.amp.autocast`."""

    name: str


@immutable
class Tuple:
    items: tuple[Value, ...]


@immutable
class Listing:
    """A list, set, generator or homogeneous iterable, all of whose items look like `item`."""

    item: Value
    growing: bool = False
    """Known to be a list that the program appends to."""
    empty: bool = False
    """Known to hold nothing yet, so that its item stands for none."""


@immutable
class Table:
    """A dict with known string keys; `rest` stands for every other key."""

    items: tuple[tuple[str, Value], ...]
    rest: Value | None = None
    file: str = ""
    """The configuration file that it was read from, by its name."""
    unsure: frozenset[str] = frozenset()
    """Those of the keys that only one of two branches put into it."""

    def get(self, key: str) -> Value:
        """The value under a key; UNKNOWN where it may be anything."""
        for name, value in self.items:
            if name == key:
                return value
        return self.rest if self.rest is not None else UNKNOWN


@dataclass(eq=False, slots=True)
class Function:
    """A function of the project, with the frame it closes over."""

    module: ModuleState
    define: code.Define | code.Lambda
    qualname: str
    row: int
    closure: Frame | None
    owner: Class | None = None
    decorators: tuple[Value, ...] = ()


@dataclass(eq=False, slots=True)
class Class:
    """A class of the project."""

    module: ModuleState
    define: code.DefineClass
    qualname: str
    bases: tuple[Value, ...]
    members: dict[str, Value] = field(default_factory=dict)
    row: int = 0


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a project class. Compared by identity: one stands for every object made at one place."""

    cls: Class
    attributes: dict[str, Value] = field(default_factory=dict)
    place: Place = Place.UNKNOWN
    """Where its parameters live, if it is a module."""
    frozen: bool = False
    """For a model: whether it was told that nothing in it requires gradients."""
    sampler: Value | None = None
    """What it hands a loader, if its class derives from a sampler of a library."""
    compiled: bool = False
    """For a model: whether its calls are traced by `torch.compile`."""
    construct: Callable[[], None] | None = field(default=None, repr=False)
    """Runs the constructor, which for a model waits until code of its class does."""

    def settle(self) -> None:
        """Run the constructor, if it was put off."""
        construct, self.construct = self.construct, None
        if construct is not None:
            construct()


@immutable
class Bound:
    """A function bound to its first argument, or to a library object's method by name."""

    function: Function
    receiver: Value


@immutable
class Method:
    """A method of a library object: `Method(Tensor(…), "item")`."""

    receiver: Value
    name: str


@immutable
class Partial:
    function: Value
    arguments: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@immutable
class Generated:
    """What a call of a generator function returns: its body runs when somebody iterates it."""

    function: Function
    arguments: tuple[tuple[str, Value], ...]
    """Its parameters, bound."""


@immutable
class ModuleValue:
    """A module of the project, imported."""

    module: ModuleState


@immutable
class Choice:
    """One of a few values, by branch."""

    options: tuple[Value, ...]


Value: TypeAlias = (
    Unknown
    | Const
    | Option
    | Test
    | Host
    | Tensor
    | DeviceValue
    | Object
    | Reference
    | Tuple
    | Listing
    | Table
    | Function
    | Class
    | Instance
    | Bound
    | Method
    | Partial
    | Generated
    | ModuleValue
    | Choice
)

UNKNOWN = Unknown()
NONE = Const(None)
NUMBER = Host("number")
STRING = Host("string")
OBJECT = Host("object")
ARRAY = Host("array")
FRAME = Host("frame")
WHOLE_ARRAY = Host("array", whole=True)
PATH = Host("path")

MOST_OPTIONS = 8


def held(value: Value | None) -> object:
    """The literal that a value is, or what a setting holds by default; UNKNOWN for anything else."""
    if isinstance(value, Option):
        return value.default if value.has_default else UNKNOWN
    return value.value if isinstance(value, Const) else UNKNOWN


def certainty_of(value: Value) -> Confidence:
    """How sure it is at most that a value is what `held` says: others may change a setting."""
    return value.certainty if isinstance(value, Option) else Confidence.HIGH


def options(value: Value) -> tuple[Value, ...]:
    """The alternatives of a value: itself, unless it is a choice."""
    return value.options if isinstance(value, Choice) else (value,)


def join_places(one: Place, other: Place) -> Place:
    """Where a value lives that comes from either branch: a branch that moves it to the device decides."""
    if one is other:
        return one
    if Place.DEVICE in (one, other):
        return Place.DEVICE
    return Place.UNKNOWN


def join(one: Value, other: Value) -> Value:
    """What a variable holds after two branches that leave `one` and `other` in it."""
    if one is other or one == other:
        return one
    if isinstance(one, Unknown) or one == NONE:
        return other if one == NONE else _weaken(other)
    if isinstance(other, Unknown) or other == NONE:
        return one if other == NONE else _weaken(one)
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return _join_tensors(one, other)
    if isinstance(one, Tensor) and isinstance(other, Const | Host | Option | Test):
        return _weaken(one) if isinstance(other, Host) and other.kind != "number" else one
    if isinstance(other, Tensor) and isinstance(one, Const | Host | Option | Test):
        return join(other, one)
    if isinstance(one, DeviceValue) and isinstance(other, DeviceValue):
        return DeviceValue(
            one.cuda or other.cuda,
            one.cpu or other.cpu,
            one.rank_local or other.rank_local,
            one.other or other.other,
            one.mps or other.mps,
            one.proved or other.proved,
            all(device.bare for device in (one, other) if device.cuda) and (one.cuda or other.cuda),
        )
    if isinstance(one, Const | Host | Option | Test) and isinstance(other, Const | Host | Option | Test):
        return _join_host(one, other)
    if isinstance(one, Tuple) and isinstance(other, Tuple) and len(one.items) == len(other.items):
        return Tuple(tuple(join(a, b) for a, b in zip(one.items, other.items, strict=True)))
    if isinstance(one, Listing) and isinstance(other, Listing):
        if one.empty or other.empty:
            filled = other if one.empty else one
            return Listing(filled.item, one.growing or other.growing, one.empty and other.empty)
        return Listing(join(one.item, other.item), one.growing or other.growing)
    if isinstance(one, Object) and isinstance(other, Object) and one.type == other.type and one.fact is other.fact:
        return replace(one, place=join_places(one.place, other.place), proved=one.proved and other.proved)
    if isinstance(one, Table) and isinstance(other, Table):
        return _join_tables(one, other)
    distinct = list(options(one))
    distinct += [value for value in options(other) if value not in distinct]
    return Choice(tuple(distinct)) if len(distinct) <= MOST_OPTIONS else UNKNOWN


def join_all(values: Iterable[Value]) -> Value:
    """What a value may be that is any of several; UNKNOWN for none."""
    result: Value | None = None
    for value in values:
        result = value if result is None else join(result, value)
    return UNKNOWN if result is None else result


def _join_tensors(one: Tensor, other: Tensor) -> Tensor:
    return Tensor(
        place=join_places(one.place, other.place),
        proved=one.proved and other.proved,
        loader=one.loader if one.loader is other.loader else one.loader or other.loader,
        keeps_graph=one.keeps_graph or other.keeps_graph,
        pinned=one.pinned and other.pinned,
        created=one.created and other.created,
        number=one.number and other.number,
        container=one.container and other.container,
        gradient=one.gradient and other.gradient,
        figure=one.figure and other.figure,
        boolean=one.boolean and other.boolean,
        autocast=one.autocast if one.autocast == other.autocast else "on",
        scaled=one.scaled and other.scaled,
        fetched=one.fetched and other.fetched,
        single=one.single and other.single,
        remade=one.remade and other.remade,
    )


def _join_host(one: Value, other: Value) -> Value:
    kinds = {_host_kind(one), _host_kind(other)}
    if isinstance(one, Option):
        return _join_option(one, other)
    if isinstance(other, Option):
        return _join_option(other, one)
    if isinstance(one, Test) or isinstance(other, Test):
        return _join_tests(one, other)
    if kinds == {"number"}:
        # what one branch multiplies is a multiple wherever that branch is taken
        return Host("number", ranks=max((value.ranks for value in (one, other) if isinstance(value, Host)), default=0))
    if kinds == {"number", "world-size"} and Const(1) in (one, other):
        # a run without other processes
        return Host("world-size")
    return Host(kinds.pop()) if len(kinds) == 1 else OBJECT


def _join_tests(one: Value, other: Value) -> Value:
    """A condition kept in a variable, or something else in another branch.

    Where that is True, code that needs it to be false still runs at the interval that the condition tells; likewise the
    other way round.
    """
    if isinstance(one, Test) and isinstance(other, Test):
        positive = tuple(kind for kind in one.positive if kind in other.positive)
        negative = tuple(kind for kind in one.negative if kind in other.negative)
    else:
        test, constant = (one, other) if isinstance(one, Test) else (other, one)
        if not isinstance(test, Test) or not isinstance(constant, Const) or not isinstance(constant.value, bool):
            return OBJECT
        kept = test.negative if constant.value else test.positive
        interval = (GuardKind.INTERVAL,) if GuardKind.INTERVAL in kept else ()
        positive, negative = ((), interval) if constant.value else (interval, ())
    return Test(positive, negative) if positive or negative else OBJECT


def _join_option(option: Option, other: Value) -> Value:
    """A setting, or something else: what it holds by default is known only where that is the same."""
    if isinstance(other, Option):
        same = other.has_default and option.has_default and _same_constant(option.default, other.default)
        return replace(option, fixed=option.fixed and other.fixed) if same else option.without_default()
    same = isinstance(other, Const) and option.has_default and _same_constant(option.default, other.value)
    return option if same else option.without_default()


def _same_constant(one: object, other: object) -> bool:
    return one.__class__ is other.__class__ and one == other


def _host_kind(value: Value) -> str:
    if isinstance(value, Host):
        return value.kind
    constant = value.value if isinstance(value, Const) else value.default if isinstance(value, Option) else None
    if isinstance(constant, str):
        return "string"
    return "number" if isinstance(constant, int | float) else "object"


def _join_tables(one: Table, other: Table) -> Table:
    names = list(dict.fromkeys([name for name, _ in one.items] + [name for name, _ in other.items]))
    mine, theirs = dict(one.items), dict(other.items)
    merged = tuple(
        (name, join(mine[name], theirs[name]) if name in mine and name in theirs else mine.get(name) or theirs[name])
        for name in names
    )
    rest = one.rest if other.rest is None else other.rest if one.rest is None else join(one.rest, other.rest)
    return Table(merged, rest, one.file or other.file, one.unsure | other.unsure | (mine.keys() ^ theirs.keys()))


def _weaken(value: Value) -> Value:
    """What is left of `value` when the other branch is unknown: its kind, no longer proved."""
    if isinstance(value, Tensor | Object):
        return replace(value, proved=False)
    if isinstance(value, Const | Host | Tuple | Table):
        return UNKNOWN
    return value.without_default() if isinstance(value, Option) else value


def is_reference(value: Value, *names: str) -> bool:
    """Whether a value is one of these library names."""
    return isinstance(value, Reference) and value.name in names
