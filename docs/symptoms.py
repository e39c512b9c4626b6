"""What a slow run looks like, how the probe shows it, and which rules are about it: the tables of the page "Why is my
GPU idle?", which `build_pages.py` writes.

Each rule stands under the symptoms that it can cause; tests/docs/test_symptoms.py holds that none is left out, and that
what a symptom quotes is printed.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainlint.probe import thresholds
from trainlint.probe.thresholds import Threshold


@dataclass(frozen=True)
class Symptom:
    """One section of the page."""

    title: str
    looks: str
    """What is seen from outside: in nvidia-smi, in top, in the log."""
    prints: str
    """What the probe's report says; what stands in backticks stands so in the report."""
    means: str
    """What is likely, and what to do first."""
    rules: tuple[str, ...]
    """Codes, those that are most often the reason first."""
    sources: tuple[str, ...]
    """Numbers of the articles in docs/sources.md; empty where none speaks about it."""
    bounds: tuple[Threshold, ...] = ()
    """What the probe goes by."""


def _codes(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SYMPTOMS = (
    Symptom(
        title="Low utilization, with long gaps",
        looks=(
            "GPU-Util is low and jumps between 0 and 100 %, while the processor works. Memory may be full all the "
            "same: it says nothing about work."
        ),
        prints=(
            "`Bottleneck:` data. `data wait` is a large part of the step, and the loader's line says `queue found "
            "empty`. The dearest lines are those of the dataset."
        ),
        means=(
            "The step waits for its data. Supply data before anything else is tuned: workers first, then less work "
            "per item, such as texts tokenized once and ahead of training."
        ),
        rules=_codes("TL901 TL103 TL121 TL101 TL102 TL222 TL111 TL112 TL110 TL117 TL118 TL119 TL106 TL105 TL114"),
        sources=("000", "001", "003"),
        bounds=(thresholds.DATA_WAIT, thresholds.QUEUE_EMPTY),
    ),
    Symptom(
        title="The processor at 100 %",
        looks="All cores are busy, or one is, and the GPU is not.",
        prints=(
            "`all cores busy` or `busiest core` is near 100 %. With one busy core, look whether `workers` is 0: then "
            "the training thread prepares the batches. With all of them busy, more workers make it slower."
        ),
        means=(
            "Either one thread does everything, or more processes compute than there are cores. Work per item that "
            "need not be repeated is the first thing to go."
        ),
        rules=_codes("TL107 TL103 TL121 TL101 TL102 TL222 TL117 TL110 TL111 TL112 TL119 TL114 TL902"),
        sources=("000", "001", "003"),
        bounds=(thresholds.WORKERS_BUSY, thresholds.CORE_WAIT),
    ),
    Symptom(
        title="Many short stalls within the step",
        looks="GPU-Util is middling and never rests at 0; nothing on the machine is saturated.",
        prints=(
            "`Bottleneck:` sync. `host stalls` is a large part of the step, and the dearest lines read a value, "
            "print, log or save."
        ),
        means=(
            "The host waits for the GPU in the middle of the step, so that nothing is queued when the GPU is done. "
            "Keep values on the GPU, and read, print and log every so many steps, on one rank."
        ),
        rules=_codes(
            "TL201 TL204 TL205 TL202 TL203 TL208 TL215 TL206 TL213 TL212 TL207 TL415 TL417 TL115 TL402 TL910 TL911 "
            "TL221"
        ),
        sources=("000",),
        bounds=(thresholds.HOST_STALL, thresholds.FINDING_COST),
    ),
    Symptom(
        title="High utilization, and still slow",
        looks=(
            "GPU-Util is near 100 %, and the card draws far less power than it may: 150 of 300 W, say. GPU-Util is "
            "the share of time in which at least one kernel ran, however little of the GPU that took."
        ),
        prints=(
            "`power` stands well below the limit beside a high `GPU-Util`. The work of the device: many `kernels` per "
            "step with a short `median`. `Bottleneck:` launch where the device waits between them."
        ),
        means=(
            "Either the kernels are so small that launching them takes longer than they do (one of 500 µs hides 50 µs "
            "of launch work, one of 50 µs does not), or they compute in a format that leaves the fast units unused."
        ),
        rules=_codes("TL907 TL902 TL219 TL401 TL406 TL412 TL413 TL408 TL409 TL416 TL411 TL211 TL312 TL502 TL501"),
        sources=("000", "001", "003"),
        bounds=(thresholds.LOW_POWER, thresholds.LAUNCH_IDLE, thresholds.LAUNCH_KERNEL),
    ),
    Symptom(
        title="Slow everywhere, since some change",
        looks="All steps take longer than they did, and no part of them stands out.",
        prints=(
            "`--compare` with the result of an earlier run names what became slower. Debugging aids, profilers and "
            "copies that somebody made synchronous slow down every kernel alike."
        ),
        means="Something that is there to find mistakes was left on.",
        rules=_codes("TL407 TL414 TL308 TL205"),
        sources=("003",),
    ),
    Symptom(
        title="Copies take much of the step",
        looks="GPU-Util is middling, and the PCIe bus is busy.",
        prints=(
            "`Bottleneck:` transfer. `copies between host and device` take much of the traced steps; `PCIe in` is high."
        ),
        means=(
            "Pin the loader's memory and copy without waiting; make on the GPU what need not come from the host; move "
            "once what does not change."
        ),
        rules=_codes("TL904 TL104 TL108 TL209 TL208 TL217 TL115 TL415 TL417 TL501 TL307"),
        sources=("000", "001"),
        bounds=(thresholds.MEMCPY,),
    ),
    Symptom(
        title="A sawtooth: good, then nothing, then good again",
        looks="GPU-Util drops to 0 at regular intervals: at each epoch, each hundred steps, each evaluation.",
        prints=(
            "`evaluation` stands beside the shares, and the `90th percentile` is far above the `median`. Among the "
            "dearest lines are those that evaluate or save."
        ),
        means=(
            "At each epoch: workers are started anew. Every so many steps: evaluation, saving or garbage collection "
            "stops the step; on several ranks, the others wait for the one that does it."
        ),
        rules=_codes("TL105 TL106 TL913 TL216 TL212 TL310 TL207 TL911 TL123"),
        sources=("000", "001", "003"),
        bounds=(thresholds.GC_PAUSES,),
    ),
    Symptom(
        title="The time of a step varies",
        looks="Some steps take several times as long as others, without a rhythm.",
        prints=(
            "The `90th percentile` is far above the `median`. `Code was compiled` after the warm-up, or `Garbage "
            "collection takes` its part of the step."
        ),
        means=(
            "Shapes change from step to step, so that code is compiled or memory is asked for again; or the collector "
            "runs; or the data does not come evenly."
        ),
        rules=_codes("TL908 TL411 TL123 TL215 TL113 TL206 TL503 TL911 TL207 TL118"),
        sources=("000",),
        bounds=(thresholds.RECOMPILATIONS, thresholds.GC_PAUSES),
    ),
    Symptom(
        title="The first steps are slow",
        looks="The run takes long to get going, or each epoch does.",
        prints=(
            "The probe leaves the warm-up out of all figures: give `--warmup` fewer steps to see it. Later on, `Code "
            "was compiled` says that it never ended."
        ),
        means=(
            "Compiling, choosing algorithms and starting workers cost once. They should do so once: not at every "
            "step, and not at every epoch."
        ),
        rules=_codes("TL410 TL105 TL106 TL408 TL908 TL123"),
        sources=("000", "003"),
        bounds=(thresholds.RECOMPILATIONS,),
    ),
    Symptom(
        title="One rank is late",
        looks="All GPUs but one are at 100 %, or all stop at the same time: those at 100 % may only be waiting.",
        prints=(
            "The table of ranks: one has more time `without waiting for others` than the rest, or more `data wait`. "
            "`The other ranks wait` names one that evaluates or saves."
        ),
        means=(
            "Work that one rank does alone, data that is not evenly shared, or a card that is throttled. Ranks that "
            "wait show as communication."
        ),
        rules=_codes("TL906 TL913 TL214 TL314 TL213"),
        sources=("000", "003"),
        bounds=(thresholds.STRAGGLER,),
    ),
    Symptom(
        title="Several GPUs are hardly faster than one",
        looks="GPU-Util falls off a cliff, on all GPUs at once, in each step.",
        prints=(
            "`Bottleneck:` communication. `NCCL` takes much of the traced steps, and `nothing hides` much of it; "
            "`communication that nothing hides` stands beside the shares."
        ),
        means=(
            "Data and computing come first: a GPU that waits for data waits in a collective as well. Then reduce once "
            "for each update, over NCCL, overlapped with the backward pass."
        ),
        rules=_codes("TL903 TL301 TL305 TL304 TL312 TL313 TL307 TL306 TL214 TL314 TL315 TL308"),
        sources=("000", "001", "003"),
        bounds=(thresholds.COMMUNICATION_EXPOSED, thresholds.COMMUNICATION_RAW, thresholds.REDUCTIONS),
    ),
    Symptom(
        title="Memory is nearly full, or grows",
        looks="The batch cannot be made larger, or a run ends out of memory after hours.",
        prints=(
            "`peak memory` of the GPU is near all that it has; `are reserved at the peak` tells how much of it the "
            "allocator keeps for nothing; a finding about a kept graph gives the `memory gained` in a step."
        ),
        means=(
            "Something keeps tensors, or their graphs, from step to step; evaluation records gradients; or several "
            "processes use the same GPU. Memory of the host grows with what each worker holds."
        ),
        rules=_codes("TL210 TL216 TL218 TL220 TL912 TL503 TL409 TL306 TL602 TL502 TL211 TL312 TL122"),
        sources=("000", "003"),
        bounds=(thresholds.FRAGMENTATION_RATIO, thresholds.FRAGMENTATION_GAP, thresholds.MEMORY_GAINED),
    ),
    Symptom(
        title="Half of the memory is unused",
        looks="Utilization is low, and so is memory in use.",
        prints="`uses` much less memory `at its peak` than the GPU has, while `device busy` is low.",
        means=(
            "Double the batch: where a step then takes 30 % longer, that is a win; where it takes twice as long, the "
            "GPU was bound already. What saves memory at the price of time is not needed then."
        ),
        rules=_codes("TL905 TL501"),
        sources=("000",),
        bounds=(thresholds.MEMORY_HEADROOM, thresholds.COMPUTE_BUSY),
    ),
    Symptom(
        title="The GPU is busy, and little gets done",
        looks="GPU-Util and power are high; samples or tokens per second are not.",
        prints=(
            "`effective tokens (without padding)` are far fewer than all; `of the tokens are real` gives the share. "
            "Ranks that train on the same data do each other's work."
        ),
        means=(
            "Most of the work is padding, or is done twice. Judge a run by effective throughput, not by utilization."
        ),
        rules=_codes("TL909 TL113 TL302 TL120"),
        sources=("000", "003"),
        bounds=(thresholds.EFFECTIVE_TOKENS, thresholds.DATA_PASSES),
    ),
    Symptom(
        title="It hangs, fails, or learns something else",
        looks=(
            "The job waits for ever, ends with an error, cannot go on from its checkpoint, or is fast and does not "
            "learn. Look here before tuning anything."
        ),
        prints=(
            "The report tells times, not results. Where ranks all go through all of the data, a finding about the "
            "sampler is `confirmed` by the passes over it."
        ),
        means=(
            "What is wrong need not be slow. These rules are about the result of training, or about whether it goes on."
        ),
        rules=_codes(
            "TL309 TL311 TL302 TL303 TL120 TL109 TL116 TL403 TL402 TL404 TL418 TL405 TL316 TL310 TL601 TL602 TL603"
        ),
        sources=("000", "001", "003"),
        bounds=(thresholds.DATA_PASSES,),
    ),
)
"""In the order in which to look: data, then the step, then computing, then communication, then memory."""
