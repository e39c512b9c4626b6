"""The linked project: what rules query.

`link` fills these records while it interprets each entry point; they are plain data afterwards. A record is one
expression of the program in one context: the same print reached from two loops is two records, and the engine keeps
one finding of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum

from trainlint.semantics import code, library
from trainlint.semantics.context import Context as Context
from trainlint.semantics.context import Entry as Entry
from trainlint.semantics.context import Guard as Guard
from trainlint.semantics.context import Site as Site
from trainlint.semantics.context import is_spared
from trainlint.semantics.duties import Duty
from trainlint.semantics.immutable import immutable
from trainlint.semantics.values import (
    NONE,
    UNKNOWN,
    Const,
    DeviceValue,
    Function,
    Host,
    Instance,
    Listing,
    Object,
    Option,
    Table,
    Tensor,
    Test,
    Tuple,
    Unknown,
    Value,
    is_reference,
)
from trainlint.semantics.vocabulary import (
    Confidence,
    Framework,
    GuardKind,
    Known,
    Place,
    Region,
)


@immutable
class Arguments:
    """The arguments of a call, by parameter name where the callee is known, else by keyword and position."""

    named: Mapping[str, Value] = field(default_factory=dict)
    positional: tuple[Value, ...] = ()
    complete: bool = True
    """False where `*args` or `**kwargs` of unknown content were passed: absence proves nothing then."""
    spread: bool = False
    """Whether some came through `*args` or `**kwargs`: a fix that names one in the call might pass it twice."""
    unsure: frozenset[str] = frozenset()
    """Those of the names that only one of two branches put into what came through `**kwargs`."""

    def value(self, name: str) -> Value | None:
        """The value passed for `name`; None where it was not passed, or where that cannot be known."""
        return self.named.get(name)

    def absent(self, name: str) -> bool:
        """Whether `name` was surely not passed."""
        return self.complete and name not in self.named

    def given(self, name: str) -> bool:
        """Whether `name` was surely passed something other than None."""
        return name in self.named and self.named[name] != NONE

    def constant(self, name: str) -> object:
        """The literal passed for `name`; `UNKNOWN` where it was not passed or is not a literal."""
        value = self.named.get(name, UNKNOWN)
        return value.value if isinstance(value, Const) else UNKNOWN

    def setting(self, name: str) -> Option | None:
        """What is passed for `name` where that is a setting that holds something by default: an option of the command
        line, a field of a configuration."""
        value = self.named.get(name)
        return value if isinstance(value, Option) and value.has_default else None

    def holding(self, name: str) -> object:
        """The literal passed for `name`, or what the setting holds by default that is passed for it; `UNKNOWN` where
        neither is known."""
        setting = self.setting(name)
        return self.constant(name) if setting is None else setting.default

    def certainty(self, *names: str) -> Confidence:
        """How sure it is at most that the parameters hold what `holding` says."""
        settings = [setting for name in names if (setting := self.setting(name)) is not None]
        return min((setting.certainty for setting in settings), default=Confidence.HIGH)

    def told_by(self, *names: str) -> str:
        """Who sets the parameters, as messages end: ": config.yaml sets `workers` to 0"; empty for literals."""
        told = [setting.told for name in names if (setting := self.setting(name)) is not None]
        return f": {' and '.join(told)}" if told else ""

    def unknown(self, name: str) -> bool:
        """Whether `name` may hold anything: passed as an unknown value or an option, or maybe inside `**kwargs`."""
        if name not in self.named:
            return not self.complete
        return isinstance(self.named[name], Unknown | Option | Host)


_WRITING = frozenset("wax+")
"""Letters of a mode by which a file is not only read."""


@immutable
class Call:
    """A reached call of something that the library knowledge names: `torch.cuda.synchronize`, `Tensor.item`, `print`.

    Methods of library objects are named by their class: `torch.Tensor.item`, `torch.optim.Optimizer.zero_grad`,
    `torch.nn.Module.to`, `wandb.log`, `logging.Logger.info`.
    """

    name: str
    site: Site
    text: str
    context: Context
    arguments: Arguments
    receiver: Value | None = None
    stands_alone: bool = False
    """Whether the call is a statement of its own, so that it can be removed or guarded by itself."""
    one_of_several: bool = False
    """Whether what is called may also be something else, which need not take the same arguments:
    `run = checkpoint if saving else plainly`."""
    same_each_time: bool = False
    """Of what is asked of a file or makes a costly object, for each item of a dataset: whether it is passed the same
    each time."""
    varies_by_item: bool = False
    """Likewise, whether what it is passed follows from which item is asked for, and its result is not kept."""
    numpy: str = ""
    """What numpy is called where the call stands; empty where it has neither of its usual names."""

    @property
    def may_write(self) -> bool:
        """Of what opens a file or a store: whether it is to be written, or maybe."""
        given = self.arguments.positional
        position = 0 if self.name == "pathlib.Path.open" else 1
        mode = self.arguments.named.get("mode", given[position] if len(given) > position else Const("r"))
        text = mode.value if isinstance(mode, Const) else None
        return not isinstance(text, str) or not _WRITING.isdisjoint(text)

    @property
    def maps_memory(self) -> bool:
        """Whether it reads an array of numpy's as a memory map, of which only what is asked for is read."""
        return self.name == "numpy.load" and not self.arguments.absent("mmap_mode")

    @property
    def joins_all_ranks(self) -> bool:
        """Whether it is a collective of the default process group, which returns once every rank has called it."""
        owner, _, method = self.name.rpartition(".")
        if method in library.FRAMEWORK_COLLECTIVES.get(owner, ()):
            return True
        if self.name == "torch.distributed.new_group":
            return self.arguments.absent("use_local_synchronization")
        default = self.arguments.absent("group") or self.arguments.value("group") == NONE
        return default and library.COLLECTIVES.match(self.name) is not None


