"""The figures that decide what a measurement means: one place, each with its source.

Shares are of the clean steps' wall time. "ours" marks first guesses of this project, to be revised by measurement; the
numbers 000, 001 and 003 are the articles listed in docs/sources.md.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threshold:
    """A bound, what it decides, and where it comes from; reports print all three."""

    decides: str
    value: float
    unit: str
    source: str

    def __float__(self) -> float:
        return self.value

    @property
    def text(self) -> str:
        """The bound as reports print it: `20 %`, `50 us`."""
        if self.unit == "share":
            return f"{self.value * 100:g} %"
        if self.unit == "B":
            return f"{self.value / (1 << 30):g} GiB"
        return f"{self.value:g} {self.unit}"


DATA_WAIT = Threshold("data bound", 0.20, "share", "ours; signature 000, 001")
HOST_STALL = Threshold("sync bound", 0.10, "share", "ours")
"""Syncs, print, logging, saving and collection together."""
MEMCPY = Threshold("transfer bound", 0.20, "share", "001")
COMMUNICATION_EXPOSED = Threshold("communication bound", 0.15, "share", "001; counting only what is exposed is ours")
COMMUNICATION_RAW = Threshold("communication, overlapped or not", 0.20, "share", "003")
LAUNCH_IDLE = Threshold("launch bound: device idle", 0.30, "share", "ours")
LAUNCH_KERNEL = Threshold("launch bound: median kernel", 50.0, "us", "000")
COMPUTE_BUSY = Threshold("compute bound", 0.85, "share", "001")
LOW_POWER = Threshold("low power, of the limit", 0.60, "share", "ours, on 003 (150 of 300 W)")
MEMORY_HEADROOM = Threshold("memory headroom, peak of the device's memory", 0.50, "share", "ours, on 000 (16 of 40 GB)")
STRAGGLER = Threshold("straggler, own time above the median rank", 0.10, "share", "ours")
CORE_WAIT = Threshold("a busy machine: the training thread waits for a core", 0.05, "share", "ours")
GC_PAUSES = Threshold("garbage collection", 0.03, "share", "ours")
FRAGMENTATION_RATIO = Threshold("fragmentation, reserved to allocated at peak", 1.5, "x", "ours")
FRAGMENTATION_GAP = Threshold("fragmentation, reserved above allocated", float(1 << 30), "B", "ours")
EFFECTIVE_TOKENS = Threshold("padding waste, real tokens", 0.70, "share", "ours, on 000 (70 % padding)")
FINDING_COST = Threshold("a finding's cost", 0.02, "share", "ours")
RECOMPILATIONS = Threshold("recompiling, in the clean steps", 1, "times", "ours")
DATA_PASSES = Threshold("passes of all ranks over the data in an epoch", 1.5, "times", "ours, between 1 and 2")
"""Shards give 1, whole copies at least 2."""
REDUCTIONS = Threshold("reductions of all gradients per optimizer step", 1.5, "times", "ours, between 1 and 2")
"""1 with `no_sync`, at least 2 without."""
MEMORY_GAINED = Threshold("memory that steps gain", 512, "B/step", "kMinBlockSize of PyTorch's CUDACachingAllocator")
"""The least that one kept tensor costs on a GPU."""
QUEUE_EMPTY = Threshold("batches not ready: the queue of the workers is empty", 0.10, "share", "ours")
WORKERS_BUSY = Threshold("loader workers that have no room: computing, each", 0.80, "share", "ours")
FEWEST_STEPS = Threshold("regular steps that a diagnosis needs", 5, "steps", "ours")
FEWEST_COMPARED_STEPS = Threshold("regular steps in which ranks are compared", 16, "steps", "ours: 8 can tell, twice")
FEWEST_TRACED_STEPS = Threshold("traced steps that a diagnosis needs", 2, "steps", "ours")
SHORTEST_GPU_SAMPLING = Threshold("sampling of a GPU's state", 5.0, "s", "NVML averages power over one second")
EXACT_WITHIN = Threshold("a figure from stack samples without an interval: known within", 0.15, "share", "ours")
"""That takes 300 independent samples of a line that takes little of the time, and fewer of one that takes much."""
DEVIATIONS = 2.576
"""Standard deviations on either side of 99 % of a normal distribution: how sure intervals and trends are."""
