"""A driver library with scripted GPUs, for the real nvidia-ml-py to load."""

from __future__ import annotations

import os
from pathlib import Path

from tests.probe.compiled import compiled

SOURCE = Path(__file__).with_name("nvml") / "fake_nvml.c"


def built(folder: Path) -> Path:
    """Compile the library into a folder, and return the folder; skip the test where nothing compiles."""
    return compiled(SOURCE, folder / "libnvidia-ml.so.1").parent


def environment(library: Path, script: Path) -> dict[str, str]:
    """The environment of a process that meets the scripted GPUs."""
    return os.environ | {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(script)}
