"""The format in which a process of the job leaves what it saw: a ring of fixed records, and notes beside it.

`PID-TIME.ring` is a memory-mapped file that outlives a SIGKILL: a header, then records of 32 bytes that wrap around.
`PID-TIME.notes` is JSON Lines, for what is rare or has text: names that records refer to by number, facts about the
process, torch and the loaders. Times are seconds of `time.perf_counter`, which on Linux all processes share.
"""

from __future__ import annotations

import struct

MAGIC = b"TLRING1\0"

HEADER = struct.Struct("<8sIIQdd")
"""Magic, process id, capacity in records, number of records ever written, `perf_counter` and `time.time` at start."""
HEADER_BYTES = 64
WRITTEN_OFFSET = 16
"""Where the number of records stands in the header."""

RECORD = struct.Struct("<BBHIddd")
"""Kind, flags, thread (0 is the training thread), name (number of a `name` note), start in s, duration in s, value."""

CAPACITY = 1 << 17
"""Records kept by a process: 4 MiB, a sparse file until they are written."""

# Kinds of records. `value` is 0 where a kind says nothing about it.
BATCH = 1
"""A loader delivered: name of the loader; duration is the wait; value the queue's length before, -1 without workers."""
BACKWARD = 2
"""One call of backward, or of `torch.autograd.grad`."""
UPDATE = 3
"""One `step` of an optimizer: name of the optimizer."""
SCALER_UPDATE = 4
"""`GradScaler.update`: value 1 where a step is known to have been skipped for infinities. One with no update before it
was skipped in any case."""
SYNC = 5
"""A read of a tensor's value: name of the line. The duration is that of the read."""
CALL = 6
"""A timed call: name `TYPE LINE`, such as `print train.py:41`; types are those in `CALL_TYPES`."""
COLLECTION = 7
"""A pause of Python's garbage collector: value is the generation."""
MEMORY = 8
"""Device memory after an update: value is the allocated bytes, duration field the reserved ones (no time)."""
TOKENS = 9
"""Tokens of a batch: value is the real ones, duration field all of them (no time)."""
PHASE = 10
"""The agent entered a phase: value is one of `PHASES`."""
LINE = 11
"""A flagged line ran for the first time in a phase: name of the line."""
WAIT = 13
"""Time in a collective or a barrier that the host waited for: name of the line."""
CORE_WAIT = 14
"""How long the thread has been ready and waited for a core since it started: value is the seconds."""

# Flags of BATCH.
GRADIENTS = 1
"""Gradients were enabled."""
FIRST = 2
"""The first batch of a new iterator: the start is that of making the iterator, so that the start of workers counts."""
LAST = 4
"""The iterator ended: no batch was delivered."""

# Flags of MEMORY.
PEAK = 1
"""The most since the process started, at the end of the clean steps, rather than what is held between two steps."""

CALL_TYPES = (
    "print",
    "logging",
    "tracker",
    "save",
    "collect",
    "synchronize",
    "empty_cache",
    "anomaly",
    "data_parallel",
)

WARMUP, CLEAN, WINDOW, AFTER, DETACHED = range(5)
"""Phases: not timed; timed; profiled; timed again after the window (recorded as CLEAN too); hooks removed."""
PHASES = ("warmup", "clean", "window", "after", "detached")

# Types of notes: the value of `note` in each line, with the fields that go with it.
NOTES = {
    "process": "pid, parent, started_as (run, fork, spawn), argv, executable, python, cwd, time, clock",
    "role": "role (rank, worker, other), rank, local_rank, world_size, worker (index) where it is known",
    "torch": "version, cuda, hip, devices (list of {index, name, uuid, memory_bytes, compute}), threads",
    "name": "id, text; lines are PATH:ROW with an absolute path",
    "loader": "name (id), class, line, workers, prefetch, pin_memory, persistent, batch_size, drop_last, length, "
    "dataset_length, sampler_length, sampler, iterable; of a Subset also part (digest of its indices), part_of_length",
    "optimizer": "name (id), class, parameters (count)",
    "digest": "loader, epoch, digest of the first batch on the CPU",
    "evaluation": "outputs_require_grad, gradients_enabled",
    "anomaly": "passes (backward, of the clean steps so far), with_mode (those with anomaly mode on)",
    "ddp": "unused_parameters, rebuilt_buckets, bucket_sizes, find_unused_parameters, "
    "unused_parameter_bytes, reductions (per step)",
    "environment": "variables (those that rules speak about; an unset one stands with an empty value)",
    "files": "paths of the source files that the process has loaded",
    "window": "seconds that the profiler's window took, its steps among them; peak_bytes by which it raised the most "
    "memory that the process had held; why it recorded no stacks, where it had no need to (without_stacks)",
    "trace": "path of a Kineto trace, steps (profiled), stack_steps, path of the trace with stacks",
    "recompilations": "start, end (their count at the start and at the end of a stretch of clean steps), graph_breaks",
    "watched": "lines (PATH:ROW) of a file that the process executes, whose runs it records; a process that can watch "
    "says so first, with none",
    "unwatched": "lines (PATH:ROW) that may run unseen",
    "missing": "what, why",
    "stop": "step at which the agent ended the process, planned",
    "fault": "where, traceback; the agent is off from here on",
    "end": "time, clock",
}
