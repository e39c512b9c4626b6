"""The words in which the analyzer speaks about training code.

Facts, rules, messages and documentation use these and no others; `docs/vocabulary.md` explains them to users.
"""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum


class Frequency(IntEnum):
    """How often a piece of code runs; ordered, so that `>= PER_STEP` reads as "on the hot path"."""

    ONCE = 0
    PER_EPOCH = 1
    PER_N_STEPS = 2
    PER_STEP = 3
    PER_SAMPLE = 4

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", "-")

    @property
    def phrase(self) -> str:
        """How messages say it: "`loss.item()` waits for the GPU at every training step"."""
        return _PHRASES[self]


_PHRASES = {
    Frequency.ONCE: "once",
    Frequency.PER_EPOCH: "once per epoch",
    Frequency.PER_N_STEPS: "every few steps",
    Frequency.PER_STEP: "at every training step",
    Frequency.PER_SAMPLE: "for every sample",
}


class Region(StrEnum):
    """What the surrounding code is there for."""

    SETUP = "setup"
    """Start-up, once-per-epoch and end-of-run code."""
    TRAINING = "training"
    """Inside a step loop, or in code that a framework calls per training step."""
    EVALUATION = "evaluation"
    """Inside a loop over data that never runs a backward pass."""
    DATA = "data"
    """What produces one sample: `__getitem__`, an iterable dataset's `__iter__`, `datasets.map`."""
    COLLATE = "collate"
    """What turns samples into a batch."""


class Known(StrEnum):
    """Three-valued knowledge about an entry point; unknown never fires a default rule."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Place(Enum):
    """Where a value's data lives. A per-step sync is reported for DEVICE values, never for UNKNOWN ones."""

    DEVICE = "device"
    HOST = "host"
    UNKNOWN = "unknown"


class Framework(StrEnum):
    """Who owns the training loop."""

    PYTORCH = "pytorch"
    LIGHTNING = "lightning"
    FABRIC = "fabric"
    ACCELERATE = "accelerate"
    HF_TRAINER = "hf-trainer"
    DEEPSPEED = "deepspeed"
    FSDP = "fsdp"
    IGNITE = "ignite"
    RAY_TRAIN = "ray-train"
    UNKNOWN = "unknown"


class Confidence(IntEnum):
    """HIGH: frequency, value and context are proved; MEDIUM: one is inferred from names; LOW: one is unknown."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2

    @property
    def label(self) -> str:
        return self.name.lower()


class GuardKind(StrEnum):
    """What a condition around code stands for."""

    INTERVAL = "interval"
    """Thins out: `step % log_every == 0`, a time or counter test."""
    PAUSE = "pause"
    """Beside INTERVAL: training pauses there, every so many steps, for an evaluation or a checkpoint."""
    RANK = "rank"
    """Leaves one rank: `rank == 0`, `is_main_process`."""
    OTHER_RANKS = "other-ranks"
    """Holds on the ranks that a rank guard leaves out: `rank != 0`."""
    FIRST = "first"
    """Holds for one step or one epoch only: `step == 0`, `batch_idx == len(loader) - 1`."""
    ACCUMULATION = "accumulation"
    """A gradient accumulation test, `% accum_steps == 0`; its default may be 1, so it does not thin out."""
    SINGLE = "single"
    """Holds where nothing is accumulated: `accum_steps == 1`."""
    DEVICE = "device"
    """`torch.cuda.is_available()`, `use_cuda`, `device.type == "cuda"`."""
    NOT_DEVICE = "not-device"
    """Code for a CPU, or for an accelerator that torch reaches by XLA: the other branch of a device test, `use_tpu`."""
    DISTRIBUTED = "distributed"
    """`args.distributed`, `world_size > 1`, `dist.is_initialized()`."""
    NOT_DISTRIBUTED = "not-distributed"
    EXCEPTIONAL = "exceptional"
    """An except block, or a branch that ends the loop or the process."""
    DEBUG = "debug"
    """`if debug:`, `if args.profile:`."""
    EVALUATION = "evaluation"
    """`if not self.training:`, `if phase == "val":`."""
    TRAINING = "training"
    """`if self.training:`, `if phase == "train":`."""
    DATA = "data"
    """A condition on values that the step computes, such as `loss > worst`: nobody can tell how often it holds."""
    OFF = "off"
    """A switch that the program text sets to False: `verbose=False`, with no caller that says otherwise."""
    FLAG = "flag"
    """Any other condition; it does not thin out."""


class GradMode(Enum):
    """Whether autograd records."""

    ENABLED = "enabled"
    DISABLED = "disabled"
    """Under `no_grad`, `inference_mode` or `set_grad_enabled(False)`, set by whatever file."""
    UNKNOWN = "unknown"
