"""How measured facts confirm a finding, clear it, or leave it open: one rule for each kind of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from trainlint.lint.finding import Finding, RelatedSite, Severity
from trainlint.lint.registry import load_registry
from trainlint.probe.evidence import (
    Copies,
    EpochStarts,
    Evidence,
    Line,
    LoaderEvidence,
    MemoryPeak,
    Memsets,
    RankEvidence,
    StackSamples,
    SyncCount,
    TimedCalls,
)
from trainlint.probe.verdict import Status, Verdict
from trainlint.semantics.context import Site
from trainlint.semantics.vocabulary import Confidence

PATH = Path("/project/train.py")
FLAGGED = Site(PATH, 12, 8, 13, 20, "train")
"""The flagged expression, on two rows."""
LOOP = Site(PATH, 10, 4, 10, 30, "train")
"""The loop that set-up code is about."""

STEP_S = 0.1
CONFIRMED, REFUTED = Status.CONFIRMED, Status.REFUTED
NOT_EXERCISED, INCONCLUSIVE = Status.NOT_EXERCISED, Status.INCONCLUSIVE


@dataclass(frozen=True)
class Case:
    """What was measured, and the verdict that the rule `code` draws from it for the finding at `FLAGGED`."""

    code: str
    behaviour: str
    evidence: Evidence
    status: Status
    message: str = "the finding"


def measured(**facts: object) -> Evidence:
    """Evidence of 50 steps of 100 ms on a GPU."""
    return Evidence(step_s=STEP_S, steps=50, accelerator=True, **facts)  # type: ignore[arg-type]


def rank(number: int, **facts: object) -> RankEvidence:
    return RankEvidence(number, **facts)  # type: ignore[arg-type]


def sampled(*digests: str, row: int = 10) -> tuple[EpochStarts, ...]:
    """Epochs of a loader with a distributed sampler, in the loop on `row`."""
    return (EpochStarts(digests, distributed_sampler=True, line=Line(PATH, row)),)


FIRST, SECOND = Line(PATH, 12), Line(PATH, 13)
DID_NOT_RUN = {FIRST: False, SECOND: False}
RAN = {FIRST: True}
LOOP_DID_NOT_RUN = {Line(PATH, 10): False}

STACK_SAMPLES = (
    Case(
        "TL119",
        "transforms in workers that the step waits for are confirmed",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}, loaders=(LoaderEvidence(0.4, 4),)),
        CONFIRMED,
    ),
    Case(
        "TL119",
        "transforms that a library calls are open where the step waits for data",
        measured(ran=DID_NOT_RUN, loaders=(LoaderEvidence(0.4, 4),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL119",
        "transforms that a library calls are cleared where the step does not wait for data",
        measured(ran=DID_NOT_RUN, loaders=(LoaderEvidence(0.001, 4),)),
        REFUTED,
    ),
    Case(
        "TL119",
        "transforms that a library calls are open where no loader was seen",
        measured(ran=DID_NOT_RUN),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "tokenizing in workers that the step waits for is confirmed",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}, loaders=(LoaderEvidence(0.4, 4),)),
        CONFIRMED,
    ),
    Case(
        "TL101",
        "tokenizing in workers that keep up with the step is cleared",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}, loaders=(LoaderEvidence(0.0, 4),)),
        REFUTED,
    ),
    Case(
        "TL101",
        "tokenizing that takes 1 % of the step from each worker is cleared, however long the step waits for data",
        measured(stacks={FIRST: StackSamples(0.004, 30, True)}, loaders=(LoaderEvidence(0.4, 4),)),
        REFUTED,
    ),
    Case(
        "TL101",
        "tokenizing in the training process costs the step what it takes",
        measured(stacks={FIRST: StackSamples(0.03, 300, False)}, loaders=(LoaderEvidence(0.3, 0),)),
        CONFIRMED,
    ),
    Case(
        "TL101",
        "an interval that the threshold lies in tells nothing",
        measured(stacks={FIRST: StackSamples(0.003, 3, False, (0.001, 0.01))}),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "an interval below the threshold clears",
        measured(stacks={FIRST: StackSamples(0.0005, 3, False, (0.0001, 0.0015))}),
        REFUTED,
    ),
    Case(
        "TL101",
        "workers that the step does not wait for are cleared, however few the samples",
        measured(stacks={FIRST: StackSamples(0.05, 9, True, (0.01, 0.09))}, loaders=(LoaderEvidence(0.001, 2),)),
        REFUTED,
    ),
    Case(
        "TL101",
        "workers, and no telling how long the step waits for them",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "time of workers beside time of the training process costs the step no more than a worker's part",
        measured(
            stacks={FIRST: StackSamples(0.0005, 300, False), SECOND: StackSamples(0.004, 300, True)},
            loaders=(LoaderEvidence(0.4, 4),),
        ),
        REFUTED,
    ),
    Case(
        "TL101",
        "time of workers and of the training process add up",
        measured(
            stacks={FIRST: StackSamples(0.0015, 300, False), SECOND: StackSamples(0.004, 300, True)},
            loaders=(LoaderEvidence(0.4, 4),),
        ),
        CONFIRMED,
    ),
    Case(
        "TL101",
        "workers of one of two loaders, of which only the lesser makes the step wait",
        measured(
            stacks={FIRST: StackSamples(0.05, 400, True)},
            loaders=(LoaderEvidence(0.0, 4), LoaderEvidence(0.4, 4)),
        ),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "tokenizing in a worker that has batches ready is cleared, however long their hand-over takes",
        measured(
            stacks={FIRST: StackSamples(0.05, 400, True)},
            loaders=(LoaderEvidence(0.3, 1, starved_share=0.01, workers_busy=0.5),),
        ),
        REFUTED,
    ),
    Case(
        "TL101",
        "a worker that computes all the time does not get to hand over what it counts as ready",
        measured(
            stacks={FIRST: StackSamples(0.05, 400, True)},
            loaders=(LoaderEvidence(0.3, 1, starved_share=0.01, workers_busy=0.98),),
        ),
        CONFIRMED,
    ),
    Case(
        "TL101",
        "whether a worker that has batches ready is busy is not known",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}, loaders=(LoaderEvidence(0.3, 1, starved_share=0.01),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "of two workers one may have batches ready that are due after a slow one of the other",
        measured(stacks={FIRST: StackSamples(0.05, 400, True)}, loaders=(LoaderEvidence(0.3, 2, starved_share=0.01),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "a wait for workers from which other work took the cores tells nothing",
        measured(
            stacks={FIRST: StackSamples(0.05, 400, True)},
            loaders=(LoaderEvidence(0.3, 1, starved_share=0.3, explained_wait=0.29),),
        ),
        INCONCLUSIVE,
    ),
    Case(
        "TL101",
        "more of the wait than other work can have caused is the workers'",
        measured(
            stacks={FIRST: StackSamples(0.05, 400, True)},
            loaders=(LoaderEvidence(0.3, 1, starved_share=0.3, explained_wait=0.2),),
        ),
        CONFIRMED,
    ),
    Case("TL101", "a line that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL101", "absence from the samples proves nothing", measured(), INCONCLUSIVE),
    Case(
        "TL314",
        "ranks that wait for each other at a reduction per step are confirmed",
        measured(stacks={FIRST: StackSamples(0.01, 100, False)}),
        CONFIRMED,
    ),
    Case(
        "TL314",
        "a reduction that takes next to nothing is cleared",
        measured(stacks={FIRST: StackSamples(0.0005, 5, False)}),
        REFUTED,
    ),
)

TIMED_CALLS = (
    Case(
        "TL202",
        "one long print of a few, while other work took cores from the job",
        measured(calls={FIRST: TimedCalls(0.1, 0.003, 0.002)}, disturbed_share=0.3),
        INCONCLUSIVE,
    ),
    Case(
        "TL202",
        "one long print of a few on a machine of its own",
        measured(calls={FIRST: TimedCalls(0.1, 0.003, 0.002)}, disturbed_share=0.01),
        CONFIRMED,
    ),
    Case(
        "TL202",
        "a few long prints of many, while other work took cores from the job",
        measured(calls={FIRST: TimedCalls(1.0, 0.003, 0.0005, 0.0025)}, disturbed_share=0.3),
        INCONCLUSIVE,
    ),
    Case(
        "TL202",
        "a few long prints of many on a machine of its own",
        measured(calls={FIRST: TimedCalls(1.0, 0.003, 0.0005, 0.0025)}, disturbed_share=0.01),
        CONFIRMED,
    ),
    Case(
        "TL202",
        "prints that cost enough without the longest, while other work took cores from the job",
        measured(calls={FIRST: TimedCalls(1.0, 0.003, 0.0005)}, disturbed_share=0.3),
        CONFIRMED,
    ),
    Case("TL202", "a print that takes 3 % of the step", measured(calls={FIRST: TimedCalls(1.0, 0.003)}), CONFIRMED),
    Case(
        "TL202",
        "the calls of all rows of the expression add up",
        measured(calls={FIRST: TimedCalls(1.0, 0.0012), SECOND: TimedCalls(1.0, 0.0012)}),
        CONFIRMED,
    ),
    Case("TL202", "a print that takes 0.1 % of the step", measured(calls={FIRST: TimedCalls(1.0, 1e-4)}), REFUTED),
    Case("TL202", "a print that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL202", "a print that ran and was not timed", measured(ran=RAN), INCONCLUSIVE),
)

SYNC_COUNTS = (
    Case("TL201", "a read that waits 20 % of the step", measured(syncs={FIRST: SyncCount(1.0, 0.02)}), CONFIRMED),
    Case("TL201", "a read that hardly waits", measured(syncs={FIRST: SyncCount(1.0, 2e-4)}), REFUTED),
    Case("TL201", "a read that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case(
        "TL201",
        "without an accelerator there is nothing to wait for, and nothing is cleared",
        Evidence(STEP_S, 50, accelerator=False, syncs={FIRST: SyncCount(1.0, None)}),
        INCONCLUSIVE,
    ),
)

COPIES = (
    Case(
        "TL209",
        "copies that take 5 % of the step",
        measured(copies={FIRST: Copies(1, 0.005, pageable=True)}),
        CONFIRMED,
    ),
    Case(
        "TL209", "copies that take 0.1 % of the step", measured(copies={FIRST: Copies(1, 1e-4, pageable=True)}), REFUTED
    ),
    Case("TL209", "a factory that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL209", "a factory that ran without a GPU trace", measured(ran=RAN), INCONCLUSIVE),
)

MEMSETS = (
    Case("TL211", "fills that take 4 % of the step", measured(memsets={FIRST: Memsets(200, 0.004)}), CONFIRMED),
    Case("TL211", "fills that take 0.1 % of the step", measured(memsets={FIRST: Memsets(10, 1e-4)}), REFUTED),
    Case("TL211", "a zero_grad that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL211", "a zero_grad that ran without a GPU trace", measured(ran=RAN), INCONCLUSIVE),
)

MEMORY_SLOPE = (
    Case("TL210", "memory that grows with each step", measured(ran=RAN, memory_slope_bytes_per_step=4096.0), CONFIRMED),
    Case("TL210", "memory that stays", measured(ran=RAN, memory_slope_bytes_per_step=0.0), REFUTED),
    Case("TL210", "a sum that did not run", measured(ran=DID_NOT_RUN, memory_slope_bytes_per_step=9.0), NOT_EXERCISED),
    Case(
        "TL210",
        "memory that grows, and a line that may not have run",
        measured(memory_slope_bytes_per_step=4096.0),
        INCONCLUSIVE,
    ),
    Case(
        "TL210",
        "memory that stays, and a line that may not have run",
        measured(memory_slope_bytes_per_step=0.0),
        INCONCLUSIVE,
    ),
    Case("TL210", "memory that was not measured", measured(ran=RAN), INCONCLUSIVE),
)

GIB = float(1 << 30)
FRAGMENTATION = (
    Case("TL503", "memory that lies broken up", measured(memory_peak=MemoryPeak(10 * GIB, 18 * GIB)), CONFIRMED),
    Case("TL503", "memory that is in use", measured(memory_peak=MemoryPeak(17 * GIB, 18 * GIB)), REFUTED),
    Case("TL503", "little memory, broken up", measured(memory_peak=MemoryPeak(0.1 * GIB, 0.5 * GIB)), REFUTED),
    Case("TL503", "memory that was not measured", measured(), INCONCLUSIVE),
)

EVALUATION = (
    Case("TL216", "batches that record a graph", measured(evaluation_records_graph=True), CONFIRMED),
    Case("TL216", "batches that record none", measured(evaluation_records_graph=False), REFUTED),
    Case("TL216", "an evaluation that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL216", "an evaluation that was not seen", measured(), INCONCLUSIVE),
)

OTHER_RANK = frozenset({Line(PATH, 40)})
THIS_LINE = frozenset({FIRST})

RANKS = (
    Case(
        "TL213",
        "a line that rank 1 printed",
        measured(ran=RAN, ranks=(rank(0, printed_lines=THIS_LINE), rank(1, printed_lines=THIS_LINE))),
        CONFIRMED,
    ),
    Case(
        "TL213",
        "a line that only rank 0 printed",
        measured(ran=RAN, ranks=(rank(0, printed_lines=THIS_LINE), rank(1, printed_lines=OTHER_RANK))),
        REFUTED,
    ),
    Case("TL213", "a print that ran on no rank", measured(ran=DID_NOT_RUN, ranks=(rank(0), rank(1))), NOT_EXERCISED),
    Case(
        "TL213",
        "a print seen on the only rank",
        measured(ran=RAN, ranks=(rank(0, printed_lines=THIS_LINE),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL302",
        "ranks that each go through the whole dataset",
        measured(ranks=tuple(rank(i, dataset_share=1.0, epoch_starts=(EpochStarts(("a",)),)) for i in range(2))),
        CONFIRMED,
    ),
    Case(
        "TL302",
        "ranks that each go through a dataset of their own, of one length",
        measured(
            ranks=tuple(rank(i, dataset_share=1.0, epoch_starts=(EpochStarts((name,)),)) for i, name in enumerate("ab"))
        ),
        INCONCLUSIVE,
    ),
    Case(
        "TL302",
        "ranks that each go through all of a dataset, of which no batch was seen",
        measured(ranks=(rank(0, dataset_share=1.0), rank(1, dataset_share=1.0))),
        INCONCLUSIVE,
    ),
    Case(
        "TL302",
        "ranks that share the dataset, with padding",
        measured(ranks=(rank(0, dataset_share=0.51), rank(1, dataset_share=0.51))),
        REFUTED,
    ),
    Case(
        "TL302",
        "the same batch on two of four ranks",
        measured(ranks=tuple(rank(i, epoch_starts=(EpochStarts((name,)),)) for i, name in enumerate("abca"))),
        CONFIRMED,
    ),
    Case(
        "TL302",
        "a loop over the loader that did not run",
        measured(ran=LOOP_DID_NOT_RUN, ranks=(rank(0), rank(1))),
        NOT_EXERCISED,
    ),
    Case(
        "TL302",
        "a single rank cannot tell",
        measured(ranks=(rank(0, epoch_starts=(EpochStarts(("a",)),)),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL302",
        "different batches, as shuffling everything on each rank would give too",
        measured(ranks=(rank(0, epoch_starts=(EpochStarts(("a",)),)), rank(1, epoch_starts=(EpochStarts(("b",)),)))),
        INCONCLUSIVE,
    ),
    Case(
        "TL303",
        "the same first batch in each epoch",
        measured(ranks=(rank(0, epoch_starts=sampled("a", "a")), rank(1, epoch_starts=sampled("b", "b")))),
        CONFIRMED,
    ),
    Case(
        "TL303",
        "another first batch in each epoch",
        measured(ranks=(rank(0, epoch_starts=sampled("a", "b")), rank(1, epoch_starts=sampled("c", "d")))),
        REFUTED,
    ),
    Case(
        "TL303",
        "another first batch in each epoch, which another sampler drew",
        measured(ranks=(rank(0, epoch_starts=(EpochStarts(("a", "b"), distributed_sampler=False),)),)),
        NOT_EXERCISED,
    ),
    Case(
        "TL303",
        "the same first batch in each epoch of a loader whose sampler is not known",
        measured(ranks=(rank(0, epoch_starts=(EpochStarts(("a", "a")),)),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL303",
        "epochs of two distributed samplers, of which the loop draws from one",
        measured(ranks=(rank(0, epoch_starts=(*sampled("a", "a"), *sampled("c", "d", row=40))),)),
        CONFIRMED,
    ),
    Case(
        "TL303",
        "epochs of two distributed samplers of other loops",
        measured(ranks=(rank(0, epoch_starts=(*sampled("a", "a", row=30), *sampled("c", "d", row=40))),)),
        INCONCLUSIVE,
    ),
    Case(
        "TL303",
        "a sampler that was made nowhere",
        measured(ran=DID_NOT_RUN, ranks=(rank(0, epoch_starts=sampled("a", "b")),)),
        NOT_EXERCISED,
    ),
    Case("TL303", "a loop over the loader that did not run", measured(ran=LOOP_DID_NOT_RUN), NOT_EXERCISED),
    Case("TL303", "one epoch only", measured(ranks=(rank(0, epoch_starts=sampled("a")),)), INCONCLUSIVE),
    Case(
        "TL302",
        "a loader that was made nowhere, beside one that shards",
        measured(ran=DID_NOT_RUN, ranks=(rank(0, dataset_share=0.5), rank(1, dataset_share=0.5))),
        NOT_EXERCISED,
    ),
    Case(
        "TL302",
        "several loaders, of which another one shards",
        measured(
            loaders=(LoaderEvidence(0.1, 2, line=Line(PATH, 40)), LoaderEvidence(0.1, 2, line=Line(PATH, 10))),
            ranks=(rank(0, dataset_share=0.5), rank(1, dataset_share=0.5)),
        ),
        INCONCLUSIVE,
    ),
    Case(
        "TL304",
        "a wrapper that was made nowhere, beside one without unused parameters",
        measured(ran=DID_NOT_RUN, ranks=(rank(0, ddp_unused_parameters=0), rank(1, ddp_unused_parameters=0))),
        NOT_EXERCISED,
    ),
    Case(
        "TL103",
        "a loader that was made nowhere",
        measured(ran=DID_NOT_RUN, loaders=(LoaderEvidence(0.3, 0),)),
        NOT_EXERCISED,
    ),
    Case(
        "TL103",
        "a loader whose loop did not run",
        measured(ran=LOOP_DID_NOT_RUN, loaders=(LoaderEvidence(0.3, 0),)),
        NOT_EXERCISED,
    ),
    Case(
        "TL105", "a run without workers", measured(loaders=(LoaderEvidence(0.3, 0, epoch_start_s=0.1),)), NOT_EXERCISED
    ),
    Case(
        "TL113",
        "padding of a tokenizer that did not run",
        measured(ran=DID_NOT_RUN, effective_token_share=0.3),
        NOT_EXERCISED,
    ),
    Case(
        "TL304",
        "DDP found no unused parameter on any rank",
        measured(ranks=(rank(0, ddp_unused_parameters=0), rank(1, ddp_unused_parameters=0))),
        CONFIRMED,
    ),
    Case(
        "TL304",
        "DDP found unused parameters on one rank",
        measured(ranks=(rank(0, ddp_unused_parameters=0), rank(1, ddp_unused_parameters=3))),
        REFUTED,
    ),
    Case("TL304", "a step loop that did not run", measured(ran=LOOP_DID_NOT_RUN), NOT_EXERCISED),
    Case("TL304", "no statistics of DDP", measured(ranks=(rank(0), rank(1))), INCONCLUSIVE),
    Case(
        "TL305",
        "four reductions for one optimizer step",
        measured(ranks=(rank(0, reductions_per_update=4.0), rank(1, reductions_per_update=4.0))),
        CONFIRMED,
    ),
    Case(
        "TL305",
        "one reduction for one optimizer step",
        measured(ranks=(rank(0, reductions_per_update=1.0), rank(1, reductions_per_update=1.0))),
        REFUTED,
    ),
    Case("TL305", "a backward pass that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL305", "no profiler window", measured(ran=RAN, ranks=(rank(0), rank(1))), INCONCLUSIVE),
)

SHARES = (
    Case("TL313", "hidden communication", measured(shares={"communication_exposed": 0.01}), REFUTED),
    Case("TL313", "exposed communication of any kind", measured(shares={"communication_exposed": 0.3}), INCONCLUSIVE),
    Case("TL313", "no trace", measured(), INCONCLUSIVE),
    Case("TL301", "replicating takes 30 % of the step", measured(data_parallel_share=0.3), CONFIRMED),
    Case("TL301", "replicating takes next to nothing", measured(data_parallel_share=0.001), REFUTED),
    Case("TL301", "no sample of DataParallel's work", measured(), INCONCLUSIVE),
    Case(
        "TL301",
        "without GPUs there is nothing to replicate to",
        Evidence(STEP_S, 50, accelerator=False, data_parallel_share=0.001),
        INCONCLUSIVE,
    ),
    Case("TL407", "anomaly mode takes half of the step", measured(anomaly_mode_share=0.5), CONFIRMED),
    Case("TL407", "anomaly mode takes next to nothing", measured(anomaly_mode_share=0.0), REFUTED),
    Case("TL407", "no sample of anomaly mode", measured(), INCONCLUSIVE),
    Case("TL407", "anomaly mode was off in all backward passes", measured(anomaly_passes_share=0.0), REFUTED),
    Case("TL407", "anomaly mode was on, and not timed", measured(anomaly_passes_share=1.0), INCONCLUSIVE),
)

VARIABLE = "NCCL_P2P_DISABLE=1 sends traffic between GPUs through host memory"

ENVIRONMENT = (
    Case("TL308", "set in the job", measured(environment={"NCCL_P2P_DISABLE": "1"}), CONFIRMED, VARIABLE),
    Case("TL308", "set to off in the job", measured(environment={"NCCL_P2P_DISABLE": "0"}), REFUTED, VARIABLE),
    Case("TL308", "not set in the job", measured(environment={"NCCL_P2P_DISABLE": ""}), REFUTED, VARIABLE),
    Case("TL308", "another variable was read", measured(environment={"NCCL_DEBUG": "WARN"}), INCONCLUSIVE, VARIABLE),
)

EPOCH_TURNED = (LoaderEvidence(0.1, 4, epoch_start_s=0.5, steps_per_epoch=20),)

COMPILATIONS = (
    Case("TL123", "compiled again", measured(recompilations=2, loaders=EPOCH_TURNED), CONFIRMED),
    Case("TL123", "an epoch that ended alike", measured(recompilations=0, loaders=EPOCH_TURNED), REFUTED),
    Case("TL123", "no epoch ended", measured(recompilations=0, loaders=(LoaderEvidence(0.1, 4),)), INCONCLUSIVE),
    Case("TL123", "compilations that were not counted", measured(loaders=EPOCH_TURNED), INCONCLUSIVE),
)

LOADERS_BY_COUNT = (
    Case("TL106", "workers that start for half a second", measured(loaders=EPOCH_TURNED), CONFIRMED),
    Case(
        "TL106",
        "workers that start at once",
        measured(loaders=(LoaderEvidence(0.1, 4, epoch_start_s=0.001, steps_per_epoch=1000),)),
        REFUTED,
    ),
    Case(
        "TL106", "a run without workers", measured(loaders=(LoaderEvidence(0.1, 0, epoch_start_s=0.5),)), NOT_EXERCISED
    ),
    Case("TL107", "a run with a few workers", measured(loaders=(LoaderEvidence(0.1, 8),)), REFUTED),
    Case("TL107", "a run with all of them", measured(loaders=(LoaderEvidence(0.1, 256),)), INCONCLUSIVE),
    Case("TL107", "a loader that was made nowhere", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
    Case("TL114", "a run without workers", measured(loaders=(LoaderEvidence(0.1, 0),)), REFUTED),
    Case("TL114", "a run with workers", measured(loaders=(LoaderEvidence(0.1, 4),)), INCONCLUSIVE),
    Case(
        "TL114",
        "several loaders, none of which is known to be this one",
        measured(loaders=(LoaderEvidence(0.1, 0), LoaderEvidence(0.1, 4))),
        INCONCLUSIVE,
    ),
    Case("TL114", "a loader that was made nowhere", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
)

SAVES_AND_COLLECTIONS = (
    Case("TL207", "a collection of 3 % of the step", measured(calls={FIRST: TimedCalls(1.0, 0.003)}), CONFIRMED),
    Case("TL207", "a collection of 0.1 % of the step", measured(calls={FIRST: TimedCalls(1.0, 1e-4)}), REFUTED),
    Case("TL212", "a save that takes half of the step", measured(calls={FIRST: TimedCalls(1.0, 0.05)}), CONFIRMED),
    Case("TL212", "one that only samples show", measured(stacks={FIRST: StackSamples(0.05, 400, False)}), CONFIRMED),
    Case("TL212", "a save that did not run", measured(ran=DID_NOT_RUN), NOT_EXERCISED),
)

CASES = (
    *COMPILATIONS,
    *LOADERS_BY_COUNT,
    *SAVES_AND_COLLECTIONS,
    *STACK_SAMPLES,
    *TIMED_CALLS,
    *SYNC_COUNTS,
    *COPIES,
    *MEMSETS,
    *MEMORY_SLOPE,
    *FRAGMENTATION,
    *EVALUATION,
    *RANKS,
    *SHARES,
    *ENVIRONMENT,
)


def verdict_on(case: Case) -> Verdict:
    rule = load_registry().rules[case.code]
    finding = Finding(
        code=rule.code,
        name=rule.name,
        message=case.message,
        site=FLAGGED,
        severity=Severity.WARNING,
        confidence=Confidence.HIGH,
        related=(RelatedSite(LOOP, "the loop that runs it"),),
    )
    return rule().judge(finding, case.evidence)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.behaviour}")
def test_verdict(case: Case) -> None:
    assert verdict_on(case).status is case.status


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}: {case.behaviour}")
def test_a_verdict_shows_its_figures_or_says_what_would_settle_it(case: Case) -> None:
    verdict = verdict_on(case)
    if verdict.status in (INCONCLUSIVE, NOT_EXERCISED):
        assert verdict.note
    else:
        assert verdict.evidence or verdict.note


def test_a_confirmed_cost_is_told_in_milliseconds_and_as_a_share_with_its_threshold() -> None:
    case = Case("TL209", "", measured(copies={FIRST: Copies(2.0, 0.005, pageable=True)}), CONFIRMED)
    verdict = verdict_on(case)
    assert verdict.ms_per_step == pytest.approx(5.0)
    assert verdict.share == pytest.approx(0.05)
    assert verdict.calls_per_step == 2.0
    assert verdict.evidence[0].threshold == pytest.approx(2.0)


def test_workers_have_milliseconds_of_their_own_and_cost_the_step_a_part_of_them() -> None:
    stacks = {FIRST: StackSamples(0.05, 400, True)}
    shared = verdict_on(Case("TL101", "", measured(stacks=stacks, loaders=(LoaderEvidence(0.4, 5),)), CONFIRMED))
    assert (shared.ms_per_step, shared.share) == (pytest.approx(50.0), pytest.approx(0.1))
    assert shared.evidence[0].unit == "worker ms/step"
    assert "loader workers" in shared.note
    bounded = verdict_on(Case("TL101", "", measured(stacks=stacks, loaders=(LoaderEvidence(0.03, 1),)), CONFIRMED))
    assert (bounded.ms_per_step, bounded.share) == (pytest.approx(50.0), pytest.approx(0.03))


@pytest.mark.parametrize(
    ("loader", "note"),
    [
        (LoaderEvidence(0.3, 2, starved_share=0.01), "batches stood ready"),
        (LoaderEvidence(0.3, 1, starved_share=0.3, explained_wait=0.29), "other work took cores"),
    ],
)
def test_what_leaves_time_of_workers_open_is_said(loader: LoaderEvidence, note: str) -> None:
    stacks = {FIRST: StackSamples(0.05, 400, True)}
    assert note in verdict_on(Case("TL101", "", measured(stacks=stacks, loaders=(loader,)), INCONCLUSIVE)).note


@pytest.mark.parametrize(("seconds", "share"), [(0.07, 0.7), (0.25, None)])
def test_what_takes_longer_than_a_step_is_no_share_of_it(seconds: float, share: float | None) -> None:
    stacks = {FIRST: StackSamples(seconds, 400, False)}
    verdict = verdict_on(Case("TL222", "", measured(stacks=stacks), CONFIRMED))
    assert verdict.ms_per_step == pytest.approx(seconds * 1e3)
    assert verdict.share == (share if share is None else pytest.approx(share))


def test_an_interval_stands_beside_a_figure_of_few_samples() -> None:
    sampled = StackSamples(0.03, 30, False, (0.02, 0.05))
    verdict = verdict_on(Case("TL222", "", measured(stacks={FIRST: sampled}), CONFIRMED))
    figures = {figure.metric: figure.value for figure in verdict.evidence}
    assert figures == pytest.approx({"stack time": 30.0, "stack time, at least": 20.0, "stack time, at most": 50.0})


def test_unmeasured_figures_stay_null() -> None:
    verdict = verdict_on(Case("TL202", "", measured(ran=RAN), INCONCLUSIVE))
    assert (verdict.ms_per_step, verdict.share, verdict.calls_per_step) == (None, None, None)


NOTES = {
    "a call that was not seen": (Case("TL203", "", measured(), INCONCLUSIVE), "was not seen to run"),
    "ranks without statistics": (Case("TL304", "", measured(ranks=(rank(0), rank(1))), INCONCLUSIVE), "more steps"),
    "a single process": (Case("TL304", "", measured(ranks=(rank(0),)), INCONCLUSIVE), "two ranks or more"),
}


@pytest.mark.parametrize("name", NOTES)
def test_what_would_settle_it_is_what_was_missing(name: str) -> None:
    case, said = NOTES[name]
    assert said in verdict_on(case).note
