"""A probe's result at a terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from desk import Desk
from judged_runs import (
    CONFIRMED,
    INCONCLUSIVE,
    JOB,
    NOT_EXERCISED,
    REFUTED,
    SOURCE,
    Run,
    judged_run,
    measured,
    on_gpus,
)

from trainlint.probe.measured import Bottleneck, Cpu, LineCost, Overhead, Overlapping, Shares, Steps
from trainlint.probe.verdict import Verdict
from trainlint.report.probe_lines import line_cost
from trainlint.report.probe_sections import LONGEST_LIST
from trainlint.report.probe_text import render_text
from trainlint.report.sources import Sources
from trainlint.report.verdicts import calls_text
from trainlint.report.view import View
from trainlint.report.width import display_width


def text_of(run: Run, **options: Any) -> str:
    return render_text(run.result(), run.view, **options)


def section(text: str, title: str) -> list[str]:
    """The lines below a heading, up to the next empty one."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(title))
    rest = lines[start + 1 :]
    return rest[: rest.index("")] if "" in rest else rest


def test_it_says_what_was_run_where_and_how_it_ended(desk: Desk) -> None:
    assert text_of(judged_run(desk)).splitlines()[:5] == [
        "trainlint probe: python train.py --name 'two words'",
        "  Python 3.11.7, torch 2.13.0+cpu, no GPU, 1 rank, 2 cores, on box",
        "  measured by agent, stacks, psutil; started 2026-11-30T05:00:00Z",
        "  The job ended with status 0, stopped by the probe after the last step.",
        "  Measuring took under 0.1 % of the steps and 3 % of one core beside the job.",
    ]


def test_the_bottleneck_comes_with_its_reasons_and_thresholds(desk: Desk) -> None:
    text = text_of(judged_run(desk))
    assert "Bottleneck: data supply: the step waits for the loader (60 % of the step)" in text
    assert section(text, "Bottleneck") == ["  data wait is 60 % of the step (threshold 20 %)"]


def test_advice_names_files_as_the_rest_of_the_report_does(desk: Desk) -> None:
    advice = [f"Look at {desk.root}/src/train.py:7", "Look at /job/train.py:9"]
    run = judged_run(desk, bottleneck=Bottleneck(kind="sync", score=0.3, why=[], next=advice))
    told = section(text_of(run), "What to do next")
    assert told[:2] == ["  1. Look at src/train.py:7", "  2. Look at /job/train.py:9"]
    assert told[2].startswith("  3. Mend TL201 sync-in-step at src/train.py:7, which the run confirmed")


def figures(rows: list[str], unit: str) -> list[float]:
    return [float(found.group(1)) for row in rows if (found := re.search(rf"([\d.]+) {unit}", row))]


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((1 / 3, 1 / 3, 1 / 3, 0.0, 0.0, 0.0, 0.0), id="thirds"),
        pytest.param((0.1249, 0.1249, 0.1251, 0.1251, 0.1666, 0.1667, 0.1667), id="halves of the last digit"),
        pytest.param((1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), id="one part"),
        pytest.param((0.9994, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001), id="parts below the last digit"),
    ],
)
def test_the_printed_shares_add_up_to_the_printed_step(desk: Desk, shares: tuple[float, ...]) -> None:
    run = Run(desk, measured(shares=Shares(**dict(zip(Shares.model_fields, shares, strict=True)))))
    text = text_of(run)
    rows = [
        row for row in text.splitlines() if re.match(r"  (data wait|host \w+( \w+)?|\w+ward|optimizer|other)  ", row)
    ]
    total = next(row for row in text.splitlines() if row.startswith("  the step"))
    for unit in ("%", "ms"):
        assert round(sum(figures(rows, unit)), 3) == figures([total], unit)[0]
    assert "100.0 %" in total


