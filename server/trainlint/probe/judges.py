"""The usual ways from measured facts to a verdict on a finding, one for each kind of evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trainlint.probe import thresholds
from trainlint.probe.evidence import Copies, Evidence, Line, LoaderEvidence, Memsets, StackSamples, TimedCalls
from trainlint.probe.figures import counted
from trainlint.probe.verdict import COST_TO_STEP, WORKER_TIME, Measurement, Source, Status, Verdict
from trainlint.semantics.context import Site

CONFIRMED_SHARE = thresholds.FINDING_COST.value
"""A finding is confirmed at this share of the step, unless its rule names its own."""


def judge_cost(
    evidence: Evidence,
    site: Site,
    seconds_per_step: float | None,
    *,
    metric: str,
    source: Source,
    calls_per_step: float | None = None,
    confirmed_share: float = CONFIRMED_SHARE,
    unmeasured: str,
) -> Verdict:
    """The usual verdict: the cost of the lines at `site` against a share of the step.

    `seconds_per_step` is None where the cost could not be measured; `unmeasured` says what would measure it.
    """
    ran = evidence.did_run(site)
    if ran is False:
        return Verdict(Status.NOT_EXERCISED, note="the line did not run in the measured steps")
    if ran is None and evidence.why_unknown:
        unmeasured = f"{unmeasured} (whether the line ran is not known: {evidence.why_unknown})"
    if seconds_per_step is None or evidence.step_s <= 0:
        return Verdict(Status.INCONCLUSIVE, calls_per_step=calls_per_step, note=unmeasured)
    verdict = _of_cost(evidence, seconds_per_step, metric, source, confirmed_share, calls_per_step)
    if verdict.status is Status.REFUTED and not ran:
        return replace(verdict, status=Status.INCONCLUSIVE, note=unmeasured)
    return verdict


def _of_cost(
    evidence: Evidence,
    seconds_per_step: float,
    metric: str,
    source: Source,
    confirmed_share: float,
    calls_per_step: float | None = None,
) -> Verdict:
    """The verdict on what is known to have run, and to have cost so much."""
    share = seconds_per_step / evidence.step_s
    figure = Measurement(metric, seconds_per_step * 1e3, "ms/step", source, confirmed_share * evidence.step_s * 1e3)
    return Verdict(_reaches(share, confirmed_share), seconds_per_step * 1e3, _part(share), calls_per_step, (figure,))


def _reaches(share: float, confirmed_share: float) -> Status:
    return Status.CONFIRMED if share >= confirmed_share else Status.REFUTED


def judge_stacks(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge by stack samples under the lines at `site`.

    Too few samples leave an interval: a threshold within it is neither reached nor missed.
    """
    found = [evidence.stacks[line] for line in evidence.lines(site) if line in evidence.stacks]
    if not found or evidence.step_s <= 0:
        unmeasured = "no stack sample holds this line, which proves nothing; probe more steps"
        return judge_cost(evidence, site, None, metric="stack time", source=Source.STACKS, unmeasured=unmeasured)
    own = [sample for sample in found if not sample.in_workers]
    if len(own) < len(found):
        worked = _Seconds.of(sample for sample in found if sample.in_workers)
        return _judge_worker_time(evidence, worked, _Seconds.of(own), confirmed_share)
    taken, threshold = _Seconds.of(own), confirmed_share * evidence.step_s
    status, note = taken.against(threshold)
    figures = tuple(taken.figures("stack time", "ms/step", threshold))
    return Verdict(status, taken.value * 1e3, _part(taken.value / evidence.step_s), None, figures, note)


def _part(share: float) -> float | None:
    """A share of the regular step; none where a line takes longer than that, and so runs outside of it too, as in an
    evaluation."""
    return share if share <= 1 else None


