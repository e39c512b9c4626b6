"""Score the linter's findings on real training code against labels that were set by hand.

The labels, the script that scores and the repositories are not part of this repository. The folder of labels holds
`labels.jsonl`, `repos.json` and `score.py`; the corpus holds one checked-out repository in each folder `OWNER__NAME`,
at the commit that `repos.json` names. Exits with 1 where a figure lies below its bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PRECISION_BOUND = 0.95
RECALL_BOUND = 0.90
LABEL_FILES = ("score.py", "labels.jsonl", "repos.json")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder of the checked-out repositories")
    parser.add_argument("--labels", type=Path, required=True, help="folder of labels.jsonl, repos.json and score.py")
    parser.add_argument("--misses", action="store_true", help="also list the labelled problems that were not found")
    parser.add_argument("--alarms", action="store_true", help="also list the findings that no label supports")
    arguments = parser.parse_args()
    complaint = missing_input(arguments.corpus, arguments.labels)
    if complaint:
        parser.error(complaint)

    with tempfile.TemporaryDirectory() as scratch:
        findings = Path(scratch) / "findings.json"
        lint(arguments.corpus, findings)
        details = [f"--{name}" for name in ("misses", "alarms") if getattr(arguments, name)]
        print(score(arguments.labels, arguments.corpus, findings, "--by-kind", *details), end="", flush=True)
        figures = json.loads(score(arguments.labels, arguments.corpus, findings, "--json"))
    return report_bounds(figures["precision"], figures["recall"])


def missing_input(corpus: Path, labels: Path) -> str:
    """What is missing among the inputs, as a message; empty where nothing is."""
    absent = [name for name in LABEL_FILES if not (labels / name).is_file()]
    if absent:
        return f"{labels} holds no {', no '.join(absent)}; name the folder of labels with --labels"
    if not corpus.is_dir():
        return f"{corpus} is not a folder"
    repositories = json.loads((labels / "repos.json").read_text(encoding="utf-8"))
    unchecked = [name for name in repositories if not (corpus / name.replace("/", "__", 1)).is_dir()]
    if unchecked:
        return f"{corpus} holds no checkout of {', '.join(unchecked)} (each is expected in a folder OWNER__NAME)"
    return ""


def lint(corpus: Path, findings: Path) -> None:
    """Write the findings of the default rules at the default confidence to the file `findings`."""
    command = [sys.executable, "-m", "trainlint", "check", str(corpus), "--no-cache", "--exit-zero", "--isolated"]
    with findings.open("w", encoding="utf-8") as output:
        subprocess.run([*command, "--output-format", "json"], stdout=output, check=True)


def score(labels: Path, corpus: Path, findings: Path, *flags: str) -> str:
    """What `score.py` prints."""
    command = [
        *(sys.executable, str(labels / "score.py"), "--findings", str(findings), "--root", str(corpus)),
        *("--labels", str(labels / "labels.jsonl"), "--repos", str(labels / "repos.json")),
    ]
    return subprocess.run([*command, *flags], stdout=subprocess.PIPE, text=True, check=True).stdout


def report_bounds(precision: float | None, recall: float | None) -> int:
    """Say which figures lie below their bounds on standard error; the exit code that follows."""
    below = [
        f"{name} {'unknown' if value is None else f'{value:.1%}'} is below the bound of {bound:.0%}"
        for name, value, bound in (("precision", precision, PRECISION_BOUND), ("recall", recall, RECALL_BOUND))
        if value is None or value < bound
    ]
    for line in below:
        print(line, file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
