"""The other sections of a result: loaders, ranks, memory, tokens, machines, what is missing, and broken recordings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import made_recordings as made
import pytest
from made_recordings import LOADER, TRAIN, MadeProcess
from tests.probe.kineto_traces import GpuTrace

from trainlint.agent import records
from trainlint.probe.analysis import analyse, overhead
from trainlint.probe.analysis.gpu import largest_fill
from trainlint.probe.analysis.memory import slope
from trainlint.probe.analysis.steps import steps_of
from trainlint.probe.evidence import Evidence, Line
from trainlint.probe.measured import Gpu, GpuUse, Measured
from trainlint.probe.recording import GpuDevice, GpuSample, JobEnd, Options, ProcessSample, SystemSample

PLAIN = "N f B Oadam"
STEP = 0.068


def measured(tmp_path: Path, *processes: MadeProcess, **samples: object) -> tuple[Measured, Evidence]:
    return analyse(made.write(tmp_path, *processes, **samples))  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------------ loaders


def test_throughput_counts_the_samples_of_all_ranks(tmp_path: Path) -> None:
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process in ranks:
        process.train("N f B N f B Oadam")
    run, _ = measured(tmp_path, *ranks)
    assert run.steps.samples_per_s == pytest.approx(2 * 16 / 0.128)
    assert run.environment.world_size == 2


def test_a_queue_that_runs_empty(tmp_path: Path) -> None:
    process = made.rank(workers=2)
    process.phase(records.CLEAN)
    for index in range(21):
        process.queue = float(index % 2)
        process.step(PLAIN)
    run, _ = measured(tmp_path, process)
    assert run.loader is not None
    assert run.loader.workers == 2
    assert run.loader.queue_empty_share == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(("cpu", "waits", "busy"), [(0.4, 0.1, 0.5), (0.9, 0.1, 1.0)])
def test_how_busy_workers_are_is_their_time_on_cores_and_for_them(
    cpu: float, waits: float, busy: float, tmp_path: Path
) -> None:
    process = made.rank(workers=1, queue=1.0)
    process.train(PLAIN)
    worker = made.worker(process)
    samples = [
        SystemSample(
            clock=process.clock - ago,
            cores_busy=[1.0],
            processes=[ProcessSample(pid=worker.pid, cpu_s=-cpu * ago, rss_bytes=1, core_wait_s=-waits * ago)],
        )
        for ago in (1.0, 0.5, 0.1)
    ]
    _, evidence = measured(tmp_path, process, worker, system=samples)
    assert evidence.loader is not None
    # Batches are whole: one more or fewer lies between the samples.
    assert evidence.loader.workers_busy == pytest.approx(busy, rel=0.08)


def test_waits_with_no_batch_ready_are_told_from_all_waits(tmp_path: Path) -> None:
    process = made.rank(workers=2)
    process.phase(records.CLEAN)
    for index in range(41):
        process.queue = float(index % 2)
        process.step(PLAIN, N=0.020 if index % 2 else 0.040)
    _, evidence = measured(tmp_path, process)
    assert evidence.loader is not None
    assert evidence.loader.starved_share is not None
    assert evidence.loader.starved_share == pytest.approx(evidence.loader.data_wait_share * 2 / 3)


def test_the_start_of_an_epoch_and_its_length(tmp_path: Path) -> None:
    process = made.rank(workers=2, queue=0.0)
    process.train([PLAIN] * 9 + ["N/ N1 f B Oadam"], warmup=10, clean=40)
    _, evidence = measured(tmp_path, process)
    assert evidence.loader is not None
    assert evidence.loader.epoch_start_s == pytest.approx(0.010)
    assert evidence.loader.steps_per_epoch == 10


def test_loaders_are_told_apart_by_their_lines(tmp_path: Path) -> None:
    process = made.rank()
    other = f"{TRAIN}:90"
    process.note("loader", name=process.name(other), line=other, workers=3, batch_size=4)
    process.phase(records.CLEAN)
    for _ in range(11):
        process.step("N")
        process.spend(records.BATCH, 0.032, name=other, value=2, flags=records.GRADIENTS)
        process.step("f B Oadam")
    _, evidence = measured(tmp_path, process)
    by_line = {loader.line: loader for loader in evidence.loaders}
    assert by_line[Line(Path(TRAIN), 5)].data_wait_share == pytest.approx(0.1)
    assert by_line[Line(Path(TRAIN), 90)].data_wait_share == pytest.approx(0.32)
    assert by_line[Line(Path(TRAIN), 90)].workers == 3


def test_steps_of_two_humps_have_a_mean_beside_the_median(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(31):
        process.step(PLAIN, N=0.100 if index % 3 == 0 else 0.001)
    run, _ = measured(tmp_path, process)
    assert run.steps.median_s == pytest.approx(0.059)
    assert run.steps.mean_s == pytest.approx(0.092)


# -------------------------------------------------------------------------------------------------------------- ranks


def together(*forward: float, ddp: bool = True) -> list[MadeProcess]:
    """Ranks whose forward passes take so long, and which meet in the backward pass."""
    ranks = [made.rank(number, world_size=len(forward)) for number in range(len(forward))]
    for process, seconds in zip(ranks, forward, strict=True):
        if ddp:
            process.note("ddp", unused_parameters=0, find_unused_parameters=False, reductions=1.0)
        process.train(PLAIN, f=seconds, B=0.030 + (max(forward) - seconds if ddp else 0.0))
    return ranks


def test_a_straggler_that_the_others_wait_for_in_the_backward_pass(tmp_path: Path) -> None:
    run, _ = measured(tmp_path, *together(0.020, 0.060, 0.020))
    assert [rank.median_s for rank in run.ranks] == pytest.approx([0.108] * 3)
    assert [rank.own_s for rank in run.ranks] == pytest.approx([0.068, 0.108, 0.068])
    assert any("rank 1 takes 59 % longer" in why for why in run.bottleneck.why)


def test_the_steps_shown_are_those_of_the_straggler(tmp_path: Path) -> None:
    run, _ = measured(tmp_path, *together(0.020, 0.060, 0.020))
    assert run.shares.forward == pytest.approx(0.060 / 0.108)


def test_a_loader_is_judged_by_the_rank_that_waits_the_longest_for_it(tmp_path: Path) -> None:
    """The others wait for that rank in the backward pass, and their loaders seem to keep up."""
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process, wait in zip(ranks, (0.001, 0.061), strict=True):
        process.train(PLAIN, N=wait, B=0.091 - wait)
    run, evidence = measured(tmp_path, *ranks)
    assert run.shares.data_wait == pytest.approx(0.001 / 0.119)
    assert evidence.loader is not None
    assert evidence.loader.data_wait_share == pytest.approx(0.061 / 0.119)


def test_ranks_alike_have_no_straggler(tmp_path: Path) -> None:
    run, _ = measured(tmp_path, *together(0.020, 0.021, 0.020))
    assert not any("longer than the median rank" in why for why in run.bottleneck.why)


def test_waits_in_collectives_are_no_time_of_ones_own(tmp_path: Path) -> None:
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process in ranks:
        process.phase(records.CLEAN)
        for _ in range(11):
            process.step("N f B Oadam")
            process.clock += 0.020 * (process.rank or 0)
            process.spend(records.WAIT, 0.001 + 0.020 * (1 - (process.rank or 0)), name=f"{TRAIN}:70")
    run, _ = measured(tmp_path, *ranks)
    assert [rank.own_s for rank in run.ranks] == pytest.approx([0.068, 0.088])


def in_turn(rank: int, *extra: tuple[float, float]) -> MadeProcess:
    """A rank that in each step takes a time of its own more, and waits for the other, which takes its own."""
    process = made.rank(rank, world_size=2)
    process.phase(records.CLEAN)
    for mine, others in extra:
        process.step("N f B Oadam")
        process.clock += mine
        process.spend(records.WAIT, 0.001 + max(0.0, others - mine), name=f"{TRAIN}:70")
    return process


SLOWER: Mapping[str, tuple[Sequence[float], bool]] = {
    "in each step": ([0.020] * 40, True),
    "in most steps": ([0.020, 0.020, 0.0, 0.020] * 10, True),
    "in somewhat more than half of the steps": ([0.020, 0.020, 0.020, 0.0, 0.0] * 8, False),
    "by little in each step": ([0.005] * 40, False),
    "by much in few steps": ([0.0, 0.0, 0.500, 0.0] * 10, False),
    "in all of a few steps": ([0.020] * 6, False),
    "in all of 13 steps, as other work may have its cores that long": ([0.200] * 14, False),
    "in most steps, none of them among the last": ([0.020] * 70 + [0.0] * 30, False),
}


@pytest.mark.parametrize("case", SLOWER)
def test_a_rank_is_a_straggler_if_it_is_slower_more_often_than_chance_has_it(case: str, tmp_path: Path) -> None:
    extra, is_one = SLOWER[case]
    ranks = in_turn(0, *((0.0, one) for one in extra)), in_turn(1, *((one, 0.0) for one in extra))
    run, _ = measured(tmp_path, *ranks)
    assert any("longer than the median rank" in why for why in run.bottleneck.why) is is_one


def test_time_in_which_other_work_has_the_core_is_no_time_of_a_ranks_own(tmp_path: Path) -> None:
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process in ranks:
        process.phase(records.CLEAN)
        waited = 0.0
        for _ in range(21):
            process.record(records.CORE_WAIT, process.clock, value=waited)
            process.step("N f B Oadam")
            process.clock += 0.020 * (process.rank or 0)
            waited += 0.020 * (process.rank or 0)
            process.spend(records.WAIT, 0.001 + 0.020 * (1 - (process.rank or 0)), name=f"{TRAIN}:70")
    run, _ = measured(tmp_path, *ranks)
    assert run.ranks[1].own_s == pytest.approx(0.068, rel=0.1)
    assert not any("longer than the median rank" in why for why in run.bottleneck.why)


@pytest.mark.parametrize("alone", [True, False], ids=["while one evaluates", "while all evaluate"])
def test_ranks_that_wait(alone: bool, tmp_path: Path) -> None:
    ranks = [made.rank(number, world_size=2) for number in range(2)]
    for process in ranks:
        process.phase(records.CLEAN)
        for index in range(21):
            if index % 5 == 4 and (process.rank == 0 or not alone):
                process.step("n1 n n n n n n n n n")
            elif index % 5 == 4:
                process.spend(records.WAIT, 0.100, name=f"{TRAIN}:70")
            process.step(PLAIN)
    _, evidence = measured(tmp_path, *ranks)
    if not alone:
        assert evidence.barrier is None
        return
    assert evidence.barrier is not None
    assert (evidence.barrier.rank, evidence.barrier.what) == (0, "evaluates")
    assert evidence.barrier.waiting_share == pytest.approx(0.4 / (20 * STEP + 0.4), rel=0.01)


def test_what_ranks_note(tmp_path: Path) -> None:
    ranks = together(0.020, 0.020)
    for process in ranks:
        loader = process.name(LOADER)
        process.note("loader", name=loader, line=LOADER, workers=0, dataset_length=100, sampler_length=50)
        for epoch in (1, 2):
            process.note("digest", loader=loader, epoch=epoch, digest=f"{process.rank}{epoch}")
        process.note("ddp", unused_parameters=7, unused_parameter_bytes=0, find_unused_parameters=True, reductions=2.0)
    _, evidence = measured(tmp_path, *ranks)
    assert [rank.batch_digests for rank in evidence.ranks] == [("01", "02"), ("11", "12")]
    assert [rank.dataset_share for rank in evidence.ranks] == [0.5, 0.5]
    assert [rank.ddp_unused_parameters for rank in evidence.ranks] == [0, 0]
    assert [rank.reductions_per_update for rank in evidence.ranks] == [2.0, 2.0]


@pytest.mark.parametrize(
    ("notes", "shares"),
    [
        pytest.param([{"dataset_length": 100}] * 2, [1, 1], id="whole copies"),
        pytest.param([{"dataset_length": 50}, {"dataset_length": 49}], [None, None], id="of different lengths"),
        pytest.param(
            [{"dataset_length": 50, "part": part, "part_of_length": 100} for part in "ab"],
            [0.5, 0.5],
            id="different parts of one",
        ),
        pytest.param(
            [{"dataset_length": 50, "part": part, "part_of_length": 100} for part in "aa"],
            [1, 1],
            id="the same part of one",
        ),
        pytest.param(
            [{"dataset_length": 50, "part": None, "part_of_length": 100}] * 2, [None, None], id="parts, unknown which"
        ),
    ],
)
def test_ranks_that_draw_all_of_their_datasets(
    notes: list[dict[str, object]], shares: list[float | None], tmp_path: Path
) -> None:
    ranks = together(0.020, 0.020)
    for process, note in zip(ranks, notes, strict=True):
        loader = process.name(LOADER)
        process.note("loader", name=loader, line=LOADER, workers=0, sampler_length=note["dataset_length"], **note)
    _, evidence = measured(tmp_path, *ranks)
    assert [rank.dataset_share for rank in evidence.ranks] == shares


# ------------------------------------------------------------------------------------- evaluation, collections, tokens


def test_the_share_of_evaluation_is_what_its_cycles_take_beyond_a_step(tmp_path: Path) -> None:
    process = made.rank()
    process.train([PLAIN] * 4 + ["n1 n n n n n n n n n N1 f B Oadam"], warmup=5, clean=20)
    run, _ = measured(tmp_path, process)
    assert run.steps.irregular == 4
    assert run.overlapping.evaluation == pytest.approx(4 * 0.1 / (20 * STEP + 0.4))


EVALUATION = "/project/train.py:40"


def evaluated(process: MadeProcess, batches: int, loader: str) -> None:
    """Batches with gradients enabled that no backward pass follows."""
    for index in range(batches):
        flags = records.GRADIENTS | (records.FIRST if index == 0 else 0)
        process.spend(records.BATCH, 0.010, name=loader, value=-1, flags=flags)


def test_batches_of_a_loader_that_no_backward_pass_follows_are_evaluation(tmp_path: Path) -> None:
    process = made.rank()
    process.note("loader", name=process.name(EVALUATION), line=EVALUATION, workers=0, batch_size=8)
    process.phase(records.CLEAN)
    for index in range(21):
        if index % 5 == 4:
            evaluated(process, 100, EVALUATION)
        process.step(PLAIN)
    run, _ = measured(tmp_path, process)
    assert run.steps.irregular == 4
    assert run.steps.samples_per_s == pytest.approx(8 / STEP)
    assert run.overlapping.evaluation == pytest.approx(4 * 1.0 / (20 * STEP + 4 * 1.0))


def test_evaluation_that_cannot_be_told_from_training_is_not_known(tmp_path: Path) -> None:
    process = made.rank()
    process.note("evaluation", outputs_require_grad=True, gradients_enabled=True)
    process.phase(records.CLEAN)
    for index in range(21):
        if index % 5 == 4:
            evaluated(process, 10, LOADER)
        process.step(PLAIN)
    run, _ = measured(tmp_path, process)
    assert run.overlapping.evaluation is None
    assert "gradients enabled" in run.environment.missing["overlapping.evaluation"]


@pytest.mark.parametrize(
    ("before", "after"), [((EVALUATION,), 1), ((EVALUATION, EVALUATION), 1)], ids=["two loaders", "fetched ahead"]
)
def test_batches_that_come_before_each_step_are_those_of_training(
    before: tuple[str, ...], after: int, tmp_path: Path
) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(21):
        for loader in before:
            process.spend(records.BATCH, 0.010, name=loader, value=-1, flags=records.GRADIENTS)
        process.step(PLAIN)
    run, _ = measured(tmp_path, process)
    assert run.steps.irregular == 0


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        ([], None),
        ([{"outputs_require_grad": True, "gradients_enabled": True}], True),
        ([{"outputs_require_grad": False, "gradients_enabled": True}], False),
        ([{"outputs_require_grad": False, "gradients_enabled": False}], False),
        ([{"gradients_enabled": False}], False),
        ([{"gradients_enabled": True}], None),
    ],
)
def test_whether_evaluation_records_a_graph(notes: list[dict[str, object]], expected: bool, tmp_path: Path) -> None:
    process = made.rank()
    for note in notes:
        process.note("evaluation", **note)
    process.train(PLAIN)
    assert measured(tmp_path, process)[1].evaluation_records_graph is expected


def test_collections_are_a_share_of_the_time(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        process.spend(records.COLLECTION, 0.004, value=2)
        process.step(PLAIN)
    assert measured(tmp_path, process)[1].collection_share == pytest.approx(4 / 72)


def test_a_collection_that_waits_for_its_core_is_no_longer_for_that(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for index in range(21):
        process.step("N f B")
        process.record(records.CORE_WAIT, process.clock, value=0.0 if index < 10 else 0.090)
        if index == 9:
            process.spend(records.COLLECTION, 0.100, value=2)
            process.record(records.CORE_WAIT, process.clock, value=0.090)
        process.step("Oadam")
    _, evidence = measured(tmp_path, process)
    assert evidence.collection_share == pytest.approx(0.010 / (20 * 0.068 + 0.100))


def test_tokens_and_padding(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    for _ in range(11):
        process.step("N")
        process.record(records.TOKENS, process.clock, 1000.0, value=300.0)
        process.step("f B Oadam")
    run, evidence = measured(tmp_path, process)
    assert run.steps.tokens_per_s == pytest.approx(1000 / STEP)
    assert run.steps.effective_tokens_per_s == pytest.approx(300 / STEP)
    assert evidence.effective_token_share == pytest.approx(0.3)


def test_recompilations_in_the_clean_steps(tmp_path: Path) -> None:
    process = made.rank()
    process.note("recompilations", start=3, end=5, graph_breaks=0)
    process.train(PLAIN)
    assert measured(tmp_path, process)[1].recompilations == 2


def test_compilations_of_the_profiler_window_are_none_of_the_clean_steps(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    recording = made.write(tmp_path, process)
    trace = GpuTrace()
    for _ in range(3):
        with trace.step(), trace.annotation("entire_frame_compile (dynamo_timed)"):
            trace.kernel(100.0)
    trace.write(tmp_path / "traces" / "rank-0.json.gz")
    assert analyse(made.read(recording.folder))[1].recompilations is None


# ------------------------------------------------------------------------------------------------------------- memory

MIB = 1 << 20
GROWTH = {
    "grows by as much at each step": ([index * 4096.0 for index in range(20)], 4096.0),
    "stays": ([1e9] * 20, 0.0),
    "goes up and down": ([1e9 + 50 * MIB * math.sin(index * 2.1) for index in range(20)], 0.0),
    "grows among ups and downs": ([index * MIB + 2 * MIB * math.sin(index * 2.1) for index in range(20)], 1.0 * MIB),
    "falls": ([1e9 - index * 512.0 for index in range(20)], -512.0),
    "too few readings": ([index * 4096.0 for index in range(8)], None),
}


@pytest.mark.parametrize(("values", "expected"), GROWTH.values(), ids=GROWTH)
def test_growth_of_memory(values: list[float], expected: float | None, tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.CLEAN)
    process.step(PLAIN)
    for value in values:
        process.record(records.MEMORY, process.clock + 0.001, 2e9, value=value)
        process.step(PLAIN)
    (read,) = made.write(tmp_path, process).ranks
    found = slope(steps_of(read, 0))
    assert found == (None if expected is None else pytest.approx(expected, rel=0.2))


def test_peaks_are_those_of_the_allocator(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    process.record(records.MEMORY, process.clock, 5e9, value=3e9, flags=records.PEAK)
    _, evidence = measured(tmp_path, process)
    assert evidence.memory_peak is not None
    assert (evidence.memory_peak.allocated, evidence.memory_peak.reserved) == (3e9, 5e9)
    assert evidence.memory_slope_bytes_per_step is None


# ----------------------------------------------------------------------------------------------------------- machines

DEVICE = GpuDevice(
    index=1,
    uuid="GPU-1",
    name="GPU",
    memory_total_bytes=40 << 30,
    power_limit_w=300.0,
    sm_clock_max_mhz=1980,
    used_by_job=True,
    missing={"pcie": "not supported"},
)


def gpu_samples(start: float, seconds: float, uuid: str = "GPU-1") -> list[GpuSample]:
    return [
        GpuSample(
            clock=start + index * 0.25,
            uuid=uuid,
            util=0.1 if index % 5 == 0 else 0.9,
            memory_used_bytes=index << 20,
            power_w=250.0,
            energy_j=1000.0 + index * 0.25 * 150.0,
            sm_clock_mhz=1500,
            throttle_reasons=["power"] if index == 3 else [],
        )
        for index in range(int(seconds / 0.25))
    ]


def test_a_gpu_over_six_seconds_of_training(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, warmup=4, clean=100)
    run, _ = measured(tmp_path, process, gpu=[DEVICE, *gpu_samples(100.0, 8.0), *gpu_samples(100.0, 8.0, "GPU-0")])
    (use,) = run.gpu
    assert (use.index, use.throttle_reasons, use.sm_clock_mean_mhz) == (1, ["power"], 1500)
    assert use.util_mean == pytest.approx(0.74, abs=0.03)
    assert use.util_p10 == pytest.approx(0.1)
    assert use.power_mean_w == pytest.approx(150.0)
    assert use.power_share == pytest.approx(0.5)
    assert run.environment.missing["gpu.1.pcie"] == "not supported"
    assert {point.index for point in run.gpu_timeline} == {1}


A100 = DEVICE.model_copy(update={"name": "NVIDIA A100-SXM4-40GB"})


@pytest.mark.parametrize(
    ("device", "options", "expected"),
    [
        (A100, Options(flops_per_step=312e12 * STEP / 4), 0.25),
        (A100, Options(parameters=1_000_000, tokens_per_step=int(312e6 * STEP / 12)), 0.5),
        (A100, Options(), "the operations of a step are not known"),
        (DEVICE, Options(flops_per_step=1e12), "the peak rate of GPU is not listed"),
        (None, Options(flops_per_step=1e12), "the job ran without a GPU"),
    ],
    ids=["given", "from parameters and tokens", "not given", "a device that is not listed", "no device"],
)
def test_utilization(device: GpuDevice | None, options: Options, expected: float | str, tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    run, _ = measured(tmp_path, process, gpu=[device] if device is not None else [], options=options)
    if isinstance(expected, str):
        assert run.steps.mfu is None
        assert expected in run.environment.missing["steps.mfu"]
    else:
        assert run.steps.mfu == pytest.approx(expected, rel=1e-4)
        assert "steps.mfu" not in run.environment.missing


@pytest.mark.parametrize(
    ("visible", "ranks", "expected"), [(1, 1, 0.25), (8, 1, None), (1, 2, None)], ids=["one", "some of", "one each"]
)
def test_utilization_needs_to_know_the_devices_that_are_used(
    visible: int, ranks: int, expected: float | None, tmp_path: Path
) -> None:
    devices = [{"index": index, "name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 40 << 30} for index in range(visible)]
    processes = [made.rank(number, world_size=ranks, devices=devices) for number in range(ranks)]
    for process in processes:
        process.train(PLAIN)
    run, _ = measured(tmp_path, *processes, options=Options(flops_per_step=312e12 * STEP / 4))
    assert run.steps.mfu == (None if expected is None else pytest.approx(expected))
    assert expected is not None or "which devices the job used" in run.environment.missing["steps.mfu"]


@pytest.mark.parametrize("doubt", [False, True])
def test_utilization_in_doubt_of_the_devices(doubt: bool, tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    missing = {"nvml.match": "the job sees 8 GPUs, and may not use all of them; --gpu names them"} if doubt else {}
    options = Options(flops_per_step=312e12 * STEP / 4)
    run, _ = measured(tmp_path, process, gpu=[A100], options=options, missing=missing)
    assert run.steps.mfu == (None if doubt else pytest.approx(0.25))


def test_less_than_five_seconds_say_nothing_of_a_gpu(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, warmup=4, clean=40)
    run, _ = measured(tmp_path, process, gpu=[DEVICE, *gpu_samples(100.0, 8.0)])
    (use,) = run.gpu
    assert (use.util_mean, use.power_mean_w, use.memory_peak_bytes, use.throttle_reasons) == (None, None, None, [])
    assert "5 s are needed" in run.environment.missing["gpu.1"]


def test_a_gpu_in_the_profiler_window_does_not_count(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, warmup=4, clean=40)
    for _ in range(200):
        process.step(PLAIN)
    run, _ = measured(tmp_path, process, gpu=[DEVICE, *gpu_samples(100.0, 15.0)])
    assert run.gpu[0].util_mean is None


def test_the_fullest_gpu_is_compared_with_its_own_memory() -> None:
    unmeasured = dict.fromkeys(GpuUse.model_fields) | {"throttle_reasons": []}
    uses = [
        GpuUse(**unmeasured | {"index": index, "memory_peak_bytes": peak << 30}) for index, peak in ((3, 8), (1, 9))
    ]
    gpus = [
        Gpu(index=index, name="GPU", memory_total_bytes=total, power_limit_w=None)
        for index, total in ((1, 40 << 30), (2, 80 << 30), (3, 10 << 30))
    ]
    assert largest_fill(uses, gpus) == pytest.approx(0.8)
    assert largest_fill(uses, []) is None


def test_energy_of_the_profiler_window_does_not_count(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, warmup=4, clean=60)
    opened = process.clock
    for _ in range(60):
        process.step(PLAIN)
    closed = process.clock
    process.phase(records.CLEAN)
    for _ in range(60):
        process.step(PLAIN)
    clock, joules, samples = 100.0, 0.0, []
    while clock < process.clock:
        samples.append(GpuSample(clock=clock, uuid="GPU-1", energy_j=joules))
        joules += 0.25 * (50.0 if opened <= clock < closed else 200.0)
        clock += 0.25
    run, _ = measured(tmp_path, process, gpu=[DEVICE, *samples])
    assert run.gpu[0].power_mean_w == pytest.approx(200.0)


def test_the_machine(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, warmup=4, clean=40)
    samples = [
        SystemSample(
            clock=100.5 + index * 0.2,
            cores_busy=[1.0, 0.5],
            io_wait=0.1,
            processes=[ProcessSample(pid=1000, cpu_s=1.0, rss_bytes=index << 20)],
        )
        for index in range(5)
    ]
    run, _ = measured(tmp_path, process, system=samples)
    assert (run.cpu.util_mean, run.cpu.busiest_core_mean) == (pytest.approx(0.75), 1.0)
    assert (run.cpu.rss_peak_bytes, run.cpu.io_wait_share) == (4 << 20, pytest.approx(0.1))


# ------------------------------------------------------------------------------------------------ what is not measured


def test_a_plain_recording_says_what_it_lacks(tmp_path: Path) -> None:
    process = made.rank()
    process.note("missing", what="profiler", why="the script uses one itself")
    process.train(PLAIN)
    run, evidence = measured(tmp_path, process, missing={"nvml": "no NVIDIA driver library"})
    missing = run.environment.missing
    assert missing["nvml"] == "no NVIDIA driver library"
    assert missing["profiler"] == "the script uses one itself"
    assert missing["kernels"] == "the job ran without an accelerator"
    assert missing["cpu"] == "the machine was not sampled"
    assert {"stacks", "loader.alone_batch_s", "steps.tokens_per_s"} <= missing.keys()
    assert (run.gpu, run.kernels, run.steps.mfu) == ([], None, None)
    assert run.environment.sources == ["agent"]
    assert evidence.files is None


def test_a_job_that_ends_well_after_fewer_steps_is_measured(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, clean=20)
    run, _ = measured(tmp_path, process, options=Options(steps=50, warmup=4))
    assert run.bottleneck.kind == "compute"
    assert run.environment.missing["steps"] == "the job ended after 20 of 50 clean steps"


NO_STEPS = {
    "no process trains": [],
    "nothing is recorded": [made.rank()],
    "a worker alone": [MadeProcess(7, role="worker")],
}


@pytest.mark.parametrize("processes", NO_STEPS.values(), ids=NO_STEPS)
def test_without_steps_nothing_is_guessed(processes: list[MadeProcess], tmp_path: Path) -> None:
    run, evidence = measured(tmp_path, *processes)
    assert run.bottleneck.kind == "insufficient"
    assert (run.steps.measured, run.steps.median_s, run.loader) == (0, None, None)
    assert set(run.shares.model_dump().values()) == {None}
    assert "steps" in run.environment.missing
    assert (evidence.step_s, evidence.loader, evidence.collection_share) == (0.0, None, None)


def cut(path: Path, part: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])


def test_a_recording_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, clean=100)
    recording = made.write(tmp_path, process, system=[])
    for path in (tmp_path / "processes").iterdir():
        cut(path, 0.5)
    (tmp_path / "samples" / "stacks.jsonl").write_text('{"type": "stack", "id": 1, "fra')
    run, _ = analyse(made.read(recording.folder))
    assert run.steps.median_s in (None, pytest.approx(STEP))
    assert "recording" in run.environment.missing


def test_a_job_that_was_killed_is_measured_as_far_as_it_got(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN, clean=12)
    end = JobEnd(exit_code=None, signal=9, stopped_by_probe=False, clock=110.0)
    run, _ = measured(tmp_path, process, end=end)
    assert run.steps.measured == 12
    assert (run.job.exit_code, run.job.signal) == (None, 9)


def test_an_agent_that_failed_is_named(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    process.note("fault", where="sync", traceback="Traceback …")
    run, _ = measured(tmp_path, process)
    assert "failed at sync" in run.environment.missing["agent"]


def test_what_the_probe_cost(tmp_path: Path) -> None:
    process = made.rank()
    process.train(PLAIN)
    run, _ = measured(tmp_path, process, probe_cpu_s=1.1)
    assert run.overhead.agent_share is not None
    # A batch and an optimizer's step in 68 ms, and less for what is nothing but records.
    assert (overhead.BATCH_S + overhead.UPDATE_S) / 0.068 < run.overhead.agent_share < 0.0017
    assert run.overhead.probe_core_share == pytest.approx(0.01)
    assert run.overhead.recording_bytes is not None


def test_files_and_variables_of_the_job(tmp_path: Path) -> None:
    process = made.rank()
    process.note("files", paths=[TRAIN])
    process.note("environment", variables={"NCCL_P2P_DISABLE": "1", "OMP_NUM_THREADS": ""})
    process.train(PLAIN)
    _, evidence = measured(tmp_path, process)
    assert evidence.files == {Path(TRAIN)}
    assert evidence.environment == {"NCCL_P2P_DISABLE": "1", "OMP_NUM_THREADS": ""}


def test_all_that_is_measured_can_be_written_and_read(tmp_path: Path) -> None:
    run, evidence = measured(tmp_path, *together(0.020, 0.060))
    assert Measured.model_validate_json(run.model_dump_json()) == run
    assert replace(evidence) == evidence
