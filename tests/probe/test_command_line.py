"""The verb as users and scripts call it: sources, formats, comparisons, conditions and statuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import psutil
import pytest
from tests.probe.gpu_driver import built
from tests.probe.kineto_traces import GpuTrace
from tests.probe.probe_program import PLAIN, Ran, job, line_of, probe, script

from trainlint.report.probe_result import SHIPPED, ProbeResult, read_result, to_json

SLOW_DATA = """\
import time

import torch
from torch import nn


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        time.sleep(0.02)
        return torch.zeros(4)


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = nn.Linear(4, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, batch in enumerate(torch.utils.data.DataLoader(Slow(), batch_size=4)):
        loss = model(batch.to(device)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == LAST_STEP:
            break


main()
print("done")
"""
"""Waits for its data most of the time, 80 ms a step: a busy machine needs half a second to start py-spy."""
STEPS = 25
FOR_EVER, NO_LONGER = "100_000", "45"
MEASURES = ("--steps", str(STEPS), "--warmup", "3", "--profile-steps", "2")
VALIDATOR = jsonschema.Draft202012Validator(json.loads(SHIPPED.read_text("utf-8")))


@dataclass(frozen=True)
class Kept:
    """A run, its result and its recording."""

    ran: Ran

    @property
    def folder(self) -> Path:
        return self.ran.folder

    @property
    def recording(self) -> str:
        return str(self.folder / "kept")

    @property
    def result(self) -> ProbeResult:
        return valid(self.folder / "result.json")


def valid(file: Path) -> ProbeResult:
    """The result in a file, which the published schema must allow."""
    VALIDATOR.validate(json.loads(file.read_bytes()))
    return read_result(file.read_bytes())


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """One run for all tests that look at its recording again."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("run")
    script(folder, SLOW_DATA.replace("LAST_STEP", FOR_EVER))
    outputs = ("--output-file", "result.json", "--html", "page.html", "--recording", "kept")
    return Kept(probe(folder, *MEASURES, *outputs, *job()))


# ------------------------------------------------------------------------------------------------------------ a run


def test_a_run_is_reported_on_standard_error_and_in_files(kept: Kept) -> None:
    assert (kept.ran.status, kept.ran.out, kept.ran.said) == (0, "", [])
    assert kept.ran.err.startswith(f"trainlint probe: {sys.executable} job.py\n")
    assert "Bottleneck: data" in kept.ran.err
    result = kept.result
    assert (result.steps.measured, result.bottleneck.kind) == (STEPS, "data")
    assert result.job is not None and result.job.stopped_by_probe
    page = (kept.folder / "page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "job.py" in page


def test_a_kept_recording_gives_the_same_result_again(kept: Kept, tmp_path: Path) -> None:
    outputs = ("--output-file", str(tmp_path / "result.json"), "--html", str(tmp_path / "page.html"))
    again = probe(kept.folder, "--from-recording", "kept", *outputs)
    assert (again.status, again.out, again.err) == (0, "", kept.ran.err)
    assert (tmp_path / "result.json").read_text("utf-8") == (kept.folder / "result.json").read_text("utf-8")
    assert (tmp_path / "page.html").read_text("utf-8") == (kept.folder / "page.html").read_text("utf-8")


def test_a_recording_is_read_only(kept: Kept, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sorted(Path(kept.recording).rglob("*"))}
    assert probe(tmp_path, "--from-recording", kept.recording, "--quiet").status == 0
    assert {path: path.stat().st_mtime_ns for path in sorted(Path(kept.recording).rglob("*"))} == before


@pytest.fixture(scope="module")
def remote(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording as another machine would have made it, where the project lies elsewhere."""
    moved = tmp_path_factory.mktemp("moved") / "kept"
    shutil.copytree(kept.recording, moved)
    for file in moved.rglob("*"):
        if file.suffix in (".json", ".jsonl", ".notes"):
            file.write_bytes(file.read_bytes().replace(str(kept.folder).encode(), b"/remote/project"))
    return moved


def test_a_recording_of_another_machine_is_judged_by_the_files_here(kept: Kept, remote: Path, tmp_path: Path) -> None:
    mapped = ("--path-map", f"/remote/project={kept.folder}")
    ran = probe(tmp_path, "--from-recording", str(remote), *mapped, "--output-file", "result.json")
    assert ran.status == 0
    here, there = kept.result, valid(tmp_path / "result.json")
    assert there.findings == here.findings
    assert there.findings
    assert (there.lines, there.sources, there.shares, there.steps) == (
        here.lines,
        here.sources,
        here.shares,
        here.steps,
    )


def test_without_the_files_a_recording_tells_what_was_measured(kept: Kept, remote: Path, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--from-recording", str(remote), "--output-file", "result.json")
    assert (ran.status, ran.said) == (0, [])
    result = valid(tmp_path / "result.json")
    assert (result.findings, result.steps, result.shares) == ([], kept.result.steps, kept.result.shares)
    assert {line.filename for line in result.lines} == {"/remote/project/job.py"}


# ---------------------------------------------------------------------------------------------------------- formats

BEGINS = {"full": "trainlint probe: ", "json": '{\n  "schema_version": 1,', "markdown": "#"}


@pytest.mark.parametrize("name", BEGINS)
def test_a_report_is_written_in_the_format_that_is_asked_for(name: str, kept: Kept, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--from-recording", kept.recording, "--output-format", name)
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith(BEGINS[name])
    if name == "json":
        assert ran.err == to_json(kept.result)


def test_a_page_is_asked_for_by_its_own_option(tmp_path: Path) -> None:
    ran = probe(tmp_path, "--output-format", "html", "job.py")
    assert ran.status == 2
    (said,) = ran.said
    assert "full, json, markdown" in said.replace("'", "")


def test_quiet_prints_nothing(kept: Kept, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--from-recording", kept.recording, "--quiet", "--output-file", "result.json")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert valid(tmp_path / "result.json").steps.measured == STEPS


# ------------------------------------------------------------------------------------------- comparing and conditions


def earlier(kept: Kept, folder: Path, speed: float, command: tuple[str, ...] = ()) -> str:
    """Write the result of a run that was so many times as fast, and return its name."""
    document: dict[str, Any] = json.loads((kept.folder / "result.json").read_bytes())
    steps = document["steps"]
    for name in ("median_s", "p90_s", "mean_s"):
        steps[name] /= speed
    for name in ("samples_per_s", "tokens_per_s", "effective_tokens_per_s"):
        steps[name] = steps[name] and steps[name] * speed
    for step in document["timeline"]:
        step["duration_s"] /= speed
    document["command"] = list(command or document["command"])
    (folder / "earlier.json").write_text(json.dumps(document), encoding="utf-8")
    return "earlier.json"


OTHER = (sys.executable, "other.py")
COMPARED: dict[str, tuple[float, tuple[str, ...], str]] = {
    "better": (0.05, (), "samples per second, before "),
    "worse": (20.0, (), "samples per second, before "),
    "the same": (1.0, (), "within the noise"),
    "another script": (20.0, OTHER, "cannot be compared: other command: job.py, before other.py"),
}


@pytest.mark.parametrize("name", COMPARED)
def test_results_are_compared(name: str, kept: Kept, tmp_path: Path) -> None:
    speed, command, said = COMPARED[name]
    file = earlier(kept, tmp_path, speed, command)
    words = ("--from-recording", kept.recording, "--compare", file, "--html", "page.html")
    for style in ("full", "markdown"):
        ran = probe(tmp_path, *words, "--output-format", style)
        assert ran.status == 0
        assert said in " ".join(ran.err.split())
    assert said in (tmp_path / "page.html").read_text("utf-8")


CONDITIONS: dict[str, tuple[float, tuple[str, ...], str, int, str]] = {
    "worse": (20.0, (), "regression", 1, "a regression is a loss of 5 % or more"),
    "worse, but not by so much": (20.0, (), "regression=99", 0, ""),
    "worse by so much": (20.0, (), "regression=50%", 1, "a regression is a loss of 50 % or more"),
    "better": (0.05, (), "regression", 0, ""),
    "the same": (1.0, (), "regression=0", 0, ""),
    "another script": (20.0, OTHER, "regression", 0, ""),
}


@pytest.mark.alone
@pytest.mark.parametrize("name", CONDITIONS)
def test_a_regression_fails(name: str, kept: Kept, tmp_path: Path) -> None:
    speed, command, condition, status, said = CONDITIONS[name]
    compare = ("--compare", earlier(kept, tmp_path, speed, command), "--fail-on", condition)
    ran = probe(tmp_path, "--from-recording", kept.recording, *compare, "--quiet")
    assert ran.status == status, ran.err
    assert len(ran.said) == status
    assert said in ran.err


def test_a_confirmed_finding_fails(kept: Kept, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--from-recording", kept.recording, "--fail-on", "confirmed", "--quiet")
    confirmed = [one for one in kept.result.findings if one.verdict and one.verdict.status == "confirmed"]
    assert confirmed
    assert (ran.status, ran.err) == (
        1,
        f"trainlint: {len(confirmed)} of {len(kept.result.findings)} findings confirmed\n",
    )


def test_without_a_confirmed_finding_nothing_fails(remote: Path, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--from-recording", str(remote), "--fail-on", "confirmed", "--quiet")
    assert (ran.status, ran.err) == (0, "")


def test_a_condition_fails_a_job_that_ran_to_its_own_end(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script(tmp_path, SLOW_DATA.replace("LAST_STEP", NO_LONGER))
    ran = probe(tmp_path, *MEASURES, "--continue", "--quiet", "--fail-on", "confirmed", *job())
    assert (ran.status, ran.out) == (1, "done\n")
    assert len(ran.said) == 1


# ----------------------------------------------------------------------------------------------------------- traces


def traces(folder: Path, suffix: str, ranks: int) -> list[str]:
    names = []
    for rank in range(ranks):
        trace = GpuTrace(rank, ranks) if ranks > 1 else GpuTrace()
        for _ in range(4):
            with trace.step():
                for _ in range(50):
                    trace.kernel(200.0)
                trace.work(trace.free[7] - trace.now)
        names.append(trace.write(folder / f"rank{rank}{suffix}").name)
    return names


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_traces_are_judged(ranks: int, suffix: str, tmp_path: Path) -> None:
    ran = probe(tmp_path, "--output-file", "result.json", "--trace", *traces(tmp_path, suffix, ranks))
    assert (ran.status, ran.out, ran.said) == (0, "", [])
    result = valid(tmp_path / "result.json")
    assert (result.steps.measured, result.bottleneck.kind) == (4, "compute")
    assert [rank.rank for rank in result.ranks] == list(range(ranks))
    assert "Bottleneck: compute" in ran.err


def test_a_trace_that_cannot_be_read_is_named_beside_those_that_can(tmp_path: Path) -> None:
    (tmp_path / "cut.json").write_text('{"traceEvents": [', encoding="utf-8")
    ran = probe(tmp_path, "--output-file", "result.json", "--trace", *traces(tmp_path, ".json", 1), "cut.json")
    assert ran.status == 0
    assert "cut.json is cut off" in valid(tmp_path / "result.json").environment.missing["kineto"]
    assert "cut.json is cut off" in " ".join(ran.err.split())


def test_a_trace_is_judged_with_the_code_that_made_it(tmp_path: Path) -> None:
    script(tmp_path, SLOW_DATA.replace("LAST_STEP", FOR_EVER))
    ran = probe(tmp_path, "-o", "result.json", "--trace", *traces(tmp_path, ".json", 1), "--", "job.py")
    assert ran.status == 0
    assert {Path(one.filename).name for one in valid(tmp_path / "result.json").findings} == {"job.py"}


# ------------------------------------------------------------------------------------------------------ running jobs

SAYS_STEPS = SLOW_DATA.replace("LAST_STEP", FOR_EVER).replace(
    "        optimizer.step()\n", "        optimizer.step()\n        print(step, flush=True)\n"
)


@contextmanager
def running(folder: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    script(folder, text)
    process = subprocess.Popen(
        [sys.executable, "job.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    try:
        assert line_of(process)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_running_job_is_looked_at_and_left_alone(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with running(tmp_path, SAYS_STEPS) as process:
        before = psutil.Process(process.pid).environ(), Path(f"/proc/{process.pid}/maps").read_text("utf-8")
        ran = probe(tmp_path, "--pid", str(process.pid), "--timeout", "3", "--output-file", "result.json")
        assert (ran.status, ran.out, ran.said) == (0, "", [])
        result = valid(tmp_path / "result.json")
        assert {Path(line.filename).name for line in result.lines} == {"job.py"}
        dearest = result.lines[0]
        assert "time.sleep" in (tmp_path / "job.py").read_text("utf-8").splitlines()[dearest.row - 1]
        assert dearest.share is not None and dearest.share > 0.5
        low, high = dearest.share_interval or (dearest.share, dearest.share)
        assert 0 < low <= dearest.share <= high <= 1
        assert dearest.ms_per_step is None
        assert result.cpu.util_mean is not None and result.cpu.rss_peak_bytes is not None
        assert {"steps", "agent", "kineto"} <= result.environment.missing.keys()
        assert "start the job with trainlint probe" in result.environment.missing["agent"]
        assert (result.steps.measured, result.steps.median_s, result.bottleneck.kind) == (0, None, "insufficient")
        assert result.shares.data_wait is None
        assert "start the job with trainlint probe" in " ".join(ran.err.split())
        # It trains on as before, and nothing was loaded into it.
        first = int(line_of(process))
        assert int(line_of(process)) == first + 1
        mapped = {line.split()[-1] for line in before[1].splitlines()}
        after = {line.split()[-1] for line in Path(f"/proc/{process.pid}/maps").read_text("utf-8").splitlines()}
        assert {name for name in after - mapped if ".so" in name} == set()
        assert psutil.Process(process.pid).environ() == before[0]


# -------------------------------------------------------------------------------------------------------------- GPUs

GPUS = "gpus 2\nsample 0 80 40000 350000 1000000 1755 1000 1000 4 62.5 41 30\n" + (
    "sample 1 20 1000 90000 1090000 345 5001000 9001000 1 0 0 0\n"
)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment of a machine with two GPUs."""
    folder = tmp_path_factory.mktemp("driver")
    (folder / "script").write_text(GPUS, encoding="utf-8")
    return PLAIN | {"LD_LIBRARY_PATH": str(built(folder)), "FAKE_NVML": str(folder / "script")}


ASKED = {
    "the second": (("--gpu", "1"), [1]),
    "both": (("--gpu", "0", "1"), [0, 1]),
    "each": (("--gpu", "0", "--gpu", "1"), [0, 1]),
}


@pytest.mark.parametrize("name", ASKED)
def test_gpus_are_looked_at_by_their_numbers(name: str, gpus: Mapping[str, str], tmp_path: Path) -> None:
    words, numbers = ASKED[name]
    script(tmp_path, "print('x')\nimport time; time.sleep(1)")
    ran = probe(tmp_path, *words, "--output-file", "result.json", "--", sys.executable, "job.py", env=gpus)
    assert [gpu.index for gpu in valid(tmp_path / "result.json").environment.gpus] == numbers
    assert ran.out == "x\n"


def test_a_gpu_that_is_not_there_is_named(gpus: Mapping[str, str], tmp_path: Path) -> None:
    script(tmp_path, "import time; time.sleep(1)")
    probe(tmp_path, "--gpu", "7", "--output-file", "result.json", "--", sys.executable, "job.py", env=gpus)
    missing = valid(tmp_path / "result.json").environment.missing
    assert any("7" in why for what, why in missing.items() if what.startswith("nvml")), missing


def test_gpus_of_a_running_job_are_measured(gpus: Mapping[str, str], tmp_path: Path) -> None:
    with running(tmp_path, "import time\nprint('x', flush=True)\ntime.sleep(1000)") as process:
        words = ("--pid", str(process.pid), "--gpu", "1", "--timeout", "8", "--output-file", "result.json")
        assert probe(tmp_path, *words, env=gpus).status == 0
    (use,) = valid(tmp_path / "result.json").gpu
    assert (use.index, use.util_mean, use.memory_peak_bytes) == (1, 0.2, 1000 << 20)
