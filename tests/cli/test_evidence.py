"""`check --evidence`: verdicts of a run join the findings for as long as these are about the code that ran."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import Program
from tests.probed_code import (
    CONFIRMED,
    DATA_BOUND,
    INCONCLUSIVE,
    NOT_EXERCISED,
    REFUTED,
    result_of,
    unpredicted_sync,
    write_result,
)

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(torch.randn(1000, 4)), batch_size=8, num_workers=2, pin_memory=True)
for (batch,) in loader:
    loss = model(batch.to("cuda", non_blocking=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    print("loss", loss.item())
    optimizer.step()
    print("loss", loss.item())
"""
SYNCS = {"12 TL201": CONFIRMED, "14 TL201": REFUTED}
PRINT = '    print("loss", loss.item())\n'


def found(program: Program, *arguments: str) -> dict[str, tuple[str, str | None]]:
    """Severity and verdict of each finding, by `ROW CODE`."""
    done = program("check", "train.py", "--output-format", "json", "--select", "TL201", *arguments)
    assert done.returncode == 1, done.stderr
    return {
        f"{one['location']['row']} {one['code']}": (one["severity"], one["verdict"] and one["verdict"]["status"])
        for one in json.loads(done.stdout)
    }


@pytest.fixture
def probed(program: Program) -> Program:
    """A program with a script, and the result of a probe of it."""
    program.write({"train.py": TRAIN, "pyproject.toml": ""})
    write_result(program.folder / "probe.json", result_of(program.folder, SYNCS))
    return program


def test_what_is_confirmed_weighs_more_and_what_is_refuted_is_a_hint(probed: Program) -> None:
    assert found(probed, "--evidence", "probe.json") == {
        "12 TL201": ("error", "confirmed"),
        "14 TL201": ("hint", "refuted"),
    }
    assert found(probed) == {"12 TL201": ("warning", None), "14 TL201": ("warning", None)}


def test_what_was_not_decided_weighs_what_it_did(program: Program) -> None:
    program.write({"train.py": TRAIN, "pyproject.toml": ""})
    verdicts = {"12 TL201": NOT_EXERCISED, "14 TL201": INCONCLUSIVE}
    write_result(program.folder / "probe.json", result_of(program.folder, verdicts))
    assert found(program, "--evidence", "probe.json") == {
        "12 TL201": ("warning", "not-exercised"),
        "14 TL201": ("warning", "inconclusive"),
    }


def test_the_least_severity_is_that_after_the_run(probed: Program) -> None:
    evidence = ("--evidence", "probe.json")
    assert list(found(probed, *evidence, "--min-severity", "info")) == ["12 TL201"]
    assert list(found(probed, *evidence, "--min-severity", "error")) == ["12 TL201"]
    assert probed("check", "train.py", "--min-severity", "error").returncode == 0


EDITS = {
    "nothing": (TRAIN, {"12 TL201": "confirmed", "14 TL201": "refuted"}),
    "rows above": ("import os\n\n" + TRAIN, {"14 TL201": "confirmed", "16 TL201": "refuted"}),
    "a row between": (
        TRAIN.replace("    optimizer.step()\n", "    optimizer.step()\n    optimizer.zero_grad()\n"),
        {"12 TL201": "confirmed", "15 TL201": "refuted"},
    ),
    "one of the rows": (
        TRAIN.replace(PRINT, '    print("the loss", loss.item())\n', 1),
        {"12 TL201": None, "14 TL201": "refuted"},
    ),
    "the spacing of a row": (
        TRAIN[: -len(PRINT)] + PRINT.replace("(", "( "),
        {"12 TL201": "confirmed", "14 TL201": None},
    ),
    "a comment at the end of a row": (
        TRAIN[: -len(PRINT)] + PRINT.replace("\n", "  # each\n"),
        {"12 TL201": "confirmed", "14 TL201": None},
    ),
    "one of the rows away": (TRAIN.replace(PRINT, "", 1), {"13 TL201": "refuted"}),
    "one of the rows, and what tells it from the other, away": (
        TRAIN.replace(f"{PRINT}    optimizer.step()\n", "", 1),
        {"12 TL201": None},
    ),
    "an equal row beside": (TRAIN + PRINT, {"12 TL201": "confirmed", "14 TL201": None, "15 TL201": None}),
}


