"""Files that are no traces, or bad ones: one clear line, or what can be had of them."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.probe.kineto_traces import GpuTrace

from trainlint.probe.analysis import analyse_traces
from trainlint.probe.analysis.traced import of_analysis
from trainlint.probe.traces import UnusableTraceError, analyse, line_evidence

STEPS = 3


def good() -> dict[str, Any]:
    trace = GpuTrace()
    for _ in range(STEPS):
        with trace.step():
            trace.kernel(100.0)
            trace.item()
    return trace.document


def whole(document: object) -> bytes:
    return json.dumps(document).encode()


UNUSABLE = {
    "empty": (b"", "is empty"),
    "blank": (b"  \n", "is empty"),
    "cut off": (whole(good())[:-400], "is cut off"),
    "cut within a word": (b'{"traceEvents": [{"ph": "X", "nam', "is cut off"),
    "gzip cut off": (gzip.compress(whole(good()))[:-50], "is damaged or cut off"),
    "gzip damaged": (gzip.compress(whole(good()))[:40] + b"\0" * 40, "is damaged or cut off"),
    "text": (b"step 1: loss 0.3\n", "is not JSON"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is not JSON"),
    "another document": (b'{"version": "2.1.0", "runs": []}', "it has no list of traceEvents"),
    "events of a wrong type": (b'{"traceEvents": {"0": 1}}', "it has no list of traceEvents"),
    "a number": (b"17", "it has no list of traceEvents"),
    "too deep": (b"[" * 100_000, "is no trace of torch.profiler"),
    "a number too long": (b"[" + b"9" * 10_000 + b"]", "is no trace of torch.profiler"),
    "no event": (b'{"traceEvents": []}', "it holds no event that took time"),
    "no event of ours": (
        whole({"traceEvents": [{"ph": "X", "cat": "blink", "ts": 1, "dur": 2, "name": "v8"}]}),
        "it holds no",
    ),
}


@pytest.mark.parametrize(("content", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_is_no_trace_is_refused_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(UnusableTraceError) as refused:
        analyse([path])
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_folder_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnusableTraceError, match="cannot be read: no such file or directory"):
        analyse([tmp_path / "missing.json"])
    with pytest.raises(UnusableTraceError, match="cannot be read: is a directory"):
        analyse([tmp_path])
    with pytest.raises(UnusableTraceError, match="no trace was given"):
        analyse([])


def test_the_readable_ones_of_several_traces_are_analysed(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_bytes(whole(good()))
    (tmp_path / "cut.json").write_bytes(whole(good())[:-400])
    analysis = analyse([tmp_path / "cut.json", tmp_path / "good.json"])
    assert [rank.path.name for rank in analysis.ranks] == ["good.json"]
    assert "is cut off" in analysis.unreadable[tmp_path / "cut.json"]


DAMAGES: dict[str, dict[str, object]] = {
    "no arguments": {"args": None},
    "arguments of a wrong type": {"args": [1, 2]},
    "no duration": {"dur": None},
    "a negative duration": {"dur": -5.0},
    "a duration that is no number": {"dur": float("nan")},
    "a duration without end": {"dur": float("inf")},
    "a duration of a wrong type": {"dur": {"us": 5}},
    "a time that is no number": {"ts": float("nan")},
    "a time of a wrong type": {"ts": [1]},
    "a name of a wrong type": {"name": 17},
    "a category of a wrong type": {"cat": ["kernel"]},
    "a process of a wrong type": {"pid": {"id": 1}},
    "a thread of a wrong type": {"tid": [7]},
    "a huge process": {"pid": 10**30, "tid": -(10**30)},
    "huge numbers": {"args": {"correlation": 10**40, "device": 10**40, "bytes": 10**40, "External id": -1}},
    "arguments of wrong types": {"args": {"correlation": [1], "device": "a", "bytes": None, "Sequence number": {}}},
    "another phase": {"ph": 3},
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("every", [1, 3])
def test_damaged_events_cost_no_more_than_themselves(damage: dict[str, object], every: int, tmp_path: Path) -> None:
    document = good()
    for event in document["traceEvents"][::every]:
        event.update(damage)
    path = tmp_path / "trace.json"
    path.write_bytes(whole(document))
    try:
        analysis = analyse([path])
    except UnusableTraceError as refused:
        assert every == 1, "some events are good"
        assert "\n" not in str(refused)
        return
    line_evidence(analysis.ranks)
    (rank,) = analysis.ranks
    assert rank.span_s >= 0
    assert all(0 <= use.share(use.busy_s) <= 1.0001 for use in rank.uses)


NONSENSE: tuple[object, ...] = (
    *(None, True, 0, -1, 1e308, -1e308, float("nan"), float("inf"), 10**40, "", "x", "1e5", "9" * 5000, [], [1], {}),
    *("Memcpy (", "ProfilerStep#", "nn.Module: ", "(1): b", "/(1): /", ".(1): x", "..(2): <module>", "\0(1): f"),
    *("Optimizer.step#", "c10d::", "nccl:x", "autograd::engine::evaluate_function", {"a": 1}),
)


@pytest.mark.parametrize("seed", range(40))
def test_no_nonsense_in_any_field_ends_in_a_traceback(seed: int, tmp_path: Path) -> None:
    choose = random.Random(seed)
    path = tmp_path / "trace.json"
    for _ in range(10):
        document = good()
        events = document["traceEvents"]
        for event in choose.choices(events, k=choose.randrange(1, 30)):
            target = choose.choice([event, event.get("args")])
            if isinstance(target, dict) and target:
                target[choose.choice(list(target))] = choose.choice(NONSENSE)
        path.write_bytes(whole(document))
        result, _ = analyse_traces([path], [tmp_path], [])
        assert all(share is None or -1e-9 <= share <= 1 + 1e-9 for _, share in result.shares)


def test_events_that_are_not_even_objects_are_passed_over(tmp_path: Path) -> None:
    document = good()
    document["traceEvents"] += [None, 17, "X", [], {}]
    (tmp_path / "trace.json").write_bytes(whole(document))
    (rank,) = analyse([tmp_path / "trace.json"]).ranks
    assert rank.steps.count == STEPS


def test_unusable_events_are_counted(tmp_path: Path) -> None:
    document = good()
    document["traceEvents"][3]["dur"] = -1
    (tmp_path / "trace.json").write_bytes(whole(document))
    found = analyse([tmp_path / "trace.json"])
    assert found.ranks[0].skipped == 1
    assert of_analysis(found).missing == {"kineto": f"1 event of {tmp_path / 'trace.json'} has no usable time"}


def test_the_order_of_events_does_not_matter(tmp_path: Path) -> None:
    document = good()
    (tmp_path / "one.json").write_bytes(whole(document))
    document["traceEvents"].reverse()
    (tmp_path / "other.json").write_bytes(whole(document))
    one, other = (analyse([tmp_path / name]).ranks[0] for name in ("one.json", "other.json"))
    assert (one.uses, one.waits, one.steps, one.copies) == (other.uses, other.waits, other.steps, other.copies)


def test_headers_of_wrong_types_are_passed_over(tmp_path: Path) -> None:
    document = good() | {"distributedInfo": [1], "deviceProperties": [7, {"id": None}], "baseTimeNanoseconds": "no"}
    (tmp_path / "trace.json").write_bytes(whole(document))
    (rank,) = analyse([tmp_path / "trace.json"]).ranks
    assert (rank.rank, rank.world_size, rank.devices) == (None, None, ())


def test_a_list_of_events_and_capital_categories_of_early_releases_are_read(tmp_path: Path) -> None:
    old = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel", "gpu_memcpy": "Memcpy"}
    events = good()["traceEvents"]
    for event in events:
        event["cat"] = old.get(event["cat"], event["cat"])
    (tmp_path / "rank-3.json").write_bytes(b"\xef\xbb\xbf" + whole(events))
    (rank,) = analyse([tmp_path / "rank-3.json"]).ranks
    assert rank.rank == 3
    assert rank.main is not None and rank.main.kernels == STEPS
    assert len(rank.waits) == 2


def test_names_with_broken_characters_are_read(tmp_path: Path) -> None:
    content = whole(good()).replace(b"vectorized", b"vec\xff\x01torized")
    (tmp_path / "trace.json").write_bytes(content)
    (rank,) = analyse([tmp_path / "trace.json"]).ranks
    assert rank.main is not None and rank.main.kernels == STEPS
