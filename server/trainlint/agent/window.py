"""The profiler's window: a few steps under torch.profiler, then a few more with stacks, from the training thread.

The steps of the window are in no timing. A job that uses a profiler itself keeps it to itself: two at once would leave
one of them empty. Ours is not begun beside one that the job has started, though it may wait for its turn, and makes way
for one that the job starts later.

What the window may cost is bounded: it records for so long and no longer, and stacks only of steps that were counted to
make few calls of Python, and only where a device is there to wait for, which is all they tell of.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any
from weakref import WeakSet

from .agent import Agent
from .phases import STACK_STEPS
from .python_calls import PythonCalls
from .working import is_of_the_job
from .wrapping import preceded, wrapped

QUIET = 6
"""From this KINETO_LOG_LEVEL on, Kineto writes nothing to standard error."""
CALLS_AT_MOST = 50_000
"""Calls of Python in a step whose stacks are recorded. Each takes up to 60 us to write and 1.8 kB (measured: 100,000
calls in 4.9 s and 210 MB, on a busy core), so that two such steps take six seconds."""
RECORDED_S = 10.0
"""Recording ends at the first boundary after so long."""
STEP_AT_MOST_S = 30.0
"""A step that has not ended after so long is recorded no further, and tells nothing."""


class Window:
    """Profiles from boundary to boundary."""

    def __init__(
        self,
        agent: Agent,
        calls_at_most: int = CALLS_AT_MOST,
        recorded_s: float = RECORDED_S,
        step_at_most_s: float = STEP_AT_MOST_S,
    ) -> None:
        self._agent = agent
        self._started: WeakSet[Any] = WeakSet()
        """Profilers of the job between their start and their stop."""
        self._driving = False
        self._used = False
        self._thread = threading.get_ident()
        self._active = int(agent.options.get("profile_steps", 5))
        self._calls_at_most = calls_at_most
        self._recorded_s = recorded_s
        self._step_at_most_s = step_at_most_s
        self._calls = PythonCalls()
        self._begin()

    def _begin(self) -> None:
        self._profiler: Any = None
        self._ran = 0
        self._refused = False
        self._steps: dict[str, int] = {}
        """Whole steps that were recorded, by trace."""
        self._traces: dict[str, str] = {}
        self._counted: int | None = None
        self._without_stacks = ""

    def boundary(self) -> None:
        """A step of the window begins, or its last one has ended."""
        place, self._ran = self._ran, self._ran + 1
        if place == 0:
            self._refused = self._is_harmful()
        if self._refused:
            return
        try:
            self._driving = True
            self._drive(place)
        except Exception as error:
            self._refused = True
            if is_of_the_job(error):
                raise
            self._agent.missing("kineto", "the profiler failed: %s" % error)
        finally:
            self._driving = False
            if self._refused:
                self.stop()

    def within(self) -> None:
        """A step is going on: one that does not end is not recorded without end."""
        if self._profiler is None or self._driving or not self._agent.in_training_thread():
            return
        if time.perf_counter() - self._step_began > self._step_at_most_s:
            self.give_up()
            why = "a step took more than %g s, and was recorded no further" % self._step_at_most_s
            self._agent.missing("kineto", why)
            self._say_trace()
            self._say_cost()

    def _drive(self, place: int) -> None:
        first, last = self._active + 1, self._active + 1 + STACK_STEPS
        if place == 0:
            self._began, self._peak_before = time.perf_counter(), _peak_bytes()
            self._start(self._active, "trace", stacks=False)
            if self._agent.torch.cuda.is_initialized():
                self._calls.begin()
        elif place <= first:
            if place == 1:
                self._counted = self._calls.end()
            self._recorded(place - 1, self._active)
            if place == first and self._may_record_stacks():
                self._start(STACK_STEPS - 1, "stacks", stacks=True)
        elif place <= last:
            self._recorded(place - first - 1, STACK_STEPS - 1)
        if place == last:
            self._say_trace()
            self._say_cost()
        self._step_began = time.perf_counter()

    def _recorded(self, steps: int, of: int) -> None:
        """So many steps are recorded: end there, or go on to the next one."""
        if self._profiler is None:
            return
        if steps == 0:
            self._recording_began = time.perf_counter()
        self._steps[self._name] = steps
        over = steps > 0 and time.perf_counter() - self._recording_began > self._recorded_s
        if steps == of or not over:
            # The schedule's last step writes the trace.
            self._profiler.step()
        if steps == of or over:
            self.stop()

    def _may_record_stacks(self) -> bool:
        why = self._why_no_stacks()
        if why:
            self._agent.missing("kineto.stacks", why)
        elif not self._agent.torch.cuda.is_initialized():
            # Nothing is missed by that.
            self._without_stacks = "stacks would tell which lines wait for a device, and the job ran without one"
        return not why and not self._without_stacks

    def _why_no_stacks(self) -> str:
        torch = self._agent.torch
        noticed = _stacks_are_noticed(torch)
        if noticed or not torch.cuda.is_initialized():
            return noticed
        if self._counted is None:
            return "how many calls of Python a step makes was not counted, since the job profiles them itself"
        if self._counted > self._calls_at_most:
            return "a step makes %d calls of Python, and the stacks of more than %d take too long to record" % (
                self._counted,
                self._calls_at_most,
            )
        return ""

    def _say_trace(self) -> None:
        if "trace" in self._traces:
            self._agent.channel.note(
                "trace",
                path=self._traces["trace"],
                steps=self._steps["trace"],
                stack_steps=self._steps["stacks"] if "stacks" in self._traces else 0,
                stacks=self._traces.get("stacks"),
            )

    def _say_cost(self) -> None:
        self._agent.channel.note(
            "window",
            seconds=time.perf_counter() - self._began,
            peak_bytes=_peak_bytes() - self._peak_before,
            without_stacks=self._without_stacks,
        )

    def _is_harmful(self) -> bool:
        """Whether a profiler would do to the job what it would notice; if so, say what."""
        if self._agent.torch._C._autograd._profiler_enabled() or self._started:
            self._say_taken()
        elif threading.get_ident() != self._thread:
            # Kineto would write so to standard error.
            self._agent.missing("kineto", "the job trains in another thread than imported torch")
        elif not os.environ.get("KINETO_LOG_LEVEL", "").isdigit() or int(os.environ["KINETO_LOG_LEVEL"]) < QUIET:
            why = "KINETO_LOG_LEVEL is not %d or more in the job, so that the profiler would write to standard error"
            self._agent.missing("kineto", why % QUIET)
        elif getattr(self._agent.torch._C, "_len_torch_dispatch_stack", int)():
            why = "the job has a mode that is told of all operators of torch, those of the profiler as well"
            self._agent.missing("kineto", why)
        elif not _can_fork_afterwards():
            self._agent.missing("kineto", "with this C library, processes that are forked after profiling may hang")
        else:
            return False
        return True

    def _say_taken(self) -> None:
        self._agent.missing("kineto", "the job uses a profiler itself, so that none was started beside it")

    def watch(self) -> None:
        """Learn of the profilers of the job."""
        agent = self._agent
        scheduled: Any = agent.torch.profiler.profile
        plain: Any = agent.torch.autograd.profiler

        def starts(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if not self._driving:
                self._started.add(arguments[0])

        def stopped(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
            self._started.discard(arguments[0])

        def begins(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            if not self._driving and self._profiler is not None:
                self._refused = True
                self.stop()
                self._say_taken()

        agent.replace(scheduled, "start", preceded(agent, scheduled.start, "profiler", starts))
        agent.replace(scheduled, "stop", wrapped(agent, scheduled.stop, "profiler", stopped))
        # All ways to a profiler come through one of these.
        for kind, method in (("profile", "_prepare_trace"), ("emit_nvtx", "__enter__"), ("emit_itt", "__enter__")):
            holder = getattr(plain, kind, None)
            if holder is not None and method in holder.__dict__:
                agent.replace(holder, method, preceded(agent, holder.__dict__[method], "profiler", begins))

    def _start(self, active: int, name: str, stacks: bool) -> None:
        profiler = self._agent.torch.profiler
        activities = [profiler.ProfilerActivity.CPU]
        if self._agent.torch.cuda.is_initialized():
            activities.append(profiler.ProfilerActivity.CUDA)
        path = os.path.join(self._agent.folder, "traces", "%d-%d-%s.json.gz" % (os.getpid(), time.time_ns(), name))
        prepared = profiler.profile(
            activities=activities,
            schedule=profiler.schedule(wait=0, warmup=1, active=active, repeat=1),
            on_trace_ready=self._writing(path, name),
            with_stack=stacks,
            record_shapes=not stacks,
            with_flops=not stacks,
        )
        self._name, self._used = name, True
        prepared.start()
        # One that was not prepared to its end must not be stopped: to stop means to start first.
        self._profiler = prepared

    def _writing(self, path: str, name: str) -> Callable[[Any], None]:
        def ready(profiler: Any) -> None:
            if not self._refused:
                profiler.export_chrome_trace(path)
                self._traces[name] = path

        return ready

    def stop(self) -> None:
        """End the profilers that are running, if any are."""
        self._calls.end()
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            driving, self._driving = self._driving, True
            try:
                profiler.stop()
            finally:
                self._driving = driving

    def give_up(self) -> None:
        """End it without writing what it has so far; once it is not about to begin or to go on."""
        self._refused = True
        if not self._driving:
            self.stop()

    def forked(self) -> None:
        """In a forked child, the profiler is the parent's."""
        self.give_up()
        if self._used:
            _end_without_kineto()
        self._started.clear()
        self._begin()
        self._agent.phases.window = self.boundary


