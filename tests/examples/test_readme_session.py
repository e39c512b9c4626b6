"""The session that the README shows is what the program really prints."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SESSION = re.compile(
    r"test_readme_session\.py -->\n```console\n\$ trainlint (?P<arguments>.*)\n(?P<output>(?s:.*?))```"
)


def test_readme_shows_real_output() -> None:
    session = SESSION.search((REPOSITORY / "README.md").read_text(encoding="utf-8"))
    assert session is not None, "the README holds no session under its marker"
    done = subprocess.run(
        [sys.executable, "-m", "trainlint", *shlex.split(session["arguments"]), "--no-cache"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout == session["output"]