class SyncKind(StrEnum):
    READ = "read"
    """`.item()`, `.tolist()`, `float(t)`, `int(t)`, `bool(t)`."""
    COPY = "copy"
    """`.cpu()`, `.numpy()`, `.to("cpu")`."""
    FORMAT = "format"
    """An f-string, `%`, `str()` or `print` of a device value."""
    BRANCH = "branch"
    """`if t`, `while t`, `assert t`, `t and …`, `max(list of tensors)`."""
    INDEX = "index"
    """A slice bound, a `range` or a list index that lives on the device."""


@immutable
class SyncPoint:
    """An expression at which the host reads a tensor's value, with the place where that tensor lives."""

    kind: SyncKind
    site: Site
    text: str
    context: Context
    value: Tensor
    operand: str = ""
    """Text of the tensor expression that is read, for messages: `loss` of `loss.item()`."""
    operand_site: Site | None = None
    """Where that expression stands, its parentheses included; None where it is not part of the expression."""
    accumulated: bool = False
    """Whether the number read is only added to a running total or appended to a list: `total += loss.item()`."""

    @property
    def on_device(self) -> bool:
        return self.value.place is Place.DEVICE


class ReportKind(StrEnum):
    PRINT = "print"
    LOGGER = "logger"
    TRACKER = "tracker"
    """wandb, TensorBoard, MLflow, Comet, Neptune, `accelerator.log`, Lightning's `self.log`."""


_WARNINGS = frozenset({"warning", "warn", "error", "exception", "critical", "fatal"})
_CONDITIONS = (GuardKind.FLAG, GuardKind.DATA, GuardKind.OFF)


@immutable
class Report:
    """A print, a logging call, or a call of an experiment tracker."""

    kind: ReportKind
    site: Site
    text: str
    context: Context
    name: str
    """Canonical name of what is called: "print", "logging.Logger.info", "wandb.log"."""
    arguments: Arguments
    rank_aware: bool = False
    """Whether the printer itself is silent on all ranks but one."""
    only_reads: bool = True
    """Whether what it shows is only read: no call in its arguments runs a model, a collective or an iterator, which
    the other ranks or the other steps would miss."""
    names_rank: bool = False
    """Whether the rank is part of what is printed, so that each rank's line is meant."""
    stands_alone: bool = False
    """Whether the call is a statement of its own, so that it can be removed or guarded by itself."""
    speaker: str = ""
    """Of a `print`: a function of the framework that does the same on one rank and is at hand where the call stands,
    such as `self.print` in a LightningModule; empty where there is none."""

    @property
    def warns(self) -> bool:
        """Whether it is a logger's warning that stands under a condition: it tells of what is out of the ordinary."""
        warning = self.kind is ReportKind.LOGGER and self.name.rpartition(".")[2] in _WARNINGS
        return warning and any(guard.in_step and guard.kind in _CONDITIONS for guard in self.context.guards)

    @property
    def dropped(self) -> bool:
        """Whether a logger drops it unless the level is lowered: `logger.debug(…)`."""
        return self.kind is ReportKind.LOGGER and self.name.rpartition(".")[2] == "debug"

    @property
    def batched(self) -> bool:
        """Whether a tracker keeps what it is given for a later write: `wandb.log(…, commit=False)`,
        `mlflow.log_metric(…, synchronous=False)`, Lightning's `self.log` unless it says `on_step=True`."""
        if self.name.endswith(("LightningModule.log", "LightningModule.log_dict")):
            return self.arguments.constant("on_step") is not True
        return self.arguments.constant("commit") is False or self.arguments.constant("synchronous") is False


