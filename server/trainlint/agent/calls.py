"""Calls that stall the host, timed by the line that makes them: print, logging, trackers, saving, waiting for devices.

A job may hold any function by itself, and pickle what holds it, which takes that the function of that name is the same
one. So nothing is replaced that is called by a public name of a module, but what is called by it, and methods of
classes. `print` alone has nothing below it; what takes its place is pickled as `print` is.

While code is compiled, `print` has to be Python's own: a function in its place would be traced. It is put back for each
compilation, and left so once code that prints was compiled, since such code remembers which `print` it was made for.
It is left so, too, where the job has a profile function, which is told of the calls of Python's own.
"""

from __future__ import annotations

import builtins
import copyreg
import functools
import logging
import sys
import threading
import time
import weakref
from types import FrameType
from typing import Any

from . import records
from .agent import Agent
from .wrapping import wrapped

clock = time.perf_counter

TRACKERS = (
    ("wandb.sdk.wandb_run", "Run", ("log", "log_artifact")),
    (
        "torch.utils.tensorboard.writer",
        "SummaryWriter",
        ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "add_text", "flush"),
    ),
    (
        "tensorboardX.writer",
        "SummaryWriter",
        ("add_scalar", "add_scalars", "add_histogram", "add_image", "add_images", "add_figure", "add_text", "flush"),
    ),
    ("mlflow.tracking.client", "MlflowClient", ("log_metric", "log_batch", "log_param", "log_artifact")),
    ("comet_ml", "Experiment", ("log_metric", "log_metrics", "log_image", "log_histogram_3d")),
    ("neptune.handler", "Handler", ("append", "log", "upload")),
    ("aim.sdk.run", "Run", ("track",)),
)
"""Modules, classes and methods of experiment trackers."""


def install(agent: Agent) -> None:
    torch = agent.torch
    _time(agent, logging.Logger, "handle", "logging")
    _Saves(agent).install()
    _time(agent, torch.nn.DataParallel, "replicate", "data_parallel")
    _time(agent, torch.nn.DataParallel, "scatter", "data_parallel")
    _time(agent, torch.nn.DataParallel, "gather", "data_parallel")
    _time_prints(agent)
    agent.at_training.append(lambda: _time_devices(agent))
    waiting = list(TRACKERS)
    agent.at_boundaries.append(lambda: _find_trackers(agent, waiting))