def _stacks_are_noticed(torch: Any) -> str:
    """Why no stacks are to be taken; nothing if there is no reason. Whoever takes them has the profile function, and
    looks at the parameters of modules."""
    if sys.getprofile() is not None or getattr(threading, "_profile_hook", None) is not None:
        return "the job has a profile function, which that of the profiler for stacks would replace"
    modes: list[object] = getattr(torch.overrides, "_get_current_function_mode_stack", list)()
    if any(type(mode).__module__ != "torch.utils._device" for mode in modes):
        return "the job has a mode that is told of all functions of torch, those of the profiler for stacks as well"
    return ""


def _can_fork_afterwards() -> bool:
    return not sys.platform.startswith("linux") or all(
        hasattr(ctypes.CDLL(None), name) for name in ("on_exit", "fcloseall")
    )


def _end_without_kineto() -> None:
    """Have this forked process end before Kineto's part in its end.

    Kineto has started a thread, which a forked process has not. A process that ends would wait for it for ever: glibc
    takes it to be waiting for a condition that is to be destroyed. What is registered last is called first: here, the
    files of the C library are written out, and then the process ends with its status.
    """
    if not sys.platform.startswith("linux"):
        return
    library = ctypes.CDLL(None)
    library.on_exit.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    for last in (library._exit, library.fcloseall):
        library.on_exit(ctypes.cast(last, ctypes.c_void_p), None)


def install(agent: Agent) -> None:
    window = Window(agent)
    agent.phases.window = window.boundary
    agent.at_forks.append(window.forked)
    agent.at_batches.append(lambda gradients: window.within())
    agent.after_batches.append(window.within)
    agent.at_backward.append(window.within)
    agent.after_backward.append(window.within)
    agent.undo_with(window.give_up)
    window.watch()


def _peak_bytes() -> int:
    """The most memory that the process has held so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
