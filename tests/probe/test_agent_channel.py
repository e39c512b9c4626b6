"""The files in which a process of the job leaves what it saw."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

from trainlint.agent import records
from trainlint.agent.channel import Channel

THREADS = 8


def test_threads_that_begin_at_once_share_one_ring(tmp_path: Path) -> None:
    def describe() -> dict[str, object]:
        time.sleep(0.05)
        return {"pid": 1}

    channel = Channel(str(tmp_path), 64, describe)
    start = threading.Barrier(THREADS)
    named: dict[int, list[int]] = {}

    def work(number: int) -> None:
        start.wait()
        named[number] = [channel.name(f"{number} {one}") for one in range(20)]
        channel.record(records.CALL, 0, number, named[number][0], 0.0, 0.0, 0.0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (ring,) = (tmp_path / "processes").glob("*.ring")
    notes = [json.loads(line) for line in ring.with_suffix(".notes").read_text().splitlines()]
    assert [note["note"] for note in notes] == ["process"] + ["name"] * 20 * THREADS
    assert len({number for numbers in named.values() for number in numbers}) == 20 * THREADS
    (written,) = records.HEADER.unpack_from(ring.read_bytes())[3:4]
    assert written == THREADS
