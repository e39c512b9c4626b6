"""What the batches themselves show, as far as they lie on the CPU: a digest of an epoch's first, and real tokens.

Tokens are counted by the attention mask. Without one, `input_ids` are counted that are not the padding id, where the
model says which that is: by the `padding_idx` of its embeddings, all of which name the same.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import time
from array import array
from collections import UserDict
from typing import Any

from . import records
from .agent import Agent
from .attributes import attributes_of

DIGESTED_BYTES = 1 << 20
"""Of each tensor, at most."""
DEEPEST = 4
MASKS = ("attention_mask", "padding_mask")
IDS = "input_ids"
IDS_AT_MOST = 1 << 16
"""In a batch that is counted: 16 ns each, so many take about a millisecond."""


class Padding:
    """The id that stands for padding in the job's model."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.id: int | None = None

    def phase(self, begins: int) -> None:
        if begins == records.CLEAN:
            self.id = _padding_id(self._agent.torch)


def look_at(agent: Agent, batch: Any, loader: int, epoch: int, gradients: bool, padding: int | None) -> None:
    """Note what a batch shows; `epoch` is 0 but for the first of an iterator, `padding` the id of padding."""
    if epoch and gradients:
        digest = _digest(agent, batch)
        if digest:
            agent.channel.note("digest", loader=loader, epoch=epoch, digest=digest)
    mask = _mask(agent, batch)
    if mask is not None:
        # A one is a single byte of 1 in every type of whole numbers.
        real = _content(mask, DIGESTED_BYTES << 4).count(1)
        agent.record(records.TOKENS, time.perf_counter(), float(mask.numel()), float(real))
    elif padding is not None and not any(name in _held(batch) for name in MASKS):
        ids: Any = _held(batch).get(IDS)
        if _is_counted(agent, ids):
            real = ids.numel() - array("q", _content(ids, IDS_AT_MOST * 8)).count(padding)
            agent.record(records.TOKENS, time.perf_counter(), float(ids.numel()), float(real))


def _is_counted(agent: Agent, ids: Any) -> bool:
    """Whether the ids of a batch can be counted without any operation of torch, and at little cost."""
    if type(ids) is not agent.torch.Tensor or ids.device.type != "cpu" or ids.dtype is not agent.torch.int64:
        return False
    return bool(ids.dim() == 2 and ids.is_contiguous() and ids.numel() <= IDS_AT_MOST)


def _padding_id(torch: Any) -> int | None:
    """The padding id that the embeddings of the process's models name; None if none does, or if they differ."""
    embeddings = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Embedding)]
    named = {attributes_of(one).get("padding_idx") for one in embeddings} - {None}
    return named.pop() if len(named) == 1 else None


def _mask(agent: Agent, batch: Any) -> Any | None:
    """The attention mask of a batch, where it can be counted without any operation of torch."""
    held = _held(batch)
    for name in MASKS:
        mask: Any = held.get(name)
        if type(mask) is agent.torch.Tensor and mask.device.type == "cpu" and mask.dim() == 2:
            counted = not mask.is_floating_point() and not mask.is_complex() and mask.is_contiguous()
            return mask if counted and mask.numel() * mask.element_size() <= DIGESTED_BYTES << 4 else None
    return None


def _held(batch: Any) -> dict[Any, Any]:
    """What a mapping holds; nothing where that takes code of the job's own."""
    if not isinstance(batch, dict) and isinstance(batch, UserDict):
        batch = attributes_of(batch).get("data")
    # A copy of a dictionary that iterates in its own way would ask that.
    return dict(dict.items(batch)) if isinstance(batch, dict) else {}


def _digest(agent: Agent, batch: Any) -> str:
    """A digest of all tensors of a batch that lie on the CPU; empty if there are none."""
    digest = hashlib.sha1(usedforsecurity=False)
    found = False
    for tensor in _tensors(agent, batch, 0):
        if tensor.layout is agent.torch.strided and tensor.numel() and tensor.is_contiguous():
            digest.update(repr((tuple(tensor.shape), str(tensor.dtype))).encode())
            digest.update(_content(tensor, DIGESTED_BYTES))
            found = True
    return digest.hexdigest() if found else ""


def _content(tensor: Any, most: int) -> bytes:
    """The first bytes of a tensor in the CPU's memory, read without any operation of torch."""
    return ctypes.string_at(tensor.data_ptr(), min(tensor.numel() * tensor.element_size(), most))


def _tensors(agent: Agent, value: Any, depth: int) -> list[Any]:
    if type(value) is agent.torch.Tensor:
        return [value] if value.device.type == "cpu" else []
    if depth >= DEEPEST:
        return []
    if isinstance(value, list):
        values = list(list.__iter__(value))
    elif isinstance(value, tuple):
        values = list(tuple.__iter__(value))
    else:
        values = list(_held(value).values())
    return [tensor for one in values for tensor in _tensors(agent, one, depth + 1)]
