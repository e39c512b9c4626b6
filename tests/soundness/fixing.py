"""Applying all fixes to a tree, and holding the result against what they said that they would change."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from tests.soundness.linting import Findings, Program
from tests.soundness.tally import Kind
from tests.soundness.trees import compiles, parses, permissions

from trainlint.cli.fixing import applicable_kinds, fix_until_stable
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.result import Result
from trainlint.report.sources import Sources

FIX = ("--fix", "--unsafe-fixes", "--fix-only")
_FIXED = re.compile(r"Fixed (\d+) problem")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n?|\n|\Z)")


def fix_everything(program: Program, findings: Findings) -> None:
    """Apply all fixes to the copy; `findings` are those before."""
    copy, tally = program.copy, program.tally
    run = program.run([copy.root], *FIX)
    if run is None:
        return
    count = _FIXED.search(run.errors)
    tally.fixes = int(count[1]) if count else 0
    for line in run.errors.splitlines():
        if "warning:" in line:
            tally.fail(Kind.UNSETTLED, "the tree", line)
    changed = {path: path.read_bytes() for path, before in copy.files.items() if path.read_bytes() != before}
    rows = _rows_of_edits(findings)
    for path, after in changed.items():
        _check_parses(program, path, after)
        stray = set(rows_changed(copy.files[path], after)) - rows.get(path, set())
        for row in _stray_in_rounds(program, path) if stray else ():
            tally.fail(Kind.STRAY, f"{copy.name(path)}:{row}", "no fix has an edit on this row")
    for path, mode in copy.modes.items():
        if permissions(path) != mode:
            tally.fail(Kind.MODE, copy.name(path), f"{mode:o} became {permissions(path):o}")
    _check_settled(program, changed)


def _check_parses(program: Program, path: Path, after: bytes) -> None:
    before, name = program.copy.files[path], program.copy.name(path)
    if compiles(path, before) and not compiles(path, after):
        program.tally.fail(Kind.BROKEN, name, "it no longer compiles")
    if parses(path, before) and not parses(path, after):
        program.tally.fail(Kind.BROKEN, name, "libcst no longer parses it")


def _rows_of_edits(findings: Findings) -> dict[Path, set[int]]:
    """Rows that the edits of each file touch; what is inserted at the end of a row stands on the next one."""
    rows: dict[Path, set[int]] = {}
    for finding in findings:
        for edit in (finding["fix"] or {}).get("edits", ()):
            touched = range(edit["location"]["row"], edit["end_location"]["row"] + 2)
            rows.setdefault(Path(finding["filename"]), set()).update(touched)
    return rows


def rows_changed(before: bytes, after: bytes) -> Iterator[int]:
    """The rows that are no longer there as they were, and those that something was inserted before."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    for kind, start, end, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "insert":
            yield start + 1
        elif kind != "equal":
            # A removed row may as well be one of the blank ones around it, which look the same.
            yield from (row + 1 for row in range(start, end) if old[row].strip())


def _stray_in_rounds(program: Program, path: Path) -> set[int]:
    """Rows of a file that change in some round of fixing though no fix of that round has an edit on them.

    One fix makes room for another: rows that the findings at first say nothing about may change for a good reason.
    """
    before = program.copy.files[path]
    options = CheckOptions(
        overrides={"select": ["ALL"], "min-confidence": "low"}, isolated=True, cache_dir=program.cache
    )
    state, allowed, stray = before, set[int](), set[int]()

    def check_round(texts: Mapping[Path, bytes]) -> Result:
        nonlocal state, allowed
        result = check([path], replace(options, texts=program.copy.files | dict(texts)))
        text = texts.get(path, before)
        stray.update(set(rows_changed(state, text)) - allowed)
        sources = Sources({path: text})
        edits = [edit for reported in result.findings if reported.path == path for edit in sources.edits(reported)]
        state = text
        allowed = {row for edit in edits for row in range(edit.location.row, edit.end_location.row + 2)}
        return result

    fix_until_stable(check_round, {path: before}, applicable_kinds(unsafe_fixes=True))
    return stray


def _check_settled(program: Program, changed: dict[Path, bytes]) -> None:
    """Nothing is left to fix, and what is kept in the cache tells the same as linting anew."""
    copy, tally = program.copy, program.tally
    left = program.lint([copy.root])
    if left is None:
        return
    for finding in left:
        fix = finding["fix"]
        if fix and fix["edits"] and fix["applicability"] != "display":
            place = f"{copy.name(Path(finding['filename']))}:{finding['location']['row']}"
            tally.fail(Kind.UNSETTLED, place, f"{finding['code']} still has a fix: {fix['message']}")
    if not changed:
        return
    if program.lint([copy.root], "--no-cache") != left:
        tally.fail(Kind.UNSTABLE, "the tree", "after fixing, the cache tells something else than linting anew")
    program.run([copy.root], *FIX)
    for path, before in copy.files.items():
        if path.read_bytes() != changed.get(path, before):
            tally.fail(Kind.UNSETTLED, copy.name(path), "a second run of fixing changes it again")
