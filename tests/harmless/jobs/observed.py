"""Jobs that look at themselves: profilers, traces, dumps, garbage collection, frames, modes."""

from __future__ import annotations

import cProfile
import faulthandler
import gc
import os
import pstats
import sys
import threading
import tracemalloc
import types
import weakref

import cases
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

HERE = os.path.abspath(__file__)  # noqa: PTH100


def _names(profiler: object) -> None:
    """What a profiler saw of the job."""
    names = {event.key: event.count for event in profiler.key_averages()}  # type: ignore[attr-defined]
    print({name: count for name, count in sorted(names.items()) if name.startswith(("aten::", "Optimizer", "enum"))})


def _profiled(begins: int, ends: int, **arguments: object) -> None:
    """A profiler of the job's own around some of its steps."""
    training = cases.Training()
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **arguments)  # type: ignore
    for number in training.steps():
        if number == begins:
            profiler.start()
        elif number == ends:
            profiler.stop()
        elif begins < number < ends:
            profiler.step()
    _names(profiler)


def own_profiler_from_before_the_window() -> None:
    _profiled(1, 23)


def own_profiler_that_begins_in_the_window() -> None:
    _profiled(7, 10)


def own_profiler_that_begins_in_the_window_with_stacks() -> None:
    _profiled(11, 14)


def own_profiler_that_ends_in_the_window() -> None:
    _profiled(2, 9)


def own_profiler_that_waits() -> None:
    ready = []
    schedule = torch.profiler.schedule(wait=2, warmup=1, active=2, repeat=3)
    _profiled(1, 22, schedule=schedule, on_trace_ready=lambda one: ready.append(len(one.events()) > 0))
    print(ready)