_FROM_SHAPE = frozenset({"empty", "ones", "rand", "randn", "zeros"})
"""Factories of torch that are given the sizes of what they make."""


@immutable
class Transfer:
    """`.to(device)`, `.cuda()` or `.cpu()` of a tensor or of a collection of tensors."""

    site: Site
    text: str
    context: Context
    value: Tensor
    """What is moved, before the move."""
    target: Place
    non_blocking: Known
    may_be_cuda: bool = True
    may_be_other_accelerator: bool = False
    """Whether the target may be something else than CUDA or the CPU, such as MPS."""
    may_be_mps: bool = False
    """Whether the program names Apple's GPU as a target."""
    device_is_certain: bool = False
    """Whether the target is CUDA without a fallback."""
    device_is_known: bool = False
    """Whether the target follows from the program text, a fallback included, rather than from a name."""
    host_value_reused: bool = True
    """Whether the host tensor is, or may be, used after the move."""
    made_by: Site | None = None
    """The factory call that is moved at once: `torch.zeros(n).to(device)`."""
    factory: str = ""
    """Canonical name of that factory: "torch.zeros", "torch.cuda.FloatTensor"."""
    factory_arguments: Arguments = field(default_factory=Arguments)
    device_text: str = ""
    """Text of an expression for the target device, `"cuda"` for a bare `.cuda()`; empty where the call does more than
    move (a dtype, a memory format), or where the device may be None."""
    repeated: bool = False
    """Whether each step moves the same tensor again: it was made before, and nothing changes it in between."""

    @property
    def of_nothing(self) -> bool:
        """Whether the factory makes a tensor without elements, of which a move copies nothing: `torch.Tensor()`,
        `torch.tensor([])`, `torch.empty(0, 4)`."""
        given = self.factory_arguments
        if not self.factory or not given.complete:
            return False
        if not given.positional:
            return not given.named and self.factory.endswith("Tensor")
        if self.factory.rpartition(".")[2] in _FROM_SHAPE:
            sizes = given.positional[0].items if isinstance(given.positional[0], Tuple) else given.positional
            return Const(0) in sizes
        first = given.positional[0]
        return (isinstance(first, Listing) and first.empty) or first == Tuple(())


@immutable
class EarlyRead:
    """A tensor that the host reads while a copy that fills it, `.to("cpu", non_blocking=True)`, may be under way."""

    site: Site
    text: str
    context: Context
    copy: Site
    """The copy that nothing has waited for."""
    value: Tensor
    shares: bool = False
    """Whether it makes an array of the same memory, `.numpy()`, rather than read the data at once."""


@immutable
class Upload:
    """Values of the host that are made a tensor on the device, by a copy: `torch.tensor(0.5, device=device)`."""

    site: Site
    text: str
    context: Context
    name: str
    """Canonical name of what makes it: "torch.tensor", "torch.as_tensor", "torch.Tensor.new_tensor"."""
    value: Value
    """What is copied."""
    device_proved: bool = True
    """False where the device was inferred from a name."""


@immutable
class Timing:
    """A difference of two readings of a host's clock, with work for the device between them that nothing waits for
    before the later one."""

    site: Site
    """The later reading."""
    text: str
    context: Context
    start: Site
    """The earlier one."""
    work: str
    """Text of the last of what is left out, such as a model's forward."""
    work_site: Site


@dataclass(eq=False, slots=True)
class Pipeline:
    """A transform of images, or several of them one after the other, as it is made."""

    site: Site
    text: str
    steps: tuple[str, ...] = ()
    """What an image goes through, in order, by canonical names: "torchvision.transforms.Resize". Those that a step may
    choose from stand in its place; an empty name stands for what is not known."""


@immutable
class Transformation:
    """Each item of a dataset goes through a pipeline, as often as it is asked for."""

    pipeline: Pipeline
    site: Site | None = None
    """The call of the pipeline; None where a dataset of a library calls it."""
    text: str = ""
    """Text of that call."""
    dataset: str = ""
    """Canonical class of the library's dataset: "torchvision.datasets.CIFAR10"."""


