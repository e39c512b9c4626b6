"""A probe's result in Markdown."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from desk import Desk
from judged_runs import CONFIRMED, NOT_EXERCISED, Run, judged_run, measured, on_gpus

from trainlint.probe.measured import Bottleneck, Shares, Steps
from trainlint.report.probe_compare import compare
from trainlint.report.probe_markdown import render_markdown
from trainlint.report.probe_sections import LONGEST_LIST


def text_of(run: Run) -> str:
    return render_markdown(run.result(), run.view)


def tables(text: str) -> list[list[str]]:
    """Each table's lines."""
    return [block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def test_it_begins_with_the_bottleneck_and_its_reasons(desk: Desk) -> None:
    assert text_of(judged_run(desk)).splitlines()[:5] == [
        "## trainlint probe: `python train.py --name 'two words'`",
        "",
        "**Bottleneck: data supply: the step waits for the loader (60 % of the step)**",
        "",
        "- data wait is 60 % of the step (threshold 20 %)",
    ]


def test_all_rows_of_a_table_have_the_columns_of_its_head(desk: Desk) -> None:
    run = judged_run(desk, **on_gpus())
    run.judge(desk.root / "a|b.py", replace(CONFIRMED, note="x | y"), message="`a | b` | c", name="x|y")
    found = tables(text_of(run))
    assert len(found) == 9
    for head, rule, *rows in found:
        assert {len(cells(row)) for row in (rule, *rows)} == {len(cells(head))}


def test_the_shares_are_a_table_that_adds_up(desk: Desk) -> None:
    table = next(table for table in tables(text_of(judged_run(desk))) if "part of the step" in table[0])
    shares = {cells(row)[0]: cells(row)[2] for row in table[2:]}
    assert shares.pop("the step") == "100.0 %"
    assert shares.pop("host to device") == "not measured"
    assert round(sum(float(share.removesuffix(" %")) for share in shares.values()), 6) == 100


def test_confirmed_findings_are_open_and_the_others_folded(desk: Desk) -> None:
    text = text_of(judged_run(desk))
    before, *folded = text.split("<details>")
    assert "| `src/train.py:7` | [TL201](https://" in before
    assert "12.3 ms per step, 25 %" in before
    assert [re.findall(r"TL\d{3}", part)[0] for part in folded] == ["TL202", "TL103", "TL204", "TL401"]
    assert text.count("<details>") == text.count("</details>") == 4


def test_a_list_that_asks_for_nothing_has_an_end(desk: Desk) -> None:
    run = Run(desk)
    path = desk.write("train.py")
    for _ in range(LONGEST_LIST + 3):
        run.judge(path, NOT_EXERCISED)
    text = text_of(run)
    assert text.count("TL201") == LONGEST_LIST
    assert "And 3 more, which the JSON lists." in text


def test_what_was_not_measured_is_left_out_or_named(desk: Desk) -> None:
    nothing = measured(
        steps=Steps(measured=0, warmup=0, median_s=None, p90_s=None),
        shares=Shares(**dict.fromkeys(Shares.model_fields)),
        bottleneck=Bottleneck(kind="insufficient", score=0.0, why=[], next=[]),
        lines=[],
        loader=None,
    )
    text = text_of(Run(desk, nothing))
    assert "- nvml: no NVIDIA driver library" in text
    assert not re.search(r"\b0(\.0)? (ms|%)", text)
    assert "### Steps" not in text


@pytest.mark.parametrize("hostile", ["</details><script>x</script>", "a_b*c*[x](http://y)", "`` ` ``", "x\n## y"])
def test_what_the_job_is_made_of_is_no_markup(desk: Desk, hostile: str) -> None:
    run = judged_run(
        desk, command=["python", hostile], bottleneck=Bottleneck(kind="data", score=0, why=[hostile], next=[hostile])
    )
    run.judge(desk.root / "train.py", replace(CONFIRMED, note=hostile), message=hostile, name="x")
    outside_of_code = re.sub(r"(`+).*?\1", "", text_of(run))
    assert "<script" not in outside_of_code
    assert not re.search(r"(?<!\\)\[x\]\(http://y\)", outside_of_code)
    assert "\n## y" not in text_of(run)


def test_it_holds_the_comparison(desk: Desk) -> None:
    run = judged_run(desk)
    text = render_markdown(run.result(), run.view, comparison=compare(Run(desk).result(), run.result()))
    assert "### Compared with the run of 2026-11-30T05:00:00Z" in text
    assert "- throughput: 640 samples per second, before 640 (0 %, uncertain by" in text