def test_what_was_not_measured_is_not_printed_as_zero(desk: Desk) -> None:
    nothing = measured(
        steps=Steps(measured=0, warmup=0, median_s=None, p90_s=None),
        shares=Shares(**dict.fromkeys(Shares.model_fields)),
        overlapping=Overlapping(),
        cpu=Cpu(**dict.fromkeys(Cpu.model_fields)),
        loader=None,
        bottleneck=Bottleneck(kind="insufficient", score=0.0, why=["no step was seen"], next=[]),
        ranks=[],
        overhead=Overhead(agent_share=None),
        lines=[],
        timeline=[],
    )
    text = text_of(Run(desk, nothing))
    assert "0 steps measured" in text
    assert re.findall(r"\b0(?:\.0)? (?:ms|%|W|B)", text) == []
    assert "where the time of a step goes was not measured" in text
    assert "Bottleneck: not known: too little was measured\n" in text
    assert {"CPU", "Loader", "GPU"}.isdisjoint(line.partition(":")[0] for line in text.splitlines())
    assert section(text, "Not measured") == ["  nvml: no NVIDIA driver library"]


def test_a_share_that_was_not_measured_says_so_in_its_row(desk: Desk) -> None:
    assert re.search(r"^  host to device +not measured$", text_of(judged_run(desk)), re.MULTILINE)


def test_lines_show_their_source_and_an_interval_where_there_are_few_samples(desk: Desk) -> None:
    assert section(text_of(judged_run(desk), width=100), "Dearest lines") == [
        "  /job/train.py:9 25 ms, 50 % (stack samples, in loader workers, beside the step)",
        "      ids = tokenizer(row['text'])",
        "  /job/train.py:12 1.5 to 4 ms, about 5 % (stack samples)",
        "      x = augment(x)",
        "  /job/train.py:40 cost not measured (read of a tensor, 2 calls per step)",
        "      total += loss.item()",
    ]


def test_source_that_is_not_what_it_was_is_not_shown(desk: Desk) -> None:
    run = judged_run(desk)
    result = run.result()
    edited = View(desk.root, Sources({JOB: SOURCE.replace(b"augment(x)", b"crop(x)")}))
    desk.write("src/train.py", "# all gone\n")
    text = render_text(result, edited)
    assert "ids = tokenizer" in text
    assert "crop" not in text
    assert section(text, "confirmed (")[2].lstrip().startswith("1 call per step")


def test_findings_stand_by_verdict_with_the_confirmed_ones_first(desk: Desk) -> None:
    text = text_of(judged_run(desk))
    starts = [
        text.index(f"\n{word} (")
        for word in ("confirmed", "inconclusive", "refuted", "not exercised", "without a verdict")
    ]
    assert starts == sorted(starts)
    assert section(text, "confirmed (") == [
        "  src/train.py:7 TL201 sync-in-step — measured 12.3 ms per step, 25 %",
        "      `loss.item()` waits for the GPU at every step",
        "      total += loss.item()",
        "      1 call per step; wait for the device 12.3 ms/step (threshold 1 ms/step;",
        "      kineto)",
        "      the wait is that of rank 0",
    ]
    assert section(text, "inconclusive (")[-1] == "      probe on a GPU"


def test_the_dearest_confirmed_finding_comes_first(desk: Desk) -> None:
    run = Run(desk)
    path = desk.write("train.py")
    for row, cost in ((3, 1.0), (4, 30.0), (5, None), (7, 12.0)):
        run.judge(path, replace(CONFIRMED, ms_per_step=cost), place=(row, 1, row, 2))
    assert re.findall(r"train.py:(\d) TL201", text_of(run)) == ["4", "7", "3", "5"]


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [
        (CONFIRMED, LONGEST_LIST + 5),
        (REFUTED, LONGEST_LIST),
        (NOT_EXERCISED, LONGEST_LIST),
        (INCONCLUSIVE, LONGEST_LIST),
    ],
    ids=["confirmed", "refuted", "not-exercised", "inconclusive"],
)
def test_only_confirmed_findings_are_listed_without_end(desk: Desk, verdict: Verdict, shown: int) -> None:
    run = Run(desk)
    path = desk.write("train.py")
    for _ in range(LONGEST_LIST + 5):
        run.judge(path, verdict)
    text = text_of(run)
    assert text.count("train.py:7 TL201") == shown
    assert ("and 5 more, which the JSON lists" in text) == (shown == LONGEST_LIST)