class DatasetKind(StrEnum):
    MAP = "map"
    ITERABLE = "iterable"
    IN_MEMORY = "in-memory"
    """TensorDataset, lists and tensors: no work per item."""
    UNKNOWN = "unknown"


@dataclass(eq=False, slots=True)
class Loader:
    """A DataLoader under construction, and what becomes of it."""

    site: Site
    context: Context
    text: str
    arguments: Arguments
    """By DataLoader's parameter names: dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, …"""
    dataset: Value = UNKNOWN
    dataset_kind: DatasetKind = DatasetKind.UNKNOWN
    works_per_item: Known = Known.UNKNOWN
    """Whether the dataset computes or reads for each item."""
    library: str = "torch.utils.data.DataLoader"
    uses: list[LoaderUse] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    prepared_by: Framework | None = None
    """The framework that was handed the loader: its placement, and for some its sampler, are that framework's."""
    name: str = ""
    """The variable or attribute it was first bound to."""
    sampler: Sampler | None = None
    changes_between_epochs: bool = False
    """Whether the dataset's state is changed by the main process between epochs."""
    sharded_dataset: bool = False
    """Whether the dataset may be one rank's share already: `dataset.shard(…)`, `split_dataset_by_node`, a slice by
    rank, a class that asks for the rank."""
    dataset_text: str = ""
    """Text of the dataset argument."""
    sampler_text: str = ""
    """Text of the argument that says which items make a batch: `sampler`, else `batch_sampler`."""
    sampler_may_be_none: bool = False
    """Whether that argument is a name that may hold None as well: a parameter, or one that is bound more than once."""
    object_lists: tuple[str, ...] = ()
    """Attributes of its dataset in which an item is looked up among many Python objects."""
    repeats: Known = Known.UNKNOWN
    """Whether each process that goes over its iterable dataset, worker or rank, gets all of it."""
    item_place: Place = Place.UNKNOWN
    """Where the dataset's items live: DEVICE where they are on the GPU before the loader sees them."""

    cannot_pin: bool = False
    """Whether its batches are objects of a class without `pin_memory`, which a loader hands on as they are."""

    transformations: tuple[Transformation, ...] = ()
    """The pipelines that its items go through, one by one, before they make a batch."""

    same_each_time: bool = False
    """Whether it is made of the same each time, where a loop makes it again and again."""

    @property
    def made_by_its_loop(self) -> bool:
        """Whether the loop that starts it anew for training also makes it anew."""
        loop = self.context.loop
        return loop is not None and any(
            use.restarts and use.epoch_loop == loop for use in self.uses if use.region is Region.TRAINING
        )

    @property
    def trains(self) -> bool:
        """Whether a step loop iterates it."""
        return any(use.region is Region.TRAINING for use in self.uses)

    @property
    def evaluates(self) -> bool:
        """Whether it is iterated, and by evaluation loops only."""
        return bool(self.uses) and not self.trains

    @property
    def restarts(self) -> bool:
        """Whether it is iterated anew for each epoch."""
        return any(use.restarts for use in self.uses if use.region is Region.TRAINING)

    @property
    def epoch_use(self) -> LoaderUse | None:
        """A training loop over it that each epoch starts anew and where `set_epoch` could be called by name."""
        uses = (use for use in self.uses if use.region is Region.TRAINING and use.restarts)
        return next((use for use in uses if use.epoch_loop is not None and use.epoch_name and use.name), None)

    @property
    def pins(self) -> Known:
        """Whether its batches come in pinned memory."""
        given = self.arguments.constant("pin_memory")
        value = self.arguments.value("pin_memory")
        # a switch that is on by default, or that follows from the machine, is on where it matters
        if given is True or isinstance(value, Test | Host) or (isinstance(value, Option) and value.default is True):
            return Known.YES
        # one that is off by default is there to be turned on, unless a file says that it is off
        off = isinstance(value, Option) and bool(value.file) and value.default is False
        return Known.NO if given is False or off or self.arguments.absent("pin_memory") else Known.UNKNOWN

    @property
    def workers(self) -> int | None:
        """How many workers the program asks for, unless whoever starts it says otherwise; None where it does not say
        how many."""
        number = self.arguments.holding("num_workers")
        return number if isinstance(number, int) else None

    @property
    def workers_certainty(self) -> Confidence:
        """How sure that is: others may change what an option or a configuration says."""
        return Confidence.MEDIUM if isinstance(self.arguments.value("num_workers"), Option) else Confidence.HIGH

    @property
    def forks(self) -> Known:
        """Whether it forks workers, by their number, or by the default of an option that says it."""
        if self.arguments.absent("num_workers") or self.workers == 0:
            return Known.NO
        forked = self.arguments.absent("multiprocessing_context") and (self.workers or 0) > 0
        return Known.YES if forked else Known.UNKNOWN

    def spared(self, duty: Duty) -> bool:
        """Whether the framework that was handed the loader does this for it."""
        return is_spared(self.context.entry, self.prepared_by, duty)

    @property
    def feeds_cuda(self) -> Known:
        """Whether its batches are moved to a CUDA device."""
        if self.prepared_by is not None and self.context.entry.stays_on_cpu:
            return Known.NO
        moved = [transfer for transfer in self.transfers if transfer.target is Place.DEVICE]
        if any(transfer.may_be_cuda for transfer in moved) or self.spared(Duty.MOVE_BATCHES):
            return Known.YES
        if moved:
            return Known.NO
        return self.context.entry.cuda if self.trains and not self.hands_over_items else Known.UNKNOWN

    @property
    def is_remade(self) -> bool:
        """Whether the host copies its batches once more before they are moved, so that their own memory matters
        little."""
        moved = [transfer for transfer in self.transfers if transfer.target is Place.DEVICE]
        return bool(moved) and all(transfer.value.remade for transfer in moved)

    @property
    def hands_over_items(self) -> bool:
        """Whether its batches are lists of the items as they are, so that nothing tells that they are tensors."""
        collate = self.arguments.value("collate_fn") or UNKNOWN
        if isinstance(collate, Function) and isinstance(collate.define, code.Lambda):
            body, parameters = collate.define.body, collate.define.parameters
            return isinstance(body, code.Name) and [one.name for one in parameters] == [body.id]
        return is_reference(collate, "list", "tuple")


