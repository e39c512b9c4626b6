"""Linting a tree in several ways, which must all come to the same, without a crash."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.soundness.tally import Kind, Tally
from tests.soundness.trees import Copy, compiles, parses

Findings: TypeAlias = list[dict[str, Any]]
"""As `--output-format json` gives them."""

ALL_RULES = ("--isolated", "--select", "ALL", "--min-confidence", "low")
FILES_ALONE = 5
"""Files of a tree that are also linted alone."""
SECONDS_FOR_A_FILE = 120
_NOT_LINTED = frozenset({"TL001", "TL002"})


@dataclass(frozen=True)
class Run:
    """How one run of the program ended."""

    status: int
    output: str
    errors: str


@dataclass(frozen=True)
class Program:
    """`trainlint check` on one tree."""

    tally: Tally
    copy: Copy
    cache: Path
    """The folder of the cache that runs share, unless they ask for none."""
    seconds: float
    """How long a run over the tree may take."""

    def run(self, paths: Sequence[Path], *options: str) -> Run | None:
        """Run, and hold against it if it crashes or takes too long; None then."""
        where = "the tree" if paths == [self.copy.root] else self.copy.name(paths[0])
        limit = self.seconds if paths == [self.copy.root] else SECONDS_FOR_A_FILE
        cache = () if "--no-cache" in options else ("--cache-dir", str(self.cache))
        command = [sys.executable, "-m", "trainlint", "check", *map(str, paths), *ALL_RULES, *cache, *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=self.copy.root.parent)
        except subprocess.TimeoutExpired:
            self.tally.fail(Kind.TIMEOUT, where, f"more than {limit:.0f} s with {' '.join(options)}")
            return None
        if done.returncode not in (0, 1) or "Traceback" in done.stderr:
            self.tally.fail(
                Kind.CRASH, where, f"status {done.returncode} with {' '.join(options)}: {done.stderr[-2000:]}"
            )
            return None
        return Run(done.returncode, done.stdout, done.stderr)

    def lint(self, paths: Sequence[Path], *options: str) -> Findings | None:
        """The findings in files, in the order in which they are reported; None where there is no report."""
        run = self.run(paths, "--output-format", "json", *options)
        if run is None:
            return None
        try:
            findings: Findings = json.loads(run.output)
        except ValueError as error:
            self.tally.fail(Kind.CRASH, "the tree", f"the report is no JSON: {error}")
            return None
        return findings


def lint_in_many_ways(program: Program) -> Findings | None:
    """Lint the whole tree; hold against it what other runs report differently, and files that Python understands."""
    copy, tally = program.copy, program.tally
    findings = program.lint([copy.root], "--jobs", "2")
    if findings is None:
        return None
    tally.findings = len(findings)
    for options in (("--jobs", "1"), ("--jobs", "1", "--no-cache")):
        again = program.lint([copy.root], *options)
        if again is not None and again != findings:
            tally.fail(Kind.UNSTABLE, "the tree", f"{' '.join(options)}: {_difference(findings, again)}")
    _check_errors(program, findings)
    for path in _sample(copy, findings):
        alone = program.lint([path])
        together = [finding for finding in findings if finding["filename"] == str(path)]
        if alone is not None and alone != together:
            tally.fail(Kind.UNSTABLE, copy.name(path), f"named alone: {_difference(together, alone)}")
    return findings


def _difference(expected: Findings, found: Findings) -> str:
    missing = [finding for finding in expected if finding not in found]
    added = [finding for finding in found if finding not in expected]
    first = (missing or added or expected)[0]
    place = (
        f"{first['filename']}:{first['location']['row']} {first['code']}" if first.get("location") else first["code"]
    )
    return f"{len(missing)} findings less, {len(added)} more, the first at {place}"


def _check_errors(program: Program, findings: Findings) -> None:
    """Files that both Python and libcst parse are linted."""
    for finding in findings:
        path = Path(finding["filename"])
        data = program.copy.files.get(path)
        if finding["code"] in _NOT_LINTED and data is not None and compiles(path, data) and parses(path, data):
            program.tally.fail(Kind.FALSE_ERROR, program.copy.name(path), finding["message"])


def _sample(copy: Copy, findings: Findings) -> list[Path]:
    """Some files, half of them with findings where there are that many; always the same ones."""
    chosen = random.Random(copy.root.name)
    flagged = sorted({Path(finding["filename"]) for finding in findings} & copy.files.keys())
    flagged = chosen.sample(flagged, min(len(flagged), FILES_ALONE // 2))
    others = [path for path in copy.files if path not in flagged]
    return flagged + chosen.sample(others, min(len(others), FILES_ALONE - len(flagged)))