@dataclass(frozen=True, slots=True)
class _Seconds:
    """Seconds per step by stack samples, and the ends of the interval in which the truth lies."""

    low: float
    value: float
    high: float

    @classmethod
    def of(cls, samples: Iterable[StackSamples]) -> _Seconds:
        """Those of several lines together."""
        low = value = high = 0.0
        for sample in samples:
            bounds = sample.interval_s or (sample.seconds_per_step, sample.seconds_per_step)
            low, value, high = low + bounds[0], value + sample.seconds_per_step, high + bounds[1]
        return cls(low, value, high)

    def __add__(self, other: _Seconds) -> _Seconds:
        return _Seconds(self.low + other.low, self.value + other.value, self.high + other.high)

    def against(self, threshold: float) -> tuple[Status, str]:
        """The status that these seconds have, and the note that goes with it."""
        if self.low >= threshold:
            return Status.CONFIRMED, ""
        if self.high < threshold:
            return Status.REFUTED, ""
        return Status.INCONCLUSIVE, _TOO_FEW_SAMPLES

    def figures(self, metric: str, unit: str, threshold: float | None = None) -> Iterator[Measurement]:
        """The figure, and the ends of the interval where there is one."""
        bound = None if threshold is None else threshold * 1e3
        yield Measurement(metric, self.value * 1e3, unit, Source.STACKS, bound)
        if self.low < self.high:
            yield Measurement(f"{metric}, at least", self.low * 1e3, unit, Source.STACKS)
            yield Measurement(f"{metric}, at most", self.high * 1e3, unit, Source.STACKS)


_TOO_FEW_SAMPLES = "too few stack samples to tell on which side of the threshold it is; probe more steps"


def _judge_worker_time(evidence: Evidence, worked: _Seconds, own: _Seconds, confirmed_share: float) -> Verdict:
    """Judge by what work in loader workers can cost the step, and what the training process itself does.

    The milliseconds of the verdict are the workers' own, all of them together; the share is that of the step.
    """
    told = [*worked.figures("worker time, all workers together", WORKER_TIME)]
    told += own.figures("stack time", "ms/step") if own.value > 0 else ()
    loader = evidence.loader
    if loader is None:
        note = "how long the step waits for its workers was not measured"
        return Verdict(Status.INCONCLUSIVE, worked.value * 1e3, evidence=tuple(told), note=note)
    threshold = confirmed_share * evidence.step_s
    cost = own + _cost_to_step(evidence, worked, loader)
    told.append(Measurement("data wait", loader.data_wait_share, "share", Source.AGENT, confirmed_share))
    if loader.starved_share is not None:
        told.append(Measurement("data wait with no batch ready", loader.starved_share, "share", Source.AGENT))
    told.append(Measurement(COST_TO_STEP, cost.value * 1e3, "ms/step", Source.STACKS, threshold * 1e3))
    status, note = cost.against(threshold)
    if status is Status.INCONCLUSIVE:
        note = _why_worker_time_is_open(evidence, worked, own, threshold)
    note = note or "milliseconds of the loader workers, which run beside each other and beside the step"
    return Verdict(status, worked.value * 1e3, cost.value / evidence.step_s, None, tuple(told), note)


def _cost_to_step(evidence: Evidence, worked: _Seconds, loader: LoaderEvidence) -> _Seconds:
    """Work in loader workers costs the step its part of one worker's time at most, and no more than the step waits for
    them.

    Whose workers they are is not known: with several loaders the cost lies between the least and the most of them.
    """

    def cost(seconds: float, fed_by: LoaderEvidence, wait: float) -> float:
        return min(seconds / max(fed_by.workers, 1), wait * evidence.step_s)

    loaders = [(one, *one.waits_for_workers) for one in evidence.loaders]
    return _Seconds(
        low=min(cost(worked.low, one, least) for one, least, _, _ in loaders),
        value=cost(worked.value, loader, loader.waits_for_workers[1]),
        high=max(cost(worked.high, one, most) for one, _, _, most in loaders),
    )