def own_profiler_that_waits_in_a_frozen_heap() -> None:
    training = cases.Training()
    schedule = torch.profiler.schedule(wait=9, warmup=1, active=4, repeat=1)
    with torch.profiler.profile(schedule=schedule, activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        gc.freeze()
        for _ in training.steps():
            profiler.step()
    _names(profiler)


def own_profiler_of_an_ended_part() -> None:
    training = cases.Training()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        training.model(torch.ones(2, 4))
    training.epoch()
    _names(profiler)


def own_autograd_profiler() -> None:
    training = cases.Training()
    for number in training.steps():
        if number == 4:
            profiler = torch.autograd.profiler.profile()
            profiler.__enter__()
        elif number == 20:
            profiler.__exit__(None, None, None)
    _names(profiler)


def own_record_functions() -> None:
    training = cases.Training()
    for number in training.steps():
        with torch.profiler.record_function("mine") as scope:
            pass
        print(sorted(vars(scope)) if number % 10 == 0 else "")


class _Lazy(types.ModuleType):
    """Says what it is asked for."""

    def __getattribute__(self, name: str) -> object:
        print("asked for", name)
        return super().__getattribute__(name)


class _Asked(torch.nn.Embedding):
    def __getattribute__(self, name: str) -> object:
        if name in ("__dict__", "_parameters", "_modules", "padding_idx"):
            print("asked for", name)
        return super().__getattribute__(name)


def has_modules_that_hear_who_asks() -> None:
    sys.modules["lazy"] = _Lazy("lazy")
    training = cases.Training()
    asked = _Asked(2, 3, padding_idx=0)
    for number in training.steps():
        if number % 5 == 0:
            print(asked(torch.tensor([number % 2])).sum().item())


def own_cprofile() -> None:
    training = cases.Training()
    profiler = cProfile.Profile()
    profiler.runcall(training.epoch)
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    own = {key[2]: value[:2] for key, value in stats.items() if key[0] in (HERE, cases.__file__)}
    print(sorted(own.items()))


def own_profile_function() -> None:
    training = cases.Training()
    seen: list[str] = []

    def profile(frame: object, kind: str, argument: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if kind in ("call", "return") and code.co_filename in (HERE, cases.__file__):
            seen.append(f"{kind} {code.co_name}")

    sys.setprofile(profile)
    training.epoch()
    sys.setprofile(None)
    print(seen)


def own_trace_function() -> None:
    """As debuggers and measurers of coverage have one; those skip what is in no file."""
    training = cases.Training()
    lines: list[tuple[str, int]] = []
    files: set[str] = set()
    torch_folder = os.path.dirname(torch.__file__)  # noqa: PTH120
    standard = os.path.dirname(os.__file__)  # noqa: PTH120

    def trace(frame: object, kind: str, argument: object) -> object:
        file = frame.f_code.co_filename  # type: ignore[attr-defined]
        if not file.startswith(("<", torch_folder, standard)):
            files.add(file)
        if file not in (HERE, cases.__file__):
            return None
        lines.append((kind, frame.f_lineno))  # type: ignore[attr-defined]
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    training.epoch()
    sys.settrace(None)
    print(lines, sorted(files))


def dumps_its_stack_later() -> None:
    faulthandler.dump_traceback_later(0.5)
    training = cases.Training()
    threading.Event().wait(1)
    faulthandler.dump_traceback_later(1000)
    training.model.register_full_backward_hook(lambda *_: faulthandler.dump_traceback())
    training.optimizer.register_step_post_hook(lambda *_: faulthandler.dump_traceback())
    training.epoch()
    faulthandler.cancel_dump_traceback_later()
    print(faulthandler.is_enabled())


def counts_its_memory() -> None:
    training = cases.Training()
    tracemalloc.start()
    kept = []
    for number in training.steps():
        kept.append("x" * (1000 + number))
    own = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, HERE)])
    print([(one.traceback[0].lineno, one.size // 4000) for one in own.statistics("lineno") if one.size > 10_000])
    tracemalloc.stop()


def has_its_own_collections() -> None:
    training = cases.Training()
    gc.set_threshold(123, 4, 5)
    gc.disable()
    collected = []

    def mine(phase: str, info: dict[str, int]) -> None:
        collected.append((phase, info["generation"]))

    gc.callbacks.append(mine)
    for number in training.steps():
        if number % 5 == 0:
            gc.collect(number % 3)
    print(collected, gc.isenabled(), gc.get_threshold(), gc.callbacks == [mine])


def clears_callbacks_of_collections() -> None:
    training = cases.Training()
    for number in training.steps():
        if number == 4:
            gc.callbacks.clear()
    print(gc.callbacks)


def freezes_its_heap() -> None:
    training = cases.Training()
    for number in training.steps():
        if number == 3:
            gc.freeze()
            gc.disable()
    print(gc.isenabled(), gc.get_freeze_count() > 0)
    gc.unfreeze()


def keeps_its_names() -> None:
    """What `locals()` returned once is not written to, and nothing lives longer than its name."""
    training = cases.Training()
    early = locals()
    held = dict.fromkeys(early)
    alive = []
    for number, (x, y) in enumerate(training.loader):
        loss = training.step(x, y)
        alive.append(weakref.ref(loss))
        del loss
        if number == 20:
            big = torch.ones(4)
            alive.append(weakref.ref(big))
            del big
        print(number, [one() is not None for one in alive].count(True))
    del x, y, training
    gc.collect()
    print(sorted(held), sorted(early), [one() is not None for one in alive].count(True))
    print(sum(type(one) is torch.nn.Linear for one in gc.get_objects()))


class _Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):  # type: ignore[no-untyped-def]
        self.seen.append(getattr(function, "__name__", str(function)))
        return function(*arguments, **(keywords or {}))


class _Operators(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):  # type: ignore[no-untyped-def]
        self.seen.append(str(function))
        return function(*arguments, **(keywords or {}))


def has_its_own_function_mode() -> None:
    training = cases.Training(collate_fn=_masked)
    with _Functions() as mode:
        for number, batch in enumerate(training.loader):
            print(number, training.step(batch["x"], batch["y"]).item())
    print(mode.seen)


def has_its_own_dispatch_mode() -> None:
    training = cases.Training(collate_fn=_masked)
    with _Operators() as mode:
        for number, batch in enumerate(training.loader):
            print(number, training.step(batch["x"], batch["y"]).item())
    print(mode.seen)


def _masked(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    x, y = (torch.stack(column) for column in zip(*samples, strict=True))
    return {"x": x, "y": y, "attention_mask": torch.ones(2, 3, dtype=torch.long)}


class _Told(torch.nn.Linear):
    """A module that says when its parameters are asked for."""

    def parameters(self, recurse: bool = True):  # type: ignore[no-untyped-def]
        print("parameters")
        return super().parameters(recurse)

    def named_parameters(self, *arguments, **keywords):  # type: ignore[no-untyped-def]
        print("named parameters")
        return super().named_parameters(*arguments, **keywords)


def hears_who_asks_for_parameters() -> None:
    cases.Training(_Told(4, 1)).epoch()


def shows_its_stack() -> None:
    """Where code of the job is called by torch, the stack shows functions of torch and of the job only."""
    training = cases.Training()

    def stack(*_: object) -> None:
        frame, files = sys._getframe(), set()
        while frame is not None:
            files.add(os.path.basename(frame.f_code.co_filename))  # noqa: PTH119
            frame = frame.f_back  # type: ignore[assignment]
        print(sorted(files))

    training.model.register_full_backward_hook(stack)
    training.optimizer.register_step_post_hook(stack)
    training.epoch()


cases.run(cases.of(globals()))
