"""`trainlint check` on notebooks."""

from __future__ import annotations

import json
import subprocess

import pytest
from program import Program

SETUP = """%pip install torch
import torch

model = torch.nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
TRAINING = """%%time
for step in range(1000):
    loss = model(torch.randn(8, 4, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("é", loss.item())"""
WANTED = TRAINING + "  # trainlint: ignore[TL202] wanted  # noqa: TL201"


def notebook(*sources: str, indent: int = 1) -> str:
    """A notebook with a text cell before these code cells, each with output that looks like a suppression."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": ["# noqa: TL201\n"]}]
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": outputs, "source": source.splitlines(keepends=True)}
        for source in sources
    ]
    title = {"cell_type": "markdown", "metadata": {}, "source": ["# Training\n"]}
    content = {"nbformat_minor": 5, "nbformat": 4, "cells": [title, *cells], "metadata": {}}
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


PLACES = ["train.ipynb:cell 3:7:5: TL202", "train.ipynb:cell 3:7:16: TL201"]


def places(report: str) -> list[str]:
    return [" ".join(line.split(" ")[:3]) for line in report.splitlines()]


@pytest.mark.parametrize("path", [".", "train.ipynb", "./train.ipynb"])
def test_findings_name_the_cell_and_the_row_within_it(program: Program, path: str) -> None:
    program.write({"train.ipynb": notebook(SETUP, TRAINING)})
    for _ in ("parsed", "cached"):
        assert places(program(path, "--output-format", "concise").stdout) == PLACES


def test_standard_input_may_be_a_notebook(program: Program) -> None:
    options = ("-", "--stdin-filename", "train.ipynb", "--output-format", "concise")
    assert places(program(*options, stdin=notebook(SETUP, TRAINING)).stdout) == PLACES


def test_every_row_of_a_json_report_counts_within_its_cell(program: Program) -> None:
    program.write({"train.ipynb": notebook(SETUP, TRAINING)})
    printed, synced = json.loads(program(".", "--output-format", "json").stdout)
    assert (printed["cell"], printed["location"], printed["noqa_row"]) == (3, {"row": 7, "column": 5}, 7)
    assert (synced["cell"], synced["end_location"]) == (3, {"row": 7, "column": 27})
    loop = printed["context"]["loop"]
    assert (loop["cell"], loop["row"]) == (3, 2)
    (edit,) = printed["fix"]["edits"]
    assert edit["location"] == {"row": 7, "column": 5}


def test_a_finding_elsewhere_names_the_cell_of_its_loop(program: Program) -> None:
    helper = "def report(loss):\n    print(loss)\n"
    loop = TRAINING.replace('print("é", loss.item())', "report(loss)")
    program.write({"helper.py": helper, "train.ipynb": notebook("from helper import report", SETUP, loop)})
    assert "of the loop at train.ipynb:cell 4:2" in program("helper.py").stdout
    program.write({"train.ipynb": notebook("from helper import report", "", SETUP, loop)})
    assert "of the loop at train.ipynb:cell 5:2" in program("helper.py").stdout
    found = json.loads(program("helper.py", "--output-format", "json").stdout)
    assert found[0]["cell"] is None
    assert (found[0]["context"]["loop"]["cell"], found[0]["context"]["loop"]["row"]) == (5, 2)


FORMATS = {
    "full": "--> train.ipynb:cell 3:7:5",
    "concise": "train.ipynb:cell 3:7:5: TL202",
    "json-lines": '"cell":3,"location":{"row":7,"column":5}',
    "sarif": "cell 3, row 7: ",
    "github": "::train.ipynb:cell 3:7:5: TL202",
    "gitlab": '"path": "train.ipynb"',
    "junit": "train.ipynb:cell 3:7:5: TL202",
    "markdown": "`train.ipynb:cell 3:7:5`",
}


