"""The file of a probe's result: its fields, its schema, and what is said of a file that is none."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from desk import Desk
from judged_runs import CONFIRMED, JOB, SOURCE_ROWS, judged_run, measured, on_gpus

from trainlint.probe.analysis.diagnosis import AGAIN, NOTHING
from trainlint.probe.measured import Bottleneck
from trainlint.report import probe_result
from trainlint.report.probe_result import BrokenResult, ProbeResult, read_result, to_json
from trainlint.source.alignment import row_digest

CONTRACT: dict[str, Any] = {
    "schema_version": 1,
    "command": [],
    "started": "",
    "environment": dict.fromkeys(("python", "torch", "cuda", "gpus", "world_size", "sources", "missing")),
    "steps": dict.fromkeys(
        (
            "measured",
            "warmup",
            "median_s",
            "p90_s",
            "samples_per_s",
            "tokens_per_s",
            "effective_tokens_per_s",
            "mfu",
        )
    ),
    "shares": dict.fromkeys(("data_wait", "host_to_device", "forward", "backward", "optimizer", "sync_wait", "other")),
    "overlapping": dict.fromkeys(("communication_exposed", "gpu_idle", "evaluation")),
    "gpu": [],
    "cpu": dict.fromkeys(("util_mean", "busiest_core_mean", "rss_peak_bytes", "io_wait_share")),
    "kernels": None,
    "loader": dict.fromkeys(("alone_batch_s", "workers", "queue_empty_share")),
    "bottleneck": dict.fromkeys(("kind", "score", "why", "next")),
    "ranks": [],
    "findings": [],
    "runtime_findings": [],
    "job": dict.fromkeys(("exit_code", "signal", "stopped_by_probe")),
    "overhead": dict.fromkeys(("agent_share",)),
}
"""The fields that scripts rely on; others may stand beside them."""


def test_the_file_has_the_fields_of_the_contract_and_says_its_version_first(desk: Desk) -> None:
    written = json.loads(to_json(judged_run(desk).result()))
    assert next(iter(written.items())) == ("schema_version", 1)
    assert CONTRACT.keys() <= written.keys()
    for name, fields in CONTRACT.items():
        if isinstance(fields, dict):
            assert fields.keys() <= written[name].keys(), name


def test_a_finding_carries_its_verdict(desk: Desk) -> None:
    written = json.loads(to_json(judged_run(desk).result()))
    finding = next(one for one in written["findings"] if one["code"] == "TL201")
    assert finding["verdict"] == {
        "status": "confirmed",
        "ms_per_step": 12.34,
        "share": 0.2468,
        "calls_per_step": 1.0,
        "evidence": [
            {
                "metric": "wait for the device",
                "value": 12.34,
                "unit": "ms/step",
                "threshold": 1.0,
                "source": "kineto",
            }
        ],
        "note": "the wait is that of rank 0",
    }


def test_each_file_that_something_is_said_of_has_digests_of_its_rows(desk: Desk) -> None:
    result = judged_run(desk).result()
    train = desk.root / "src" / "train.py"
    assert [source.filename for source in result.sources] == sorted([str(JOB), str(train)])
    assert result.row_digest(str(JOB), 9) == row_digest(SOURCE_ROWS[9])
    assert [result.row_digest(str(train), row) for row in (0, 8, 99)] == [None, row_digest(""), None]
    assert result.row_digest("/elsewhere.py", 1) is None


def test_a_finding_about_the_run_names_a_line_only_where_it_is_about_one(desk: Desk) -> None:
    run = judged_run(desk)
    first, second = json.loads(to_json(run.result()))["runtime_findings"]
    assert (first["filename"], first["location"]) == (None, None)
    assert first["evidence"][0]["threshold"] == 0.2
    assert second["filename"] == str(desk.root / "src" / "train.py")
    assert second["location"] == {"row": 7, "column": 1}


@pytest.mark.parametrize("changes", [{}, on_gpus()], ids=["CPU", "two GPUs"])
def test_what_was_written_can_be_read_back(desk: Desk, changes: dict[str, Any]) -> None:
    result = judged_run(desk, **changes).result()
    assert read_result(to_json(result).encode()) == result


def test_a_verdict_read_back_is_the_one_that_was_reached(desk: Desk) -> None:
    read = read_result(to_json(judged_run(desk).result()).encode())
    verdicts = [finding.verdict.verdict() for finding in read.findings if finding.verdict]
    assert CONFIRMED in verdicts


def test_the_shipped_schema_is_current() -> None:
    assert probe_result.SHIPPED.read_text("utf-8") == probe_result.schema(), "run: python docs/build_pages.py"


@pytest.mark.parametrize("changes", [{}, on_gpus()], ids=["CPU", "two GPUs"])
def test_results_are_valid_by_the_shipped_schema(desk: Desk, changes: dict[str, Any]) -> None:
    schema = json.loads(probe_result.SHIPPED.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(json.loads(to_json(judged_run(desk, **changes).result())))


def broken(desk: Desk, **changes: Any) -> bytes:
    return json.dumps(json.loads(to_json(judged_run(desk).result())) | changes).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is no result of `trainlint probe`", id="empty"),
        pytest.param(b"\xff\xfe", "is no result of `trainlint probe`", id="bytes that are no text"),
        pytest.param(b"[]", "is no result of `trainlint probe`", id="a list, as `check` prints"),
        pytest.param(b'{"traceEvents": []}', "is no result of `trainlint probe`: `command`", id="a trace"),
        pytest.param(
            b'{"schema_version": 2, "surprise": 1}', "has a version other than 1, the one that", id="another version"
        ),
    ],
)
def test_a_foreign_file_is_named_in_one_line(content: bytes, reason: str) -> None:
    with pytest.raises(BrokenResult) as raised:
        read_result(content)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "place"),
    [({"steps": {"measured": "many"}}, "`steps.measured`"), ({"unknown": 1}, "`unknown`")],
    ids=["a wrong value", "a field that nobody knows"],
)
def test_a_damaged_result_says_what_is_wrong(desk: Desk, changes: dict[str, Any], place: str) -> None:
    with pytest.raises(BrokenResult, match=place):
        read_result(broken(desk, **changes))


def test_a_run_without_findings_is_a_result() -> None:
    result = ProbeResult.model_validate({**measured().model_dump(), "findings": [], "runtime_findings": []})
    assert read_result(to_json(result).encode()) == result


def test_what_to_do_next_names_the_confirmed_findings_and_no_other(desk: Desk) -> None:
    nothing = Bottleneck(kind="balanced", score=0.0, why=[], next=[NOTHING])
    result = judged_run(desk, bottleneck=nothing).result()
    confirmed = [one for one in result.findings if one.verdict is not None and one.verdict.status == "confirmed"]
    assert confirmed
    assert len(result.bottleneck.next) == len(confirmed) + 1
    for finding in confirmed:
        where = f"{finding.code} {finding.name} at {finding.filename}:{finding.location.row}, which the run confirmed"
        assert any(where in line for line in result.bottleneck.next)
    assert result.bottleneck.next[-1] == AGAIN
