"""Where code stands, and when and why it runs: what every record of the project, and every finding, is tied to.

Kept apart from the records themselves so that a run that finds all answers in the cache need not import those.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from trainlint.semantics.duties import TAKEN_CARE_OF, Duty
from trainlint.semantics.immutable import immutable
from trainlint.semantics.vocabulary import Confidence, Framework, Frequency, GradMode, GuardKind, Known, Region

_CONVERTS = re.compile(
    r"(^|[._])(convert|data_?prep|pre_?tokenize|prepare_data|to_(mds|arrow|tfrecords?|parquet))(?![a-z])"
)
"""In names of files: what makes data for training once, ahead of it."""
_EVALUATES = re.compile(r"(^|[._])(evals?|evaluat(e|ion|or)s?)(?=[._])")
"""In names of files and folders: what looks at models that were trained before."""


@immutable
class Site:
    """A place in a file. Rows start at 1; columns start at 0 and count UTF-8 bytes; the end is exclusive."""

    path: Path
    row: int
    column: int
    end_row: int
    end_column: int
    symbol: str
    """Qualified name of the enclosing function or class within its module; empty at module level."""
    cell: int | None = None
    """Number of a notebook's cell, from 1, that the rows count in. The analysis counts in the notebook's program, and
    leaves this None; reports tell the cell."""

    @property
    def function(self) -> tuple[Path, str]:
        """What it stands in: the file, and the function or class in it."""
        return self.path, self.symbol

    @property
    def place(self) -> str:
        """The row, as text after the file's name: `12`, in a notebook's cell `cell 3:12`."""
        return f"{self.row}" if self.cell is None else f"cell {self.cell}:{self.row}"


@immutable
class Interval:
    """`(step + 1) % args.log_every == 0`: a counter that is held against a name."""

    counter: str
    from_one: bool
    """Whether one is added to the counter."""
    every: str
    """The dotted name of what says how often."""

    @property
    def text(self) -> str:
        counted = f"({self.counter} + 1)" if self.from_one else self.counter
        return f"{counted} % {self.every} == 0"


@immutable
class Asked:
    """What a condition asks about, whatever it stands for."""

    words: frozenset[str] = frozenset()
    """The identifiers in it, and the texts that it holds them against."""
    module_mode: bool = False
    """Whether it asks a module for the mode that `train()` and `eval()` put it into: `if not self.training:`."""
    settings: bool = False
    """Whether it begins with a setting of the job, `args.save`, which is the same on all ranks."""
    ranks_of_all: bool = False
    """Of a condition on the rank: whether it surely holds on some processes of the job and not on others."""

    interval: Interval | None = None
    """The interval that it is, if it is nothing else."""

    def mentions(self, pattern: re.Pattern[str]) -> bool:
        """Whether one of the words in it matches."""
        return any(pattern.search(word) for word in self.words)


@immutable
class Guard:
    """A condition that code stands under, in its own function or in a caller."""

    kind: GuardKind
    text: str
    """As messages quote it, cut short."""
    in_step: bool = False
    """Whether it stands inside the step loop, or that of an evaluation: it decides per step rather than once."""
    asked: Asked = Asked()
    """What it asks about. A guard that comes from the cache has forgotten that."""


@dataclass(eq=False, slots=True)
class Entry:
    """An entry point and what holds for its import closure."""

    path: Path
    name: str
    framework: Framework = Framework.PYTORCH
    distributed: Known = Known.UNKNOWN
    cuda: Known = Known.UNKNOWN
    never_on_gpu: bool = False
    """Whether no GPU is used for certain, so that no call can wait for one: the configuration says so, or all that is
    trained lives on the host."""
    stays_on_cpu: bool = False
    """Whether the framework that owns the loop was told to leave models and batches on the CPU."""
    trains: bool = False
    """Whether a step loop, or a framework's training call, was reached."""
    rank_aware_print: bool = False
    """Whether `print` is replaced on all ranks but one."""
    silent_loggers: bool = False
    """Whether loggers are configured to be quiet on all ranks but one."""
    sets_epoch: bool = False
    """Whether `set_epoch` is called by any route."""
    disables_sync: bool = False
    """Whether gradient reduction is switched off for micro-batches: `no_sync` or one of its idioms."""
    resumes: bool = False
    """Whether a checkpoint is read back: `torch.load` feeding `load_state_dict`."""
    autocast: bool = False
    """Whether an autocast is met, switched on or not."""
    autocast_runs: bool = False
    """Whether one is met that is not switched off, neither for good nor by the default of an option."""
    names_only_switches: bool = False
    """Whether all that names half precision in the import closure are autocast, a scaler and switches for them."""
    names_convolutions: bool = False
    """Whether anything in the import closure names a convolution of torch."""
    normalizes_batches: bool = False
    """Whether a model that is made has batch normalization, which nothing synchronizes or freezes by name."""
    names_half: bool = False
    """Whether anything in the import closure names a precision below float32, or a switch for one; also where models
    come with a precision of their own."""
    names_tf32: bool = False
    """Whether anything in the import closure says what float32 matrix products may be computed in."""
    names_double: bool = False
    """Whether anything in the import closure names float64."""
    chooses_device: bool = False
    """Whether something may tell each process which GPU is its own, so that CUDA without a number means that one:
    `torch.cuda.set_device`, a device mesh, CUDA_VISIBLE_DEVICES, a cluster's launcher."""
    data_parallel: Known = Known.UNKNOWN
    """Whether each rank trains on a share of the data and gradients are averaged: DDP, FSDP, DeepSpeed, by hand."""
    reads_zero_gradients: bool = False
    """Whether a `.grad` is read, or written in place, where only `zero_grad` has touched it since the last step, so
    that it must hold zeros rather than be None."""
    wants_fixed_shapes: bool = False
    """Whether batches of one shape pay: `torch.compile` without `dynamic=True`, CUDA graphs, XLA (TPU)."""
    captures_scalars: bool = False
    """Whether `torch.compile` is told to keep reads of numbers in its graphs."""
    captures_shapes: bool = False
    """Whether `torch.compile` is told to keep results in its graphs whose size depends on values."""
    chooses_start_method: bool = False
    """Whether the program says how processes start, so that workers may not be forked."""
    resets_learning_rate: bool = False
    """Whether the learning rate may be decided by something else than what optimizers are made with: by the program,
    which writes it into parameter groups, or by a schedule that is not one of torch's with a form of its own."""
    divides_by_ranks: bool = False
    """Whether a number of the host is divided by the number of processes or GPUs, as what they share is."""
    starts_processes: bool = False
    """Whether anything in the import closure names a way to start further processes, which get the environment as it is
    then; the workers of loaders do not count."""
    conditional_forwards: tuple[Known, ...] = ()
    """Of each model that a framework is given to train: whether its forward leaves out some of its submodules."""

    leaves_samplers: bool = False
    """Whether the framework that owns the loop was told to leave samplers alone: `use_distributed_sampler=False`."""

    @property
    def on_its_own(self) -> bool:
        """Whether no framework takes care of anything: loop, batches and learning rate are the script's."""
        return not TAKEN_CARE_OF[self.framework]

    def spared(self, duty: Duty) -> bool:
        """Whether the framework that owns the loop does this, so that the script need not."""
        return is_spared(self, self.framework, duty)

    @property
    def computes_in_float32(self) -> bool:
        """Whether the script owns its loop on CUDA, and nothing that it imports speaks of another precision."""
        return self._may_compute_in_float32 and not self.names_half

    @property
    def leaves_autocast_off(self) -> bool:
        """Likewise, but for autocast, which the script has and leaves switched off by default."""
        switched_off = self.autocast and not self.autocast_runs and self.names_only_switches
        return self._may_compute_in_float32 and switched_off

    @property
    def _may_compute_in_float32(self) -> bool:
        on_cuda = self.cuda is Known.YES and not self.never_on_gpu
        return on_cuda and self.framework is Framework.PYTORCH and not (self.names_tf32 or self.names_double)


