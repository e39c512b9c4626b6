"""Comments that silence every example, and baselines of them, on programs written in ways that are hard to edit."""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from test_examples import CASES, unmarked
from test_examples_hard_text import LAYOUTS, LINE_END, PROLOGUES, Rewrite

from trainlint.cli.program import run as run_program
from trainlint.lint.rule import FileRule

FIRST = {rule: example for rule, example in reversed(CASES) if not example.valid and not issubclass(rule, FileRule)}
"""The first example of each rule that is reported."""
WAYS = LAYOUTS | PROLOGUES
ALL = ("--select", "ALL", "--ignore", "TL004", "--min-confidence", "low", "--no-cache", "--jobs", "1")


def run(*arguments: str | Path) -> str:
    """What the program prints; it must not fail."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = run_program([*map(str, arguments), *ALL])
    assert status in (0, 1), errors.getvalue()
    return output.getvalue()


def reported(folder: Path) -> list[tuple[str, str, int]]:
    found = json.loads(run(folder, "--output-format", "json"))
    return [(Path(one["filename"]).parent.name, one["code"], one["location"]["row"]) for one in found]


@pytest.fixture(params=WAYS)
def programs(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with a project for each example, all written in one way."""
    rewrite: Rewrite = WAYS[request.param]
    for number, (rule, example) in enumerate(FIRST.items()):
        project = tmp_path / f"{rule.code}-{number}"
        for name, text in unmarked(example.files).items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((rewrite(text) if name == example.entry else text).encode())
        (project / "pyproject.toml").write_bytes(b"")
    return tmp_path


def texts(folder: Path) -> dict[Path, str]:
    return {path: path.read_bytes().decode() for path in sorted(folder.rglob("*.py"))}


def test_comments_silence_all_and_change_nothing_else(programs: Path) -> None:
    before = texts(programs)
    assert reported(programs)
    run(programs, "--add-suppressions=known")
    assert reported(programs) == []
    after = texts(programs)
    assert {path: _tree(text) for path, text in after.items()} == {path: _tree(text) for path, text in before.items()}
    assert all(LINE_END.findall(after[path]) == LINE_END.findall(text) for path, text in before.items())
    run(programs, "--add-suppressions=known")
    assert texts(programs) == after


def test_a_baseline_silences_all_and_still_does_when_rows_have_moved(programs: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    run(programs, "--write-baseline", baseline)
    assert reported_against(programs, baseline) == []
    for path, text in texts(programs).items():
        if not text.startswith(("#!", '"""')):
            path.write_bytes(("# moved\n\n" + text).encode())
    assert reported_against(programs, baseline) == []


def reported_against(folder: Path, baseline: Path) -> list[object]:
    found: list[object] = json.loads(run(folder, "--output-format", "json", "--baseline", baseline))
    return found


def _tree(text: str) -> str:
    return ast.dump(ast.parse(LINE_END.sub("\n", text)))
