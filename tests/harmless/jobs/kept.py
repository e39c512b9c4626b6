"""Jobs that keep what they train: pickles, checkpoints, copies, scripts and exports, before, in and after the
measurement."""

from __future__ import annotations

import copy
import functools
import hashlib
import io
import logging
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path

import cases
import torch

EARLY = print
"""Held from before the measurement, as is whatever a module takes by name."""
MOMENTS = (0, 3, 8, 12, 22)
"""Steps in the warm-up, the clean steps, the window, and after all."""


class Trainer(cases.Training):
    """A job's whole state, with functions that it calls."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        self.scaler = torch.amp.GradScaler("cpu")
        self.log = print
        self.flushed = functools.partial(print, flush=True)
        self.early = EARLY
        self.save = torch.save
        self.logger = logging.getLogger("job")

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scheduler.step()
        return loss


LOADS = """
import builtins, pickle, sys, torch
sys.modules["__main__"].Trainer = type("Trainer", (), {})
for file in sys.argv[1:]:
    with open(file, "rb") as content:
        trainer = torch.load(content, weights_only=False)
    print(trainer.log is print, trainer.early is print, trainer.flushed.func is print, trainer.save is torch.save)
    print(trainer.scheduler.last_epoch, sum(one.sum().item() for one in trainer.model.parameters()))
"""


def whole_trainer_is_saved() -> None:
    trainer = Trainer()
    for number in trainer.steps():
        if number in MOMENTS:
            trainer.log, trainer.flushed = print, functools.partial(print, flush=True)
        if number in MOMENTS or number - 1 in MOMENTS:
            torch.save(trainer, f"{number}.pt")
            torch.save(trainer, f"{number}.old.pt", _use_new_zipfile_serialization=False)
    files = sorted(str(one) for one in Path().glob("*.pt"))
    print(files, flush=True)
    subprocess.run([sys.executable, "-E", "-c", LOADS, *files], check=True)


def parts_are_pickled() -> None:
    trainer = Trainer()
    digest = hashlib.sha256()
    for number in trainer.steps():
        parts = (trainer.optimizer, trainer.scheduler, trainer.loader, trainer.model, trainer.scaler, trainer.logger)
        for part in (*parts, trainer.data, trainer.save, torch.utils.data.DataLoader.__iter__, torch.save):
            content = pickle.dumps(part)
            assert type(pickle.loads(content)) is type(part)
            # The names of storages are addresses.
            digest.update(repr([operation.name for operation, *_ in pickletools.genops(content)]).encode())
        for function in (len, max, print, EARLY, trainer.log):
            assert pickle.loads(pickle.dumps(function)) == function
        pickle.loads(pickle.dumps([].append))(1)
        print(number, digest.hexdigest())


def checkpoint_is_the_same() -> None:
    trainer = Trainer()
    for number in trainer.steps():
        content = io.BytesIO()
        torch.save({"model": trainer.model.state_dict(), "optimizer": trainer.optimizer.state_dict()}, content)
        print(number, hashlib.sha256(content.getvalue()).hexdigest())


def copies_go_on_by_themselves() -> None:
    trainer = Trainer()
    copies = []
    for number in trainer.steps():
        if number in MOMENTS:
            copies.append(copy.deepcopy(trainer))
    for number, one in enumerate(copies):
        one.log("copy", number, one.scheduler.last_epoch, copy.deepcopy(print) == print, copy.copy(one.early) == print)
        for x, y in one.loader:
            print(one.step(x, y).item())


def _loss(parameters: dict[str, torch.Tensor], model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return torch.func.functional_call(model, parameters, (x,)).square().mean()


@torch.jit.script
def _scripted(x: torch.Tensor) -> torch.Tensor:
    print("in script")
    if bool(x.sum() > 0):
        return x * 2
    return x


class _Told(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)  # type: ignore[no-any-return]


def scripts_and_traces() -> None:
    training = cases.Training()
    for number in training.steps():
        if number in MOMENTS:
            print(_scripted(torch.ones(2)))
            print(torch.jit.script(_Told()).code)
            print(torch.jit.trace(training.model, torch.ones(1, 4)).code)


def exports() -> None:
    training = cases.Training()
    for number in training.steps():
        if number in (3, 22):
            program = torch.export.export(training.model, (torch.ones(2, 4),))
            print(program.graph_module.code)


def functional_transforms() -> None:
    training = cases.Training()
    for number, (x, y) in enumerate(training.loader):
        training.step(x, y)
        parameters = {name: one.detach() for name, one in training.model.named_parameters()}
        gradients = torch.func.grad(_loss)(parameters, training.model, x)
        each = torch.func.vmap(torch.func.grad(_loss), in_dims=(None, None, 0))(parameters, training.model, x)
        _, tangent = torch.func.jvp(lambda value: value.sin().sum(), (x,), (y.expand_as(x),))
        print(number, gradients["0.bias"].sum().item(), each["0.bias"].sum().item(), float(tangent))
        try:
            torch.func.vmap(lambda value: value.item())(x[:, 0])
        except RuntimeError as error:
            print(error)


cases.run(cases.of(globals()))
