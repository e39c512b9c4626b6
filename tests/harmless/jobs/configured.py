"""Jobs with settings of their own: filters of warnings, finders, kernels, hooks, handlers, printing."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import importlib.abc
import io
import logging
import os
import random
import signal
import sys
import threading
import traceback
import warnings

import cases
import torch
from torch.utils.data import DataLoader


def turns_warnings_into_errors() -> None:
    warnings.simplefilter("error")
    training = cases.Training()
    training.epoch()
    try:
        torch.optim.lr_scheduler.StepLR(training.optimizer, 3).step(4)  # type: ignore[arg-type]
    except UserWarning as warning:
        print(warning)


def hears_every_warning() -> None:
    warnings.simplefilter("always")
    training = cases.Training()
    for number in training.steps():
        if number in (3, 8, 22):
            print(float(torch.ones(1, requires_grad=True)))
            warnings.warn("own", stacklevel=1)
            with contextlib.suppress(Exception):
                torch.save(training.model, io.BytesIO(), pickle_module=contextlib)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.asked: list[str] = []

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        self.asked.append(name)


def has_a_finder_of_its_own() -> None:
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    training = cases.Training()
    training.epoch()
    import torch._dynamo  # noqa: F401

    print([name for name in finder.asked if name.startswith("torch._dynamo")][:20])
    print([type(one) for one in sys.meta_path])


def _kernel_of_its_own(number: int, key: str) -> None:
    training = cases.Training()
    library = torch.library.Library("aten", "IMPL")
    calls = []

    def read(keys, tensor):  # type: ignore[no-untyped-def]
        calls.append(tuple(tensor.shape))
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.aten._local_scalar_dense.default(tensor)

    for step in training.steps():
        if step == number:
            library.impl("_local_scalar_dense", read, key, with_keyset=True)
    print(len(calls))
    library._destroy()
    print(float(torch.ones(1)), len(calls))


def has_a_kernel_of_its_own_from_the_start() -> None:
    _kernel_of_its_own(0, "AutogradCPU")


def has_a_kernel_of_its_own_amid_the_steps() -> None:
    _kernel_of_its_own(4, "AutogradCPU")


def has_hooks_of_its_own() -> None:
    training = cases.Training()
    called: dict[str, int] = {}

    def count(name: str):  # type: ignore[no-untyped-def]
        def hook(*_: object) -> None:
            called[name] = called.get(name, 0) + 1

        return hook

    training.optimizer.register_step_pre_hook(count("step pre"))
    training.optimizer.register_step_post_hook(count("step post"))
    training.model.register_forward_hook(count("forward"))
    training.model.register_full_backward_hook(count("backward"))
    for one in training.model.parameters():
        one.register_post_accumulate_grad_hook(count("accumulate"))
    training.epoch()
    print(called)


def prints_in_its_own_way() -> None:
    original = builtins.print

    def mine(*arguments: object, **named: object) -> None:
        original("mine", *arguments, **named)  # type: ignore[call-overload]

    training = cases.Training()
    builtins.print = mine
    training.epoch()
    builtins.print = original
    print("own", print.__name__, print, callable(print), isinstance(print.__doc__, str))
    with contextlib.redirect_stdout(io.StringIO()) as kept:
        training.epoch()
    print(len(kept.getvalue()))
    try:
        print("x", nothing=1)  # type: ignore[call-overload]
    except TypeError:
        traceback.print_exc()


class _Stream(io.StringIO):
    """Says who writes."""

    def write(self, text: str) -> int:
        caller = sys._getframe(1)
        return super().write(f"{caller.f_code.co_name} {caller.f_lineno} {text}")


class _Told:
    def __str__(self) -> str:
        warnings.warn("told", stacklevel=2)
        print(len(traceback.extract_stack()), "within")
        return f"told in {sys._getframe(1).f_code.co_name}"

    def __repr__(self) -> str:
        raise LookupError("not shown")


def prints_what_looks_at_its_caller() -> None:
    warnings.simplefilter("always")
    training = cases.Training()
    stream = _Stream()
    for number in training.steps():
        print(number, _Told(), file=stream)
        if number in (1, 9):
            with contextlib.redirect_stdout(stream):
                print("redirected")
            try:
                print([_Told()])
            except LookupError:
                traceback.print_exc()
    print(stream.getvalue())


def logs_in_its_own_way() -> None:
    stream = io.StringIO()
    logging.basicConfig(stream=stream, format="%(module)s %(funcName)s %(lineno)d %(message)s", level=logging.INFO)
    training = cases.Training()
    for number in training.steps():
        logging.info("step %d", number, stack_info=number == 5)
    print(stream.getvalue())


class _LateError(Exception):
    """A handler of the job's raises it."""