@pytest.mark.parametrize(("text", "expected"), EDITS.values(), ids=EDITS)
def test_a_verdict_follows_its_row_and_no_other(probed: Program, text: str, expected: dict[str, str | None]) -> None:
    probed.write({"train.py": text})
    statuses = {place: status for place, (_, status) in found(probed, "--evidence", "probe.json").items()}
    assert statuses == expected


STEP_ROW = 13
"""A row that no rule flags."""


def shown_by_runs(program: Program, *arguments: str) -> list[tuple[str, int, str]]:
    done = program("check", "--output-format", "json", "--select", "TL9", "--evidence", "probe.json", *arguments)
    return [
        (Path(one["filename"]).name, one["location"]["row"], f"{one['code']} {one['severity']}")
        for one in json.loads(done.stdout)
    ]


@pytest.fixture
def with_a_surprise(program: Program) -> Program:
    """A program, and the result of a probe that shows what no rule predicted."""
    program.write({"train.py": TRAIN, "other.py": TRAIN, "pyproject.toml": ""})
    runtime = [DATA_BOUND, unpredicted_sync(program.folder / "train.py", STEP_ROW)]
    write_result(program.folder / "probe.json", result_of(program.folder, SYNCS, runtime=runtime))
    return program


def test_what_a_run_shows_of_a_row_is_a_finding_and_what_it_shows_of_no_row_is_for_its_report(
    with_a_surprise: Program,
) -> None:
    assert shown_by_runs(with_a_surprise) == [("train.py", STEP_ROW, "TL910 warning")]
    assert shown_by_runs(with_a_surprise, "other.py") == []
    assert with_a_surprise("check", "train.py", "--select", "TL910", "--evidence", "probe.json").returncode == 1
    assert with_a_surprise("check", "train.py", "--select", "TL910").returncode == 0


SURPRISES = {
    "nothing": (TRAIN, [STEP_ROW]),
    "rows above": ("import os\n\n" + TRAIN, [STEP_ROW + 2]),
    "the row": (TRAIN.replace("optimizer.step()", "optimizer.step(None)"), []),
    "its spacing": (TRAIN.replace("optimizer.step()", "optimizer.step( )"), []),
    "an equal row beside": (TRAIN.replace("    optimizer.step()\n", "    optimizer.step()\n" * 2), []),
    "the row away": (TRAIN.replace("    optimizer.step()\n", ""), []),
    "all of the text": ("", []),
}


@pytest.mark.parametrize(("text", "rows"), SURPRISES.values(), ids=SURPRISES)
def test_what_a_run_shows_of_a_row_follows_it_and_no_other(
    with_a_surprise: Program, text: str, rows: list[int]
) -> None:
    with_a_surprise.write({"train.py": text})
    assert [row for _, row, _ in shown_by_runs(with_a_surprise)] == rows


CONFIGURED = {
    "ignored": ('[tool.trainlint]\nextend-select = ["TL9"]\nignore = ["TL910"]\n', []),
    "ignored in the file": ('[tool.trainlint.per-file-ignores]\n"train.py" = ["unpredicted-sync"]\n', []),
    "less severe": ('[tool.trainlint.severity]\nTL910 = "hint"\n', ["TL910 hint"]),
}


@pytest.mark.parametrize(("configuration", "shown"), CONFIGURED.values(), ids=CONFIGURED)
def test_the_configuration_holds_for_what_a_run_shows(
    with_a_surprise: Program, configuration: str, shown: list[str]
) -> None:
    with_a_surprise.write({"pyproject.toml": configuration})
    done = with_a_surprise("check", "train.py", "--output-format", "json", "--evidence", "probe.json")
    assert [f"{one['code']} {one['severity']}" for one in json.loads(done.stdout) if one["code"] == "TL910"] == shown


