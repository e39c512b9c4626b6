"""Runs cases, each in a process of its own that goes on from here and ends as a script does.

A forked process has torch already, which takes seconds to import. Each case has a folder of its own, with its standard
output and error in the files `out` and `err`, and its process id in `pid`; how it ended is printed.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
# The first optimizer of a process loads the compiler, which takes a second.
torch.optim.SGD([torch.zeros(1)])

Case = Callable[[], object]
STEPS = 24
"""More than a short measurement takes with its window."""


def run(cases: dict[str, Case]) -> None:
    """Run the cases that the arguments name, below the folder that the first one names; return in each one's process
    once it has run."""
    folder, names = Path(sys.argv[1]).absolute(), sys.argv[2:] or list(cases)
    # Collections in the cases need not go through all of torch.
    gc.collect()
    gc.freeze()
    for name in names:
        place = folder / name
        place.mkdir(parents=True)
        sys.stdout.flush()
        process = os.fork()
        if process == 0:
            os.setpgid(0, 0)
            os.chdir(place)
            Path("pid").write_text(str(os.getpid()), encoding="ascii")
            for name_of_stream, stream in (("out", 1), ("err", 2)):
                opened = os.open(name_of_stream, os.O_WRONLY | os.O_CREAT)
                os.dup2(opened, stream)
                os.close(opened)
            signal.alarm(100)
            torch.manual_seed(0)
            cases[name]()
            return
        _, status = os.waitpid(process, 0)
        print(name, os.waitstatus_to_exitcode(status), flush=True)


def of(names: dict[str, object]) -> dict[str, Case]:
    """The cases among the names of a module: its own functions that are public."""
    return {
        name: value
        for name, value in names.items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", "") == names["__name__"]
        and not isinstance(value, type)
    }


class Training:
    """A small model that is trained, the same in each run."""

    def __init__(self, model: torch.nn.Module | None = None, **loader: object) -> None:
        torch.manual_seed(1)
        self.model = model if model is not None else torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.data = TensorDataset(torch.randn(2 * STEPS, 4), torch.randn(2 * STEPS, 1))
        self.loader = DataLoader(self.data, batch_size=2, shuffle=True, **loader)  # type: ignore[arg-type]

    def step(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The loss of one step."""
        self.optimizer.zero_grad()
        loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss

    def steps(self) -> Iterator[int]:
        """One epoch; each step's loss is printed."""
        for number, (x, y) in enumerate(self.loader):
            print(number, self.step(x, y).item())
            yield number

    def epoch(self) -> None:
        """One epoch."""
        for _ in self.steps():
            pass