def _raises_amid_a_step(number: int, error: type[BaseException]) -> None:
    """A signal comes while the agent works, where there is one, and otherwise before the step."""
    training = cases.Training()
    agent = getattr(sys.modules.get("_trainlint_agent.agent"), "Agent", None)
    original = getattr(agent, "trains", None)

    def trains(self: object) -> None:
        agent.trains = original  # type: ignore[union-attr]
        signal.raise_signal(number)

    for step, (x, y) in enumerate(training.loader):
        try:
            if step in (3, 8) and agent is not None:
                agent.trains = trains
            elif step in (3, 8):
                signal.raise_signal(number)
            print(step, training.step(x, y).item())
        except error as raised:
            print(step, repr(raised), "trainlint" in traceback.format_exc())


def has_a_handler_that_raises() -> None:
    def handler(*_: object) -> None:
        raise _LateError

    signal.signal(signal.SIGUSR1, handler)
    _raises_amid_a_step(signal.SIGUSR1, _LateError)


def has_a_bound_handler_that_raises() -> None:
    class Timeout:
        def raises(self, *_: object) -> None:
            raise TimeoutError("late")

    signal.signal(signal.SIGALRM, Timeout().raises)
    _raises_amid_a_step(signal.SIGALRM, TimeoutError)


def is_interrupted_and_goes_on() -> None:
    _raises_amid_a_step(signal.SIGINT, KeyboardInterrupt)


def has_handlers_of_everything() -> None:
    signal.signal(signal.SIGUSR1, lambda *_: print("USR1"))
    training = cases.Training()
    for number in training.steps():
        if number % 4 == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
    sys.excepthook = lambda kind, value, _: print("own hook", kind, value)
    threading.excepthook = lambda one: print("own thread hook", one.exc_type)
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    raise KeyError("last")


def is_deterministic() -> None:
    torch.use_deterministic_algorithms(True)
    random.seed(1)
    training = cases.Training()
    for number in training.steps():
        if number % 7 == 0:
            print(torch.rand(1).item(), random.random(), torch.initial_seed())


def has_a_default_device_and_type() -> None:
    torch.set_default_device("cpu")
    torch.set_default_dtype(torch.float64)
    cases.Training(generator=torch.Generator("cpu")).epoch()
    with torch.device("meta"):
        print(torch.nn.Linear(2, 2).weight.device)


def trains_in_threads() -> None:
    losses: dict[int, list[float]] = {0: [], 1: []}

    def train(number: int) -> None:
        for _ in range(6):
            model = torch.nn.Linear(4, 1)
            torch.nn.init.ones_(model.weight)
            torch.nn.init.zeros_(model.bias)
            optimizer = torch.optim.SGD(model.parameters(), 0.01)
            for x in DataLoader([torch.ones(4) * one for one in range(30)], batch_size=2):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                losses[number].append(loss.item())

    threads = [threading.Thread(target=train, args=(number,)) for number in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(losses, threading.active_count())


def trains_in_coroutines() -> None:
    training = cases.Training()

    async def train() -> None:
        for number in training.steps():
            await asyncio.sleep(0)
            if number == 5:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(asyncio.sleep(1), 0.001)

    async def beside() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def both() -> None:
        await asyncio.gather(train(), beside())

    asyncio.run(both())


def recurses_deeply() -> None:
    sys.setrecursionlimit(400)
    training = cases.Training()

    def deep(left: int) -> None:
        if left:
            return deep(left - 1)
        return training.epoch()

    deep(200)


cases.run(cases.of(globals()))
