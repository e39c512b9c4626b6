"""What counts as a step, for every kind of training loop that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import made_recordings as made
import pytest

from trainlint.agent import records
from trainlint.probe.analysis.steps import RankSteps, steps_of


@dataclass(frozen=True)
class Loop:
    """A training loop, and what a step of it is."""

    behaviour: str
    cycle: str | tuple[str, ...]
    step_s: float
    micro_batches: float = 1.0
    label: str = "a step ends with the update of adam"


STEP = 0.070
"""N f B . Oa, in the seconds of `made_recordings`."""

LOOPS = (
    Loop("one optimizer", "N f B . Oadam", STEP),
    Loop("a subclass whose step calls its base's", "N f B . [ Oadam ]adam", STEP),
    Loop("LBFGS calls forward and backward four times", "N . [ f B f B f B f B ]adam", 0.212),
    Loop("three micro-batches", "N f B N f B N f B . Oadam", 3 * 0.060 + 0.010, 3.0),
    Loop(
        "a GAN, one step of each",
        "N f B Odiscriminator f B Ogenerator",
        0.126,
        label="a step ends with the update of generator",
    ),
    Loop(
        "a WGAN with three steps of the critic",
        "N f B Ocritic N f B Ocritic N f B Ocritic B Ogenerator",
        3 * 0.068 + 0.038,
        3.0,
        label="a step ends with the update of generator",
    ),
    Loop("GradScaler", "N f B . Oadam U", 0.071),
    Loop(
        "a scaler that does not tell that it skips every third update", ("N f B . Oadam U",) * 2 + ("N f B . U",), 0.071
    ),
    Loop(
        "one optimizer for each parameter, in the backward pass",
        "N f { Oa Ob Oc Od }",
        0.062,
        label=("a step ends with the update of a and b and c and d"),
    ),
    Loop("no loader", "f B Oadam", 0.058, 0.0),
    Loop("gradients of torch.autograd.grad", "N f B Oadam", 0.068),
    Loop("a batch fetched ahead, two micro-batches", "N f B N f B Oadam", 0.128, 2.0),
    Loop("all micro-batches fetched first", "N N f B f B Oadam", 0.128, 2.0),
    Loop(
        "a hand-written update",
        "N f B . .",
        0.064,
        label="no optimizer was seen: a step ends with the last backward pass before the next batch",
    ),
    Loop(
        "neither an update nor a backward pass",
        "N f .",
        0.032,
        label="no update and no backward pass seen: a step is a batch",
    ),
)


def trained(cycle: str | tuple[str, ...], tmp_path: Path, **seconds: float) -> RankSteps:
    process = made.rank()
    process.train(cycle, **seconds)
    (read,) = made.write(tmp_path, process).ranks
    return steps_of(read, warmup=4)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.behaviour)
def test_step(loop: Loop, tmp_path: Path) -> None:
    steps = trained(loop.cycle, tmp_path)
    assert steps.median_s == pytest.approx(loop.step_s)
    assert steps.micro_batches == pytest.approx(loop.micro_batches)
    assert steps.label == loop.label
    assert len(steps.cycles) >= 19
    assert steps.warmup == 4


def test_an_update_skipped_for_infinities_ends_a_step(tmp_path: Path) -> None:
    cycles = ("N f B . Oadam U",) * 4 + ("N f B . . . . . u",)
    steps = trained(cycles, tmp_path)
    assert len(steps.cycles) == 20
    assert max(cycle.duration for cycle in steps.cycles) == pytest.approx(0.071)


def test_a_skipped_update_of_the_generator_belongs_to_the_generator(tmp_path: Path) -> None:
    usual = "N f B Odiscriminator f B Ogenerator U"
    steps = trained((usual,) * 3 + ("N f B Odiscriminator f B u",), tmp_path)
    assert len(steps.cycles) == 20
    assert steps.label == "a step ends with the update of generator"


def test_an_update_skipped_in_a_group_of_two_keeps_the_label_of_both(tmp_path: Path) -> None:
    usual = "N f B Oencoder Odecoder U"
    steps = trained((usual,) * 3 + ("N f B Odecoder u",), tmp_path)
    assert len(steps.cycles) == 20


def test_evaluation_and_new_iterators_make_a_cycle_irregular(tmp_path: Path) -> None:
    process = made.rank()
    plain, evaluates, turns = "N f B Oadam", "n1 . n . n/ N1 f B Oadam", "N/ N1 f B Oadam"
    process.train([plain, plain, plain, evaluates, plain, plain, plain, turns], warmup=8, clean=16)
    (read,) = made.write(tmp_path, process).ranks
    steps = steps_of(read, warmup=8)
    assert [cycle.regular for cycle in steps.cycles] == [True, True, True, False] * 4
    assert steps.median_s == pytest.approx(0.068)
    assert [cycle.evaluation_batches for cycle in steps.cycles[:4]] == [0, 0, 0, 2]


def test_what_most_cycles_do_is_regular(tmp_path: Path) -> None:
    steps = trained("N1 f B Oadam", tmp_path)
    assert len(steps.regular) == 20


def test_a_step_in_which_the_phase_changes_is_left_out(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.WARMUP)
    for _ in range(3):
        process.step("N f B Oadam")
    process.step("N f B")
    process.phase(records.CLEAN)
    process.step("Oadam")
    for _ in range(6):
        process.step("N f B Oadam")
    (read,) = made.write(tmp_path, process).ranks
    assert len(steps_of(read, warmup=3).cycles) == 6


def test_the_window_is_not_timed_and_the_clean_steps_after_it_are(tmp_path: Path) -> None:
    process = made.rank()
    process.train("N f B Oadam", warmup=4, clean=10)
    for _ in range(5):
        process.step("N f B Oadam", f=1.0)
    process.phase(records.AFTER)
    for _ in range(5):
        process.step("N f B Oadam", f=0.5)
    process.phase(records.DETACHED)
    (read,) = made.write(tmp_path, process).ranks
    steps = steps_of(read, warmup=4)
    assert [cycle.duration for cycle in steps.cycles] == pytest.approx([0.068] * 10 + [0.548] * 5)


def test_without_phases_the_first_steps_are_left_out_and_that_is_said(tmp_path: Path) -> None:
    process = made.rank()
    for _ in range(10):
        process.step("N f B Oadam")
    (read,) = made.write(tmp_path, process).ranks
    steps = steps_of(read, warmup=4)
    assert len(steps.cycles) == 5
    assert steps.note == "the agent recorded no phases"


def test_a_ring_that_wrapped_around_keeps_the_last_clean_steps(tmp_path: Path) -> None:
    process = made.rank(capacity=31)
    process.train("N f B Oadam", warmup=4, clean=100)
    (read,) = made.write(tmp_path, process).ranks
    assert read.lost > 200
    assert len(steps_of(read, warmup=4).cycles) == 9


NONE = (
    ("nothing at all", "", "no step was identified: the job showed no batch, backward or update"),
    ("evaluation only", "n . n . n .", "no step was identified: the job showed evaluation batch"),
    ("one update", "N f B Oadam", "fewer than two steps were seen"),
    (
        "each optimizer steps once",
        "N f B Oone N f B Otwo",
        "fewer than two updates of the optimizer that ends a step",
    ),
)


@pytest.mark.parametrize(("words", "why"), [case[1:] for case in NONE], ids=[case[0] for case in NONE])
def test_no_steps(words: str, why: str, tmp_path: Path) -> None:
    process = made.rank()
    process.step(words)
    (read,) = made.write(tmp_path, process).ranks
    steps = steps_of(read, warmup=4)
    assert steps.cycles == ()
    assert steps.missing == why


def test_a_job_that_ends_in_the_warm_up(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.WARMUP)
    for _ in range(4):
        process.step("N f B Oadam")
    (read,) = made.write(tmp_path, process).ranks
    assert steps_of(read, warmup=10).missing == "the job ended after 3 steps, in the warm-up"


def test_what_the_agent_does_to_change_its_phase_is_no_part_of_a_step(tmp_path: Path) -> None:
    process = made.rank()
    process.phase(records.WARMUP)
    for _ in range(4):
        process.step("N f B Oadam .")
    process.clock += 3.0
    process.phase(records.CLEAN)
    for _ in range(10):
        process.step("N f B Oadam .")
    (read,) = made.write(tmp_path, process).ranks
    steps = steps_of(read, warmup=4)
    assert steps.count == 10
    assert [cycle.duration for cycle in steps.cycles] == pytest.approx([0.070] * 9)


def test_events_of_other_threads_are_no_steps(tmp_path: Path) -> None:
    process = made.rank()
    process.train("N f B Oadam")
    for index in range(50):
        process.record(records.UPDATE, 100.0 + index / 50, 0.001, name="other", thread=1)
    (read,) = made.write(tmp_path, process).ranks
    assert steps_of(read, warmup=4).median_s == pytest.approx(0.068)
