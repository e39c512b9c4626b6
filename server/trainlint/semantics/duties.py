"""What a training script has to do itself, unless the framework that it uses does it.

The page about frameworks (docs/frameworks.md) shows this table; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from trainlint.semantics.vocabulary import Framework


class Duty(StrEnum):
    """Something that a script with a loop of its own must not forget."""

    SPLIT_DATA = "give each rank its own part of every training dataset"
    SPLIT_PREPARED = "give each rank its own part of the data, for loaders that it is handed"
    SPLIT_STREAMS = "deal out an iterable dataset among the ranks"
    SET_EPOCH = "tell the sampler its epoch"
    MOVE_BATCHES = "move the batches of the loaders that it is handed to the device"
    PIN_MEMORY = "pin the memory of the loaders that it makes"
    FILL_BATCHES = "make the last batch as large as the others, or leave it out"
    CHOOSE_DEVICE = "tell each process which GPU is its own"
    START_PROCESSES = "run one process for each GPU, by its own launcher"
    REDUCE_ONCE = "reduce accumulated gradients once per update"
    SCALE_LOSS = "scale the loss for float16"
    SAVE_ON_ONE_RANK = "have one rank write what all have"
    SAVE_WHOLE_STATE = "write checkpoints that training can resume from"
    MAP_CHECKPOINTS = "read checkpoints to the right device"


_LAUNCHED = (Duty.START_PROCESSES, Duty.CHOOSE_DEVICE, Duty.SCALE_LOSS, Duty.SAVE_ON_ONE_RANK, Duty.MAP_CHECKPOINTS)

TAKEN_CARE_OF: Mapping[Framework, frozenset[Duty]] = {
    Framework.PYTORCH: frozenset(),
    Framework.FSDP: frozenset(),
    Framework.LIGHTNING: frozenset(
        {
            *(Duty.SPLIT_DATA, Duty.SPLIT_PREPARED, Duty.SET_EPOCH, Duty.MOVE_BATCHES, Duty.CHOOSE_DEVICE),
            *(Duty.REDUCE_ONCE, Duty.SCALE_LOSS, Duty.SAVE_ON_ONE_RANK, Duty.SAVE_WHOLE_STATE, Duty.MAP_CHECKPOINTS),
        }
    ),
    Framework.HF_TRAINER: frozenset(
        {
            *(Duty.SPLIT_DATA, Duty.SPLIT_PREPARED, Duty.SPLIT_STREAMS, Duty.SET_EPOCH, Duty.MOVE_BATCHES),
            *(Duty.PIN_MEMORY, Duty.FILL_BATCHES, Duty.CHOOSE_DEVICE, Duty.REDUCE_ONCE, Duty.SCALE_LOSS),
            *(Duty.SAVE_ON_ONE_RANK, Duty.SAVE_WHOLE_STATE, Duty.MAP_CHECKPOINTS),
        }
    ),
    Framework.FABRIC: frozenset({Duty.SPLIT_PREPARED, Duty.SET_EPOCH, Duty.MOVE_BATCHES, *_LAUNCHED}),
    Framework.ACCELERATE: frozenset(
        {
            *(Duty.SPLIT_PREPARED, Duty.SPLIT_STREAMS, Duty.SET_EPOCH, Duty.MOVE_BATCHES, Duty.FILL_BATCHES),
            *_LAUNCHED,
        }
    ),
    Framework.DEEPSPEED: frozenset({Duty.REDUCE_ONCE, Duty.SAVE_WHOLE_STATE, *_LAUNCHED}),
    Framework.RAY_TRAIN: frozenset({Duty.SPLIT_PREPARED, Duty.MOVE_BATCHES, Duty.CHOOSE_DEVICE}),
    Framework.IGNITE: frozenset({Duty.SPLIT_PREPARED, Duty.PIN_MEMORY}),
    Framework.UNKNOWN: frozenset(Duty),
}
"""What each framework does by itself; what stands for a loop of unknown ownership leaves nothing to report."""
