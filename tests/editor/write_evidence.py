"""Writes `probe.json` beside the scripts of a test's workspace: the result of a probe that a test makes up for them.

write_evidence.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.probed_code import CONFIRMED, REFUTED, result_of, write_result

from trainlint.probe.measured import LineCost


def main(folder: Path) -> None:
    costs = [cost for script in sorted(folder.glob("*.py")) for cost in costs_in(script)]
    result = result_of(folder, {"TL201": CONFIRMED, "TL202": REFUTED}, lines=costs)
    write_result(folder / "probe.json", result)


def costs_in(script: Path) -> list[LineCost]:
    lines = script.read_text().splitlines()
    return [
        LineCost(
            filename=str(script),
            row=1 + next(row for row, line in enumerate(lines) if piece in line),
            what=what,
            ms_per_step=ms,
            share=ms / 39.7,
            calls_per_step=1.0,
            in_workers=False,
            source="agent",
        )
        for piece, what, ms in (("loss.item()", "sync", 12.3), ("print(f", "print", 0.1))
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
