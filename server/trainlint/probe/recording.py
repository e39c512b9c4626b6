"""A recording: a folder with all that a probe saw of a job, raw, so that it can be analysed again and elsewhere.

```
manifest.json               what was run, where and how (`Manifest`); written at the start and again at the end
agent/                      the code that was injected
options.json                what its agents are asked for (`Options`)
watched.json                the rows, by path, of which they say whether they run (`trainlint.agent.flagged_lines`)
control                     one mapped word from the probe to the agents (trainlint.agent.control)
processes/PID-TIME.ring     records of a process (trainlint.agent.records)
processes/PID-TIME.notes    what the process notes in JSON Lines
traces/*.json.gz            Kineto traces
samples/stacks.jsonl        `StackTable`, `StackSample` and `StackLook` lines
samples/system.jsonl        `SystemSample` lines
samples/gpu.jsonl           `GpuDevice` and `GpuSample` lines
```

All times are seconds of `time.perf_counter`, which processes of one machine share on Linux. Files may end in the middle
of a line or be missing: the job may have been killed. What is broken is left out, and `Recording.broken` says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from trainlint.agent import records
from trainlint.probe.model import Model
from trainlint.source.system_errors import reason_of

DEVICES_IN_DOUBT = "nvml.match"
"""Under this name `Manifest.missing` says why the devices that the job used may be others."""


class UnusableRecordingError(Exception):
    """The folder holds no recording, or one of another version; the message says what to do."""


class Options(Model):
    """What the person asked for."""

    steps: int = 50
    warmup: int = 10
    profile_steps: int = 5
    profile: bool = True
    keep_running: bool = False
    timeout_s: float | None = None
    gpus: list[int] | None = None
    flops_per_step: float | None = None
    parameters: int | None = None
    """With `tokens_per_step`, what the work of a step is reckoned from where operations are not counted."""
    tokens_per_step: int | None = None


class JobEnd(Model):
    """How the job's own process ended."""

    exit_code: int | None
    signal: int | None
    stopped_by_probe: bool
    clock: float
    """`time.perf_counter` when it had ended."""
    escalated: Literal["SIGINT", "SIGTERM", "SIGKILL"] | None = None
    """What it took to end the job where it did not end at the step boundary."""


class Manifest(Model):
    schema_version: Literal[1] = 1
    kind: Literal["run", "attach"] = "run"
    command: list[str]
    started: str
    """UTC, ISO 8601."""
    clock: float
    cwd: str
    probe_pid: int
    job_pid: int | None = None
    host: str
    platform: str
    cores: int
    physical_cores: int | None = None
    memory_bytes: int | None = None
    options: Options
    folder: str | None = None
    """Where the recording was made, since the agent's code ran from there; it may lie elsewhere by now."""
    end: JobEnd | None = None
    probe_cpu_s: float | None = None
    """CPU time of the probe and its samplers while the job ran."""
    missing: dict[str, str] = {}
    """What could not be measured, by source or metric, and why."""


class Frame(Model):
    path: str
    row: int
    function: str


class StackTable(Model):
    """A stack that samples refer to by number."""

    type: Literal["stack"] = "stack"
    id: int
    frames: list[Frame]
    """The innermost first."""


class StackSample(Model):
    type: Literal["sample"] = "sample"
    clock: float
    pid: int
    thread: str
    """The thread's name; the main thread is `MainThread`."""
    stack: int
    active: bool = True
    """False where the innermost call waits, in the standard library, for a thread, a process or a pipe. A thread that
    sleeps or waits in C code, as for a GPU, counts as active: that is time of its line."""
    weight_s: float
    """The time that the sample stands for, from `clock` on: until the thread was seen with another stack. Times of one
    thread add up to how long it was looked at."""


class StackLook(Model):
    """A time in which the stacks of a process were read again and again, at moments that chance chose."""

    type: Literal["look"] = "look"
    clock: float
    pid: int
    duration_s: float
    reads: float
    """About how many times: py-spy counts threads, and of the same stack on end it tells no number."""
    failed: int = 0
    """Reads that failed, besides; what they would have shown is not known."""


class ProcessSample(Model):
    pid: int
    cpu_s: float
    """CPU time since its start."""
    ended_children_cpu_s: float = 0.0
    """That of the processes it started that have ended, and theirs, as far as they were waited for."""
    rss_bytes: int
    read_bytes: int | None = None
    io_wait_s: float | None = None
    core_wait_s: float | None = None
    """How long its main thread has been ready and waited for a core since its start."""


