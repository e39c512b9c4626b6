"""Jobs that end, are ended, become others or are two from a step on."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from pathlib import Path

import cases
import torch


def raises_in_a_step() -> None:
    for number in cases.Training().steps():
        if number == 4:
            raise ValueError("in a step")


def raises_in_the_model() -> None:
    class Fails(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 8:
                raise ValueError("in the model")
            return super().forward(x)

    cases.Training(Fails(4, 1)).epoch()


def raises_in_a_backward_hook() -> None:
    training = cases.Training()
    calls = []

    def hook(*_: object) -> None:
        calls.append(1)
        if len(calls) == 9:
            raise ValueError("in backward")

    training.model.register_full_backward_hook(hook)
    training.epoch()


def raises_in_the_optimizer() -> None:
    training = cases.Training()

    def hook(*_: object) -> None:
        if training.optimizer.state[training.model[1].bias]["step"] == 6:  # type: ignore[index]
            raise ValueError("in the optimizer")

    training.optimizer.register_step_post_hook(hook)
    training.epoch()


def has_a_wrong_shape() -> None:
    training = cases.Training()
    for number in training.steps():
        if number in (3, 8, 22):
            try:
                torch.ones(2, requires_grad=True).backward()
            except RuntimeError as error:
                print(error)
    training.model(torch.ones(3, 3)).sum().backward()


def is_interrupted_in_a_step() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in cases.Training().steps():
        if number == 8:
            signal.raise_signal(signal.SIGINT)


def saves_when_it_is_terminated() -> None:
    training = cases.Training()

    def save(*_: object) -> None:
        torch.save(training.model.state_dict(), "last.pt")
        print("saved", sum(one.sum().item() for one in torch.load("last.pt").values()))
        sys.exit(7)

    signal.signal(signal.SIGTERM, save)
    for number in training.steps():
        if number == 8:
            os.kill(os.getpid(), signal.SIGTERM)


def is_terminated_in_a_step() -> None:
    for number in cases.Training().steps():
        if number == 8:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGTERM)


def exits_at_once_in_a_step() -> None:
    for number in cases.Training().steps():
        if number == 8:
            sys.stdout.flush()
            os._exit(5)


def exits_in_a_step() -> None:
    for number in cases.Training().steps():
        if number == 8:
            sys.exit("enough")


def becomes_another_program() -> None:
    for number in cases.Training().steps():
        if number == 8:
            sys.stdout.flush()
            os.execv("/bin/sh", ["sh", "-c", "echo $0 $#; ls; exit 4"])


def becomes_two_in_training() -> None:
    training = cases.Training()
    child = None
    for number in training.steps():
        if number == 8:
            sys.stdout.flush()
            child = os.fork()
            if child == 0:
                sys.stdout = Path("child").open("w", encoding="utf-8")  # noqa: SIM115 - to its end
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), Path("child").read_text(encoding="utf-8"))
        training.epoch()


def becomes_two_before_training() -> None:
    child = os.fork()
    if child == 0:
        sys.stdout = Path("child").open("w", encoding="utf-8")  # noqa: SIM115 - to its end
        torch.manual_seed(3)
    cases.Training().epoch()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), Path("child").read_text(encoding="utf-8"))


def trains_at_exit() -> None:
    training = cases.Training()
    atexit.register(training.epoch)
    training.epoch()


def ends_while_a_thread_trains() -> None:
    begun = threading.Event()
    training = cases.Training()

    def train() -> None:
        while True:
            training.step(torch.ones(2, 4), torch.ones(2, 1))
            begun.set()

    threading.Thread(target=train, daemon=True).start()
    begun.wait()
    sys.stdout.flush()
    os._exit(6)


def closes_all_descriptors() -> None:
    training = cases.Training()
    for number in training.steps():
        if number == 3:
            os.closerange(3, 1000)
        if number == 8:
            with Path("mine").open("w", encoding="ascii") as file:
                print(file.fileno(), sorted(int(one) for one in os.listdir("/proc/self/fd"))[:3])  # noqa: PTH208


def changes_its_folder() -> None:
    training = cases.Training()
    for number in training.steps():
        if number == 3:
            os.chdir("/")
            os.environ.clear()
            os.umask(0o777)


cases.run(cases.of(globals()))
