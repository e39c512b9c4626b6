"""The agent of one process: its files, its phase, its hooks, and their end.

Each hook is installed by a module about one subject, hands its undoing to the agent, and does its work inside `try`:
whatever fails turns the agent off, says so in a note, removes all hooks, and leaves the job alone.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
import traceback
from _thread import RLock
from collections.abc import Callable
from typing import Any

from . import records
from .attributes import attributes_of
from .channel import Channel, Control
from .compilers import looking
from .lines import UserLines, library_folders
from .phases import Phases
from .releases import why_not
from .steps import Steps
from .working import Working


class Agent:
    """What the hooks of a process share."""

    def __init__(self, folder: str, cwd: str, options: dict[str, Any]) -> None:
        self.folder = folder
        self.options = options
        self.torch: Any = sys.modules["torch"]
        self.control = Control(folder)
        self.on = True
        self.accelerator = False
        """Whether reads of values of a device are counted, rather than those of the CPU."""
        self.at_boundaries: list[Callable[[], None]] = []
        """Called at each step boundary, in the training thread."""
        self.look = looking(self.torch)
        """Called with None where Dynamo is not to look at frames, and then with what it returned."""
        self.before_compilers: list[Callable[[], None]] = []
        self.with_compilers: list[Callable[[], None]] = []
        """Called before and after Dynamo is loaded."""
        self.at_training: list[Callable[[], None]] = []
        """Called once the process trains, before its first backward pass or after its first update."""
        self.at_batches: list[Callable[[bool], None]] = []
        """Called before a batch is asked for, with whether gradients are enabled."""
        self.after_batches: list[Callable[[], None]] = []
        """Called once a batch has come, or an iterator has ended."""
        self.at_backward: list[Callable[[], None]] = []
        """Called before a backward pass."""
        self.after_backward: list[Callable[[], None]] = []
        """Called after one."""
        self.at_phases: list[Callable[[int], None]] = []
        """Called with the phase that begins."""
        self.at_forks: list[Callable[[], None]] = []
        """Called in a forked child, whose files are new."""
        self.at_end: list[Callable[[], None]] = []
        """Called as the process ends, where it does so in order."""
        self.script = attributes_of(sys.modules.get("__main__")).get("__file__")
        """The path of the job's script, as it was written."""
        self.stepped: set[int] = set()
        """Identities of the optimizers that stepped since a gradient scaler was updated."""
        self.traced: Any = None
        self.loaders: Any = None
        self.child: Any = None
        self._undo: list[Callable[[], None]] = []
        self._cwd = cwd
        self._libraries = library_folders()
        self.started_as = "spawn" if _is_spawned() else "run"
        self._begin_process()

    def _begin_process(self) -> None:
        self.channel = Channel(self.folder, records.CAPACITY, self._describe)
        self.lines = UserLines(self._cwd, self._libraries, self.channel.name)
        self.phases = Phases(self)
        self.steps = Steps(self.phases)
        self.role = "other"
        self._training = threading.main_thread().ident
        self._threads: dict[int, int] = {}
        self._thread_numbers = itertools.count(1)
        self._choosing = RLock()

    # ------------------------------------------------------------------------------------------------------- records

    def record(
        self, kind: int, start: float, duration: float = 0.0, value: float = 0.0, name: int = 0, flags: int = 0
    ) -> None:
        """Append a record of the running thread."""
        ident = threading.get_ident()
        thread = 0 if ident == self._training else self._threads.get(ident)
        if thread is None:
            thread = self._threads[ident] = next(self._thread_numbers)
        self.channel.record(kind, flags, thread, name, start, duration, value)

    def in_training_thread(self) -> bool:
        return threading.get_ident() == self._training

    def trains(self) -> None:
        """An optimizer stepped, or a backward pass ran, in this thread: it is the training thread of a rank."""
        if self.role != "other":
            return
        with self._choosing:
            # Another thread may have been first.
            if self.role == "other":
                self._training = threading.get_ident()
                self.set_role("rank", **ranks())
                self.say_torch()
                # A forked child that trains as well has these hooks already.
                while self.at_training:
                    self.at_training.pop(0)()

    def local_rank(self) -> dict[str, object]:
        return {name: value for name, value in ranks().items() if name == "local_rank"}

    def set_role(self, role: str, **fields: object) -> None:
        self.role = role
        self.channel.note("role", role=role, **fields)

    def say_torch(self) -> None:
        """Note which torch the process has, and on what devices it works."""
        torch = self.torch
        self.channel.note(
            "torch",
            version=str(torch.__version__),
            cuda=torch.version.cuda,
            hip=getattr(torch.version, "hip", None),
            devices=[_device(torch, index) for index in range(torch.cuda.device_count())]
            if torch.cuda.is_initialized()
            else [],
            threads=torch.get_num_threads(),
        )

    def missing(self, what: str, why: str) -> None:
        self.channel.note("missing", what=what, why=why)

    # ------------------------------------------------------------------------------------------------- hooks and ends

    def undo_with(self, undo: Callable[[], None]) -> None:
        """Have `undo` called when the hooks are removed."""
        self._undo.append(undo)

    def replace(self, holder: Any, attribute: str, new: Any) -> None:
        """Set an attribute of a class or module for as long as the hooks are in place."""
        original = holder.__dict__[attribute]

        def undo() -> None:
            if holder.__dict__.get(attribute) is new:
                setattr(holder, attribute, original)

        setattr(holder, attribute, new)
        self.undo_with(undo)

    def remove_hooks(self) -> None:
        """Remove all hooks, the latest first; the process is as without the agent."""
        self.on = False
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                self._say_fault("undo", error)

    def working(self, where: str) -> Working:
        """What the agent's work in a hook is done inside of."""
        return Working(self, where)

    def fault(self, where: str, error: BaseException) -> None:
        """Turn the agent off for an exception."""
        if not self.on:
            return
        self.on = False
        self._say_fault(where, error)
        try:
            self.remove_hooks()
            self.phases.say(off=True)
        except Exception:
            return

    def _say_fault(self, where: str, error: BaseException) -> None:
        try:
            self.channel.note(
                "fault", where=where, traceback="".join(traceback.format_exception(None, error, error.__traceback__))
            )
        except Exception:
            return

    def forked(self) -> None:
        """Begin anew in a forked child, whose records go to files of its own once there are any."""
        if not self.on:
            return
        try:
            self.started_as = "fork"
            self._begin_process()
            for call in self.at_forks:
                call()
        except Exception as error:
            self.fault("fork", error)

    def _describe(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "parent": os.getppid(),
            "started_as": self.started_as,
            "argv": list(getattr(sys, "orig_argv", sys.argv)),
            "executable": sys.executable,
            "python": "%d.%d.%d" % sys.version_info[:3],
            "cwd": self._cwd,
            "time": time.time(),
            "clock": time.perf_counter(),
        }