class SystemSample(Model):
    type: Literal["system"] = "system"
    clock: float
    cores_busy: list[float]
    """Each core's busy share since the sample before."""
    io_wait: float | None = None
    memory_available_bytes: int | None = None
    processes: list[ProcessSample]


class GpuDevice(Model):
    """A GPU of the machine, or a MIG instance of one. It is written anew when something about it changes; the last line
    of a UUID counts."""

    type: Literal["device"] = "device"
    index: int
    uuid: str
    name: str
    memory_total_bytes: int | None
    power_limit_w: float | None
    sm_clock_max_mhz: int | None
    used_by_job: bool
    missing: dict[str, str] = {}
    """Metrics that the device does not tell, and why."""


class GpuSample(Model):
    type: Literal["gpu"] = "gpu"
    clock: float
    uuid: str
    util: float | None = None
    """Share of the driver's sampling period in which a kernel ran, 0 to 1; says nothing about how full the SMs were."""
    memory_used_bytes: int | None = None
    power_w: float | None = None
    """The driver's figure: a mean over one second on newer cards."""
    energy_j: float | None = None
    """Since the driver was loaded. Where it is there, the difference of two is the better measure of power."""
    sm_clock_mhz: int | None = None
    pcie_rx_bytes_per_s: float | None = None
    """What the GPU received since the sample before: the host's copies to it."""
    pcie_tx_bytes_per_s: float | None = None
    throttle_reasons: list[str] = []
    """As nvidia-smi spells them, `gpu_idle` among them."""
    sm_active: float | None = None
    """GPM on Hopper and newer, 0 to 1; likewise the next ones."""
    tensor_active: float | None = None
    dram_active: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a ring, with its name resolved; fields as in `trainlint.agent.records`."""

    kind: int
    flags: int
    thread: int
    name: str
    start: float
    duration: float
    value: float

    @property
    def end(self) -> float:
        return self.start + self.duration


@dataclass(frozen=True, slots=True)
class ProcessRecording:
    """What one process left."""

    pid: int
    records: tuple[Record, ...]
    """In the order in which they were written: by their ends, more or less."""
    lost: int
    """Records that were overwritten."""
    notes: tuple[dict[str, object], ...]

    def noted(self, kind: str) -> Iterator[dict[str, object]]:
        """The notes of one type."""
        return (note for note in self.notes if note.get("note") == kind)

    @property
    def names(self) -> dict[int, str]:
        """The texts that records and notes refer to by number."""
        return _names(self.notes)

    @property
    def role(self) -> str:
        """`rank`, `worker` or `other`; the last note counts."""
        roles = [str(note.get("role")) for note in self.noted("role")]
        return roles[-1] if roles else "other"

    @property
    def rank(self) -> int | None:
        ranks = [note["rank"] for note in self.noted("role") if isinstance(note.get("rank"), int)]
        return int(str(ranks[-1])) if ranks else None


@dataclass(frozen=True, slots=True)
class Recording:
    folder: Path
    manifest: Manifest
    processes: tuple[ProcessRecording, ...]
    stacks: dict[int, tuple[Frame, ...]] = field(default_factory=dict)
    stack_samples: tuple[StackSample, ...] = ()
    stack_looks: tuple[StackLook, ...] = ()
    system: tuple[SystemSample, ...] = ()
    devices: tuple[GpuDevice, ...] = ()
    gpu: tuple[GpuSample, ...] = ()
    traces: tuple[Path, ...] = ()
    broken: tuple[str, ...] = ()
    """Files, or parts of them, that could not be read."""
    size_bytes: int = 0
    """What the folder takes on the disk."""

    @property
    def ranks(self) -> tuple[ProcessRecording, ...]:
        """The processes that train, ordered by rank."""
        trains = [process for process in self.processes if process.role == "rank"]
        return tuple(sorted(trains, key=lambda process: (process.rank or 0, process.pid)))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, whole or not at all."""
    draft = folder / "manifest.json.new"
    draft.write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
    draft.replace(folder / "manifest.json")