@pytest.mark.parametrize(("name", "text"), FORMATS.items(), ids=FORMATS)
def test_the_place_in_each_format(program: Program, name: str, text: str) -> None:
    program.write({"train.ipynb": notebook(SETUP, TRAINING)})
    assert text in program(".", "--output-format", name).stdout


def test_suppressions_count_in_cells_and_not_in_outputs(program: Program) -> None:
    program.write({"train.ipynb": notebook(SETUP, WANTED)})
    done = program(".")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("indent", [1, 4])
def test_a_fix_changes_its_rows_and_nothing_else(program: Program, indent: int) -> None:
    before = notebook(SETUP, TRAINING, "x = 1  # trainlint: ignore[TL201] an old reason", indent=indent)
    program.write({"train.ipynb": before})
    difference = program(".", "--diff", "--unsafe-fixes").stdout
    assert program.read("train.ipynb") == before
    program("train.ipynb", "--fix", "--unsafe-fixes")
    after = program.read("train.ipynb")
    margin = " " * 4 * indent
    printed = f'{margin}"    print(\\"é\\", loss.item())"'
    guarded = f'{margin}"    if step % 50 == 0:\\n",\n{margin}"        print(\\"é\\", loss.item())"'
    assert printed in before
    expected = before.replace(printed, guarded).replace("  # trainlint: ignore[TL201] an old reason", "")
    assert after == expected
    removed = [line[1:] for line in difference.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert removed == [line for line in before.splitlines() if line not in expected.splitlines()]
    program("train.ipynb", "--fix", "--unsafe-fixes")
    assert program.read("train.ipynb") == after


def test_standard_input_is_fixed_as_a_notebook(program: Program) -> None:
    before = notebook("x = 1  # trainlint: ignore[TL201] an old reason")
    done = program("-", "--stdin-filename", "train.ipynb", "--fix", stdin=before)
    assert done.stdout == before.replace("  # trainlint: ignore[TL201] an old reason", "")


def test_a_cell_that_held_one_comment_becomes_empty(program: Program) -> None:
    program.write({"a.ipynb": notebook("x = 1", "# trainlint: ignore[TL201] old", "y = 1  # trainlint: off[TL2] old")})
    assert program(".", "--fix").returncode == 0
    assert program.read("a.ipynb") == notebook("x = 1", "", "y = 1")


INVALID = {
    "no JSON": ("x = 1\n", "a.ipynb:1:1: TL001 syntax-error The notebook is not valid JSON: expecting value"),
    "empty": ("", "a.ipynb:1:1: TL001 syntax-error The notebook is not valid JSON: it is empty"),
    "no notebook": ("{}", 'a.ipynb:1:1: TL002 unreadable-file The file is not a notebook: it has no list of "cells"'),
    "a cell with a syntax error": (notebook("x = 1", "\ny = ("), "a.ipynb:cell 3:2:5: TL001 syntax-error"),
}


@pytest.mark.parametrize(("text", "line"), INVALID.values(), ids=INVALID)
def test_an_invalid_notebook_is_a_finding(program: Program, text: str, line: str) -> None:
    program.write({"a.ipynb": text, "b.py": "x = (\n"})
    for _ in ("parsed", "cached"):
        done = program(".", "--output-format", "concise")
        assert (done.returncode, len(done.stdout.splitlines())) == (1, 2)
        assert done.stdout.startswith(line)


def test_the_same_bytes_in_a_python_file_are_another_program(program: Program) -> None:
    program.write({"a.ipynb": notebook("import torch\nx = ("), "a.py": notebook("import torch\nx = (")})
    report = program(".", "--output-format", "concise", "--select", "TL001").stdout
    assert [line.split(" TL")[0] for line in report.splitlines()] == ["a.ipynb:cell 2:2:5:"]


def test_a_notebook_in_another_language_has_no_findings(program: Program) -> None:
    text = notebook("x <- (").replace('"metadata": {}\n}', '"metadata": {"language_info": {"name": "R"}}\n}')
    program.write({"a.ipynb": text})
    assert program(".").returncode == 0


def test_suppressions_are_added_in_cells(program: Program) -> None:
    before = notebook(SETUP, TRAINING)
    program.write({"train.ipynb": before})
    program(".", "--add-suppressions=old code")
    printed = '    print(\\"é\\", loss.item())'
    assert program.read("train.ipynb") == before.replace(
        printed, f"{printed}  # trainlint: ignore[TL201, TL202] old code"
    )
    assert program(".").returncode == 0


def test_a_baseline_holds_for_cells_that_move(program: Program) -> None:
    program.write({"train.ipynb": notebook(SETUP, TRAINING)})
    program(".", "--write-baseline", "old.json")
    program.write({"train.ipynb": notebook("x = 1", SETUP, "", TRAINING)})
    assert program(".", "--baseline", "old.json").returncode == 0


def committed(program: Program) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=program.folder, check=True)