def is_spared(entry: Entry, framework: Framework | None, duty: Duty) -> bool:
    """Whether a framework does this in the set-up of an entry point."""
    by_hand = entry.leaves_samplers and duty in (Duty.SPLIT_DATA, Duty.SPLIT_PREPARED)
    return framework is not None and duty in TAKEN_CARE_OF[framework] and not by_hand


@immutable
class Context:
    """When, where and under which conditions an expression runs."""

    frequency: Frequency
    region: Region
    loop: Site | None
    """The step loop that makes it hot, or the innermost loop around it."""
    path: tuple[str, ...]
    """Call path from the entry point, as `module.function` names."""
    guards: tuple[Guard, ...]
    grad: GradMode
    entry: Entry
    confidence: Confidence = Confidence.HIGH
    """How well frequency and region are known; MEDIUM where a caller had to be assumed, LOW where a condition on
    values that the step computes decides how often it runs, `if loss.item() > worst:`, or where a forward that nobody
    is seen to call may be no part of training."""
    for_each_item: bool = False
    """Whether it runs for each item of a dataset, or each batch that is collated, rather than once in a pass of an
    `__iter__` over all items."""
    forked: Known = Known.UNKNOWN
    """Whether it runs in workers that a loader forks: a dataset's items, a collate function, a `worker_init_fn`."""
    compiled: bool = False
    """Whether `torch.compile` traces the function or the model that it stands in."""
    counter: str = ""
    """Name, visible at the expression, that counts the steps of `loop`: `i` of `for i, batch in enumerate(loader)`,
    or a variable that each step raises by one. Empty where there is none."""

    @property
    def uncalled(self) -> bool:
        """Whether it runs in a function that nothing in the project calls, or uses as a dataset."""
        return len(self.path) == 1 and self.frequency is not Frequency.ONCE

    def is_uncalled(self, symbol: str) -> bool:
        """Whether it runs in the function or class of this qualified name, which nothing in the project calls."""
        return bool(symbol) and len(self.path) == 1 and self.path[0].endswith(f".{symbol}")

    @property
    def served(self) -> Confidence:
        """How sure it is that training waits for what this code makes of a dataset: a dataset that nothing in sight
        uses is there for some training; one that a program uses without training, or that stands in a file that
        converts data or evaluates models, is not."""
        if _EVALUATES.search(self.path[0]):
            return Confidence.LOW
        if self.entry.trains:
            return Confidence.HIGH
        unused = self.uncalled and _CONVERTS.search(self.path[0]) is None
        return Confidence.MEDIUM if unused else Confidence.LOW

    @property
    def hot(self) -> bool:
        """On the hot path: per step or more often, in training."""
        return self.frequency >= Frequency.PER_STEP and self.region is Region.TRAINING

    @property
    def concerns_training(self) -> bool:
        """Whether it is code of a program that trains, and not of its evaluation."""
        return self.entry.trains and self.region is not Region.EVALUATION

    def under(self, *kinds: GuardKind) -> bool:
        """Whether a guard of one of these kinds stands around it."""
        return any(guard.kind in kinds for guard in self.guards)

    @property
    def on_request(self) -> bool:
        """Whether it runs only where whoever starts the job asked for it, or something has gone wrong."""
        return self.under(GuardKind.FLAG, GuardKind.OFF, GuardKind.DEBUG, GuardKind.EXCEPTIONAL)

    @property
    def may_use_gpu(self) -> bool:
        """Whether a GPU may be there to wait for: no CPU for certain, by the entry point or by a test of the device."""
        return not self.entry.never_on_gpu and not self.under(GuardKind.NOT_DEVICE)

    @property
    def routine(self) -> bool:
        """Whether ordinary steps get there: no error path, no debug flag, no test for one step only."""
        return not any(
            guard.kind is GuardKind.DEBUG or (guard.in_step and guard.kind in (GuardKind.EXCEPTIONAL, GuardKind.FIRST))
            for guard in self.guards
        )

    @property
    def phrase(self) -> str:
        """How messages say how often it runs: "`print(x)` writes a line at every training step"."""
        return "at every step of evaluation" if self._evaluates else self.frequency.phrase

    @property
    def _evaluates(self) -> bool:
        return self.region is Region.EVALUATION and self.frequency is Frequency.PER_STEP

    @property
    def why(self) -> str:
        """Why it runs as often as it does, for the reader: the loop and the calls that lead to it."""
        words = {
            Frequency.PER_STEP: "runs at every training step",
            Frequency.PER_SAMPLE: "runs for every sample",
            Frequency.PER_N_STEPS: "runs every few steps",
            Frequency.PER_EPOCH: "runs once per epoch",
            Frequency.ONCE: "runs once",
        }
        text = "runs at every evaluation step" if self._evaluates else words[self.frequency]
        if self.loop is not None:
            text += f" of the loop at {self.loop.path.name}:{self.loop.place}"
        if len(self.path) > 1:
            text += f", reached by {' > '.join(self.path)}"
        return text
