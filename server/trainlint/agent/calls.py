"""Calls that stall the host, timed by the line that makes them: print, logging, trackers, saving, waiting for devices.

While code is compiled, `print` has to be Python's own: a function in its place would be traced. It is put back for each
compilation, and left so once code that prints was compiled, since such code remembers which `print` it was made for.
"""

from __future__ import annotations

import builtins
import logging
import sys
import time
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
    ("mlflow", "", ("log_metric", "log_metrics", "log_param", "log_params", "log_artifact")),
    ("comet_ml", "Experiment", ("log_metric", "log_metrics", "log_image", "log_histogram_3d")),
    ("neptune.handler", "Handler", ("append", "log", "upload")),
    ("aim.sdk.run", "Run", ("track",)),
)
"""Modules, classes and functions of experiment trackers."""


def install(agent: Agent) -> None:
    torch = agent.torch
    _time(agent, logging.Logger, "handle", "logging")
    _time(agent, torch.serialization, "save", "save")
    agent.replace(torch, "save", torch.serialization.save)
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


def _time_devices(agent: Agent) -> None:
    cuda = agent.torch.cuda
    if cuda.is_initialized():
        _time(agent, cuda, "synchronize", "synchronize")
        _time(agent, cuda, "empty_cache", "empty_cache")


def _find_trackers(agent: Agent, waiting: list[tuple[str, str, tuple[str, ...]]]) -> None:
    for tracker in [one for one in waiting if one[0] in sys.modules]:
        waiting.remove(tracker)
        module, class_name, functions = tracker
        holder: Any = sys.modules[module]
        if class_name:
            holder = getattr(holder, class_name, None)
        for function in functions if holder is not None else ():
            _time(agent, holder, function, "tracker")


def _time_prints(agent: Agent) -> None:
    """Time prints as long as no compiled code prints; Dynamo learns what functions Python has when it is loaded."""
    original = builtins.print
    _time(agent, builtins, "print", "print")
    timed: Any = builtins.print
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
        own()

    def compiled(*_: object) -> None:
        nonlocal prints
        try:
            if not prints and agent.on and agent.traced.may_use("print"):
                prints = True
                agent.missing("print", "the job compiles code that prints, and print is not timed from there on")
            again()
        except Exception:
            agent.fault("print")

    agent.before_compilers.append(own)
    agent.with_compilers.append(loaded)


def _remove(callbacks: list[Any], callback: Any) -> None:
    if callback in callbacks:  # torch._dynamo.reset() forgets them
        callbacks.remove(callback)
