"""What a job is given of us: a folder with the agent and what it is asked, and the environment that leads to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import trainlint.agent
from trainlint.agent import control
from trainlint.probe.evidence import Line
from trainlint.probe.recording import Options

QUIET_KINETO = "6"
"""Kineto prints lines about its own probes on standard error below this level of KINETO_LOG_LEVEL."""


@dataclass(frozen=True, slots=True)
class Injection:
    """A recording's folder, made ready for a job."""

    folder: Path
    """Absolute."""

    @classmethod
    def into(cls, folder: Path, options: Options, flagged: Iterable[Line] = ()) -> Injection:
        """Put the agent into the folder, with what it is asked for, and the lines of which it is to say whether they
        run.

        Raises:
            OSError: the folder cannot be written.
        """
        made = cls(Path(os.path.abspath(folder)))  # noqa: PTH100 - without following links
        (made.folder / "processes").mkdir(parents=True, exist_ok=True)
        (made.folder / "traces").mkdir(exist_ok=True)
        shutil.copytree(
            Path(trainlint.agent.__file__).parent, made.agent, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
        made.options.write_text(options.model_dump_json(), encoding="utf-8")
        rows: dict[str, list[int]] = {}
        for line in sorted(set(flagged), key=lambda one: (one.path, one.row)):
            rows.setdefault(str(line.path), []).append(line.row)
        (made.folder / control.WATCHED_FILE).write_text(json.dumps(rows), encoding="utf-8")
        made.command(0, 0)
        return made

    @property
    def agent(self) -> Path:
        return self.folder / "agent"

    @property
    def options(self) -> Path:
        return self.folder / "options.json"

    def environment(self, plain: Mapping[str, str]) -> dict[str, str]:
        """The environment of the job: `plain`, and what brings the agent into its interpreters."""
        bootstrap = str(self.agent / "bootstrap")
        before = plain.get("PYTHONPATH")
        return {
            **plain,
            "PYTHONPATH": os.pathsep.join([bootstrap, before]) if before else bootstrap,
            "TRAINLINT_PROBE_DIR": str(self.folder),
            "TRAINLINT_PROBE_OPTIONS": str(self.options),
            "KINETO_LOG_LEVEL": plain.get("KINETO_LOG_LEVEL", QUIET_KINETO),
        }

    def command(self, commands: int, step: int) -> None:
        """Tell all processes of the job what to do, and after which step.

        Raises:
            OSError: the folder cannot be written.
        """
        packed = control.CONTROL.pack(control.CONTROL_MAGIC, commands, os.getpid(), step)
        word = packed.ljust(control.CONTROL_BYTES, b"\0")
        # The file stays the same one, since processes have it mapped.
        descriptor = os.open(self.folder / "control", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, word, 0)
        finally:
            os.close(descriptor)