def changed_places(program: Program) -> list[str]:
    return places(program(".", "--changed-since", "HEAD", "--output-format", "concise").stdout)


def as_one_text(written: str) -> str:
    """The same notebook with each source as one text, as some programs write it."""
    content = json.loads(written)
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    return json.dumps(content, indent=1)


CHANGES = {
    "nothing": (notebook(SETUP, TRAINING), []),
    "another cell": (notebook("x = 1", SETUP, TRAINING), []),
    "an output": (notebook(SETUP, TRAINING).replace("# noqa", "# other"), []),
    "another row of the cell": (notebook(SETUP, TRAINING.replace("%%time\n", "%%time\n\n")), []),
    "the row": (
        notebook(SETUP, TRAINING.replace('"é"', '"loss"')),
        ["train.ipynb:cell 3:7:5:", "train.ipynb:cell 3:7:19:"],
    ),
    "the cell's last row, by a row below it": (notebook(SETUP, TRAINING + "\n"), [place[:-6] for place in PLACES]),
    "how the sources are written": (as_one_text(notebook(SETUP, TRAINING)), [place[:-6] for place in PLACES]),
}


@pytest.mark.parametrize(("after", "found"), CHANGES.values(), ids=CHANGES)
def test_changed_rows_of_cells_are_those_whose_rows_in_the_json_changed(
    program: Program, after: str, found: list[str]
) -> None:
    program.write({"train.ipynb": notebook(SETUP, TRAINING), "other.ipynb": notebook(SETUP, TRAINING)})
    committed(program)
    program.write({"train.ipynb": after})
    assert [place.removesuffix(" TL201").removesuffix(" TL202") for place in changed_places(program)] == found


JSON_ROWS = {
    "a list of rows": (notebook(SETUP, TRAINING), '"    print('),
    "one text": (as_one_text(notebook(SETUP, TRAINING)), "%%time"),
    "no rows at all": (json.dumps(json.loads(notebook(SETUP, TRAINING))), "%%time"),
    "a mark at the start": ("\ufeff" + notebook(SETUP, TRAINING), '"    print('),
}


@pytest.mark.parametrize(("written", "text"), JSON_ROWS.values(), ids=JSON_ROWS)
def test_code_hosts_are_told_the_rows_of_the_json(program: Program, written: str, text: str) -> None:
    program.write({"train.ipynb": written})
    [row] = [number for number, line in enumerate(written.splitlines(), 1) if text in line]
    hinted = program(".", "--output-format", "github").stdout
    assert f"line={row},endLine={row}::train.ipynb:cell 3:7:5: TL202" in hinted
    quality = json.loads(program(".", "--output-format", "gitlab").stdout)
    assert quality[0]["location"]["positions"]["begin"] == {"line": row, "column": 1}
    (first, _) = json.loads(program(".", "--output-format", "sarif").stdout)["runs"][0]["results"]
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": row, "endLine": row}
    assert first["message"]["text"].startswith("cell 3, row 7: ")
