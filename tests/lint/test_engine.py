"""What `check` promises: the same answer however it is asked for, and an answer whatever happens."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from projects_on_disk import TRAINING, codes, lines, run, write

from trainlint.config.errors import ConfigError
from trainlint.lint import checking, workers
from trainlint.lint.cache import FILE, FOLDER
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.finding import Finding, Severity
from trainlint.lint.registry import load_registry
from trainlint.lint.rule import Rule
from trainlint.semantics.project import Project

SYNC = "lib/numbers.py:2:12 TL201"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", TRAINING)


# ------------------------------------------------------------------------------------------------- the same answer


def test_a_sync_two_files_away_is_found_in_its_file(project: Path) -> None:
    result = run(project)
    assert lines(result, project) == [SYNC]
    assert result.checked_files == 5
    assert result.errors == result.warnings == ()


def test_a_file_alone_is_reported_as_in_its_folder(project: Path) -> None:
    whole = run(project).findings
    file, folder = project / "lib/numbers.py", project / "lib"
    assert strip(run(file).findings) == strip(run(folder).findings) == strip(whole)
    assert run(project / "train.py").findings == ()


def test_a_text_in_memory_is_reported_as_the_file_is(project: Path) -> None:
    file = project / "lib/numbers.py"
    data = file.read_bytes()
    file.write_text("def value_of(tensor):\n    return tensor\n")
    assert lines(run(file, texts={file: data}), project) == [SYNC]
    file.unlink()
    assert lines(run(file, texts={file: data}), project) == [SYNC]


def test_a_relative_path_means_the_same(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "lib")
    assert lines(run(Path("numbers.py")), project) == [SYNC]


def test_processes_do_not_matter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORTHWHILE", 1)
    assert strip(run(project, jobs=3).findings) == strip(run(project, jobs=1).findings)


def test_the_cache_does_not_matter(project: Path) -> None:
    cold = run(project, cache=True)
    warm = run(project, cache=True)
    alone = run(project / "lib/numbers.py", cache=True)
    assert strip(cold.findings) == strip(warm.findings) == strip(alone.findings) == strip(run(project).findings)
    assert (project / FOLDER / FILE).exists()


def test_a_warm_run_parses_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, cache=True)
    monkeypatch.setattr(workers, "outcome_of", None)
    monkeypatch.setattr(checking.ProjectCheck, "_analyse", None)
    assert lines(run(project, cache=True), project) == [SYNC]


def test_only_changed_files_are_parsed_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, cache=True)
    changed = project / "lib/numbers.py"
    changed.write_text("\n" + changed.read_text())
    parsed: list[str] = []
    outcome_of = workers.outcome_of
    monkeypatch.setattr(workers, "outcome_of", lambda text: parsed.append(text) or outcome_of(text))
    assert lines(run(project, cache=True), project) == ["lib/numbers.py:3:12 TL201"]
    assert parsed == [changed.read_text()]


CHANGES = {
    "a caller": ("train.py", "for step in range(1000):", "if True:"),
    "a callee": ("lib/numbers.py", "tensor.item()", "tensor"),
    "what is imported": ("lib/step.py", "from lib.numbers import value_of", "from lib.other import value_of"),
    "the configuration": ("pyproject.toml", "", '[tool.trainlint]\nignore = ["TL201"]\n'),
}


@pytest.mark.parametrize(("path", "before", "after"), CHANGES.values(), ids=CHANGES)
def test_a_change_elsewhere_is_seen_at_once(project: Path, path: str, before: str, after: str) -> None:
    assert lines(run(project / "lib", cache=True), project) == [SYNC]
    file = project / path
    file.write_text(file.read_text().replace(before, after) if before else after)
    assert run(project / "lib", cache=True).findings == run(project / "lib").findings == ()


def test_a_project_may_be_moved_with_its_cache(project: Path, tmp_path: Path) -> None:
    run(project, cache=True)
    moved = tmp_path / "moved"
    shutil.move(project, moved)
    result = run(moved, cache=True)
    assert lines(result, moved) == [SYNC]
    assert result.findings[0].path == moved / "lib/numbers.py"


def test_a_broken_cache_does_not_matter(project: Path) -> None:
    run(project, cache=True)
    (project / FOLDER / FILE).write_bytes(b"?" * 10_000)
    assert lines(run(project, cache=True), project) == [SYNC]
    with sqlite3.connect(project / FOLDER / FILE) as connection:
        connection.execute('UPDATE entries SET value = \'[[],[["Path","x"]]]\'')
    connection.close()
    assert lines(run(project, cache=True), project) == [SYNC]


def test_the_cache_may_lie_elsewhere(project: Path, tmp_path: Path) -> None:
    run(project, cache=True, cache_dir=tmp_path / "cache")
    assert (tmp_path / "cache" / FILE).exists()
    assert not (project / FOLDER).exists()


def test_an_excluded_file_that_is_named_does_not_change_the_others(project: Path) -> None:
    write(project, {"build/train.py": TRAINING["train.py"].replace("for step in range(1000)", "if True")})
    (project / "train.py").unlink()
    excluded, step = project / "build/train.py", project / "lib/numbers.py"
    assert run(step).findings == run(excluded, step).findings == ()
    assert run(excluded, step).checked_files == 2
    assert run(excluded, step, force_exclude=True).checked_files == 1


def test_scripts_without_a_project_see_what_is_around_them(tmp_path: Path) -> None:
    root = write(tmp_path / "scripts", TRAINING)
    (root / "pyproject.toml").unlink()
    assert lines(run(root), root) == lines(run(root / "lib/numbers.py"), root) == [SYNC]


def test_a_script_in_a_place_for_everything_sees_its_neighbours_only(tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    root = write(place, TRAINING)
    (root / "pyproject.toml").unlink()
    place.chmod(0o1777)
    assert lines(run(place / "train.py"), place) == []
    assert run(place / "train.py").checked_files == 1


def test_an_excluded_text_in_memory_is_left_out_on_demand(project: Path) -> None:
    texts = {project / "build/new.py": b"x = (\n"}
    assert codes(run(*texts, texts=texts)) == ["TL001"]
    assert run(*texts, texts=texts, force_exclude=True).checked_files == 0


def test_projects_that_are_checked_together_stay_apart(project: Path, tmp_path: Path) -> None:
    other = write(tmp_path / "other", TRAINING)
    (other / "train.py").unlink()
    assert lines(run(project, other), tmp_path) == [f"project/{SYNC}"]


def test_nested_configurations_govern_their_own_files(project: Path) -> None:
    (project / "lib/trainlint.toml").write_text('[severity]\nTL201 = "error"\n')
    (found,) = run(project).findings
    assert found.finding.severity is Severity.ERROR
    assert strip(run(project / "lib/numbers.py").findings) == strip((found,))


# -------------------------------------------------------------------------------------------------- broken files

FILES = {
    "does not parse, in reach of training": (b"import torch\nx = (\n", "TL001"),
    "does not parse, elsewhere": (b"x = (\n", "TL001"),
    "is not in its encoding": (b"import torch\nx = '\xff'\n", "TL002"),
    "is not in its encoding, elsewhere": (b"x = '\xff'\n", "TL002"),
    "is no text": (b"import torch\0", "TL002"),
    "nests too deep": (b"import torch\nx = " + b"(" * 3000 + b")" * 3000, "TL001"),
    "nests too deep, elsewhere": (b"x = " + b"(" * 3000 + b")" * 3000, "TL001"),
    "is too large": (b"import torch\nx.cuda()\n" * 90_000, "TL002"),
    "has a statement that is too long": (b"import torch\nx = (" + b"'a'\n" * 5_000 + b")\n", "TL002"),
}


@pytest.mark.parametrize(("data", "code"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_linted_is_a_finding_and_the_others_are_linted(
    project: Path, data: bytes, code: str
) -> None:
    (project / "broken.py").write_bytes(data)
    for _ in range(2):
        result = run(project, cache=True)
        assert sorted(codes(result)) == sorted([code, "TL201"])
        assert result.errors == ()


def test_a_broken_file_in_the_middle_does_not_stop_the_analysis(project: Path) -> None:
    (project / "model.py").write_text("class Net(\n")
    assert "model.py:1" in lines(run(project), project)[-1]
    assert codes(run(project / "model.py")) == ["TL001"]
    assert run(project / "train.py").errors == ()


def test_a_limit_of_trainlint_is_named_as_one_and_the_rest_of_the_file_is_checked(project: Path) -> None:
    step = project / "lib/numbers.py"
    step.write_text(f"{step.read_text()}\nTABLE = (\n    {' + '.join(['a'] * 5_000)}\n)\n")
    for _ in range(2):
        sync, limit = run(step, cache=True).findings
        assert sync.finding.code == "TL201"
        assert limit.finding.message == (
            "This statement is left out of the analysis: an expression chains more than 1500 operators, "
            "which is a limit of trainlint, not a fault of the code"
        )
        assert limit.finding.severity is Severity.WARNING
    step.write_text(step.read_text().replace("TABLE = (", "TABLE = (  # trainlint: ignore[TL002] generated"))
    assert codes(run(step)) == ["TL201"]


def test_a_file_that_only_a_newer_python_can_read_is_no_syntax_error(project: Path) -> None:
    (project / "newer.py").write_text("type Pair[T] = tuple[T, T]\n")
    assert codes(run(project / "newer.py")) == []


def test_a_path_that_does_not_exist_is_an_unreadable_file(project: Path) -> None:
    assert lines(run(project, project / "nowhere.py"), project) == [SYNC, "nowhere.py:1:1 TL002"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text_is_fine(project: Path) -> None:
    name = os.fsdecode(b"caf\xe9.py")
    (project / "lib/step.py").write_text((project / "lib/step.py").read_text().replace("lib.numbers", "lib.other"))
    (project / name).write_text("import torch\nscaler = torch.cuda.amp.GradScaler()\n")
    for _ in range(2):
        assert lines(run(project, cache=True), project) == [f"{name}:2:10 TL405"]


def test_an_empty_file_is_fine(project: Path) -> None:
    (project / "empty.py").write_bytes(b"")
    assert run(project / "empty.py").findings == ()


def test_a_parser_that_crashes_costs_one_file(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = workers.Crashed()
    texts = (project / "model.py").read_text()
    outcome_of = workers.outcome_of
    monkeypatch.setattr(workers, "outcome_of", lambda text: crashed if text == texts else outcome_of(text))
    result = run(project, cache=True)
    assert lines(result, project)[-1] == "model.py:1:1 TL002"
    monkeypatch.setattr(workers, "outcome_of", outcome_of)
    assert lines(run(project, cache=True), project) == [SYNC]


def test_a_defect_of_the_analysis_is_an_error_that_is_not_remembered(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome_of = workers.outcome_of
    failed = workers.Failed("KeyError: 1", "Traceback …")
    monkeypatch.setattr(workers, "outcome_of", lambda text: failed if "class Net" in text else outcome_of(text))
    (error,) = run(project, cache=True).errors
    assert error == f"internal error: the analysis failed on {project / 'model.py'}: KeyError: 1"
    monkeypatch.setattr(workers, "outcome_of", outcome_of)
    assert run(project, cache=True).errors == ()


# --------------------------------------------------------------------------------------------------------- rules


def test_a_rule_that_fails_is_an_error_and_the_others_go_on(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Rule, project: Project) -> Iterator[Finding]:
        raise ZeroDivisionError("what")

    monkeypatch.setattr(load_registry().rules["TL405"], "check", fail)
    result = run(project, cache=True)
    assert lines(result, project) == [SYNC]
    (error,) = result.errors
    assert error.startswith("internal error: TL405 deprecated-amp failed on ")
    assert error.endswith("ZeroDivisionError: what")
    assert "Traceback" in run(project, cache=True, verbose=True).errors[0]
    monkeypatch.undo()
    assert run(project, cache=True).errors == ()


def test_a_fix_that_fails_leaves_the_finding(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_registry().rules["TL201"], "fix", None)
    result = run(project)
    assert lines(result, project) == [SYNC]
    assert "the fix of TL201" in result.errors[0]


def test_findings_carry_their_fixes_from_the_cache_too(tmp_path: Path) -> None:
    source = "import torch\n\nscaler = torch.cuda.amp.GradScaler()\n"
    root = write(tmp_path, {"train.py": source})
    cold, warm = run(root, cache=True), run(root, cache=True)
    assert codes(cold) == ["TL405"]
    assert cold.findings[0].finding.fix == warm.findings[0].finding.fix is not None


def test_each_rule_is_timed(project: Path) -> None:
    assert "TL201" in dict(run(project, timings=True).rule_seconds)


def test_progress_counts_the_files_that_are_parsed(project: Path) -> None:
    told: list[tuple[int, int]] = []
    options: dict[str, object] = {"cache": True, "progress": lambda done, total: told.append((done, total))}
    run(project, **options)
    assert told
    assert told == [(done, len(told)) for done in range(1, len(told) + 1)]
    told.clear()
    run(project, **options)
    assert told == []


def test_settings_apply(project: Path) -> None:
    assert codes(run(project, overrides={"ignore": ["TL201"]})) == []
    assert codes(run(project, overrides={"per-file-ignores": {"numbers.py": ["ALL"]}})) == []
    assert codes(run(project, overrides={"severity": {"TL201": "info"}}, min_severity="warning")) == []
    assert run(project, overrides={"severity": {"TL201": "info"}}).findings[0].finding.severity is Severity.INFO


def test_settings_that_are_wrong_are_refused_from_the_cache_too(project: Path) -> None:
    run(project, cache=True)
    for _ in range(2):
        with pytest.raises(ConfigError, match="TL201"):
            run(project, cache=True, overrides={"select": ["TL2011"]})


# ------------------------------------------------------------------------------------------------------ positions


def test_columns_count_characters(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": 'import torch\n\nx = ("äöü", torch.cuda.amp.GradScaler())\n'})
    (found,) = run(root).findings
    assert (found.location.row, found.location.column) == (3, 13)
    assert found.url == "https://trainlint.readthedocs.io/en/latest/rules/deprecated-amp/"


def test_a_suppression_goes_to_the_last_row_of_the_logical_line(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": "import torch\n\nx = [\n    torch.cuda.amp.GradScaler(),\n    1,\n]\n"})
    assert run(root).findings[0].noqa_row == 6


SUPPRESSIONS = {
    "none": ("{0}", ["TL405"]),
    "by code": ("{0}  # trainlint: ignore[TL405] why", []),
    "by name": ("{0}  # trainlint: ignore[deprecated-amp] why", []),
    "everything": ("{0}  # trainlint: ignore why", []),
    "noqa": ("{0}  # noqa: TL405", []),
    "a bare noqa": ("{0}  # noqa", []),
    "another code": ("{0}  # trainlint: ignore[TL201] why", ["TL405", "TL003"]),
    "another tool's code": ("{0}  # noqa: F401", ["TL405"]),
    "the file": ("# trainlint: ignore-file[TL4] why\n{0}", []),
    "a range": ("# trainlint: off[TL405] why\n{0}\n# trainlint: on", []),
    "after a range": ("# trainlint: off[TL405] why\n# trainlint: on\n{0}", ["TL003", "TL003", "TL405"]),
    "nothing to silence": ("x = 1  # trainlint: ignore[TL405] why", ["TL003"]),
    "nothing to silence, everything": ("x = 1  # trainlint: ignore", ["TL003"]),
    "nothing to silence, but said to be": ("x = 1  # trainlint: ignore[TL405, TL003] why", []),
    "nothing to silence, in a file that says so": ("# trainlint: ignore-file[TL003] why\nx = 1  # noqa: TL405", []),
    "a rule that did not take part": ("x = 1  # trainlint: ignore[TL004] why", []),
    "a rule that is not known": ("x = 1  # trainlint: ignore[no-such-rule] why", ["TL003"]),
    "misspelt": ("{0}  # trainlint: ignores[TL405]", ["TL405", "TL003"]),
}


@pytest.mark.parametrize(("text", "expected"), SUPPRESSIONS.values(), ids=SUPPRESSIONS)
def test_suppressions(tmp_path: Path, text: str, expected: list[str]) -> None:
    root = write(tmp_path, {"a.py": "import torch\n" + text.format("scaler = torch.cuda.amp.GradScaler()")})
    assert codes(run(root)) == expected


UNKNOWN = {
    "a slip": ("deprecated-ampp", "; there is no rule deprecated-ampp, did you mean deprecated-amp?"),
    "nothing near": ("zzz-zzz", "; there is no rule zzz-zzz"),
    "one of two": ("TL405, zzz-zzz", "; there is no rule zzz-zzz"),
    "a rule that is there": ("TL405", ""),
    "a prefix": ("TL4", ""),
}


@pytest.mark.parametrize(("pattern", "told"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_suppression_of_a_rule_that_does_not_exist_says_so(tmp_path: Path, pattern: str, told: str) -> None:
    root = write(tmp_path, {"a.py": f"x = 1  # trainlint: ignore[{pattern}] why"})
    (found,) = run(root).findings
    assert found.finding.message == f"The suppression of {pattern} silences nothing{told}"


def test_paths_without_anything_to_lint_are_named(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": "x = 1", "empty/a.txt": "", "full/a.py": "x = 1"})
    assert run(root, root / "full").warnings == ()
    assert run(root / "gone.py").warnings == (f"{root / 'gone.py'}: no such file or folder",)
    told = run(root / "empty", root / "full").warnings
    assert told == (f"{root / 'empty'}: no Python files or notebooks found in this folder",)


def test_suppressions_are_read_in_files_without_training_code(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": "x = 1  # noqa: TL405"})
    (found,) = run(root).findings
    assert found.finding.code == "TL003"
    assert found.finding.fix is not None


def test_reasons_are_asked_for_by_a_setting(tmp_path: Path) -> None:
    root = write(tmp_path, {"a.py": "import torch\nscaler = torch.cuda.amp.GradScaler()  # trainlint: ignore[TL405]\n"})
    assert codes(run(root)) == []
    assert codes(run(root, overrides={"require-suppression-reason": True})) == ["TL004"]


def test_the_order_is_path_row_column_code(tmp_path: Path) -> None:
    scaler = "torch.cuda.amp.GradScaler()"
    root = write(tmp_path, dict.fromkeys(("b.py", "a.py", "c/a.py"), f"import torch\nx = {scaler}, {scaler}\n"))
    expected = [f"{name}:2:{column} TL405" for name in ("a.py", "b.py", "c/a.py") for column in (5, 34)]
    assert lines(check([root], CheckOptions(cache=False)), root) == expected


def strip(findings: object) -> list[str]:
    """Findings without the identity of their entry points."""
    return [repr(one) for one in findings]  # type: ignore[attr-defined]
