"""A file of samples: one model a line, each written at once, since the probe may be killed at any time."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from trainlint.source.system_errors import reason_of


class Lines:
    """Appends to a file of samples; after the first failure nothing more is written, and `failure` says why."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.written_bytes = 0
        self.failure: str | None = None

    def write(self, *lines: BaseModel) -> None:
        if self.failure is not None or not lines:
            return
        text = "".join(f"{line.model_dump_json(exclude_defaults=False)}\n" for line in lines).encode()
        try:
            with self._path.open("ab") as file:
                file.write(text)
        except OSError as error:
            self.failure = f"{self._path} cannot be written: {reason_of(error)}"
        self.written_bytes += len(text)
