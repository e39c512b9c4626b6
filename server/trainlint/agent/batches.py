"""What the batches themselves show, as far as they lie on the CPU: a digest of an epoch's first, and real tokens."""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Mapping
from typing import Any

from . import records
from .agent import Agent

DIGESTED_BYTES = 1 << 20
"""Of each tensor, at most."""
DEEPEST = 4
MASKS = ("attention_mask", "padding_mask")


def look_at(agent: Agent, batch: Any, loader: int, epoch: int, gradients: bool) -> None:
    """Note what a batch shows; `epoch` is 0 but for the first of an iterator."""
    if epoch and gradients:
        digest = _digest(agent, batch)
        if digest:
            agent.channel.note("digest", loader=loader, epoch=epoch, digest=digest)
    mask = _mask(agent, batch)
    if mask is not None:
        # A one is a single byte of 1 in every type of whole numbers.
        real = _content(mask, DIGESTED_BYTES << 4).count(1)
        agent.record(records.TOKENS, time.perf_counter(), float(mask.numel()), float(real))


def _mask(agent: Agent, batch: Any) -> Any | None:
    """The attention mask of a batch, where it can be counted without any operation of torch."""
    if not isinstance(batch, Mapping):
        return None
    for name in MASKS:
        mask: Any = batch.get(name) if name in batch else None
        if type(mask) is agent.torch.Tensor and mask.device.type == "cpu" and mask.dim() == 2:
            counted = not mask.is_floating_point() and not mask.is_complex() and mask.is_contiguous()
            return mask if counted and mask.numel() * mask.element_size() <= DIGESTED_BYTES << 4 else None
    return None


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
    if isinstance(value, Mapping):
        values = list(value.values())
    elif isinstance(value, (list, tuple)):
        values = list(value)
    else:
        return []
    return [tensor for one in values for tensor in _tensors(agent, one, depth + 1)]
