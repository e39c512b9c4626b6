"""What a long session costs in memory. Slow: run with `--edits N`."""

from __future__ import annotations

from random import Random

import pytest
from language_client import Editor, memory_bytes
from programs import QUIET_UTILS, TRAIN

FEWEST = 500
"""Fewer edits than that say nothing about growth."""
MOST_GROWTH = 0.05


async def test_many_edits_do_not_fill_the_memory(start, project, request):
    edits = request.config.getoption("--edits")
    if edits < FEWEST:
        pytest.skip(f"takes minutes; --edits {2 * FEWEST} runs it")
    body = "".join(
        f"\n\ndef part{number}(x, y):\n    z = x + y * {number}\n    return z.mean() if z.dim() else z\n"
        for number in range(200)
    )
    folder = project({"train.py": TRAIN + body, "utils.py": QUIET_UTILS})
    editor: Editor = await start(folder)
    uri = editor.open(folder / "train.py")
    random = Random("memory")

    async def work(times: int) -> None:
        for number in range(times):
            text = editor.texts[uri].text
            at = text.index("\n", random.randrange(len(text) - 10))
            if number % 10 == 9:
                editor.rewrite(uri, TRAIN + body)
            else:
                editor.splice(uri, (at, at, random.choice((f"  # {number}", f"\nx{number} = (", "\n", f" + {number}"))))
            await editor.pull(uri)

    # What is kept of late is bounded, and has to be filled before growth can be told from warming up.
    await work(edits // 2)
    information = await editor.information()
    pids = information["server_process"], information["analysis_process"]
    before = [memory_bytes(pid) for pid in pids]
    await work(edits)
    growth = [memory_bytes(pid) / size - 1 for pid, size in zip(pids, before, strict=True)]
    print(f"memory: {[round(size / 1e6) for size in before]} MB, grew by {[f'{share:.1%}' for share in growth]}")
    assert max(growth) < MOST_GROWTH
