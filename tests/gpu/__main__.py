"""Runs the cases of the probe on this machine, and writes one file with what came of each.

    python -m tests.gpu RESULT [--seconds S] [--platform gpu|cpu] [NAME ...]

A case is not begun when most of the time is over. The file is written anew after each case, so that it is there
whatever happens. Ends with status 1 where something was not as it should be, or nothing was run.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.gpu.driver import disagreements_with_the_driver
from tests.probe.planted.expectations import Platform, programs
from tests.probe.planted.runs import disagreements, probe

LONGEST_S = 240.0
LONGEST_CASE_S = 25.0
"""What a case may need: none is begun with less time left."""
FIRST = (
    "sync_heavy",
    "data_bound",
    "data_bound_clean",
    "print_heavy",
    "tokenizer_in_worker",
    "slow_collate",
    "compiled",
    "gan",
    "accumulation",
    "self_profiling",
    "balanced",
    "straggler",
)
"""Those whose result hangs most on a GPU, or that no GPU may change, come before the others."""

Case = Callable[[Path], list[str]]
"""What is wrong, each in a sentence; it is given an empty folder."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description="Run the cases of the probe here.")
    parser.add_argument("result", type=Path, metavar="RESULT", help="file to write")
    parser.add_argument("names", nargs="*", metavar="NAME", help="cases; all of them by default")
    parser.add_argument("--seconds", type=float, default=LONGEST_S, metavar="S", help="how long it may take")
    parser.add_argument("--platform", choices=("gpu", "cpu"), default="gpu", help="whose expectations hold")
    parsed = parser.parse_intermixed_args(arguments)
    known = cases(parsed.platform)
    if unknown := set(parsed.names) - known.keys():
        parser.error(f"there is no case {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    until = time.monotonic() + parsed.seconds
    report: dict[str, Any] = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "platform": parsed.platform,
        "doctor": doctor(),
        "cases": [],
        "not_run": list(parsed.names or known),
    }
    write(parsed.result, report)
    while report["not_run"] and until - time.monotonic() > LONGEST_CASE_S:
        name = report["not_run"].pop(0)
        report["cases"].append(outcome(name, known[name]))
        write(parsed.result, report)
    right = sum(not case["wrong"] for case in report["cases"])
    print(f"{right} of {len(report['cases'])} right, {len(report['not_run'])} not run")
    return int(not report["cases"] or right < len(report["cases"]))


def cases(platform: Platform) -> dict[str, Case]:
    """The cases by name, in the order in which they are run."""
    planted: dict[str, Case] = {
        program.name: lambda folder, program=program: disagreements(probe(program, folder, platform))
        for program in sorted(programs(), key=lambda one: (one.name not in FIRST, one.name))
    }
    return ({"driver": disagreements_with_the_driver} if platform == "gpu" else {}) | planted


def doctor() -> list[dict[str, str | None]]:
    """What the machine is, in the words of `trainlint doctor`."""
    command = [sys.executable, "-m", "trainlint", "doctor", "--python", sys.executable, "--output-format", "json"]
    told = subprocess.run(command, capture_output=True, check=True).stdout
    checks: list[dict[str, str | None]] = json.loads(told)["checks"]
    return checks


def write(path: Path, report: dict[str, Any]) -> None:
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def outcome(name: str, case: Case) -> dict[str, Any]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            wrong = case(Path(folder))
        except Exception as error:  # the other cases are run all the same
            wrong = [f"{type(error).__name__}: {error}"]
    seconds = round(time.monotonic() - start, 1)
    print(f"{'wrong' if wrong else 'right'}  {name:<28}{seconds:6.1f} s", flush=True)
    for one in wrong:
        print(f"       {one}", flush=True)
    return {"name": name, "seconds": seconds, "wrong": wrong}


if __name__ == "__main__":
    sys.exit(main())
