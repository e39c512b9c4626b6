"""Environments with torch for other interpreters than the one that runs the tests: `make test-interpreters` makes them.

`python -m tests.probe.interpreters TORCH [VERSION...]` makes those that can be had below `build/interpreters`, with
that release of torch. The libraries of GPUs, most of what pip installs with it on Linux, are the same files for every
interpreter and are installed once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2] / "build" / "interpreters"
TRIED = ("3.10", "3.12", "3.13")
TELLS_LINES = ("3.12", "3.13")
"""Interpreters with `sys.monitoring`."""
DEVICES = "devices"
OF_DEVICES = ("nvidia", "cuda")
"""How the names of packages begin that are for GPUs only."""
NOT_NEEDED = ("triton",)
_REQUIREMENTS = """
from importlib.metadata import requires
from pip._vendor.packaging.requirements import Requirement
for one in map(Requirement, requires("torch")):
    if one.marker is None or one.marker.evaluate({"extra": ""}):
        print(str(one).partition(";")[0].strip())
"""


def python_of(version: str) -> Path | None:
    """The interpreter of an environment with torch; None where there is none."""
    return _python(version) if _stamp(version).is_file() else None


def interpreter(version: str) -> Path | None:
    """An interpreter of a version on the path, or among those of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    for candidate in candidates:
        # Those that pyenv puts on the path run only where their version is chosen.
        if candidate is not None and _says(Path(candidate), "import sys, venv, ensurepip; print(sys.version)"):
            return Path(candidate)
    return None


def make(version: str, interpreter: Path, torch: str) -> None:
    """Make an environment that lacks the libraries of GPUs.

    Raises:
        CalledProcessError: pip or venv failed.
    """
    place = ROOT / version
    shutil.rmtree(place, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", place], check=True)
    _install(version, "--no-deps", f"torch=={torch}")
    needed = _requirements(version)
    # Without numpy, torch warns as it is imported.
    _install(version, "numpy", *(one for one in needed if not one.startswith((*OF_DEVICES, *NOT_NEEDED))))


def _link_devices(versions: list[str], torch: str) -> None:
    """Install the libraries of GPUs once, where torch needs them, and show them to all environments."""
    for version in versions:
        devices = [one for one in _requirements(version) if one.startswith(OF_DEVICES)]
        if devices and not (ROOT / DEVICES / "nvidia").is_dir():
            _install(version, "--target", str(ROOT / DEVICES), *devices)
        (packages,) = (ROOT / version / "lib").glob("python*/site-packages")
        if devices and not (packages / "nvidia").exists():
            (packages / "nvidia").symlink_to(ROOT / DEVICES / "nvidia")
        if not _says(_python(version), "import torch; print(torch.__version__)"):
            raise SystemExit(f"torch {torch} cannot be imported in {_python(version)}")
        _stamp(version).write_text(torch, encoding="utf-8")


def _python(version: str) -> Path:
    return ROOT / version / "bin" / "python"


def _stamp(version: str) -> Path:
    return ROOT / version / "stamp"


def _holds(version: str, torch: str) -> bool:
    return _stamp(version).is_file() and _stamp(version).read_text(encoding="utf-8") == torch


def _requirements(version: str) -> list[str]:
    return (_says(_python(version), _REQUIREMENTS) or "").splitlines()


def _install(version: str, *words: str) -> None:
    pip = [str(_python(version)), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
    subprocess.run([*pip, *words], check=True)


def _says(python: Path, code: str) -> str | None:
    """What a program prints; None where it fails."""
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None


def _main(torch: str, versions: Sequence[str]) -> Iterator[str]:
    found = {version: interpreter(version) for version in versions or TRIED}
    for version in (version for version, python in found.items() if python is None):
        yield f"Python {version} is not here, and is not tried"
    there = {version: python for version, python in found.items() if python is not None}
    if os.environ.get("CI") == "true" and not set(there) & set(TELLS_LINES):
        raise SystemExit(f"none of Python {', '.join(TELLS_LINES)} is here, and one of them has to be tried")
    missing = [version for version in there if not _holds(version, torch)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda version: make(version, there[version], torch), missing))
    _link_devices(missing, torch)
    yield f"Python {', '.join(there)} with torch {torch}"


if __name__ == "__main__":
    for line in _main(sys.argv[1], sys.argv[2:]):
        print(line, file=sys.stderr)