def ranks() -> dict[str, object]:
    """Rank, local rank and world size, as the launcher's environment says."""
    fields: dict[str, object] = {}
    for field, variable in (("rank", "RANK"), ("local_rank", "LOCAL_RANK"), ("world_size", "WORLD_SIZE")):
        text = os.environ.get(variable, "")
        if text.isdigit():
            fields[field] = int(text)
    return fields


def _device(torch: Any, index: int) -> dict[str, object]:
    properties = torch.cuda.get_device_properties(index)
    return {
        "index": index,
        "name": properties.name,
        "uuid": str(getattr(properties, "uuid", "")),
        "memory_bytes": properties.total_memory,
        "compute": "%d.%d" % (properties.major, properties.minor),
    }


def _is_spawned() -> bool:
    process: Any = sys.modules.get("multiprocessing.process")
    return bool(getattr(process.current_process(), "_inheriting", False)) if process is not None else False


def begin(folder: str, cwd: str) -> None:
    """Start the agent in a process that has just imported torch."""
    from . import hooks

    try:
        with open(os.environ["TRAINLINT_PROBE_OPTIONS"], encoding="utf-8") as text:
            options = json.load(text)
        agent = Agent(folder, cwd, options)
    except Exception:
        return
    try:
        reason = why_not(str(getattr(agent.torch, "__version__", "")))
        if reason is not None:
            agent.missing("steps", reason)
            return
        hooks.install(agent)
    except Exception as error:
        agent.fault("start", error)
