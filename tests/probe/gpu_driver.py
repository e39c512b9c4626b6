"""A driver library with scripted GPUs, for the real nvidia-ml-py to load."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml") / "fake_nvml.c"


def built(folder: Path) -> Path:
    """Compile the library into a folder, and return the folder; skip the test where nothing compiles."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("a C compiler is needed (cc or gcc)")
        pytest.skip("needs a C compiler (cc or gcc)")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-std=c11", "-O1", "-fPIC", "-shared", "-o", library, SOURCE], check=True)
    return folder


def environment(library: Path, script: Path) -> dict[str, str]:
    """The environment of a process that meets the scripted GPUs."""
    return os.environ | {"LD_LIBRARY_PATH": str(library), "FAKE_NVML": str(script)}
