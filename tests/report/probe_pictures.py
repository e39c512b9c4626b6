"""Take the pictures of the report that the documentation shows, of a run that is really probed.

`python -m tests.report.probe_pictures` at the top of the repository, with `python` the one of an environment that has
torch, probes a job that decodes pictures between two steps and writes docs/images/probe-report*.png.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.report import chromium

IMAGES = Path(__file__).parents[2] / "docs" / "images"
COMMAND = ("--", "python", "tests/probe/planted/programs/data_bound.py")
HEIGHT = 1500
"""Of the desktop pictures, in pixels: the bottleneck, the steps and what they are made of."""


def main() -> int:
    program = chromium.program()
    if program is None:
        print("chromium is not there; CHROMIUM names it", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "report.html")
        probe = [sys.executable, "-m", "trainlint", "probe", "--html", str(page), *COMMAND]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        status = subprocess.run(probe, env=environment, check=False).returncode
        if status:
            return status
        with chromium.running(program) as browser:
            browser.show(page).picture(IMAGES / "probe-report.png", height=HEIGHT)
            browser.show(page, scheme="dark").picture(IMAGES / "probe-report-dark.png", height=HEIGHT)
            lines = browser.show(page)
            top = lines.evaluate("document.getElementById('lines').getBoundingClientRect().top + window.scrollY")
            lines.picture(IMAGES / "probe-report-lines.png", top=round(top), height=1000)
            browser.show(page, width=360, height=740).picture(IMAGES / "probe-report-phone.png", height=HEIGHT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