def read(folder: Path) -> Recording:
    """Read a recording.

    Raises:
        UnusableRecordingError: the folder is none, or the manifest is missing or of another version.
    """
    manifest = _manifest(folder)
    broken: list[str] = []
    processes = [_process(ring, broken) for ring in sorted((folder / "processes").glob("*.ring"))]
    stacks: dict[int, tuple[Frame, ...]] = {}
    stack_samples: list[StackSample] = []
    stack_looks: list[StackLook] = []
    for line in _lines(folder / "samples" / "stacks.jsonl", broken, StackTable, StackSample, StackLook):
        match line:
            case StackTable():
                stacks[line.id] = tuple(line.frames)
            case StackSample():
                stack_samples.append(line)
            case StackLook():
                stack_looks.append(line)
    system = [
        one
        for one in _lines(folder / "samples" / "system.jsonl", broken, SystemSample)
        if isinstance(one, SystemSample)
    ]
    gpu = list(_lines(folder / "samples" / "gpu.jsonl", broken, GpuDevice, GpuSample))
    return Recording(
        folder=folder,
        manifest=manifest,
        processes=tuple(process for process in processes if process is not None),
        stacks=stacks,
        stack_samples=tuple(stack_samples),
        stack_looks=tuple(stack_looks),
        system=tuple(system),
        devices=tuple({one.uuid: one for one in gpu if isinstance(one, GpuDevice)}.values()),
        gpu=tuple(one for one in gpu if isinstance(one, GpuSample)),
        traces=tuple(sorted((folder / "traces").glob("*.json*"))),
        broken=tuple(broken),
        size_bytes=sum(_occupied(path) for path in folder.rglob("*")),
    )


def _occupied(path: Path) -> int:
    """Bytes on the disk: a ring is a sparse file until its records are written. 0 for what has gone meanwhile."""
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0


def _manifest(folder: Path) -> Manifest:
    try:
        return Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        advice = "name a folder that `trainlint probe --recording` has made"
        raise UnusableRecordingError(f"{folder} holds no recording, as it has no manifest.json; {advice}") from error
    except OSError as error:
        raise UnusableRecordingError(f"{folder / 'manifest.json'} cannot be read: {reason_of(error)}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnusableRecordingError(
            f"{folder / 'manifest.json'} is not of this version of trainlint ({where}: {first['msg']}); record it again"
        ) from error


def _lines(path: Path, broken: list[str], *models: type[BaseModel]) -> Iterator[BaseModel]:
    """The lines of a file, each as the model that its `type` names; none where the file is missing."""
    by_type = {model.model_fields["type"].default: model for model in models}
    for number, text in _texts(path, broken):
        try:
            fields = json.loads(text)
            yield by_type[fields["type"]].model_validate(fields)
        except (ValueError, KeyError, TypeError):
            broken.append(f"{path.name}:{number}")


def _texts(path: Path, broken: list[str]) -> Iterator[tuple[int, str]]:
    try:
        whole = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        broken.append(f"{path.name}: {error.strerror or error}")
        return
    yield from ((number, text) for number, text in enumerate(whole.splitlines(), 1) if text.strip())


def _process(ring: Path, broken: list[str]) -> ProcessRecording | None:
    notes: list[dict[str, object]] = []
    notes_file = ring.with_suffix(".notes")
    for number, text in _texts(notes_file, broken):
        try:
            note = json.loads(text)
        except ValueError:
            broken.append(f"{notes_file.name}:{number}")
            continue
        if isinstance(note, dict):
            notes.append(note)
    try:
        found = _ring(ring.read_bytes(), _names(notes))
    except (OSError, ValueError) as error:
        broken.append(f"{ring.name}: {error}")
        return None
    pid, kept, lost = found
    return ProcessRecording(pid, kept, lost, tuple(notes))


def _names(notes: Iterable[dict[str, object]]) -> dict[int, str]:
    return {
        identity: str(note.get("text"))
        for note in notes
        if note.get("note") == "name" and isinstance(identity := note.get("id"), int)
    }


def _ring(content: bytes, names: dict[int, str]) -> tuple[int, tuple[Record, ...], int]:
    """Process id, records in the order of their writing, and the number of those that were overwritten.

    Raises:
        ValueError: it is no ring.
    """
    if len(content) < records.HEADER_BYTES:
        raise ValueError("too short for a ring")
    magic, pid, capacity, written, _, _ = records.HEADER.unpack_from(content)
    if magic != records.MAGIC:
        raise ValueError("not a ring of this version")
    capacity = min(capacity, (len(content) - records.HEADER_BYTES) // records.RECORD.size)
    kept = min(written, capacity)
    found = []
    for index in range(written - kept, written):
        offset = records.HEADER_BYTES + (index % capacity) * records.RECORD.size
        kind, flags, thread, name, start, duration, value = records.RECORD.unpack_from(content, offset)
        if kind:
            found.append(Record(kind, flags, thread, names.get(name, ""), start, duration, value))
    return pid, tuple(found), written - kept
