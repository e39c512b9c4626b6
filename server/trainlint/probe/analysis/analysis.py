"""From a recording to what it shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from trainlint.agent import records
from trainlint.probe.analysis import (
    cpu,
    environment,
    evaluation,
    gpu,
    lines,
    memory,
    overhead,
    ranks,
    tokens,
    traced,
    utilization,
)
from trainlint.probe.analysis.attached import attached_measured
from trainlint.probe.analysis.core_waits import (
    CoreWaits,
    seconds_per_batch,
    wait_for_data_at_least,
    wait_for_others,
    workers_of,
)
from trainlint.probe.analysis.diagnosis import Findings, diagnose
from trainlint.probe.analysis.flagged_lines import lines_that_ran
from trainlint.probe.analysis.line_costs import copy_costs, dearest, line_cost, sync_costs
from trainlint.probe.analysis.loaders import TrainingLoader, training_loaders
from trainlint.probe.analysis.observed import Observed, whole
from trainlint.probe.analysis.percentile import percentile
from trainlint.probe.analysis.shares import (
    BACKWARD,
    DATA,
    FORWARD,
    STALL,
    UPDATE,
    CycleParts,
    Parts,
    added,
    parts_by_cycle,
    shares_of,
    spread,
)
from trainlint.probe.analysis.steps import RankSteps
from trainlint.probe.analysis.timeline import step_points
from trainlint.probe.evidence import Evidence, Line, LoaderEvidence, RankEvidence, SyncCount
from trainlint.probe.figures import counted
from trainlint.probe.measured import (
    Bottleneck,
    Gpu,
    Job,
    Kernels,
    LineCost,
    LoaderUse,
    Measured,
    RankUse,
    Shares,
    Steps,
)
from trainlint.probe.recording import Recording
from trainlint.probe.verdict import Source

NO_LOADER = "no loader delivered a batch to the training thread in the clean steps"
NO_SAMPLES = "the training loader has no batch size, or delivered no batch in the regular steps"
NOT_ALONE = "the loader is not run by itself, since that would run the job's own code a second time"
NO_TOKENS = (
    "no tokens were counted: the batches on the CPU had no attention mask, nor `input_ids` of a model whose embeddings "
    "have one padding_idx"
)


def analyse(recording: Recording) -> tuple[Measured, Evidence]:
    """What a recording shows, and the evidence for verdicts. What was not measured is None; `missing` says why."""
    analysis = _Analysis(Observed.of(recording), traced.traced(recording))
    attached = recording.manifest.kind == "attach"
    return attached_measured(analysis.observed) if attached else analysis.measured(), analysis.evidence()


@dataclass(frozen=True)
class _Analysis:
    """Figures that several sections share."""

    observed: Observed
    traced: traced.Traced = field(default_factory=traced.Traced)

    # -------------------------------------------------------------------------------------------------- the rank shown

    @cached_property
    def own_times(self) -> tuple[ranks.OwnTime, ...]:
        return ranks.own_times(self.observed)

    @cached_property
    def straggler(self) -> tuple[ranks.OwnTime, float] | None:
        return ranks.straggler(self.own_times)

    @cached_property
    def shown(self) -> RankSteps | None:
        """The rank whose steps are shown: one that the others wait for, else the first."""
        return self.straggler[0].steps if self.straggler is not None else self.observed.first

    @cached_property
    def parts_by_rank(self) -> Mapping[int, tuple[CycleParts, ...]]:
        """By process id."""
        accelerator = self.observed.accelerator
        return {steps.process.pid: parts_by_cycle(steps, accelerator=accelerator) for steps in self.observed.timed}

    @cached_property
    def cycles(self) -> tuple[CycleParts, ...]:
        return self.parts_by_rank.get(self.shown.process.pid, ()) if self.shown is not None else ()

    @cached_property
    def shares(self) -> tuple[Shares, dict[str, str]]:
        if self.shown is None:
            nothing = Shares.model_validate(dict.fromkeys(Shares.model_fields))
            return nothing, {"shares": "no process of the job trained"}
        return shares_of(self.shown, added(self.cycles), accelerator=self.observed.accelerator)

    @cached_property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Of the shares that decide, by name; `model` is what forward, backward and optimizer take together."""
        found = {name: spread(self.cycles, name) for name in (DATA, STALL) if getattr(self.shares[0], name) is not None}
        known = [part for part in (FORWARD, BACKWARD, UPDATE) if getattr(self.shares[0], part) is not None]
        found["model"] = spread(self.cycles, *known)
        told = {name: interval for name, interval in found.items() if interval is not None}
        if DATA in told:
            low, high = told[DATA]
            told[DATA] = max(0.0, low - self.explained_wait), high
        return told

    @cached_property
    def explained_wait(self) -> float:
        """The share of the step that is a wait for data because the thread or its workers waited for a core that other
        work had: no longer than that worked. What the job's own processes take from each other it would take again."""
        interval = spread(self.cycles, DATA)
        explained = interval[0] - self._wait_for_data_at_least(interval[0]) if interval is not None else 0.0
        return max(0.0, explained if self.other_work is None else min(explained, self.other_work))

    @cached_property
    def other_work(self) -> float | None:
        """How many cores work outside the job kept busy in the clean steps; None where that was not sampled."""
        return cpu.other_work(self.observed)

    def _wait_for_data_at_least(self, least: float) -> float:
        steps, loader, share = self.shown, self.loader, self.shares[0].data_wait
        workers = workers_of(self.observed, steps) if steps is not None else None
        elsewhere = self.core_wait_share or 0.0
        if steps is not None and steps.regular and share is not None and loader is not None and loader.workers > 0:
            # Without workers the training thread makes the batch, and waits for its core as it does elsewhere.
            batches = [(one.start, one.end) for one in steps.timed(records.BATCH, regular_only=True)]
            own = CoreWaits(steps).within(batches) / sum(cycle.duration for cycle in steps.regular)
            least, elsewhere = max(0.0, least - own), max(0.0, elsewhere - own)
        if workers is None or loader is None or loader.workers == 0 or share is None:
            return least
        cores = self.observed.recording.manifest.cores
        return wait_for_data_at_least(least, share, elsewhere, workers, loader.workers, max(1, cores))

    @cached_property
    def core_wait_share(self) -> float | None:
        steps = self.shown
        if steps is None or not steps.regular or not (waits := CoreWaits(steps)).known:
            return None
        spans = [(cycle.start, cycle.end) for cycle in steps.regular]
        return waits.within(spans) / sum(end - start for start, end in spans)

    # --------------------------------------------------------------------------------------------------------- figures

    @cached_property
    def loaders(self) -> tuple[TrainingLoader, ...]:
        if self.shown is None:
            return ()
        found = training_loaders(self.shown)
        each, count = seconds_per_batch(self.observed, self.shown), sum(loader.workers for loader in found)
        batches = sum(loader.batches_per_step or 0.0 for loader in found if loader.workers)
        known = each is not None and count > 0 and batches > 0 and self._step_s > 0
        busy = each * batches / (count * self._step_s) if each is not None and known else None
        return tuple(replace(loader, workers_busy=busy) for loader in found)

    @property
    def loader(self) -> TrainingLoader | None:
        """The one that delivers the most batches."""
        return next(iter(self.loaders), None)

    @cached_property
    def kernels(self) -> Kernels | None:
        return traced.kernels_of(self.traced)

    @cached_property
    def tokens(self) -> tokens.Tokens | None:
        return tokens.tokens_of(self.observed.timed)

    @cached_property
    def calls(self) -> lines.CallCosts:
        return lines.call_costs(self.observed)

    @cached_property
    def syncs(self) -> dict[Line, SyncCount]:
        """As the agent timed them in the clean steps; from the trace what it cannot see."""
        return {**self.traced.lines.syncs, **lines.sync_counts(self.observed)}

    @cached_property
    def sampled(self) -> dict[Line, lines.SampledLine]:
        return lines.sampled_lines(self.observed)

    @cached_property
    def collection_shares(self) -> tuple[float, float] | None:
        """On the rank that collects the most, without waits for a core: all pauses, and the longest alone; 0 is known
        where the agent saw the steps and no collection."""
        found = []
        for steps in self.observed.timed:
            waits = CoreWaits(steps)
            pauses = [
                max(0.0, one.duration - waits.within([(one.start, one.end)])) for one in steps.timed(records.COLLECTION)
            ]
            found.append((sum(pauses) / steps.wall_s, max(pauses, default=0.0) / steps.wall_s))
        return max(found, default=None)

    # ---------------------------------------------------------------------------------------------------- the sections

    def measured(self) -> Measured:
        manifest = self.observed.recording.manifest
        uses, gpu_missing = gpu.gpu_uses(self.observed, gpu.training_spans(self.observed), "probe more steps")
        machine, cpu_missing = cpu.cpu_use(self.observed.recording.system, self.observed.clean)
        costs = dearest(self._line_costs())
        missing = {**gpu_missing, **self.shares[1], **self.traced.missing, **dict(self._missing())}
        if cpu_missing is not None:
            missing["cpu"] = cpu_missing
        told = environment.environment_of(self.observed, missing, traced=bool(self.traced.ranks))
        mfu, why_no_mfu = self._mfu(told.gpus)
        if why_no_mfu is not None:
            told = told.model_copy(update={"missing": {**told.missing, "steps.mfu": why_no_mfu}})
        end = manifest.end
        return Measured(
            command=manifest.command,
            started=manifest.started,
            environment=told,
            steps=self._steps().model_copy(update={"mfu": mfu}),
            shares=self.shares[0],
            share_intervals=self.intervals,
            overlapping=traced.overlapping(
                self.kernels, evaluation.evaluation_share(self.shown) if self.shown is not None else None
            ),
            gpu=uses,
            cpu=machine.model_copy(
                update={"core_wait_share": self.core_wait_share, "other_work_cores": self.other_work}
            ),
            kernels=self.kernels,
            loader=self._loader_use(),
            bottleneck=self._bottleneck(gpu.largest_fill(uses, told.gpus), tuple(costs)),
            ranks=self._rank_uses(),
            job=Job(
                exit_code=end.exit_code if end is not None else None,
                signal=end.signal if end is not None else None,
                stopped_by_probe=end.stopped_by_probe if end is not None else False,
            ),
            overhead=overhead.overhead_of(self.observed),
            timeline=step_points(self.cycles),
            gpu_timeline=gpu.gpu_points(self.observed, self.observed.clean),
            lines=costs,
        )

    def _missing(self) -> Iterator[tuple[str, str]]:
        steps = self.shown
        manifest = self.observed.recording.manifest
        known = (manifest.missing.get("steps"), self._why_few_steps())
        if any(known):
            yield "steps", "; ".join(dict.fromkeys(why for why in known if why))
        if steps is not None and steps.note:
            yield "phases", steps.note
        if self.loader is None:
            yield "loader", NO_LOADER
        else:
            yield "loader.alone_batch_s", NOT_ALONE
        if self.loader is not None and self.loader.samples_per_step is None:
            yield "steps.samples_per_s", NO_SAMPLES
        if steps is not None and evaluation.is_not_told_apart(steps):
            yield "overlapping.evaluation", evaluation.NOT_TOLD_APART
        if self.tokens is None:
            yield "steps.tokens_per_s", NO_TOKENS
        if self.kernels is None:
            yield "kernels", self._why_no_kernels()
        if not self.observed.recording.stack_samples:
            yield "stacks", "no stack was sampled"

    def _why_few_steps(self) -> str | None:
        steps, wanted = self.shown, self.observed.recording.manifest.options.steps
        if steps is None:
            return "no process of the job trained"
        if steps.missing or steps.count >= wanted:
            return steps.missing or None
        return f"the job ended after {steps.count} of {counted(wanted, 'clean step')}"

    def _why_no_kernels(self) -> str:
        if not self.observed.accelerator:
            return "the job ran without an accelerator"
        return "no trace of the device was recorded" if not self.traced.ranks else "the traces show no work of a device"

    def _steps(self) -> Steps:
        steps, loader = self.shown, self.loader
        if steps is None:
            return Steps(measured=0, warmup=0, median_s=None, p90_s=None)
        durations = [cycle.duration for cycle in steps.regular]
        mean = steps.mean_s
        samples = loader.samples_per_step if loader is not None else None
        return Steps(
            measured=steps.count,
            warmup=steps.warmup,
            median_s=steps.median_s,
            p90_s=percentile(durations, 90) if durations else None,
            mean_s=mean,
            samples_per_s=samples * self.observed.world_size / mean if samples is not None and mean else None,
            tokens_per_s=self.tokens.per_s if self.tokens is not None else None,
            effective_tokens_per_s=self.tokens.effective_per_s if self.tokens is not None else None,
            irregular=len(steps.cycles) - len(durations),
            label=steps.label,
        )

    def _mfu(self, gpus: list[Gpu]) -> tuple[float | None, str | None]:
        work = utilization.work_of_step(self.observed.recording.manifest.options, self.tokens)
        doubt = environment.devices_in_doubt(self.observed)
        return utilization.model_flops_utilization(work, self.shown.mean_s if self.shown else None, gpus, doubt)

    def _loader_use(self) -> LoaderUse | None:
        if self.loader is None:
            return None
        return LoaderUse(
            alone_batch_s=None, workers=self.loader.workers, queue_empty_share=self.loader.queue_empty_share
        )

    def _bottleneck(self, memory_fill: float | None, costs: tuple[LineCost, ...]) -> Bottleneck:
        steps = self.shown
        return diagnose(
            Findings(
                regular_steps=len(steps.regular) if steps is not None else 0,
                missing=steps.missing if steps is not None else "no process of the job trained",
                shares=self.shares[0],
                intervals=self.intervals,
                core_wait_share=self.core_wait_share,
                explained_wait=self.explained_wait,
                traced_forward_share=traced.forward_share(self.traced),
                graph_per_backward=traced.graph_per_backward(self.traced),
                other_work=self.other_work,
                accelerator=self.observed.accelerator,
                kernels=self.kernels,
                memory_fill=memory_fill,
                loader=self.loader,
                lines=costs,
                straggler=self.straggler,
                physical_cores=self.observed.recording.manifest.physical_cores,
            )
        )

    def _rank_uses(self) -> list[RankUse]:
        own = {one.steps.process.pid: one for one in self.own_times}
        return [
            RankUse(
                rank=steps.rank,
                median_s=steps.median_s,
                data_wait=self._parts(steps).share(DATA),
                own_s=one.own_s if one is not None else None,
                above_median=one.above if one is not None else None,
                above_median_at_least=one.above_at_least if one is not None else None,
            )
            for steps, one in ((steps, own.get(steps.process.pid)) for steps in self.observed.ranks)
        ]

    def _parts(self, steps: RankSteps) -> Parts:
        return added(self.parts_by_rank.get(steps.process.pid, ()))

    def _line_costs(self) -> Iterator[LineCost]:
        """The lines that cost something, without those whose time is another's.

        What they cost is spread over all clean cycles, and so is the time that it is a share of: a line of an
        evaluation is no part of a regular step.
        """
        step_s = self.shown.cycle_s if self.shown is not None else 0.0
        for (line, kind), call in self.calls.by_type.items():
            what = kind if kind in ("print", "logging", "tracker", "save", "collect") else "call"
            yield line_cost(line, what, call.seconds_per_step, step_s, Source.AGENT, calls=call.calls_per_step)
        yield from sync_costs(self.syncs, step_s)
        for line, sampled in self.sampled.items():
            if sampled.itself_s > 0:
                yield line_cost(
                    line,
                    sampled.what,
                    sampled.itself_s,
                    step_s,
                    Source.STACKS,
                    interval=sampled.itself_interval_s,
                    in_workers=sampled.within.in_workers,
                )
        yield from copy_costs(self.traced.lines.copies, step_s)

    @cached_property
    def _step_s(self) -> float:
        return (self.shown.mean_s or 0.0) if self.shown is not None else 0.0

    # -------------------------------------------------------------------------------------------------------- evidence

    def evidence(self) -> Evidence:
        observed = self.observed
        peaks = [peak for steps in observed.ranks if (peak := memory.peak(steps)) is not None]
        slopes = [slope for steps in observed.timed if (slope := memory.slope(steps)) is not None]
        ran = lines_that_ran(observed)
        return Evidence(
            step_s=self._step_s,
            steps=self.shown.count if self.shown is not None else 0,
            accelerator=observed.accelerator,
            ran=ran.ran,
            unsure=ran.unsure,
            why_unknown=ran.why_unknown,
            stacks={line: sampled.within for line, sampled in self.sampled.items()},
            calls=self.calls.by_line,
            syncs=self.syncs,
            copies=self.traced.lines.copies,
            memsets=self.traced.lines.memsets,
            ranks=tuple(self._rank_evidence()),
            loaders=tuple(self._loader_evidence()),
            shares={name: share for name, share in self.shares[0] if share is not None},
            memory_slope_bytes_per_step=max(slopes, default=None),
            recompilations=self._recompilations(),
            evaluation_records_graph=evaluation.records_graph(observed),
            environment=environment.variables(observed),
            data_parallel_share=lines.working_share(observed, "data_parallel"),
            anomaly_mode_share=lines.working_share(observed, "anomaly"),
            anomaly_passes_share=lines.anomaly_passes_share(observed),
            effective_token_share=self.tokens.effective_share if self.tokens is not None else None,
            collection_share=self.collection_shares[0] if self.collection_shares is not None else None,
            longest_collection_share=self.collection_shares[1] if self.collection_shares is not None else 0.0,
            memory_peak=memory.largest(peaks),
            barrier=ranks.barrier(observed),
            disturbed_share=wait_for_others(self.core_wait_share, self.other_work),
            files=environment.loaded_files(observed),
        )

    def _loader_evidence(self) -> Iterator[LoaderEvidence]:
        """Of each training loader; none where no step was timed, since a wait is a share of one. The wait is that of
        the rank that waits the longest for what the same line made: the others wait for it in turn."""
        everywhere = [one for steps in self.observed.timed for one in training_loaders(steps) if one.line is not None]
        for loader in self.loaders if self._step_s > 0 else ():
            alike = [one.data_wait_share for one in everywhere if one.line == loader.line]
            yield LoaderEvidence(
                data_wait_share=max([loader.data_wait_share, *alike]),
                workers=loader.workers,
                queue_empty_share=loader.queue_empty_share,
                epoch_start_s=loader.epoch_start_s,
                steps_per_epoch=loader.steps_per_epoch,
                line=loader.line,
                starved_share=loader.starved_share,
                explained_wait=self.explained_wait,
                workers_busy=loader.workers_busy,
            )

    def _rank_evidence(self) -> Iterator[RankEvidence]:
        reductions = traced.reductions_by_rank(self.traced)
        shares = ranks.dataset_shares(self.observed.timed)
        for steps in self.observed.timed:
            yield RankEvidence(
                rank=steps.rank,
                epoch_starts=ranks.epoch_starts(steps),
                dataset_share=shares.get(steps.process.pid),
                printed_lines=lines.printed_lines(steps),
                ddp_unused_parameters=ranks.unused_parameters(steps),
                reductions_per_update=reductions.get(steps.rank, ranks.reductions_per_update(steps)),
            )

    def _recompilations(self) -> int | None:
        """In the clean steps, on the rank that compiled the most."""
        counts = [
            [
                end - start
                for note in steps.process.noted("recompilations")
                if (start := whole(note.get("start"))) is not None and (end := whole(note.get("end"))) is not None
            ]
            for steps in self.observed.timed
        ]
        return max((sum(noted) for noted in counts if noted), default=None)
