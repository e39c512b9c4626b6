"""Recordings with known truth, written as agents write them: rings, notes, samples and a manifest on the disk.

A step is a line of words that pass the time of a process:

- `N`, `n`: a loader delivers a batch, with gradients enabled and without; `N1`, `n1` the first of a new iterator, `N/`
  the end of one;
- `f`, `.`: the forward pass, and anything else, of which no record is left;
- `B`, or `{` to `}` with something in between: a backward pass;
- `Oadam`, or `[` to `]adam`: a step of the optimizer `adam`; `U`, `u`: GradScaler's update after a step, or after none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainlint.agent import records
from trainlint.probe.recording import (
    JobEnd,
    Manifest,
    Model,
    Options,
    Recording,
    read,
    write_manifest,
)

TRAIN = "/project/train.py"
LOADER = f"{TRAIN}:5"
SECONDS: Mapping[str, float] = {"N": 0.010, "f": 0.020, ".": 0.002, "B": 0.030, "O": 0.008, "U": 0.001}
"""What each word takes, if it is not said otherwise."""


@dataclass
class MadeProcess:
    """A process of a job, and the records that its agent leaves."""

    pid: int
    role: str = "rank"
    rank: int | None = 0
    parent: int | None = None
    workers: int = 0
    world_size: int = 1
    clock: float = 100.0
    seconds: Mapping[str, float] = field(default_factory=lambda: SECONDS)
    queue: float = -1.0
    """Batches that stand ready before each `N`."""
    devices: list[dict[str, object]] = field(default_factory=list)
    """As torch names them."""
    capacity: int = records.CAPACITY
    names: dict[str, int] = field(default_factory=dict)
    notes: list[dict[str, object]] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.note("process", pid=self.pid, parent=self.parent, python="3.11.7", started_as="run")
        self.note("role", role=self.role, rank=self.rank, world_size=self.world_size)
        if self.role == "rank":
            self.note("torch", version="2.13.0", cuda=None, devices=self.devices)
            self.note("loader", name=self.name(LOADER), line=f"{TRAIN}:5", workers=self.workers, batch_size=8)

    def note(self, note: str, **fields: object) -> None:
        self.notes.append({"note": note, **fields})

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names[text] = len(self.names) + 1
            self.note("name", id=self.names[text], text=text)
        return self.names[text]

    def record(
        self,
        kind: int,
        start: float,
        duration: float = 0.0,
        *,
        name: str = "",
        value: float = 0.0,
        flags: int = 0,
        thread: int = 0,
    ) -> None:
        identity = self.name(name) if name else 0
        self.written.append(records.RECORD.pack(kind, flags, thread, identity, start, duration, value))

    def spend(self, kind: int, seconds: float, *, name: str = "", value: float = 0.0, flags: int = 0) -> None:
        """Pass the time and leave a record of it."""
        start = self.clock
        self.clock += seconds
        self.record(kind, start, seconds, name=name, value=value, flags=flags)

    def call(self, kind: str, row: int, seconds: float) -> None:
        """A call that is timed, on a row of the training script."""
        self.spend(records.CALL, seconds, name=f"{kind} {TRAIN}:{row}")

    def phase(self, phase: int) -> None:
        self.record(records.PHASE, self.clock, value=phase)

    def step(self, words: str, **seconds: float) -> None:
        """Pass one step; `seconds` says what words take in this one."""
        opened: list[float] = []
        for word in words.split():
            taken = {**self.seconds, **seconds}
            match word[0]:
                case "N" | "n":
                    self._batch(word, taken["N"])
                case "f" | ".":
                    self.clock += taken[word]
                case "B":
                    self.spend(records.BACKWARD, taken["B"])
                case "O":
                    self.spend(records.UPDATE, taken["O"], name=word[1:])
                case "U" | "u":
                    self.spend(records.SCALER_UPDATE, taken["U"], value=float(word == "u"))
                case "{" | "[":
                    opened.append(self.clock)
                case "}":
                    start = opened.pop()
                    self.record(records.BACKWARD, start, self.clock - start)
                case "]":
                    start = opened.pop()
                    self.record(records.UPDATE, start, self.clock - start, name=word[1:])
                case _:
                    raise ValueError(word)

    def _batch(self, word: str, seconds: float) -> None:
        flags = records.GRADIENTS if word[0] == "N" else 0
        flags |= {"": 0, "1": records.FIRST, "/": records.LAST}[word[1:]]
        self.spend(records.BATCH, seconds, name=LOADER, value=self.queue, flags=flags)

    def train(self, cycle: str | Sequence[str], *, warmup: int = 4, clean: int = 20, **seconds: float) -> None:
        """Pass steps in the phases of a job; several cycles take turns."""
        cycles = [cycle] if isinstance(cycle, str) else list(cycle)
        self.phase(records.WARMUP)
        for index in range(warmup):
            self.step(cycles[index % len(cycles)], **seconds)
        self.phase(records.CLEAN)
        for index in range(clean):
            self.step(cycles[index % len(cycles)], **seconds)
        self.phase(records.WINDOW)

    def write(self, folder: Path) -> Path:
        """Write the ring and the notes; return the ring's path."""
        ring = folder / f"{self.pid}-1.ring"
        header = records.HEADER.pack(records.MAGIC, self.pid, self.capacity, len(self.written), 0.0, 0.0)
        kept = self.written[-self.capacity :]
        first = len(self.written) - len(kept)
        slots: dict[int, bytes] = {(first + index) % self.capacity: one for index, one in enumerate(kept)}
        body = b"".join(slots[slot] for slot in sorted(slots))
        ring.write_bytes(header.ljust(records.HEADER_BYTES, b"\0") + body)
        lines = "".join(json.dumps(note) + "\n" for note in self.notes)
        ring.with_suffix(".notes").write_text(lines, encoding="utf-8")
        return ring


def rank(number: int = 0, **fields: object) -> MadeProcess:
    """A process that trains."""
    return MadeProcess(1000 + number, rank=number, **fields)  # type: ignore[arg-type]


def worker(of: MadeProcess, number: int = 0) -> MadeProcess:
    """A loader worker of a rank."""
    return MadeProcess(of.pid + 100 + number, role="worker", rank=of.rank, parent=of.pid)


def manifest(**fields: object) -> Manifest:
    """The manifest of a job that ended well."""
    end = JobEnd(exit_code=0, signal=None, stopped_by_probe=True, clock=200.0)
    told: dict[str, object] = {
        "command": ["python", "train.py"],
        "started": "2026-01-01T00:00:00Z",
        "clock": 90.0,
        "cwd": "/project",
        "probe_pid": 1,
        "job_pid": 1000,
        "host": "host",
        "platform": "Linux",
        "cores": 8,
        "physical_cores": 4,
        "options": Options(steps=20, warmup=4),
        "end": end,
    }
    return Manifest.model_validate(told | fields)


def write(
    folder: Path,
    /,
    *processes: MadeProcess,
    stacks: Iterable[Model] = (),
    system: Iterable[Model] = (),
    gpu: Iterable[Model] = (),
    **fields: object,
) -> Recording:
    """Write a recording and read it back."""
    for name in ("processes", "samples", "traces"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for process in processes:
        process.write(folder / "processes")
    for name, samples in (("stacks", stacks), ("system", system), ("gpu", gpu)):
        text = "".join(one.model_dump_json() + "\n" for one in samples)
        (folder / "samples" / f"{name}.jsonl").write_text(text, encoding="utf-8")
    write_manifest(folder, manifest(**fields))
    return read(folder)
