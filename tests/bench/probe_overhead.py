"""Measures what the probe costs a job: each event that the agent watches, whole steps, and what works beside the job.

    python -m tests.bench.probe_overhead [--pairs N] [--step-ms MS] [--strict]

A job times its own events and steps, by turns alone and under `trainlint probe`. What an event costs more is held
against what the analysis takes it to cost at most (`overhead.agent_share` of a result); from that follows what the
events of a usual step cost. Whole steps cannot be told apart within some percent on most machines: the ratios of
neighbouring runs are printed with their spread, and show no more than that nothing large was missed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from trainlint.probe.analysis import overhead

JOB = """
import io, statistics, sys, time
import torch

repeats, steps, width = int(sys.argv[1]), int(sys.argv[2]), 512
torch.manual_seed(0)
torch.set_num_threads(1)


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64 * steps

    def __getitem__(self, index):
        return self.row

    row = torch.ones(width)


model = torch.nn.Linear(width, width)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
loader = iter(torch.utils.data.DataLoader(Rows(), batch_size=16))
nowhere = io.StringIO()
times = {name: [] for name in ("step", "batch", "read", "print", "update")}


def timed(name, what, count):
    started = time.perf_counter()
    for _ in range(count):
        what()
    times[name].append((time.perf_counter() - started) / count)


for _ in range(steps):
    started = time.perf_counter()
    batch = next(loader)
    for _ in range(repeats):
        loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    loss.item()
    times["step"].append(time.perf_counter() - started)
    if repeats == 1:
        timed("read", loss.item, 200)
        timed("print", lambda: print("loss", file=nowhere), 100)
        timed("update", optimizer.step, 20)
        timed("batch", lambda: next(loader), 3)
for name, values in times.items():
    # Of the clean steps: behind the warm-up, before the job ends.
    clean = values[len(values) // 3 :]
    print(name, statistics.median(clean) if clean else 0.0)
"""
EVENT_STEPS = 30
STEPS = 40
WARMUP = 10
EVENTS = {
    "batch": ("a batch is fetched", overhead.BATCH_S, 1),
    "update": ("an optimizer steps", overhead.UPDATE_S, 1),
    "read": ("a tensor is read (`item`)", overhead.LOOKUP_S, 2),
    "print": ("a call of print", overhead.LOOKUP_S, 1),
}
"""For each event what happens, what the analysis takes it to cost at most, and how many a usual step has."""
STEP_S = 0.05
STEP_GOAL, CORE_GOAL, BYTES_GOAL = 0.02, 0.05, 50e6


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="trainlint-bench-") as name:
        job = Path(name) / "job.py"
        job.write_text(JOB)
        met = _events(job, arguments.pairs)
        met &= _steps(job, arguments.pairs, arguments.step_ms / 1e3)
    return 0 if met or not arguments.strict else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.probe_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=5, help="runs alone, and as many under the probe")
    parser.add_argument("--step-ms", type=float, default=1e3 * STEP_S, help="how long a step of the job takes about")
    parser.add_argument("--strict", action="store_true", help="fail where a goal is not met")
    return parser.parse_args()


def _events(job: Path, pairs: int) -> bool:
    """Print what each event costs more under the agent; return whether each costs what the analysis
    takes it to at most, and those of a usual step cost little."""
    alone, probed = _paired(pairs, lambda: _alone(job, 1, EVENT_STEPS), lambda: _probed(job, 1, EVENT_STEPS)[0])
    spent, met = 0.0, True
    print(f"{'event':<28} {'alone':>9} {'probed':>9} {'more':>9}  at most, for the analysis")
    for name, (what, most, count) in EVENTS.items():
        before, after = (statistics.median(one[name] for one in runs) for runs in (alone, probed))
        spent += count * (after - before)
        met &= after - before <= most
        print(f"{what:<28} {_us(before)} {_us(after)} {_us(after - before)}  {_us(most).strip()}")
    print(f"no event costs more than the analysis takes it to: {_verdict(met)}")
    share, step = spent / STEP_S, f"events of a step of {1e3 * STEP_S:.0f} ms"
    print(f"{step}: {share:.2%} of it, goal {STEP_GOAL:.0%}: {_verdict(share < STEP_GOAL)}")
    return met and share < STEP_GOAL


def _steps(job: Path, pairs: int, step_s: float) -> bool:
    """Print ratios of whole steps, and what else the probe took; return whether the goals are met."""
    once = _alone(job, 1, STEPS)["step"]
    many = _alone(job, 101, STEPS)["step"]
    repeats = max(2, round((step_s - once) / ((many - once) / 100)))
    results: list[dict[str, Any]] = []

    def probed() -> dict[str, float]:
        times, result = _probed(job, repeats, STEPS)
        results.append(result)
        return times

    alone, under = _paired(pairs, lambda: _alone(job, repeats, STEPS), probed)
    ratios = sorted(after["step"] / before["step"] for before, after in zip(alone, under, strict=True))
    step = statistics.median(one["step"] for one in alone)
    middle = statistics.median(ratios)
    print(f"steps of {1e3 * step:.1f} ms, probed over alone: {middle:.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})")
    figures = {
        "agent, of the steps, reckoned": ("agent_share", STEP_GOAL, "{:.2%}"),
        "processes of the probe, of a core": ("probe_core_share", CORE_GOAL, "{:.1%}"),
        "recording, bytes": ("recording_bytes", BYTES_GOAL, "{:,.0f}"),
    }
    met = True
    for what, (field, goal, form) in figures.items():
        most = max(result["overhead"][field] for result in results)
        met &= most < goal
        print(f"{what}: at most {form.format(most)}, goal {form.format(goal)}: {_verdict(most < goal)}")
    return met


def _paired(
    pairs: int, alone: Callable[[], dict[str, float]], probed: Callable[[], dict[str, float]]
) -> tuple[Sequence[dict[str, float]], Sequence[dict[str, float]]]:
    """Runs by turns."""
    first, second = [], []
    for _ in range(pairs):
        first.append(alone())
        second.append(probed())
    return first, second


def _alone(job: Path, repeats: int, steps: int) -> dict[str, float]:
    return _run([sys.executable, str(job), str(repeats), str(steps)])


def _probed(job: Path, repeats: int, steps: int) -> tuple[dict[str, float], dict[str, Any]]:
    """The job's own times, and the result of the probe."""
    output = job.with_suffix(".json")
    probe = [sys.executable, "-m", "trainlint", "probe", "--continue", "--quiet", "--no-profile"]
    probe += ["--steps", str(steps - WARMUP - 2), "--warmup", str(WARMUP)]
    probe += ["--output-format", "json", "--output-file", str(output)]
    times = _run([*probe, str(job), str(repeats), str(steps)])
    return times, json.loads(output.read_text())


def _run(command: Sequence[str]) -> dict[str, float]:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
    return {name: float(value) for name, value in map(str.split, done.stdout.splitlines())}


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:>6.2f} us"


def _verdict(met: bool) -> str:
    return "met" if met else "NOT MET"


if __name__ == "__main__":
    sys.exit(main())