@immutable
class LoaderUse:
    """A loop over a loader."""

    site: Site
    region: Region
    restarts: bool
    """Whether a loop around it starts it again and again."""
    context: Context
    epoch_loop: Site | None = None
    """The loop that starts it anew."""
    epoch_name: str = ""
    """The variable of that loop that counts epochs; empty where there is none."""
    name: str = ""
    """Text of an expression for the loader in the body of that loop: `train_loader`; empty if unknown."""


@dataclass(eq=False, slots=True)
class Sampler:
    """A sampler under construction. `library` is its canonical class."""

    site: Site
    context: Context
    library: str
    arguments: Arguments
    shards: bool
    """Whether it gives each rank its own share."""
    sets_epoch: bool = False
    loaders: list[Loader] = field(default_factory=list)


@immutable
class FrameAccess:
    """Rows or cells of a pandas DataFrame or Series that are looked up, or gone through one by one."""

    site: Site
    text: str
    context: Context
    how: str
    """"iloc", "loc", "iterrows" or "apply"."""
    proved: bool = True
    """False where it is known as one of pandas by this name alone."""
    cached: bool = False
    """Whether the result is kept for the next time."""


class TokenizerWork(StrEnum):
    ENCODE = "encode"
    DECODE = "decode"
    PAD = "pad"
    """`tokenizer.pad` and kin: collation, not tokenizing."""


@immutable
class Tokenization:
    """A call of a tokenizer."""

    site: Site
    text: str
    context: Context
    library: str
    """"transformers", "sentencepiece", "tiktoken", "spacy", "nltk", "bpe" or "unknown"."""
    work: TokenizerWork
    arguments: Arguments
    cached: bool = False
    """Whether the result is kept for the next time: an lru_cache, a dict that is looked up first."""
    tokenizer: str = ""
    """Canonical class that made the tokenizer, where it is known: "transformers.CLIPTokenizer"."""
    generated: bool = False
    """Whether the text came into being in the step itself: decoded, generated, sampled."""
    fixed: bool = False
    """Whether the text is always the same: a literal, or a token of the tokenizer's own such as `unk_token`."""
    part_of_another: bool = False
    """Whether it is how a tokenizer of the project does its work, whose call is known by itself."""

    @property
    def certainty(self) -> Confidence:
        """How sure it is that this is a tokenizer, and that training has to wait for it."""
        known = Confidence.MEDIUM if self.library in ("unknown", "bpe") else Confidence.HIGH
        return min(known, self.context.served)

    @property
    def of_one_text(self) -> bool:
        """Whether a single string is tokenized, rather than a list of them or an unknown value."""
        first = self.arguments.positional[0] if self.arguments.positional else self.arguments.value("text")
        if isinstance(first, Const | Option):
            return True
        return isinstance(first, Host) and first.kind == "string"


