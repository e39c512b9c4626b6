"""Parsing in several processes: the same facts, whatever happens to a worker."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from trainlint.lint import workers
from trainlint.lint.workers import Broken, Crashed, Extracted, Failed, Outcome, extract_all, outcome_of

TEXTS = [f"import torch\n\ndef f{number}(x):\n    return x + {number}\n" * (number + 1) for number in range(12)]


@pytest.fixture(autouse=True)
def _always_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTHWHILE", 1)


def extracted(texts: list[str], jobs: int) -> dict[int, Outcome]:
    return dict(extract_all(texts, jobs))


def test_facts_are_those_of_one_process() -> None:
    alone = extracted(TEXTS, 1)
    assert sorted(alone) == list(range(len(TEXTS)))
    assert all(isinstance(outcome, Extracted) for outcome in alone.values())
    assert extracted(TEXTS, 3) == alone


def test_processes_can_be_started_while_threads_run() -> None:
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    try:
        assert extracted(TEXTS[:3], 2) == extracted(TEXTS[:3], 1)
    finally:
        done.set()
        thread.join()


def test_a_file_that_does_not_parse_says_where() -> None:
    found = extracted([*TEXTS[:2], "x = (\n"], 2)
    assert isinstance(found[2], Broken)
    assert found[2].row >= 1


def test_texts_larger_than_a_pipe_holds_go_through() -> None:
    large = ["x = 1  # " + "é" * 200_000 + "\n"] * 4
    assert [type(outcome) for outcome in extracted(large, 2).values()] == [Extracted] * 4


def dying(text: str) -> Outcome:
    if "os._exit" in text:
        os._exit(11)
    return outcome_of(text)


def test_a_worker_that_dies_costs_the_file_it_was_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "outcome_of", dying)
    # A process that is spawned would not know of it.
    monkeypatch.setattr(workers, "process_context", lambda: multiprocessing.get_context("fork"))
    found = extracted(["os._exit(11)", *TEXTS, "os._exit(11)"], 2)
    assert [index for index, outcome in found.items() if isinstance(outcome, Crashed)] in ([0, 13], [13, 0])
    assert all(isinstance(found[index], Extracted) for index in range(1, 13))


def test_a_defect_of_the_analysis_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(text: str) -> object:
        raise ZeroDivisionError("what")

    monkeypatch.setattr(workers, "extract", failing)
    found = extracted(TEXTS[:1], 1)[0]
    assert isinstance(found, Failed)
    assert found.summary == "ZeroDivisionError: what"
    assert "Traceback" in found.traceback
