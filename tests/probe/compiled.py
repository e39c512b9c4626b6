"""Libraries in C that tests put before those of the system."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, library: Path) -> Path:
    """Compile a library and return its path; skip the test where nothing compiles."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        if os.environ.get("CI") == "true":
            pytest.fail("a C compiler is needed (cc or gcc)")
        pytest.skip("needs a C compiler (cc or gcc)")
    subprocess.run([compiler, "-std=c11", "-O1", "-fPIC", "-shared", "-o", library, source], check=True)
    return library
