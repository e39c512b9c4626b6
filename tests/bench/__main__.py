"""Measures `trainlint check` in units of parsing: how long a run takes, divided by `libcst.parse_module` on the same
files in one process with the garbage collector off. Ratios hold on any machine; seconds do not.

    python -m tests.bench [--root DIR] [--repeats N] [--lines N] [--only NAME]

Each repetition measures parsing and all runs in turn, so that what else the machine does falls on both; the median and
the range of the repetitions are printed, for wall time and for processor time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.generated import write_plain_project, write_training_project

PARSE = """
import gc, sys
from pathlib import Path
import libcst
texts = [Path(line.rstrip("\\n")).read_text(encoding="utf-8") for line in sys.stdin]
import time, os
gc.disable()
started, cpu = time.perf_counter(), time.process_time()
for text in texts:
    libcst.parse_module(text)
print(time.perf_counter() - started, time.process_time() - cpu)
"""
MARKS = (b"import torch", b"from torch")


@dataclass(frozen=True)
class Time:
    """Seconds by the clock, and of all processors together; memory in MiB."""

    wall: float
    cpu: float
    memory: float = 0.0


@dataclass
class Scenario:
    """A run to measure: what is done before it, and how it is started."""

    name: str
    goal: float | None
    prepare: Callable[[], None]
    arguments: tuple[str, ...]
    ratios: list[Time] = field(default_factory=list)


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="trainlint-bench-") as name:
        for title, root in _trees(arguments, Path(name)):
            _measure(title, root, arguments, plain=title.endswith("outside"))
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--root", type=Path, help="measure on a copy of this folder only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--files", type=int, default=300, help="files of the generated projects, 330 lines each")
    parser.add_argument("--lines", type=int, default=100_000, help="most lines of installed packages to take")
    parser.add_argument("--only", choices=("generated", "plain", "installed"))
    return parser.parse_args()


def _trees(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path]]:
    """The code bases to measure on, as copies that may be changed."""
    if arguments.root is not None:
        yield str(arguments.root), _copied([arguments.root], folder / "root")
        return
    if arguments.only in (None, "generated"):
        write_training_project(folder / "training", arguments.files)
        yield "a generated training project", folder / "training"
    if arguments.only in (None, "plain"):
        write_plain_project(folder / "plain", arguments.files)
        yield "a generated project, all but one script outside", folder / "plain"
    packages = _installed(arguments.lines) if arguments.only in (None, "installed") else []
    if packages:
        yield f"installed: {', '.join(package.name for package in packages)}", _copied(packages, folder / "installed")


def _installed(most_lines: int) -> list[Path]:
    """Installed packages that hold training code, by name, up to so many lines."""
    taken, lines = [], 0
    for package in sorted(Path(sysconfig.get_path("purelib")).iterdir()):
        if package.name in ("torch", "trainlint", "trainlint_rules") or not (package / "__init__.py").exists():
            continue
        texts = [file.read_bytes() for file in package.rglob("*.py")]
        count = sum(text.count(b"\n") for text in texts)
        if lines + count <= most_lines and any(mark in text for text in texts for mark in MARKS):
            taken.append(package)
            lines += count
    return taken


def _copied(sources: Sequence[Path], target: Path) -> Path:
    for source in sources:
        for file in source.rglob("*.py"):
            place = target / source.name / file.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    (target / "pyproject.toml").write_text("")
    return target


def _measure(title: str, root: Path, arguments: argparse.Namespace, *, plain: bool) -> None:
    files = [file for file in sorted(root.rglob("*.py")) if _parses(file)]
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    print(f"\n{title}: {len(files)} files, {lines} lines")
    scenarios = _scenarios(root, files, plain=plain)
    parsing: list[float] = []
    for _ in range(arguments.repeats):
        base = _parse(files)
        parsing.append(base.wall / lines * 1e6)
        for scenario in scenarios:
            scenario.prepare()
            spent = _run([sys.executable, "-m", "trainlint", "check", str(root), *scenario.arguments], scenario.name)
            scenario.ratios.append(Time(spent.wall / base.wall, spent.cpu / base.cpu, spent.memory))
    print(f"  parsing alone: {_spread(parsing, '.0f')} µs a line")
    print(f"  {'':<34} {'wall':^22} {'processor':^22} {'MiB':>5}  goal")
    for scenario in scenarios:
        wall = _spread([ratio.wall for ratio in scenario.ratios], ".3f")
        cpu = _spread([ratio.cpu for ratio in scenario.ratios], ".3f")
        memory = max(ratio.memory for ratio in scenario.ratios)
        goal = "" if scenario.goal is None else f"{scenario.goal:.2f}"
        print(f"  {scenario.name:<34} {wall:^22} {cpu:^22} {memory:>5.0f}  {goal}")


def _scenarios(root: Path, files: Sequence[Path], *, plain: bool) -> list[Scenario]:
    cache = root / ".trainlint_cache"
    changed = files[len(files) // 2]
    count = 0

    def clear() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    def warm() -> None:
        _run([sys.executable, "-m", "trainlint", "check", str(root)], "warming")

    def change() -> None:
        nonlocal count
        count += 1
        changed.write_bytes(changed.read_bytes() + f"\n\ndef added_{count}(x):\n    return x\n".encode())

    return [
        Scenario("cold, one process", 0.25 if plain else 1.5, clear, ("--jobs", "1")),
        Scenario("cold, two processes", None if plain else 0.9, clear, ("--jobs", "2")),
        Scenario("all files unchanged", 0.05, warm, ()),
        Scenario("one file changed", 0.08, change, ()),
    ]


def _parses(file: Path) -> bool:
    import libcst

    try:
        libcst.parse_module(file.read_text(encoding="utf-8"))
    except Exception:
        return False
    return True


def _parse(files: Sequence[Path]) -> Time:
    names = "".join(f"{file}\n" for file in files)
    output = subprocess.run([sys.executable, "-c", PARSE], input=names, capture_output=True, text=True, check=True)
    wall, cpu = map(float, output.stdout.split())
    return Time(wall, cpu)


def _run(command: Sequence[str], name: str) -> Time:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode not in (0, 1):
        raise SystemExit(f"{name}: exit status {process.returncode}\n{errors.decode(errors='replace')}")
    return Time(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def _spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


if __name__ == "__main__":
    sys.exit(main())