@immutable
class Trainer:
    """A trainer of transformers, or of a library on top of it, which makes its loaders itself, from its settings."""

    site: Site
    text: str
    context: Context
    library: str
    """Canonical name of its class; "transformers.Trainer" for a class of the project."""
    arguments: Arguments
    dataset_kind: DatasetKind = DatasetKind.UNKNOWN
    """Of what it trains on."""
    works_per_item: Known = Known.UNKNOWN
    """Whether that dataset computes or reads for each item."""
    makes_loader: bool = False
    """Whether it is of a class of the project that makes the training loader its own way."""


@immutable
class DeepSpeedConfiguration:
    """What DeepSpeed is told: by `deepspeed.initialize(config=…)`, `TrainingArguments(deepspeed=…)`, Accelerate's and
    Lightning's ways to pass it."""

    site: Site
    text: str
    context: Context
    settings: Table

    def at(self, *path: str) -> Value:
        """What stands at a path of keys; UNKNOWN where nothing does, or it is not known."""
        value: Value = self.settings
        for key in path:
            value = value.get(key) if isinstance(value, Table) else UNKNOWN
        return value


@immutable
class ConfigurationSetting:
    """`config.name = value`: a field of a configuration that is set after it was made; also a switch of
    `torch.backends`, whose name is then its full path."""

    site: Site
    name: str
    value: Value
    context: Context


@immutable
class KeptGraph:
    """`total += loss` or `losses.append(loss)`, where `loss` keeps its graph and the target outlives the step."""

    site: Site
    text: str
    context: Context
    value_site: Site
    """The expression that `.detach()` belongs to."""
    target: str
    backpropagated: bool
    """Whether the target is, or may be, used in a backward pass."""


@immutable
class DoubleArithmetic:
    """An operation of a tensor on the device with one of float64, which makes float64 of the result, in a program that
    asks for float64 nowhere."""

    site: Site
    text: str
    context: Context
    operand: str
    """Text of the operand of float64, which has its type from an array of numpy that was given none."""
    value: Tensor
    """That operand."""


@immutable
class DynamicShape:
    """An expression whose shape the values of a tensor decide, so that the host has to wait for them: `x[x > 0]`,
    `x.nonzero()`."""

    site: Site
    text: str
    context: Context
    value: Tensor
    """The tensor that the items are taken out of."""


@immutable
class ElementLoop:
    """A loop or a comprehension over the items of a tensor on the device, each of which it computes with by itself, so
    that all of them could be computed with at once."""

    site: Site
    """What it goes over: the tensor, or the numbers of its items."""
    text: str
    context: Context
    """That of the loop as a whole."""
    tensor: str
    """Text of the tensor."""
    operand: str
    """Text of what is computed at each turn, or of the first of it."""
    work_site: Site


@immutable
class Collective:
    """A call by which ranks wait for each other: `all_reduce`, `gather`, `barrier`."""

    site: Site
    text: str
    context: Context
    name: str
    """Canonical name: "torch.distributed.all_reduce", "accelerate.Accelerator.gather"."""
    value: Value
    """What this rank contributes; None, as a value, for a barrier."""
    figure: Confidence | None = None
    """How sure it is that what is exchanged is there to be looked at, such as a loss after its backward pass or an
    accuracy, rather than to train with; None where nothing says so."""

    @property
    def is_barrier(self) -> bool:
        return self.value == NONE


@immutable
class Concatenation:
    """`rows = torch.cat([rows, new])` in a loop that only collects: it reads `rows` nowhere else, but for asking
    whether there is anything in it yet."""

    site: Site
    text: str
    context: Context
    target: str
    """The variable that grows; it is bound before the loop."""
    loop: Site
    """The loop in whose body it stands, the innermost one."""
    ends_early: bool = False
    """Whether a `break`, or an `islice`, may end that loop before what it goes over does."""
    turns: int | None = None
    """How often that loop turns, where the program text says so: `range(20)`."""


