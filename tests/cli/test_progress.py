"""The progress bar: at a terminal, on long runs, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import PLAIN

SCRIPT = """
import sys
from trainlint.cli import progress
progress.PATIENCE_S = {patience}
with progress.progress_bar({wanted}) as tell:
    if tell is not None:
        tell(3, 10)
assert ("rich" in sys.modules) is {drawn}
"""


def run_at_a_terminal(script: str, *arguments: str) -> str:
    import pty

    main, side = pty.openpty()
    environment = PLAIN | {"TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", script, *arguments], stderr=side, env=environment, check=False)
    os.close(side)
    pieces = []
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(main)
    output = b"".join(pieces).decode()
    assert done.returncode == 0, output
    return output


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(
    ("wanted", "patience", "drawn"),
    [
        pytest.param(True, 0, True, id="a long run"),
        pytest.param(True, 60, False, id="a short run"),
        pytest.param(False, 0, False, id="not wanted"),
    ],
)
def test_a_terminal_sees_a_bar_on_long_runs(wanted: bool, patience: int, drawn: bool) -> None:
    output = run_at_a_terminal(SCRIPT.format(wanted=wanted, patience=patience, drawn=drawn))
    assert ("3/10" in output) is drawn


def test_no_bar_is_drawn_where_no_terminal_is() -> None:
    script = SCRIPT.format(wanted=True, patience=0, drawn=False)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=PLAIN, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


CHECK = """
import sys
from trainlint.cli import progress
from trainlint.cli.check import main
progress.PATIENCE_S = 0
main(["--isolated", "--no-cache", {options} sys.argv[1]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.parametrize(("options", "drawn"), [("", True), ("'--quiet',", False)])
def test_check_says_how_far_it_is(tmp_path: Path, options: str, drawn: bool) -> None:
    for number in range(3):
        (tmp_path / f"train_{number}.py").write_text(f"import torch\n\nseed = {number}\n", encoding="utf-8")
    output = run_at_a_terminal(CHECK.format(options=options), str(tmp_path))
    assert ("3/3" in output) is drawn
