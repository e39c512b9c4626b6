"""Runs the real program in a folder, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from forks import LIMIT_S, Forks

PLAIN = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR", "TERM")}


@dataclass
class Program:
    folder: Path
    forks: Forks | None = None
    """What the runs fork from, unless an interpreter is started for each."""
    environment: dict[str, str] = field(default_factory=dict)

    def write(self, files: dict[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())

    def read(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode()

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = PLAIN | self.environment
        if self.forks is not None and not any(key.startswith("PYTHON") for key in self.environment):
            return self.forks.run(arguments, self.folder, environment, stdin)
        return subprocess.run(
            [sys.executable, "-m", "trainlint", *arguments],
            cwd=self.folder,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=environment,
            timeout=LIMIT_S,
            check=False,
        )
