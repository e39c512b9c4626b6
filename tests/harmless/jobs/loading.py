"""Jobs with loaders of all kinds."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Mapping

import cases
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter


def _train(loader: DataLoader, epochs: int = 1) -> None:  # type: ignore[type-arg]
    training = cases.Training()
    for epoch in range(epochs):
        for number, x in enumerate(loader):
            x = x["input"] if isinstance(x, Mapping) else x
            print(epoch, number, training.step(x, x[:, :1]).item())


class _Rows(Dataset[torch.Tensor]):
    def __init__(self, fails_at: int = -1, how: str = "") -> None:
        self.fails_at = fails_at
        self.how = how

    def __len__(self) -> int:
        return 2 * cases.STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.fails_at:
            if self.how == "raise":
                raise KeyError(f"no row {index}")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "exit":
                sys.exit(3)
        return torch.full((4,), float(index)) + torch.rand(4)


class _Loader(DataLoader[torch.Tensor]):
    """A loader with an iterator of its own."""

    def __iter__(self) -> Iterator[torch.Tensor]:  # type: ignore[override]
        print("iterates")
        return super().__iter__()

    def _get_iterator(self) -> _SingleProcessDataLoaderIter:  # type: ignore[override]
        return _Iterator(self)

    def __eq__(self, other: object) -> bool:
        print("compares")
        return self is other

    def __hash__(self) -> int:
        print("hashes")
        return 1


class _Iterator(_SingleProcessDataLoaderIter):
    def _next_data(self) -> object:
        found = super()._next_data()
        print("next")
        return found


def has_a_loader_of_its_own() -> None:
    _train(_Loader(_Rows(), batch_size=2))


def has_an_optimizer_of_its_own() -> None:
    class Own(torch.optim.SGD):
        def __eq__(self, other: object) -> bool:
            print("compares")
            return self is other

        __hash__ = None  # type: ignore[assignment]

    training = cases.Training()
    training.optimizer = Own(training.model.parameters(), 0.01)  # type: ignore[assignment]
    training.epoch()


def forks_its_workers() -> None:
    _train(DataLoader(_Rows(), batch_size=2, num_workers=2, multiprocessing_context="fork"))


def keeps_its_workers() -> None:
    loader = DataLoader(_Rows(), batch_size=4, num_workers=1, persistent_workers=True, pin_memory=True)
    _train(loader, 2)


def pins_without_a_device() -> None:
    _train(DataLoader(_Rows(), batch_size=2, pin_memory=True))


def has_a_worker_that_raises() -> None:
    _train(DataLoader(_Rows(37, "raise"), batch_size=2, num_workers=1))


def raises_in_the_loader() -> None:
    _train(DataLoader(_Rows(37, "raise"), batch_size=2))


def _loses_a_worker(how: str) -> None:
    """When that is noticed, by whom, and whether again as the process ends, differs from run to run."""
    # A loader that is given up may say so once more, where it is collected.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    said = b"lost a worker"
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _train(DataLoader(_Rows(37, how), batch_size=2, num_workers=1))
        said = b"lost none"
    finally:
        # torch's handler of SIGCHLD may raise once more anywhere here, as after the loader itself found its worker
        # gone: neither that nor the first error may decide how the case ends.
        try:
            os.write(1, said)
        finally:
            os._exit(0)


def has_a_worker_that_is_killed() -> None:
    _loses_a_worker("kill")


def has_a_worker_that_exits() -> None:
    _loses_a_worker("exit")


class _Stream(IterableDataset[torch.Tensor]):
    def __len__(self) -> int:
        print("length")
        return 40

    def __iter__(self) -> Iterator[torch.Tensor]:
        for index in range(40):
            yield torch.full((4,), float(index))


def streams() -> None:
    _train(DataLoader(_Stream(), batch_size=2))


class _Batch(Mapping[str, torch.Tensor]):
    """A batch that says when it is looked into."""

    def __init__(self, rows: list[torch.Tensor]) -> None:
        self._held = {"input": torch.stack(rows), "attention_mask": torch.ones(2, 3, dtype=torch.long)}

    def __getitem__(self, name: str) -> torch.Tensor:
        print("asked for", name)
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        print("asked for all")
        return iter(self._held)

    def __len__(self) -> int:
        print("asked for its length")
        return len(self._held)


class _List(list):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[object]:
        print("asked for all")
        return super().__iter__()


class _Dict(dict):  # type: ignore[type-arg]
    """A dictionary that says when it is looked into, as its own code sees it."""

    def __iter__(self) -> Iterator[object]:
        print("asked for all")
        return super().__iter__()

    def keys(self):  # type: ignore[no-untyped-def]
        raise LookupError("asked for the keys")


def _dictionary(rows: list[torch.Tensor]) -> _Dict:
    return _Dict(x=torch.stack(rows))


def has_batches_of_its_own() -> None:
    _train(DataLoader(_Rows(), batch_size=2, collate_fn=_Batch))
    training = cases.Training()
    for batch in DataLoader(_Rows(), batch_size=2, collate_fn=_List):
        x = torch.stack(list.copy(batch))
        print(training.step(x, x[:, :1]).item())
    for batch in DataLoader(_Rows(), batch_size=2, collate_fn=_dictionary):
        print(training.step(batch["x"], batch["x"][:, :1]).item())


class _Sampler(RandomSampler):
    def __iter__(self) -> Iterator[int]:
        print("samples")
        return super().__iter__()


def has_samplers_of_its_own() -> None:
    rows = _Rows()
    _train(DataLoader(rows, batch_sampler=BatchSampler(_Sampler(rows), 2, drop_last=True)), 2)


class _Counted(_Rows):
    """Says whenever it is asked for its length."""

    def __len__(self) -> int:
        print("asked for the length")
        return super().__len__()


class _CountedSampler(RandomSampler):
    def __len__(self) -> int:
        print("asked for the length of the sampler")
        return super().__len__()


def has_lengths_that_tell() -> None:
    _train(DataLoader(_Counted(), 2, shuffle=True))
    _train(DataLoader(torch.utils.data.Subset(_Counted(), range(20)), 2))
    _train(DataLoader(_Rows(), 2, sampler=_CountedSampler(_Rows())))


def seeds_its_workers() -> None:
    def seeded(worker: int) -> None:
        info = get_worker_info()
        print("worker", worker, info is not None and info.seed, torch.initial_seed(), flush=True)

    generator = torch.Generator()
    generator.manual_seed(7)
    _train(DataLoader(_Rows(), batch_size=2, num_workers=1, worker_init_fn=seeded, generator=generator), 2)


def leaves_its_loader_early() -> None:
    training = cases.Training()
    for _ in range(8):
        for number, (x, y) in enumerate(training.loader):
            print(training.step(x, y).item())
            if number == 3:
                break


cases.run(cases.of(globals()))
