"""Programs with planted problems, which measure them: what the probe says is what they know about themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.probe.planted.expectations import PROGRAMS, Program, marks, programs, row_of
from tests.probe.planted.runs import disagreements, platform_here, probe, sources
from tests.probe.planted.truths import read_truth, watched_rows

from trainlint.probe.measured import MEASURE_AGAIN

ALL = {program.name: program for program in programs()}
REPRESENTATIVES = ("print_heavy", "data_bound", "tokenizer_in_worker", "straggler", "print_heavy_clean")
"""One of each way of measuring; `make probe-truth` probes all of them."""
MODULES = {"models", "pictures", "ranks", "reviews", "truth"}
LIMIT_S = 300
RUNS = 4


@pytest.fixture(scope="module")
def linted() -> dict[str, set[tuple[str, int]]]:
    """The codes and rows that the linter reports in each file."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "trainlint", "check", str(PROGRAMS)),
            *("--output-format", "json", "--no-cache", "--isolated"),
        ],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    found: dict[str, set[tuple[str, int]]] = {path.stem: set() for path in PROGRAMS.glob("*.py")}
    for finding in json.loads(done.stdout):
        found[Path(finding["filename"]).stem].add((finding["code"], finding["location"]["row"]))
    return found


def test_every_program_has_expectations() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} - MODULES == ALL.keys()


@pytest.mark.parametrize("name", sorted(ALL.keys() | MODULES))
def test_findings_are_the_marks(name: str, linted: dict[str, set[tuple[str, int]]]) -> None:
    assert linted[name] == marks(PROGRAMS / f"{name}.py")


@pytest.mark.parametrize("program", ALL.values(), ids=str)
def test_every_mark_has_an_expected_verdict(program: Program) -> None:
    expected = {(one.code, row_of(one.at, one.code, program.script)) for one in program.findings}
    assert expected == marks(program.script)


@pytest.mark.parametrize("program", ALL.values(), ids=str)
def test_what_is_compared_is_watched(program: Program) -> None:
    watched = [line.watch for line in program.lines] + [one.watch for one in program.findings if one.watch]
    for name in watched:
        assert len(watched_rows(name, sources(program))[1]) > 0


@pytest.mark.torch
def test_a_program_measures_itself_in_all_processes(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, str(PROGRAMS / "tokenizer_in_worker.py"), "--epochs", "1"],
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TRAINLINT_EXAMPLE_TRUTH": str(tmp_path / "truth")},
        timeout=LIMIT_S,
    )
    rank, worker = sorted(read_truth(tmp_path / "truth"), key=lambda truth: -truth.steps)
    assert (rank.steps, len(rank.named("batch"))) == (20, 20)
    assert len(worker.named("tokenize")) == 640, "each review once"
    assert worker.seconds("tokenize") > 0


@pytest.mark.alone
@pytest.mark.torch
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_the_probe_tells_the_truth(name: str, tmp_path: Path) -> None:
    """A result of a busy machine is measured again, as it advises. An interval holds the truth in 99 of 100 runs, and
    each result has several: what is wrong twice is wrong."""
    wrong: list[list[str]] = []
    for attempt in range(RUNS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        probed = probe(ALL[name], folder, platform_here())
        found = disagreements(probed)
        if not found:
            return
        if MEASURE_AGAIN not in probed.result.bottleneck.next:
            wrong.append(found)
        if len(wrong) > 1:
            break
    assert len(wrong) < 2, wrong
    pytest.fail(f"in {RUNS} runs the machine was never quiet enough to measure; the last one: {found}")
