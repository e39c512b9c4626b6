"""A recording of another machine, as if its job had run on the files of this one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainlint.agent import records
from trainlint.probe.recording import ProcessRecording, Recording
from trainlint.source.path_map import PathMap


def mapped(recording: Recording, paths: PathMap) -> Recording:
    """The recording with all paths of the job's files replaced by those here."""
    if not paths.pairs:
        return recording
    return replace(
        recording,
        manifest=recording.manifest.model_copy(update={"cwd": str(paths.local(recording.manifest.cwd))}),
        processes=tuple(_process(process, paths) for process in recording.processes),
        stacks={
            number: tuple(frame.model_copy(update={"path": _text(frame.path, paths)}) for frame in frames)
            for number, frames in recording.stacks.items()
        },
    )


def _process(process: ProcessRecording, paths: PathMap) -> ProcessRecording:
    return replace(
        process,
        records=tuple(replace(record, name=_text(record.name, paths)) for record in process.records),
        notes=tuple({key: _value(value, paths) for key, value in note.items()} for note in process.notes),
    )


def _value(value: Any, paths: PathMap) -> Any:
    if isinstance(value, str):
        return _text(value, paths)
    if isinstance(value, list):
        return [_value(one, paths) for one in value]
    return {key: _value(one, paths) for key, one in value.items()} if isinstance(value, dict) else value


def _text(text: str, paths: PathMap) -> str:
    """A path, a `PATH:ROW` or a `TYPE PATH:ROW` with the path of this machine; any other text as it is."""
    kind, space, rest = text.partition(" ")
    if kind in records.CALL_TYPES and space:
        return f"{kind} {_text(rest, paths)}"
    if not text.startswith(("/", "\\")) and text[1:2] != ":":
        return text
    path, colon, row = text.rpartition(":")
    return f"{paths.local(path)}:{row}" if colon and row.isdigit() else str(paths.local(text))
