"""What the profiler's window may cost: how long it records, and of which steps it records stacks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.probe.agent_jobs import prepared, processes_of

from trainlint.agent.agent import Agent
from trainlint.agent.phases import STACK_STEPS
from trainlint.agent.python_calls import PythonCalls
from trainlint.agent.window import Window
from trainlint.probe.injection import QUIET_KINETO
from trainlint.probe.traces import analyse

torch = pytest.importorskip("torch")

PROFILED = 2


def called(times: int) -> None:
    for _ in range(times):
        abs(nothing())


def nothing() -> int:
    return 0


@pytest.fixture
def counting() -> Iterator[PythonCalls]:
    calls = PythonCalls()
    yield calls
    calls.end()


def test_calls_of_python_and_of_c_count(counting: PythonCalls) -> None:
    counting.begin()
    called(1000)
    assert 2000 <= (counting.end() or 0) <= 2010


def test_a_job_that_profiles_its_calls_itself_is_not_counted(counting: PythonCalls) -> None:
    def own(*_: object) -> None: ...

    sys.setprofile(own)
    try:
        counting.begin()
        called(10)
        assert counting.end() is None
        assert sys.getprofile() is own
    finally:
        sys.setprofile(None)


def test_counting_costs_a_call_little(counting: PythonCalls) -> None:
    def took(count: bool) -> float:
        if count:
            counting.begin()
        start = time.process_time()
        called(50_000)
        seconds = time.process_time() - start
        counting.end()
        return seconds

    plain, counted = (min(took(count) for _ in range(3)) for count in (False, True))
    assert counted - plain < 100_000 * 1e-6


# ------------------------------------------------------------------------------------------------------------ windows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return prepared(tmp_path, profile_steps=PROFILED)


@pytest.fixture
def agent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    """The agent of this process, without hooks."""
    monkeypatch.setenv("KINETO_LOG_LEVEL", QUIET_KINETO)
    return Agent(str(folder), str(folder), {"profile_steps": PROFILED})


@pytest.fixture
def on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a device is in use; what would come of it is not looked at."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)


def noted(window: Window, folder: Path, kind: str, step: Callable[[], None] = lambda: called(10)) -> dict[str, object]:
    """The only note of a kind that a window leaves."""
    for _ in range(PROFILED + 1 + STACK_STEPS):
        window.boundary()
        step()
        window.within()
    window.boundary()
    (process,) = processes_of(folder)
    assert list(process.noted("fault")) == []
    (found,) = process.noted(kind)
    return found


def test_the_window_says_what_it_cost(agent: Agent, folder: Path) -> None:
    start = time.perf_counter()
    cost = noted(Window(agent), folder, "window", lambda: time.sleep(0.01))
    assert 0.06 <= float(str(cost["seconds"])) <= time.perf_counter() - start
    assert int(str(cost["peak_bytes"])) >= 0


def test_recording_ends_at_the_boundary_after_its_time(agent: Agent, folder: Path) -> None:
    trace = noted(Window(agent, recorded_s=0.0), folder, "trace")
    assert trace["steps"] == 1
    (rank,) = analyse([Path(str(trace["path"]))]).ranks
    assert rank.steps.count == 1


def test_a_step_that_does_not_end_is_no_longer_recorded(agent: Agent, folder: Path) -> None:
    window = Window(agent, step_at_most_s=0.0)
    assert "recorded no further" in str(noted(window, folder, "missing")["why"])
    assert list((folder / "traces").iterdir()) == []


def test_stacks_are_left_out_without_a_device_to_wait_for(agent: Agent, folder: Path) -> None:
    assert "the job ran without one" in str(noted(Window(agent), folder, "window")["without_stacks"])
    assert [path.name for path in (folder / "traces").iterdir() if "stacks" in path.name] == []


@pytest.mark.usefixtures("on_a_device")
def test_stacks_are_left_out_where_a_step_makes_many_calls(agent: Agent, folder: Path) -> None:
    missing = noted(Window(agent, calls_at_most=1000), folder, "missing", lambda: called(600))
    assert missing["what"] == "kineto.stacks"
    assert "calls of Python, and the stacks of more than 1000" in str(missing["why"])


@pytest.mark.usefixtures("on_a_device")
def test_stacks_are_recorded_where_a_step_makes_few_calls(agent: Agent, folder: Path) -> None:
    trace = noted(Window(agent, calls_at_most=1000), folder, "trace", lambda: called(400))
    assert (trace["steps"], trace["stack_steps"]) == (PROFILED, STACK_STEPS - 1)
    (rank,) = analyse([Path(str(trace["stacks"]))]).ranks
    assert rank.has_stacks
