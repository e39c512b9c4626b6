"""Measures `trainlint check` in units of parsing: the time of a run, divided by that of `libcst.parse_module` on the
same files in one process with the garbage collector off. Ratios hold on any machine; seconds do not.

    python -m tests.bench [--root DIR] [--repeats N] [--only NAME]

Parsing and runs alternate, and each run is divided by the parsing before and after it, so that what else the machine
does falls on both. The median of the ratios is held against the goal; their range tells how far to trust it. A goal for
one process is about processor time, one for several about the clock.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.generated import write_plain_project, write_training_project

PARSE = """
import gc, sys, time
from pathlib import Path
import libcst
texts = [Path(line.rstrip("\\n")).read_text(encoding="utf-8") for line in sys.stdin]
gc.disable()
started, cpu = time.perf_counter(), time.process_time()
for text in texts:
    libcst.parse_module(text)
print(time.perf_counter() - started, time.process_time() - cpu)
"""
MOST_MEMORY = 600
"""MiB at 200,000 lines."""


@dataclass(frozen=True)
class Time:
    """Seconds by the clock, and of all processors together; memory of the largest process in MiB."""

    wall: float
    cpu: float
    memory: float = 0.0


@dataclass
class Scenario:
    """A run to measure: what is done before it, how it is started, and what it may take."""

    name: str
    prepare: Callable[[], None]
    arguments: tuple[str, ...] = ()
    goal: float | None = None
    by_clock: bool = False
    times: int = 1
    """How often it runs between two parsings."""
    measured: list[tuple[int, Time]] = field(default_factory=list)
    """The time of each run, with the number of the parsing before it."""


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="trainlint-bench-") as name:
        folder = Path(name)
        _keep_byte_code_in(folder / "byte-code")
        met = [
            _measure(title, root, scenarios, arguments.repeats) for title, root, scenarios in _cases(arguments, folder)
        ]
    return 0 if all(met) or not arguments.strict else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--root", type=Path, help="measure on a copy of this folder only")
    parser.add_argument("--repeats", type=int, default=3, help="parsings that runs are compared with, less one")
    parser.add_argument("--files", type=int, default=300, help="files of the generated projects, 345 lines each")
    parser.add_argument("--only", choices=("training", "plain", "memory"))
    parser.add_argument("--strict", action="store_true", help="fail where a goal is not met")
    return parser.parse_args()


def _keep_byte_code_in(folder: Path) -> None:
    """Let runs start from compiled modules, as an installed program does, whatever this environment says."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def _cases(arguments: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Path, list[Scenario]]]:
    """The code bases to measure on, as copies that may be changed, and what to measure."""
    if arguments.root is not None:
        root = _copied(arguments.root, folder / "root")
        yield str(arguments.root), root, _all_scenarios(root)
        return
    if arguments.only in (None, "training"):
        root = folder / "training"
        write_training_project(root, arguments.files)
        yield "a generated training project", root, _all_scenarios(root)
    if arguments.only in (None, "plain"):
        root = folder / "plain"
        write_plain_project(root, arguments.files)
        cold = Scenario("cold, one process", _clearing(root), ("--jobs", "1"), goal=0.25)
        yield "a generated project, all but one script outside of training", root, [cold]
    if arguments.only in (None, "memory"):
        root = folder / "large"
        write_training_project(root, 2 * arguments.files)
        yield "twice the training project", root, [Scenario("cold, one process", _clearing(root), ("--jobs", "1"))]


def _copied(source: Path, target: Path) -> Path:
    for file in source.rglob("*.py"):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place)
    (target / "pyproject.toml").write_text("")
    return target


def _all_scenarios(root: Path) -> list[Scenario]:
    files = _sources(root)
    changed = max(files[len(files) // 3 : 2 * len(files) // 3], key=lambda file: (file.stat().st_size, file))
    count = 0

    def warm() -> None:
        _run(root, (), "warming")

    def change() -> None:
        nonlocal count
        warm()
        count += 1
        changed.write_bytes(changed.read_bytes() + f"\n\ndef added_{count}(x):\n    return x\n".encode())

    return [
        Scenario("cold, one process", _clearing(root), ("--jobs", "1"), goal=1.5),
        Scenario("cold, two processes", _clearing(root), ("--jobs", "2"), goal=0.9, by_clock=True),
        Scenario("all files unchanged", warm, goal=0.05, times=3),
        Scenario("one file changed", change, goal=0.08, times=3),
    ]


def _clearing(root: Path) -> Callable[[], None]:
    return lambda: shutil.rmtree(root / ".trainlint_cache", ignore_errors=True)


def _measure(title: str, root: Path, scenarios: Sequence[Scenario], repeats: int) -> bool:
    """Measure and print; return whether all goals are met."""
    files = [file for file in _sources(root) if _parses(file)]
    lines = sum(file.read_bytes().count(b"\n") for file in files)
    print(f"\n{title}: {len(files)} files, {lines} lines", flush=True)
    _run(root, (), "a first run, to compile all modules")
    parsings = [_parse(files)]
    for _ in range(repeats):
        for scenario in scenarios:
            for _ in range(scenario.times):
                scenario.prepare()
                scenario.measured.append((len(parsings) - 1, _run(root, scenario.arguments, scenario.name)))
            if scenario.times == 1 or scenario is scenarios[-1]:
                parsings.append(_parse(files))
    print(f"  parsing alone: {_spread([one.cpu / lines * 1e6 for one in parsings], '.0f')} µs a line")
    print(f"  {'':<22} {'by processor':^22} {'by clock':^22} {'MiB':>5}  goal")
    met = [_print(scenario, parsings, lines) for scenario in scenarios]
    return all(met)


def _print(scenario: Scenario, parsings: Sequence[Time], lines: int) -> bool:
    """Print a row; return whether the goal is met."""
    cpu, wall = [], []
    for before, spent in scenario.measured:
        around = parsings[before : before + 2]
        cpu.append(spent.cpu / statistics.mean(one.cpu for one in around))
        wall.append(spent.wall / statistics.mean(one.wall for one in around))
    memory = max(spent.memory for _, spent in scenario.measured)
    verdict, met = "", True
    if scenario.goal is not None:
        kind, values = ("clock", wall) if scenario.by_clock else ("processor", cpu)
        met = statistics.median(values) <= scenario.goal
        verdict = f"{scenario.goal:.2f} by {kind}: {'met' if met else 'NOT MET'}"
    elif lines > 190_000:
        met = memory < MOST_MEMORY
        verdict = f"{MOST_MEMORY} MiB: {'met' if met else 'NOT MET'}"
    print(f"  {scenario.name:<22} {_spread(cpu, '.3f'):^22} {_spread(wall, '.3f'):^22} {memory:>5.0f}  {verdict}")
    return met


def _sources(root: Path) -> list[Path]:
    return sorted(root.rglob("*.py"))


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


def _run(root: Path, arguments: Sequence[str], name: str) -> Time:
    command = [sys.executable, "-m", "trainlint", "check", str(root), *arguments]
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
