"""A training job that is started in one way or another; it says how it was, and what it computed."""

from __future__ import annotations

import os
import signal
import sys
import threading

import torch
from torch.utils.data import DataLoader


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Rows that are their number."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((4,), float(index))


def train(**loader: object) -> None:
    """Train a small model."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    for number, x in enumerate(DataLoader(Rows(), batch_size=2, **loader)):  # type: ignore[arg-type]
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        print(number, loss.item(), flush=True)


if __name__ == "__main__":
    shown = [os.path.basename(one) for one in sys.argv]  # noqa: PTH119
    print(shown, sys.flags, sys.path[0], __debug__, sys.stdout.encoding)
    os.write(1, b"\xff\n")
    if "wait" in sys.argv:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    if sys.argv[-1:] == ["loaders"]:
        for start in ("spawn", "forkserver"):
            train(num_workers=1, multiprocessing_context=start)
        # What feeds a queue may hold the last reference to its semaphore. Where Python ends between the removal of
        # that and the note of it, it says that the semaphore leaked, and that it is not there.
        for thread in threading.enumerate():
            if thread.name == "QueueFeederThread":
                thread.join()
    else:
        train()
    if "wait" in sys.argv:
        print("waits", flush=True)
        signal.pause()
