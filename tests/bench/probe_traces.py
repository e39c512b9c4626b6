"""Measures what the analysis of a Kineto trace costs: time in units of `json.load` on the same file, and peak memory.

    python -m tests.bench.probe_traces [--events N] [--repeats N] [--strict]

Each runs in a process of its own, and the two alternate. Ratios hold on any machine; seconds do not. The trace is
generated, of a GPU job with stacks, in which every kernel comes with its launch, its operator and its flow.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.probe.kineto_traces import GpuTrace

LOAD = "import json; json.load(open(path))"
ANALYSE = "from pathlib import Path; from trainlint.probe.traces import analyse; analyse([Path(path)])"
TIMED = """
import resource, sys, time
path = sys.argv[1]
started = time.perf_counter()
{statement}
elapsed = time.perf_counter() - started
print(elapsed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
RATIO_GOAL = 2.5
SECONDS_GOAL = 6.0
MEMORY_GOAL = 1024.0
"""MiB; the goals are for 400,000 events."""
STEPS = 50
EVENTS_A_KERNEL = 4
READS_A_STEP = 5


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="trainlint-bench-") as name:
        path = Path(name) / "trace.json"
        count = write_trace(path, arguments.events)
        print(f"{count:,} events, {path.stat().st_size / 1e6:.0f} MB")
        runs = [(_measured(path, LOAD), _measured(path, ANALYSE)) for _ in range(arguments.repeats)]
    ratios = sorted(analysis[0] / load[0] for load, analysis in runs)
    seconds = statistics.median(analysis[0] for _, analysis in runs)
    memory = max(analysis[1] for _, analysis in runs)
    ratio = statistics.median(ratios)
    print(f"time of json.load: x {ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}), goal {RATIO_GOAL:g}")
    print(f"seconds: {seconds:.2f}, goal {SECONDS_GOAL:g}")
    print(
        f"peak memory: {memory:.0f} MiB, goal {MEMORY_GOAL:.0f}; json.load alone {max(load[1] for load, _ in runs):.0f}"
    )
    met = ratio <= RATIO_GOAL and seconds <= SECONDS_GOAL and memory <= MEMORY_GOAL
    return 0 if met or not arguments.strict else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.probe_traces", description=__doc__)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--strict", action="store_true", help="fail where a goal is not met")
    return parser.parse_args()


def write_trace(path: Path, events: int) -> int:
    """Write a trace of about that many events; return how many it holds."""
    trace = GpuTrace()
    kernels = events // EVENTS_A_KERNEL // STEPS
    for _ in range(STEPS):
        with trace.step():
            for number in range(kernels):
                with trace.operator("aten::mul"):
                    trace.kernel(10.0)
                if number % (kernels // READS_A_STEP + 1) == 0:
                    with trace.function("train.py", 12, "report"):
                        trace.item()
    trace.write(path)
    return len(trace.events)


def _measured(path: Path, statement: str) -> tuple[float, float]:
    """Seconds and MiB of a process that does what `statement` says."""
    command = [sys.executable, "-c", TIMED.format(statement=statement), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, memory = map(float, done.stdout.split())
    return seconds, memory


if __name__ == "__main__":
    sys.exit(main())