def test_gpus_show_power_beside_their_use(desk: Desk) -> None:
    text = text_of(judged_run(desk, **on_gpus()), width=200)
    assert (
        "GPU 1 NVIDIA H100 80GB HBM3: GPU-Util 43 % (10th percentile 5 %); power 240 W (34 % of the limit); "
        "peak memory 18 GiB of 80 GiB; SM clock 1755 MHz; PCIe in 1.4 GiB/s; throttled by sw_power_cap"
    ) in text
    assert "it does not say how full the GPU was" in text
    assert [line.split() for line in section(text, "Ranks")[1:]] == [
        ["0", "50", "ms", "30", "ms", "10", "%"],
        ["1", "50", "ms", "40", "ms", "20", "%"],
    ]


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal(desk: Desk, width: int) -> None:
    run = judged_run(desk, **on_gpus(8))
    deep = desk.write("a_long_folder_name/" * 6 + "損失.py", "損失 = 損失.item()  # " + "損" * 300 + "\n")
    run.judge(deep, CONFIRMED, place=(1, 1, 1, 5))
    assert max(display_width(line) for line in text_of(run, width=width).splitlines()) <= width


def test_colour_changes_nothing_but_colour(desk: Desk) -> None:
    run = judged_run(desk, **on_gpus())
    coloured = render_text(run.result(), replace(run.view, colour=True))
    assert "\x1b[" in coloured
    plain = re.sub(r"\x1b\[[\d;]*m", "", coloured)
    assert [line.rstrip() for line in plain.splitlines()] == text_of(run).splitlines()


def test_a_terminal_without_blocks_gets_signs_that_it_has(desk: Desk) -> None:
    text = text_of(judged_run(desk), encoding="ascii")
    assert text.isascii()
    assert re.search(r"60.2 %  #+\n", text)


def test_what_the_job_is_made_of_cannot_steer_the_terminal(desk: Desk) -> None:
    hostile = "\x1b[31m\u202e\x07[bold]x[/bold] :smile:\n"
    line = LineCost(
        filename=f"/job/{hostile}.py",
        row=1,
        what="print",
        ms_per_step=1.0,
        share=0.1,
        calls_per_step=1.0,
        in_workers=False,
        source="agent",
    )
    run = judged_run(
        desk,
        command=["python", hostile],
        started=hostile,
        lines=[line],
        bottleneck=Bottleneck(kind="data", score=0.5, why=[hostile], next=[hostile]),
        environment=measured().environment.model_copy(update={"missing": {hostile: hostile}, "python": hostile}),
    )
    run.judge(desk.root / "train.py", replace(CONFIRMED, note=hostile), message=hostile, name="x")
    text = text_of(run)
    assert not {"\x1b", "\x07", "\u202e"} & set(text)
    assert "[bold]x[/bold] :smile:" in text


FIGURES = {
    "a figure": ({"ms_per_step": 2.5}, "2.5 ms"),
    "an interval": ({"ms_per_step": 2.5, "interval_ms": (1.5, 4.0)}, "1.5 to 4 ms"),
    "an interval that begins at nothing": ({"ms_per_step": 2.5, "interval_ms": (3.0e-8, 4.55)}, "up to 4.55 ms"),
    "next to nothing": ({"ms_per_step": 3.0e-8}, "under 0.001 ms"),
}


@pytest.mark.parametrize(("fields", "text"), FIGURES.values(), ids=FIGURES)
def test_the_cost_of_a_line_has_the_digits_that_tell_something(fields: dict[str, Any], text: str) -> None:
    line = measured().lines[0].model_copy(update=fields)
    assert line_cost(line) == text


def test_figures_agree_with_their_nouns() -> None:
    assert calls_text(1.0004) == "1 call per step"
    assert calls_text(2.0) == "2 calls per step"