@immutable
class NormalizedConvolution:
    """A convolution of a model that is trained, all of whose output goes to a batch normalization at once."""

    site: Site
    text: str
    context: Context
    normalization: Site
    """Where that is made."""
    bias: Known
    """Whether the convolution is made with a bias."""
    bias_needed: bool = False
    """Whether code of the entry point uses biases of layers, which may be this one's, without asking for them."""


@immutable
class AttentionByHand:
    """The softmax of an attention that a model which is trained writes out: `softmax(q @ k.transpose(-2, -1)) @ v`, all
    of which a fused one could compute; neither the scores nor the weights are used for anything else."""

    site: Site
    text: str
    context: Context
    product: Site
    """The product of queries and keys."""
    result: Site
    """The product of the weights and the values."""


@immutable
class Wrapping:
    """A model wrapped for several devices: DataParallel, DistributedDataParallel, FSDP, `fully_shard`."""

    site: Site
    text: str
    context: Context
    library: str
    """Canonical name: "torch.nn.DataParallel", "torch.nn.parallel.DistributedDataParallel", …"""
    arguments: Arguments
    model: Value
    conditional_forward: Known = Known.UNKNOWN
    """Whether the model's forward leaves some of its submodules out under a condition."""
    trains: bool = False
    """Whether the wrapped model runs inside a step loop."""
    by_apex: bool = False
    """Whether the wrapper is apex's of the same name, which takes other arguments."""
    other_branch: str = ""
    """Canonical name of what another branch of the same condition wraps the model in."""
    for_evaluation: bool = False
    """Whether the function that wraps the model is named for evaluation."""


@immutable
class Placement:
    """A model with parameters that is moved to a device that the program text names: `.to(device)`, `.cuda()`."""

    site: Site
    text: str
    context: Context
    model: Value
    device: DeviceValue


@dataclass(eq=False, slots=True)
class StepLoop:
    """A loop that runs the backward pass or an optimizer step."""

    site: Site
    context: Context
    backwards: list[Site] = field(default_factory=list)
    steps: list[Site] = field(default_factory=list)
    accumulates: bool = False
    """Whether several backward passes go into one optimizer step."""
    accumulation_site: Site | None = None
    """The backward call whose reduction is repeated for each micro-batch."""
    disables_sync: bool = False
    """Whether reductions are switched off for all micro-batches but the last, in any idiom."""
    model_wrapped: str = ""
    """Canonical name of the wrapper of the model that is trained, if it reduces gradients."""
    managers: tuple[Site, ...] = ()
    """The context managers that are in force around it, in its function or a caller, each by the place of the
    expression that a `with` enters."""
    ends_early: bool = False
    """Whether a `break`, or an `islice`, may end it before what it goes over does."""
    turns: int | None = None
    """How often it turns, where the program text says so: `range(20)`."""


@immutable
class BackwardPass:
    """A call that runs a backward pass: `loss.backward()`, `accelerator.backward(loss)`."""

    site: Site
    text: str
    context: Context
    loss: Value
    """What it starts from; UNKNOWN where it is not a tensor whose method is called."""
    names_scaling: bool = False
    """Whether the function around it names anything for scaling, so that gradients may be scaled by hand."""
    loop: Site | None = None
    """The innermost loop around it, in its own function or in a caller."""
    retains_graph: bool = False
    """Whether it keeps the graph by `retain_graph=True`, and not to differentiate its gradients."""
    graph_ends_with_step: bool = False
    """For one that keeps the graph: whether it is certain that no graph goes from one turn of that loop to the next,
    nor into the loop, nor to code that is not known. What the loop uses are batches, models without a state of their
    own, numbers and the like."""


@immutable
class EvaluationForward:
    """A model's forward in an evaluation loop."""

    site: Site
    text: str
    context: Context
    model: Value
    frozen_inputs: bool = False
    """Whether nothing in it requires gradients."""
    only_evaluates: bool = False
    """Whether the function that holds the loop needs gradients for nothing, so that a decorator could cover it."""

    @property
    def certain(self) -> bool:
        """Whether what is called is known to be a model, rather than named like one."""
        return self.model.proved if isinstance(self.model, Object) else isinstance(self.model, Instance)


