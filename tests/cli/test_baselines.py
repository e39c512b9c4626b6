"""`--write-baseline` and `--baseline`: what is listed is silent, what is new is not, what is gone is said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from program import Program
from training_programs import HEAD, programs

from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.report.baseline import as_json, baseline_of, read_baseline
from trainlint.report.sources import Sources

SYNC = "    total += loss.item()\n"
WRITE = (".", "--write-baseline", "known.json")
USE = (".", "--baseline", "known.json", "--output-format", "concise")


@given(source=programs())
@settings(max_examples=30, deadline=None)
def test_what_a_baseline_lists_is_silent(source: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    # Not beside the files of all other tests, which would be linted with it.
    folder = tmp_path_factory.getbasetemp() / "listed"
    folder.mkdir(exist_ok=True)
    path = folder / "program.py"
    texts = {path: source}
    findings = check([path], CheckOptions(texts=texts, cache=False, isolated=True, jobs=1)).findings
    baseline = read_baseline(as_json(baseline_of(findings, Sources(texts), folder)).encode(), folder)
    assert baseline.new(findings, Sources(texts)) == []
    assert not baseline.stale(findings, Sources(texts), [path])


def test_a_baseline_silences_what_was_found(program: Program) -> None:
    program.write({"a.py": HEAD + SYNC, "b.py": "x = (\n"})
    done = program(*WRITE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote 2 problems to known.json.\n")
    done = program(*USE)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "Found nothing in 2 files.\n2 more in the baseline.\n"


def test_the_file_lists_one_finding_a_line(program: Program) -> None:
    program.write({"src/a.py": HEAD + SYNC * 2})
    program("src", "--write-baseline", "src/known.json")
    written = json.loads(program.read("src/known.json"))
    (entry,) = written.pop("findings")
    assert written == {"format": "trainlint-baseline", "version": 1}
    assert len(entry.pop("fingerprint")) == 32
    assert entry == {"path": "a.py", "code": "TL201", "symbol": "", "count": 2}
    assert len(program.read("src/known.json").splitlines()) == 7


KEPT = {
    "moved": (SYNC, "\n\n" + HEAD, SYNC),
    "spaced otherwise": (SYNC, HEAD, SYNC.replace(" += ", "  +=  ")),
    "nested deeper": (SYNC, HEAD, "    if total:\n    " + SYNC),
}


@pytest.mark.parametrize(("before", "head", "after"), KEPT.values(), ids=KEPT)
def test_known_lines_stay_known(program: Program, before: str, head: str, after: str) -> None:
    program.write({"a.py": HEAD + before})
    program(*WRITE)
    program.write({"a.py": head + after})
    done = program(*USE)
    assert (done.returncode, done.stderr) == (0, "Found nothing in 1 file.\n1 more in the baseline.\n")


NEW = {
    "another line": (SYNC, SYNC + "    total -= loss.item()\n", [12]),
    "one more of the same": (SYNC, SYNC * 2, [12]),
}


@pytest.mark.parametrize(("before", "after", "rows"), NEW.values(), ids=NEW)
def test_new_lines_are_reported(program: Program, before: str, after: str, rows: list[int]) -> None:
    program.write({"a.py": HEAD + before})
    program(*WRITE)
    program.write({"a.py": HEAD + after})
    done = program(*USE)
    assert done.returncode == 1
    assert [int(line.split(":")[1]) for line in done.stdout.splitlines()] == rows


def test_the_same_line_in_another_file_is_new(program: Program) -> None:
    program.write({"a.py": HEAD + SYNC})
    program(*WRITE)
    program.write({"b.py": HEAD + SYNC})
    assert program(*USE).stdout.startswith("b.py:11:")


STALE = {
    "mended": ("a.py", HEAD, ()),
    "one of several": ("b.py", HEAD + SYNC, ()),
    "a file that is gone": ("a.py", None, ("b.py",)),
}


@pytest.mark.parametrize(("name", "text", "paths"), STALE.values(), ids=STALE)
def test_what_is_gone_is_said(program: Program, name: str, text: str | None, paths: tuple[str, ...]) -> None:
    program.write({"a.py": HEAD + SYNC, "b.py": HEAD + SYNC * 2})
    program(*WRITE)
    if text is None:
        (program.folder / name).unlink()
    else:
        program.write({name: text})
    done = program(*(paths or (".",)), *USE[1:])
    assert done.returncode == 0
    assert done.stderr.splitlines()[:2] == [
        f"trainlint: warning: known.json is stale: TL201 in {name} is not found any more",
        f"trainlint: warning: `trainlint {' '.join(paths or ('.',))} --write-baseline known.json` drops what is stale, "
        "and lists what is new",
    ]
    assert "stale" not in program(*(paths or (".",)), *USE[1:], "--quiet").stderr


@pytest.mark.parametrize("arguments", [["b.py"], [".", "--select", "TL3"], [".", "--min-severity", "error"]])
def test_what_was_not_looked_for_is_not_stale(program: Program, arguments: list[str]) -> None:
    program.write({"a.py": HEAD + SYNC, "b.py": HEAD})
    program(*WRITE)
    program.write({"a.py": HEAD})
    assert "stale" not in program(*arguments, *USE[1:]).stderr


ENTRY = {"path": "a.py", "code": "TL201", "symbol": "", "fingerprint": "0" * 32, "count": 1}
BASELINE = {"format": "trainlint-baseline", "version": 1, "findings": [ENTRY]}
BROKEN = {
    "a conflict of a merge": ("<<<<<<< HEAD\n" + json.dumps(BASELINE), "is no baseline: invalid JSON"),
    "a later version": (json.dumps(BASELINE | {"version": 2}), "has a version other than 1"),
    "a key that is not known": (json.dumps(BASELINE | {"a": 1}), "is no baseline: `a`: "),
    "a count of none": (json.dumps(BASELINE | {"findings": [ENTRY | {"count": 0}]}), "`findings.0.count`: "),
    "no fingerprint": (json.dumps(BASELINE | {"findings": [ENTRY | {"fingerprint": "x"}]}), "`findings.0.fingerprint`"),
    "empty": ("", "is no baseline: invalid JSON"),
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_an_error_that_says_what_to_do(program: Program, text: str, reason: str) -> None:
    program.write({"known.json": text})
    done = program(*USE)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("trainlint: error: `--baseline known.json` ")
    assert reason in done.stderr
    assert done.stderr.endswith("`--write-baseline known.json` makes it anew\n")


def test_bytes_that_are_no_text_are_no_baseline(program: Program) -> None:
    (program.folder / "known.json").write_bytes(b"\xff")
    assert "is not UTF-8 text" in program(*USE).stderr


OTHERS = {
    "configuration": ("pyproject.toml", '[project]\nname = "a"\n'),
    "code": ("a.py", HEAD),
    "other JSON": ("package.json", '{"name": "a"}'),
}


@pytest.mark.parametrize(("name", "text"), OTHERS.values(), ids=OTHERS)
def test_a_file_that_is_something_else_is_left_alone(program: Program, name: str, text: str) -> None:
    program.write({name: text})
    done = program(".", "--baseline", name)
    assert (done.returncode, "is no baseline" in done.stderr) == (2, True)
    assert "--write-baseline" not in done.stderr
    done = program(".", "--write-baseline", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"trainlint: error: `--write-baseline {name}` would destroy what is in that file, ")
    assert program.read(name) == text


@pytest.mark.parametrize("text", [text for text, _ in BROKEN.values()], ids=BROKEN)
def test_a_damaged_baseline_is_made_anew(program: Program, text: str) -> None:
    program.write({"a.py": HEAD + SYNC, "known.json": text})
    assert program(*WRITE).returncode == 0
    assert program(*USE).returncode == 0


UNUSABLE = {
    "missing": ((".", "--baseline", "none.json"), "there is no such file; `--write-baseline none.json` makes it"),
    "a folder": ((".", "--baseline", "."), "cannot be read: is a directory"),
    "nowhere to write": ((".", "--write-baseline", "none/a.json"), "cannot be written: no such file or directory"),
    "two at once": ((*WRITE, "--baseline", "known.json"), "cannot be given together with `--baseline`"),
    "nothing to be written": ((*WRITE, "--diff"), "cannot be given together with `--diff`"),
}


@pytest.mark.parametrize(("arguments", "message"), UNUSABLE.values(), ids=UNUSABLE)
def test_what_makes_no_sense_is_refused(program: Program, arguments: tuple[str, ...], message: str) -> None:
    done = program(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (program.folder / "known.json").exists()


def test_a_baseline_that_is_written_again_lists_what_is_there(program: Program) -> None:
    program.write({"a.py": HEAD + SYNC})
    program(*WRITE)
    program.write({"a.py": HEAD})
    program(*WRITE)
    assert json.loads(program.read("known.json"))["findings"] == []


def test_writing_says_what_changed_in_the_list(program: Program) -> None:
    program.write({"a.py": HEAD + SYNC, "b.py": HEAD + SYNC * 2})
    program(*WRITE)
    assert program(*WRITE).stderr == "Wrote 3 problems to known.json.\n"
    program.write({"a.py": HEAD + SYNC + "    print(total)\n", "b.py": HEAD})
    done = program(*WRITE, "--output-format", "json")
    assert done.stderr == "Wrote 2 problems to known.json.\n1 added to what it listed, 2 removed.\n"


def test_what_is_listed_of_other_paths_is_kept(program: Program) -> None:
    """The command that a stale baseline proposes in a part of the project loses nothing of the rest."""
    program.write({"src/a.py": HEAD + SYNC, "other/b.py": HEAD + SYNC, "gone.py": HEAD + SYNC})
    program(*WRITE)
    program.write({"src/a.py": HEAD})
    (program.folder / "gone.py").unlink()
    inside = Program(program.folder / "src", program.forks)
    hint = inside(".", "--baseline", "../known.json").stderr.splitlines()[2]
    command = hint.split("`")[1].split()
    assert command == ["trainlint", ".", "--write-baseline", "../known.json"]
    done = inside(*command[1:])
    assert done.stderr.splitlines() == [
        "Wrote 0 problems to ../known.json.",
        "0 added to what it listed, 2 removed.",
        "1 more kept, of files outside of the paths given.",
    ]
    assert [entry["path"] for entry in json.loads(program.read("known.json"))["findings"]] == ["other/b.py"]
    assert "stale" not in program(*USE).stderr


def test_known_findings_are_not_fixed(program: Program) -> None:
    text = "x = 1  # trainlint: ignore[TL201] old\n"
    program.write({"a.py": text})
    program(*WRITE)
    assert program(*USE, "--fix").returncode == 0
    assert program.read("a.py") == text


def test_paths_count_from_the_folder_of_the_baseline(program: Program) -> None:
    program.write({"src/a.py": HEAD + SYNC})
    program(*WRITE)
    inside = Program(program.folder / "src", program.forks)
    assert inside(".", "--baseline", "../known.json").returncode == 0
