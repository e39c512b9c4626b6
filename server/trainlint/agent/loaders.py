"""Batches: how long the job waits for each, how many stood ready, and what loader they come from."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from . import batches, records
from .agent import Agent
from .attributes import attributes_of
from .identity import ByIdentity
from .lengths import length
from .wrapping import wrapped

clock = time.perf_counter

MOST_INDICES = 1024
"""Of those that a part of a dataset consists of, evenly spread; so many tell two parts apart."""


class _Iteration:
    """What is known of an iterator of a loader."""

    def __init__(self, loader: str, start: float, epoch: int) -> None:
        self.loader = loader
        self.start: float | None = start
        """When its making began; None once its first batch has come."""
        self.epoch = epoch


class Loaders:
    """The loaders of a process and their iterators."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._labels: ByIdentity[str] = ByIdentity()
        self._epochs: dict[str, int] = {}
        self._count = 0
        self.iterations: ByIdentity[_Iteration] = ByIdentity()
        agent.at_forks.append(self._labels.clear)
        agent.at_forks.append(self.iterations.clear)

    def began(self, loader: Any, iterator: Any, start: float, line: int) -> None:
        """An iterator was made, or begins anew."""
        label = self._labels.get(loader)
        if label is None:
            label = self._learn(loader, line)
        epoch = self._epochs[label] = self._epochs.get(label, 0) + 1
        self.iterations[iterator] = _Iteration(label, start, epoch)

    def of(self, iterator: Any) -> _Iteration:
        """What is known of an iterator, also of one that was made unseen."""
        found = self.iterations.get(iterator)
        if found is None:
            found = self.iterations[iterator] = _Iteration("DataLoader", 0.0, 1)
            found.start = None
        return found

    def _learn(self, loader: Any, line: int) -> str:
        self._count += 1
        kind = type(loader).__name__
        label = self._labels[loader] = kind if self._count == 1 else "%s %d" % (kind, self._count)
        sampler, batch_sampler = getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
        dataset = getattr(loader, "dataset", None)
        iterable = isinstance(dataset, self._agent.torch.utils.data.IterableDataset)
        channel = self._agent.channel
        channel.note(
            "loader",
            name=channel.name(label),
            line=channel.text(line),
            workers=getattr(loader, "num_workers", 0),
            prefetch=getattr(loader, "prefetch_factor", None),
            pin_memory=bool(getattr(loader, "pin_memory", False)),
            persistent=bool(getattr(loader, "persistent_workers", False)),
            batch_size=_batch_size(loader),
            drop_last=bool(getattr(loader, "drop_last", False)),
            # Torch remembers having asked an iterable dataset for its length.
            length=None if iterable else self._length(sampler if batch_sampler is None else batch_sampler),
            dataset_length=None if iterable else self._length(dataset),
            sampler_length=None if iterable else self._length(sampler),
            sampler=type(sampler).__name__,
            distributed_sampler=_is_distributed(loader, self._agent.torch.utils.data.DistributedSampler),
            iterable=iterable,
            **_part(dataset, self._agent.torch.utils.data.Subset, self._agent.lines.is_own),
            **{"class": kind},
        )
        return label

    def _length(self, of: object) -> int | None:
        return length(of, self._agent.lines.is_own)


class Batches:
    """Watches the scopes of a loader's `__next__`."""

    prefix = "enumerate(DataLoader)#"

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.loaders = Loaders(agent)
        agent.loaders = self.loaders
        self._padding = batches.Padding(agent)
        agent.at_phases.append(self._padding.phase)

    def enter(self, frame: FrameType) -> object:
        agent = self._agent
        gradients = bool(agent.torch.is_grad_enabled())
        if agent.role != "worker":
            for call in agent.at_batches:
                call(gradients)
        if agent.in_training_thread():
            agent.steps.batch(gradients)
        return frame.f_locals.get("self"), gradients, _ready(frame.f_locals.get("self"))

    def leave(self, frame: FrameType, start: float, kept: Any, error: object) -> None:
        agent = self._agent
        iterator, gradients, ready = kept
        if iterator is None or (error is not None and error is not StopIteration):
            return
        end = clock()
        iteration = self.loaders.of(iterator)
        flags = records.GRADIENTS if gradients else 0
        first = iteration.start is not None
        if iteration.start is not None:
            start, iteration.start, flags = iteration.start, None, flags | records.FIRST
        if error is not None:
            flags |= records.LAST
        name = agent.channel.name(iteration.loader)
        agent.record(records.BATCH, start, end - start, ready, name, flags)
        for call in agent.after_batches:
            call()
        if error is None:
            epoch = iteration.epoch if first else 0
            batches.look_at(agent, frame.f_locals.get("data"), name, epoch, gradients, self._padding.id)


def install(agent: Agent) -> None:
    loader_class: Any = agent.torch.utils.data.DataLoader
    original = loader_class.__iter__

    def after(arguments: tuple[Any, ...], result: Any, start: float, frame: FrameType) -> None:
        agent.loaders.began(arguments[0], result, start, agent.lines.name(frame))

    agent.replace(loader_class, "__iter__", wrapped(agent, original, "loader", after))


def _ready(iterator: Any) -> float:
    """Batches that stand ready before the call; -1 without workers."""
    if not getattr(iterator, "_num_workers", 0):
        return -1.0
    waiting = sum(1 for held in iterator._task_info.values() if len(held) == 2)
    queue = iterator._data_queue
    try:
        return float(waiting + queue.qsize())
    except (AttributeError, NotImplementedError):  # macOS counts no queue between processes
        return float(waiting)


def _batch_size(loader: Any) -> object:
    size = getattr(loader, "batch_size", None)
    return size if size is not None else getattr(getattr(loader, "batch_sampler", None), "batch_size", None)


def _is_distributed(loader: Any, sampler_class: type) -> bool:
    """Whether a loader draws from a sampler that knows of the ranks, itself or through its batch sampler."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    samplers = getattr(loader, "sampler", None), batch_sampler, getattr(batch_sampler, "sampler", None)
    return any(isinstance(sampler, sampler_class) for sampler in samplers)


def _part(dataset: Any, subset_class: type, is_own: Callable[[str], bool]) -> dict[str, object]:
    """Which part of what dataset a `Subset` is, also of another one; nothing for any other dataset.

    The digest is None where only torch or the job's own code can give the indices.
    """
    if not isinstance(dataset, subset_class):
        return {}
    digest: Any = hashlib.sha1(usedforsecurity=False)
    while isinstance(dataset, subset_class):
        held = attributes_of(dataset)
        indices: Any = held.get("indices")
        dataset = held.get("dataset")
        picked = _picked(indices)
        if picked is None:
            digest = None
        elif digest is not None:
            digest.update(repr((len(indices), picked)).encode())
    return {"part": None if digest is None else digest.hexdigest(), "part_of_length": length(dataset, is_own)}


def _picked(indices: Any) -> list[int] | None:
    if type(indices) not in (list, tuple, range) and not _is_numpy(indices):
        return None
    picked = indices[:: max(1, len(indices) // MOST_INDICES)]
    return [int(one) for one in picked] if all(type(one) is int or _is_numpy(one) for one in picked) else None


def _is_numpy(value: object) -> bool:
    return type(value).__module__ == "numpy"