@immutable
class Checkpoint:
    """A `torch.save` of training state, with what goes into the file."""

    site: Site
    text: str
    context: Context
    content: Value
    holds_model: bool
    holds_optimizer: bool
    periodic: bool
    """Whether it is written during training, rather than once at the end."""
    optimizer_saved_elsewhere: bool = False
    """Whether a neighbouring save writes the optimizer's state."""
    resumed: Known = Known.UNKNOWN
    """Whether the entry point reads such a file back to continue training."""
    same_file: bool = False
    """Whether every rank that gets there surely writes to the same path."""
    stands_alone: bool = False
    """Whether the call is a statement of its own, so that it can be guarded by itself."""
    missing: tuple[str, ...] = ()
    """State that the entry point trains with and that neither this file nor a neighbouring save holds, among
    "optimizer", "scheduler" and "scaler"."""


@immutable
class FileLoad:
    """A `torch.load`, with what becomes of the content."""

    site: Site
    text: str
    context: Context
    arguments: Arguments
    restores_optimizer: bool = False
    """Whether an optimizer takes its state from it, which makes it a checkpoint of a training run."""


@immutable
class NameUse:
    """A use of a library name, wherever it stands, imports left out; needs no interpretation of the code around it."""

    name: str
    """Full dotted path, through import aliases."""
    site: Site
    called: bool
    under: tuple[GuardKind, ...] = ()
    """Guards around it: a version test or a `try`/`except ImportError` is EXCEPTIONAL."""
    given_to_decorator: bool = False
    """Whether it stands alone as an argument of a decorator: `@delegates(GradScaler)`."""


@immutable
class EnvironmentSetting:
    """`os.environ["NAME"] = value` and kin."""

    site: Site
    name: str
    value: Value
    context: Context
    fallback: bool = False
    """Whether it counts only where the variable is not set: `os.environ.setdefault(…)`."""
    after_cuda: bool = False
    """Whether the same process is sure to have put something on a CUDA device before, if it uses one at all."""


@dataclass
class Project:
    """Everything the rules may ask, for one connected part of a code base."""

    entries: list[Entry] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    syncs: list[SyncPoint] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    uploads: list[Upload] = field(default_factory=list)
    early_reads: list[EarlyRead] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    loaders: list[Loader] = field(default_factory=list)
    samplers: list[Sampler] = field(default_factory=list)
    tokenizations: list[Tokenization] = field(default_factory=list)
    frame_accesses: list[FrameAccess] = field(default_factory=list)
    trainers: list[Trainer] = field(default_factory=list)
    kept_graphs: list[KeptGraph] = field(default_factory=list)
    dynamic_shapes: list[DynamicShape] = field(default_factory=list)
    element_loops: list[ElementLoop] = field(default_factory=list)
    double_arithmetic: list[DoubleArithmetic] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    concatenations: list[Concatenation] = field(default_factory=list)
    normalized_convolutions: list[NormalizedConvolution] = field(default_factory=list)
    attentions: list[AttentionByHand] = field(default_factory=list)
    wrappings: list[Wrapping] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    step_loops: list[StepLoop] = field(default_factory=list)
    backward_passes: list[BackwardPass] = field(default_factory=list)
    evaluations: list[EvaluationForward] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    file_loads: list[FileLoad] = field(default_factory=list)
    name_uses: list[NameUse] = field(default_factory=list)
    environment: list[EnvironmentSetting] = field(default_factory=list)
    settings: list[ConfigurationSetting] = field(default_factory=list)
    deepspeed: list[DeepSpeedConfiguration] = field(default_factory=list)
    torch_version: tuple[int, int] | None = None
    """Newest torch release that the project admits; None where nothing bounds it from above."""

    def extend(self, other: Project) -> None:
        """Take over the records of another entry point."""
        for name in _LISTS:
            getattr(self, name).extend(getattr(other, name))

    def first_step_loops(self) -> Iterator[StepLoop]:
        """The first step loop of each entry point, by place: where to say once what holds for a script."""
        first: dict[int, StepLoop] = {}
        for loop in sorted(self.step_loops, key=lambda one: (one.site.path, one.site.row)):
            first.setdefault(id(loop.context.entry), loop)
        return iter(first.values())

    def calls_of(self, *names: str) -> Iterator[Call]:
        """The reached calls of any of these canonical names."""
        wanted = frozenset(names)
        return (call for call in self.calls if call.name in wanted)

    def uses_of(self, *names: str) -> Iterable[NameUse]:
        """The mentions of any of these library names."""
        wanted = frozenset(names)
        return (use for use in self.name_uses if use.name in wanted)


_LISTS = tuple(one.name for one in fields(Project) if one.name != "torch_version")
RECORD_LISTS = tuple(name for name in _LISTS if name != "entries")
"""The fields of a project that list records: expressions with the place where each stands."""