def _why_worker_time_is_open(evidence: Evidence, worked: _Seconds, own: _Seconds, threshold: float) -> str:
    if len(evidence.loaders) > 1:
        return "several loaders fed the steps, and whose workers these are is not known"
    (loader,) = evidence.loaders
    undisturbed = replace(evidence, loaders=(replace(loader, explained_wait=0.0),))
    if (own + _cost_to_step(undisturbed, worked, loader)).low >= threshold:
        return "other work took cores from the job, and may be what the step waits for; probe while nothing else runs"
    waits_alone = replace(loader, explained_wait=0.0, starved_share=None)
    if (own + _cost_to_step(replace(evidence, loaders=(waits_alone,)), worked, waits_alone)).low >= threshold:
        return "batches stood ready while the step waited: for the hand-over of one, or for a slow one among them"
    return _TOO_FEW_SAMPLES


def judge_calls(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge by the time spent inside the calls made from the lines at `site`."""
    unmeasured = "the line was not seen to run in the measured steps; probe more steps"
    verdict = _judge_timed(
        evidence, site, evidence.calls, "time in the call", Source.AGENT, unmeasured, confirmed_share=confirmed_share
    )
    if verdict.status is Status.CONFIRMED and _may_be_other_work(evidence, site, confirmed_share):
        return replace(verdict, status=Status.INCONCLUSIVE, note=_LONG_CALLS)
    return verdict


_LONG_CALLS = (
    "calls longer than most take it over the threshold, and other work took cores from the job; "
    "probe while nothing else runs"
)


def _may_be_other_work(evidence: Evidence, site: Site, confirmed_share: float) -> bool:
    """Whether the calls at `site` cost enough only for the longest, or for those longer than most, which may have
    waited for a core."""
    if evidence.disturbed_share < thresholds.CORE_WAIT.value:
        return False
    found = [evidence.calls[line] for line in evidence.lines(site) if line in evidence.calls]
    longest = max((one.longest_s_per_step for one in found), default=0.0)
    waited = max(longest, sum(one.slow_s_per_step for one in found))
    return sum(one.seconds_per_step for one in found) - waited < confirmed_share * evidence.step_s


def _judge_timed(
    evidence: Evidence,
    site: Site,
    table: Mapping[Line, TimedCalls | Copies | Memsets],
    metric: str,
    source: Source,
    unmeasured: str,
    *,
    confirmed_share: float,
) -> Verdict:
    """Judge by what a table has of the lines at `site`."""
    found = [table[line] for line in evidence.lines(site) if line in table]
    return judge_cost(
        evidence,
        site,
        sum(one.seconds_per_step for one in found) if found else None,
        calls_per_step=sum(one.calls_per_step for one in found) if found else None,
        metric=metric,
        source=source,
        unmeasured=unmeasured,
        confirmed_share=confirmed_share,
    )


def judge_syncs(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge by the host's waits for the device at the lines at `site`."""
    found = [evidence.syncs[line] for line in evidence.lines(site) if line in evidence.syncs]
    waits = [sync.wait_s_per_step for sync in found if sync.wait_s_per_step is not None]
    sources = {sync.source for sync in found if sync.wait_s_per_step is not None}
    return judge_cost(
        evidence,
        site,
        sum(waits) if waits else None,
        calls_per_step=sum(sync.calls_per_step for sync in found) if found else None,
        metric="wait for the device",
        source=Source.AGENT if Source.AGENT in sources else Source.KINETO,
        unmeasured=(
            "no wait for the device was seen at this line, which proves nothing; profile more steps: --profile-steps"
            if evidence.accelerator
            else "a read of a tensor costs nothing to wait for without an accelerator; probe on a GPU"
        ),
        confirmed_share=confirmed_share,
    )


def judge_copies(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge by the copies between host and device that the lines at `site` issue."""
    unmeasured = _not_traced(evidence, "copies")
    return _judge_timed(
        evidence, site, evidence.copies, "copy time", Source.KINETO, unmeasured, confirmed_share=confirmed_share
    )


def judge_memsets(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge by the device memory that the lines at `site` fill with a constant."""
    unmeasured = _not_traced(evidence, "fills of device memory")
    return _judge_timed(
        evidence, site, evidence.memsets, "memory fills", Source.KINETO, unmeasured, confirmed_share=confirmed_share
    )


def _not_traced(evidence: Evidence, what: str) -> str:
    if not evidence.accelerator:
        return f"{what} are visible in a GPU trace only; probe on a GPU"
    return f"the trace shows no {what} by this line, which proves nothing; profile more steps: --profile-steps"


def judge_share(
    evidence: Evidence,
    exercised: Site | None,
    share: float | None,
    *,
    metric: str,
    source: Source,
    confirmed_share: float = CONFIRMED_SHARE,
    unmeasured: str,
) -> Verdict:
    """Judge set-up code by the share of the step that it causes elsewhere.

    `exercised` is a place that runs in the measured steps whenever the set-up code matters, such as the step loop; the
    line itself ran before them. None where no such place is known.
    """
    if exercised is not None and evidence.did_run(exercised) is False:
        return Verdict(Status.NOT_EXERCISED, note="the code that it concerns did not run in the measured steps")
    if share is None:
        return Verdict(Status.INCONCLUSIVE, note=unmeasured)
    figure = Measurement(metric, share, "share", source, confirmed_share)
    return Verdict(_reaches(share, confirmed_share), share * evidence.step_s * 1e3, share, None, (figure,))


def judge_condition(
    evidence: Evidence,
    exercised: Site | None,
    holds: bool | None,
    figures: tuple[Measurement, ...] = (),
    *,
    unmeasured: str,
    note: str = "",
) -> Verdict:
    """Judge by a condition of the run that proves or disproves the finding, rather than by a cost.

    `exercised` is as in `judge_share`; `holds` is None where the run does not show whether the condition holds, and
    `unmeasured` then says what would show it. `note` explains the verdict otherwise.
    """
    if exercised is not None and evidence.did_run(exercised) is False:
        return Verdict(Status.NOT_EXERCISED, note="the code that it concerns did not run in the measured steps")
    if holds is None:
        return Verdict(Status.INCONCLUSIVE, evidence=figures, note=unmeasured)
    return Verdict(Status.CONFIRMED if holds else Status.REFUTED, evidence=figures, note=note)


def judge_device_calls(evidence: Evidence, site: Site, *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge calls that cost only where there is an accelerator, such as `torch.cuda.synchronize()`."""
    if not evidence.accelerator and evidence.did_run(site) is not False:
        return Verdict(Status.INCONCLUSIVE, note="this call waits for an accelerator, and the job had none")
    return judge_calls(evidence, site, confirmed_share=confirmed_share)


def judge_data_wait(evidence: Evidence, sites: Iterable[Site], *, confirmed_share: float = CONFIRMED_SHARE) -> Verdict:
    """Judge the loader that is made or used at `sites`, without workers: by the wait of the step for its batches."""
    loader = _loader_of(evidence, sites)
    if isinstance(loader, Verdict):
        return loader
    if loader.workers > 0:
        return Verdict(Status.REFUTED, note=f"the job's loader ran with {counted(loader.workers, 'worker')}")
    share = loader.data_wait_share
    figure = Measurement("data wait", share, "share", Source.AGENT, confirmed_share)
    return Verdict(_reaches(share, confirmed_share), share * evidence.step_s * 1e3, share, None, (figure,))


MADE_NOWHERE = Verdict(Status.NOT_EXERCISED, note="the line ran in no process of the job")
"""On set-up code: what was measured is of something else that the job made."""


def _loader_of(evidence: Evidence, sites: Iterable[Site]) -> LoaderEvidence | Verdict:
    """The loader that is made or used at `sites`; where that is not known, the verdict that is left."""
    sites = tuple(sites)
    # The first line makes the loader, the others use it.
    made, *used = (evidence.did_run(site) for site in sites)
    if made is False or (used and all(ran is False for ran in used)):
        note = "no line that makes or uses this loader ran in the measured steps"
        return Verdict(Status.NOT_EXERCISED, note=note)
    loader = evidence.loader_at(sites)
    if loader is not None:
        return loader
    if evidence.loaders:
        note = "several loaders fed the steps, and none of them is known to be this one"
    else:
        note = "no loader delivered a batch in the measured steps, so its wait was not measured"
    return Verdict(Status.INCONCLUSIVE, note=note)


def judge_pageable_copies(
    evidence: Evidence, sites: Iterable[Site], *, confirmed_share: float = CONFIRMED_SHARE
) -> Verdict:
    """Judge a loader that does not pin: by the copies that move its batches at `sites`.

    Copies that turn out to start in pinned memory refute the finding, whatever they cost.
    """
    lines = {line for site in sites for line in evidence.lines(site)}
    found = {line: evidence.copies[line] for line in lines if line in evidence.copies}
    if not found:
        return Verdict(Status.INCONCLUSIVE, note=_not_traced(evidence, "copies of this loader's batches"))
    if not any(copy.pageable for copy in found.values()):
        return Verdict(Status.REFUTED, note="the copies of its batches start in pinned memory")
    seconds = sum(copy.seconds_per_step for copy in found.values() if copy.pageable)
    calls = sum(copy.calls_per_step for copy in found.values() if copy.pageable)
    if evidence.step_s <= 0:
        return Verdict(Status.INCONCLUSIVE, calls_per_step=calls, note="no step was timed")
    return _of_cost(evidence, seconds, "pageable copies", Source.KINETO, confirmed_share, calls)


def judge_epoch_start(
    evidence: Evidence, sites: Iterable[Site], *, confirmed_share: float = CONFIRMED_SHARE
) -> Verdict:
    """Judge workers that start anew each epoch, of the loader that is made or used at `sites`: by the wait for an
    epoch's first batch, spread over its steps."""
    loader = _loader_of(evidence, sites)
    if isinstance(loader, Verdict):
        return loader
    if loader.workers == 0:
        return Verdict(Status.NOT_EXERCISED, note="the job's loader ran without workers, so none had to start")
    if loader.epoch_start_s is None:
        return Verdict(Status.INCONCLUSIVE, note="no epoch turned in the measured steps; probe with more --steps")
    start = Measurement("wait for an epoch's first batch", loader.epoch_start_s * 1e3, "ms", Source.AGENT)
    if not loader.steps_per_epoch or evidence.step_s <= 0:
        note = "the length of an epoch was not measured; probe with more --steps"
        return Verdict(Status.INCONCLUSIVE, evidence=(start,), note=note)
    seconds = loader.epoch_start_s / loader.steps_per_epoch
    verdict = _of_cost(evidence, seconds, "worker start", Source.AGENT, confirmed_share)
    return replace(verdict, evidence=(start, *verdict.evidence))


def judge_padding(evidence: Evidence, site: Site) -> Verdict:
    """Judge the padding at `site` by the share of real tokens among all that the model was given."""
    if evidence.did_run(site) is False:
        return MADE_NOWHERE
    share = evidence.effective_token_share
    if share is None:
        note = "no attention mask was seen in the batches, nor a padding id, so real tokens could not be counted"
        return Verdict(Status.INCONCLUSIVE, note=note)
    figure = Measurement("real tokens", share, "share", Source.AGENT, thresholds.EFFECTIVE_TOKENS.value)
    status = Status.CONFIRMED if share <= thresholds.EFFECTIVE_TOKENS.value else Status.REFUTED
    return Verdict(status, evidence=(figure,))