def test_a_comment_silences_what_a_run_shows(program: Program) -> None:
    silenced = TRAIN.replace("optimizer.step()", "optimizer.step()  # trainlint: ignore[TL910] known")
    program.write({"train.py": silenced, "pyproject.toml": ""})
    runtime = [unpredicted_sync(program.folder / "train.py", STEP_ROW)]
    write_result(program.folder / "probe.json", result_of(program.folder, {}, runtime=runtime))
    assert shown_by_runs(program) == []
    assert "TL003" not in program("check", "train.py", "--evidence", "probe.json").stdout


def test_without_digests_only_what_is_just_as_it_was_keeps_its_verdict(probed: Program) -> None:
    result = result_of(probed.folder, SYNCS).model_copy(update={"sources": []})
    write_result(probed.folder / "probe.json", result)
    evidence = ("--evidence", "probe.json")
    assert found(probed, *evidence)["12 TL201"] == ("error", "confirmed")
    probed.write({"train.py": "import os\n" + TRAIN})
    assert found(probed, *evidence) == {"13 TL201": ("warning", None), "15 TL201": ("warning", None)}


def test_a_result_of_another_machine_is_about_the_files_that_its_paths_stand_for(probed: Program) -> None:
    file = probed.folder / "probe.json"
    here = json.dumps(str(probed.folder))[1:-1]
    file.write_text(file.read_text().replace(here, "/srv/jobs/a=b"))
    assert found(probed, "--evidence", "probe.json")["12 TL201"] == ("warning", None)
    done = probed("check", "train.py", "--evidence", "probe.json", "--path-map", "/srv/jobs/a")
    assert done.returncode == 2
    assert done.stderr == "trainlint: error: `--path-map /srv/jobs/a` has no `=`; it is written REMOTE=LOCAL\n"


def test_the_longest_folder_that_fits_counts(probed: Program) -> None:
    file = probed.folder / "probe.json"
    file.write_text(file.read_text().replace(json.dumps(str(probed.folder))[1:-1], "/srv/jobs/mine"))
    maps = ("--path-map", "/srv=elsewhere", "--path-map", "/srv/jobs/mine/=.")
    assert found(probed, "--evidence", "probe.json", *maps)["12 TL201"] == ("error", "confirmed")


WRONG = {
    "a file that is not there": (None, "there is no such file; `trainlint probe --output-file probe.json` makes it"),
    "another JSON": ('{"a": 1}', "is no result of `trainlint probe`: `command`: field required"),
    "no JSON": ("{", "is no result of `trainlint probe`: invalid JSON: EOF while parsing"),
    "another version": ('{"schema_version": 9}', "has a version other than 1, the one that this trainlint reads"),
    "bytes": ("\x00\xff", "is no result of `trainlint probe`: "),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_a_file_that_is_no_result_is_wrong_usage(program: Program, text: str | None, message: str) -> None:
    program.write({"train.py": TRAIN})
    if text is not None:
        (program.folder / "probe.json").write_bytes(text.encode("latin-1"))
    done = program("check", "train.py", "--evidence", "probe.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_result_is_not_written_over(probed: Program) -> None:
    done = probed("check", "train.py", "--evidence", "probe.json", "--output-file", "probe.json")
    assert done.returncode == 2
    assert "would destroy an input of this run" in done.stderr


def test_a_map_without_evidence_is_wrong_usage(program: Program) -> None:
    done = program("check", "--path-map", "/a=/b")
    assert done.returncode == 2
    assert "`--evidence FILE`" in done.stderr


def test_links_to_the_code_are_followed(probed: Program, tmp_path: Path) -> None:
    (probed.folder / "link").symlink_to(probed.folder)
    done = probed("check", "link/train.py", "--evidence", "probe.json", "--output-format", "json", "--select", "TL201")
    assert [one["verdict"]["status"] for one in json.loads(done.stdout)] == ["confirmed", "refuted"]