def _time(agent: Agent, holder: Any, attribute: str, kind: str) -> None:
    """Time the calls of a function of a module, or of a method of a class."""
    if attribute not in holder.__dict__:
        return
    prefix = kind + " "

    def after(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        end = clock()
        agent.record(records.CALL, start, end - start, name=agent.lines.name(frame, prefix))

    agent.replace(holder, attribute, wrapped(agent, holder.__dict__[attribute], kind, after))


OPENERS = ("_open_zipfile_writer_file", "_open_zipfile_writer_buffer", "_open_file")
"""Classes of `torch.serialization` within whose instances files are written, the last one for the format of old."""


class _Saves:
    """Times `torch.save` from the opening of its file to its closing. Either can take longer than the writing: ext4
    writes a file to the disk as it is closed if there was another of that name, as there is of most checkpoints (its
    mount option `auto_da_alloc`)."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._written: set[int] = set()
        """Identities of what is open to be written, each from its opening to its closing."""

    def install(self) -> None:
        agent, serialization = self._agent, self._agent.torch.serialization
        for name in OPENERS:
            methods = vars(getattr(serialization, name, object))
            if "__init__" in methods and "__exit__" in methods:
                opener = getattr(serialization, name)
                agent.replace(opener, "__init__", wrapped(agent, methods["__init__"], "save", self._opened))
                agent.replace(opener, "__exit__", wrapped(agent, methods["__exit__"], "save", self._closed))
        # What is written to a file that is open already.
        for name in ("_save", "_legacy_save"):
            function = vars(serialization).get(name)
            if function is not None:
                agent.replace(serialization, name, wrapped(agent, function, "save", self._wrote))

    def _opened(self, arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        opener = arguments[0]
        if "w" in getattr(opener.file_like, "mode", "w"):  # What is loaded is opened likewise.
            opener._trainlint = start
            self._written.add(id(opener.file_like))

    def _closed(self, arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        opener, error = arguments[:2]
        opened = vars(opener).pop("_trainlint", None)
        if opened is not None:
            self._written.discard(id(opener.file_like))
            if error is None:
                self._record(opened, frame)

    def _wrote(self, arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        if id(arguments[1]) not in self._written:
            self._record(start, frame)

    def _record(self, start: float, frame: FrameType) -> None:
        end = clock()
        self._agent.record(records.CALL, start, end - start, name=self._agent.lines.name(frame, "save "))


def _time_devices(agent: Agent) -> None:
    torch = agent.torch
    if torch.cuda.is_initialized():
        _time(agent, torch._C, "_cuda_synchronize", "synchronize")
        _time(agent, torch._C, "_cuda_emptyCache", "empty_cache")


def _find_trackers(agent: Agent, waiting: list[tuple[str, str, tuple[str, ...]]]) -> None:
    for tracker in [one for one in waiting if one[0] in sys.modules]:
        waiting.remove(tracker)
        module, class_name, functions = tracker
        holder: Any = getattr(sys.modules[module], class_name, None)
        for function in functions if holder is not None else ():
            _time(agent, holder, function, "tracker")


class _TimedCall:
    """What `print` is called by: it hands out a call of Python's own `print`, so that no frame of the agent is around
    what a print calls, such as `__str__` or the `write` of a stream of the job's own, which may look at its caller."""

    def __get__(self, holder: _Print | None, kind: type) -> Any:
        if holder is None:
            return self
        call = functools.partial(holder.__wrapped__)
        if holder.agent.on:
            frame = sys._getframe(1)
            with holder.agent.working("print"):
                holder.begins(call, frame)
        return call


class _Print:
    """Takes the place of `print`."""

    __call__ = _TimedCall()

    def __init__(self, agent: Agent, original: Any) -> None:
        self.agent = agent
        self.__wrapped__ = original
        self._going_on: dict[int, list[_Going]] = {}
        """Calls that are not recorded, by the thread that makes them."""
        functools.update_wrapper(self, original)

    def begins(self, call: Any, frame: FrameType) -> None:
        """The line of `frame` is about to make a call."""
        mine = self._going_on.setdefault(threading.get_ident(), [])
        if mine:
            self.record()
        mine.append(_Going(call, self.agent.lines.name(frame, "print ")))

    def record(self) -> None:
        """Record the calls of the running thread that have ended."""
        mine = self._going_on.get(threading.get_ident(), [])
        for one in [one for one in mine if one.ended]:
            mine.remove(one)
            self.agent.record(records.CALL, one.start, one.ended[0] - one.start, name=one.line)

    def forked(self) -> None:
        """What goes on is the parent's."""
        self._going_on.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __eq__(self, other: object) -> bool:
        return other is self or other == self.__wrapped__

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> Any:
        return _PRINT


class _Going:
    """A call that goes on. Its object is given up as it ends, which is noted by functions of C alone: a handler of a
    signal that came meanwhile is not to run here, where what it raises would be lost."""

    __slots__ = ("_given_up", "ended", "line", "start")

    def __init__(self, call: Any, line: int) -> None:
        self.line = line
        self.ended: list[float] = []
        self._given_up = weakref.ref(call, functools.partial(next, map(self.ended.append, iter(clock, None))))
        self.start = clock()


_PRINT = eval, ("print",)
"""How `print` is pickled while there is something in its place: to be loaded by any interpreter."""


def _pickle_print(agent: Agent, original: Any) -> None:
    """Have the `print` that the job may hold from before pickled as well; Python would look it up by its name."""
    kind = type(original)
    before = copyreg.dispatch_table.get(kind)

    def reduced(function: Any) -> Any:
        return _PRINT if function is original else function.__reduce__() if before is None else before(function)

    def undo() -> None:
        if copyreg.dispatch_table.get(kind) is reduced:
            if before is None:
                del copyreg.dispatch_table[kind]
            else:
                copyreg.dispatch_table[kind] = before

    copyreg.dispatch_table[kind] = reduced
    agent.undo_with(undo)


def _time_prints(agent: Agent) -> None:
    """Time prints as long as no compiled code prints; Dynamo learns what functions Python has when it is loaded."""
    if sys.getprofile() is not None:
        _say_profiled(agent)
        return
    original = builtins.print
    timed: Any = _Print(agent, original)
    agent.replace(builtins, "print", timed)
    agent.at_boundaries.append(timed.record)
    agent.at_phases.append(lambda phase: timed.record())
    agent.at_end.append(timed.record)
    agent.at_forks.append(timed.forked)
    _pickle_print(agent, original)
    prints = False

    def own() -> None:
        if builtins.print is timed:
            builtins.print = original

    def again() -> None:
        if agent.on and not prints and builtins.print is original:
            builtins.print = timed

    def loaded() -> None:
        if not agent.on or builtins.print is not original:
            return
        handler: Any = sys.modules["torch._dynamo.callback"].callback_handler
        handler.register_start_callback(compiles)
        handler.register_end_callback(compiled)
        agent.undo_with(lambda: _remove(handler.start_callbacks, compiles))
        agent.undo_with(lambda: _remove(handler.end_callbacks, compiled))
        again()

    def compiles(*_: object) -> None:
        with agent.working("print"):
            own()

    def compiled(*_: object) -> None:
        nonlocal prints
        with agent.working("print"):
            if not prints and agent.on and agent.traced.may_use("print"):
                prints = True
                agent.missing("print", "the job compiles code that prints, and print is not timed from there on")
            again()

    def profiled() -> None:
        nonlocal prints
        # In the window there is the agent's own, which counts calls or takes stacks.
        if not prints and agent.phases.phase != records.WINDOW and sys.getprofile() is not None:
            prints = True
            own()
            _say_profiled(agent)

    agent.before_compilers.append(own)
    agent.with_compilers.append(loaded)
    agent.at_batches.append(lambda gradients: profiled())
    agent.at_boundaries.append(profiled)


def _say_profiled(agent: Agent) -> None:
    agent.missing("print", "the job has a profile function, and print is not timed from there on")


def _remove(callbacks: list[Any], callback: Any) -> None:
    if callback in callbacks:  # torch._dynamo.reset() forgets them
        callbacks.remove(callback)
