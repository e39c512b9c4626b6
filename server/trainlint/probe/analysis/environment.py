"""What the job ran on, which sources told, and what nobody could tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from trainlint.probe.analysis.observed import Observed, listed, whole
from trainlint.probe.measured import Environment, Gpu
from trainlint.probe.recording import DEVICES_IN_DOUBT
from trainlint.probe.verdict import Source


def environment_of(observed: Observed, missing: Mapping[str, str], *, traced: bool) -> Environment:
    """The environment as the first rank says it; `missing` says what else was not measured."""
    first = observed.first
    process = next(iter(first.process.noted("process")), {}) if first is not None else {}
    torch = next(iter(first.process.noted("torch")), {}) if first is not None else {}
    return Environment(
        python=_text(process.get("python")),
        torch=_text(torch.get("version")),
        cuda=_text(torch.get("cuda")),
        gpus=_gpus(observed, torch),
        world_size=observed.world_size,
        sources=[source.value for source in _sources(observed, traced)],
        host=observed.recording.manifest.host,
        cores=observed.recording.manifest.cores,
        missing={**_noted_missing(observed), **observed.recording.manifest.missing, **missing},
    )


def variables(observed: Observed) -> dict[str, str]:
    """The environment variables of the job that rules speak about; an unset one stands with an empty value."""
    found: dict[str, str] = {}
    for steps in observed.ranks:
        for note in steps.process.noted("environment"):
            values = note.get("variables")
            if isinstance(values, dict):
                found |= {str(name): str(value) for name, value in values.items() if str(name) not in found}
    return found


def loaded_files(observed: Observed) -> frozenset[Path] | None:
    """The source files that the job's processes loaded; None if none of them said."""
    paths = {
        Path(str(path))
        for process in observed.recording.processes
        for note in process.noted("files")
        for path in listed(note.get("paths"))
    }
    return frozenset(paths) if paths else None


def _text(value: object) -> str | None:
    return str(value) if value else None


def devices_in_doubt(observed: Observed) -> str | None:
    """Why the devices of the environment may not be those that the job used: torch names all that a rank sees."""
    recording = observed.recording
    doubt = recording.manifest.missing.get(DEVICES_IN_DOUBT)
    if doubt is not None or any(device.used_by_job for device in recording.devices):
        return doubt
    seen = [note.get("devices") for steps in observed.timed for note in steps.process.noted("torch")]
    if observed.world_size == 1 and all(len(listed(devices)) <= 1 for devices in seen):
        return None
    return "which devices the job used is not known without figures of the driver"


def _gpus(observed: Observed, torch: Mapping[str, object]) -> list[Gpu]:
    """As the driver names them, else as torch does."""
    devices = [device for device in observed.recording.devices if device.used_by_job]
    if devices:
        return [
            Gpu(
                index=device.index,
                name=device.name,
                memory_total_bytes=device.memory_total_bytes,
                power_limit_w=device.power_limit_w,
            )
            for device in devices
        ]
    named = [one for one in listed(torch.get("devices")) if isinstance(one, dict)]
    return [
        Gpu(
            index=whole(one.get("index")) or 0,
            name=str(one.get("name", "")),
            memory_total_bytes=whole(one.get("memory_bytes")),
            power_limit_w=None,
        )
        for one in named
    ]


def _sources(observed: Observed, traced: bool) -> Iterator[Source]:
    recording = observed.recording
    if any(process.records for process in recording.processes):
        yield Source.AGENT
    if recording.gpu:
        yield Source.NVML
    if recording.system:
        yield Source.PSUTIL
    if traced:
        yield Source.KINETO
    if recording.stack_samples:
        yield Source.STACKS


def _noted_missing(observed: Observed) -> dict[str, str]:
    """What the agents could not measure, their faults, and what of the recording cannot be read."""
    found: dict[str, str] = {}
    for process in observed.recording.processes:
        for note in process.noted("missing"):
            found.setdefault(str(note.get("what")), str(note.get("why")))
        for note in process.noted("window"):
            if note.get("without_stacks"):
                found.setdefault("kineto.stacks", str(note["without_stacks"]))
        for note in process.noted("fault"):
            found.setdefault("agent", f"the agent in process {process.pid} failed at {note.get('where')} and was off")
        if process.lost and process.role == "rank":
            found.setdefault("records", f"{process.lost} early records of process {process.pid} were overwritten")
    if observed.recording.broken:
        shown = ", ".join(observed.recording.broken[:3])
        more = len(observed.recording.broken) - 3
        found["recording"] = f"unreadable: {shown}" + (f" and {more} more" if more > 0 else "")
    return found
