"""`trainlint explain PATH:ROW [CODE]`: why a finding is there, or why it is not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from program import Program
from tests.git_repository import git

from trainlint.cli.explain import place_of
from trainlint.cli.failure import Failure

LOCK = '[[package]]\nname = "torch"\nversion = "2.1.2"\n'
TRAIN = """\
import torch
from torch import nn

def train(model, loader, optimizer):
    total = 0.0
    for step, batch in enumerate(loader):
        loss = model(batch.cuda()).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
        if step % 100 == 0:
            print(loss.item())
    final = loss.item()
    return total

def helper(x):
    return x + 1

# a comment

def main():
    model = nn.Linear(8, 1).cuda()
    data = [torch.randn(4, 8) for _ in range(100)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train(model, data, optimizer)

if __name__ == "__main__":
    main()
"""


def explained(program: Program, *arguments: str, files: dict[str, str] | None = None) -> str:
    program.write({"train.py": TRAIN, "pyproject.toml": ""} | (files or {}))
    done = program("explain", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def with_comment(comment: str) -> dict[str, str]:
    return {"train.py": TRAIN.replace("total += loss.item()", f"total += loss.item()  {comment}")}


def test_a_finding_comes_with_what_makes_it_hot(program: Program) -> None:
    text = explained(program, "train.py:11", "TL201")
    assert text.startswith("train.py:11: `total += loss.item()`\n\nTL201 sync-in-step: reported\n")
    assert "runs at every training step, in the loop at train.py:6" in text
    assert "reached by train > train.main (train.py:22) > train.train (train.py:4)" in text
    assert "the tensor is on the GPU" in text
    assert "entry point train.py: framework pytorch; on CUDA: yes; several processes: no; trains" in text


def test_a_finding_comes_with_what_a_check_prints_below_it(program: Program) -> None:
    program.write({"train.py": CONFIGURED, "config.yaml": "workers: 0\n", "pyproject.toml": ""})
    below = [line for line in program("train.py", "--select", "TL103").stdout.splitlines() if line[:5] in NOTES]
    assert [line[:5] for line in below] == ["see: ", "help:", "fix: "]
    text = explained(program, "train.py:8", "TL103", files={"train.py": CONFIGURED, "config.yaml": "workers: 0\n"})
    assert all(f"\n  {line}\n" in text for line in below)


NOTES = ("see: ", "help:", "fix: ")


OPTIONS = {
    "of the selection": (("--ignore", "TL201"), '`ignore` turns the rule off, by "TL201" (--ignore)'),
    "of other rules": (("--select", "TL1"), "`select` leaves the rule out (--select)"),
    "of severity": (("--min-severity", "error"), "its severity is warning, and `--min-severity` is error"),
    "of what changed": (("--changed-since", "HEAD"), "no row of it has changed since HEAD (--changed-since)"),
}


@pytest.mark.parametrize(("options", "reason"), OPTIONS.values(), ids=OPTIONS)
def test_options_of_a_check_that_drop_a_finding_are_named(
    options: tuple[str, ...], reason: str, program: Program
) -> None:
    program.write({"train.py": TRAIN, "pyproject.toml": ""})
    git(program.folder, "init", "--quiet")
    git(program.folder, "add", ".")
    git(program.folder, "commit", "--quiet", "-m", "first")
    text = explained(program, "train.py:11", "TL201", *options)
    assert "TL201 sync-in-step: found, not reported\n  `loss.item()` waits for the GPU" in text
    assert f"\n  - {reason}\n" in text
    assert f"\n  - {reason}\n" in explained(program, "train.py:11", *options)
    assert "TL201" not in program("train.py", "--output-format", "concise", *options).stdout


@pytest.mark.parametrize("options", [(), ("--min-confidence", "low"), ("--config", 'min-confidence = "low"')])
def test_a_value_of_low_confidence_is_reported_as_a_check_does(options: tuple[str, ...], program: Program) -> None:
    source = TRAIN.replace("total += loss.item()", "if loss.max() > 3: total += loss.item()")
    text = explained(program, "train.py:11", "TL201", *options, files={"train.py": source})
    found = program("train.py", "--output-format", "concise", *options).stdout
    assert ("train.py:11:37: TL201" in found) == ("TL201 sync-in-step: reported" in text) == bool(options)
    assert bool(options) or "its confidence is low, and `min-confidence` is medium (default)" in text


DROPPED = {
    "a comment": (with_comment("# trainlint: ignore[TL201] slow"), (), "[TL201] slow` in train.py:11 silences it"),
    "a comment for all rules": (with_comment("# noqa"), (), "`# noqa` in train.py:11 silences it"),
    "ignore": ({"trainlint.toml": 'ignore = ["TL2"]'}, (), '`ignore` turns the rule off, by "TL2" ('),
    "select": ({"trainlint.toml": 'select = ["TL405"]'}, (), "`select` leaves the rule out ("),
    "an option": ({}, ("--config", "ignore = ['TL201']"), '`ignore` turns the rule off, by "TL201" (--config)'),
    "a pattern of files": (
        {"trainlint.toml": '[per-file-ignores]\n"train*" = ["TL2"]'},
        (),
        '`per-file-ignores` turns the rule off for "train*" (',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "options", "reason"), DROPPED.values(), ids=DROPPED)
def test_a_finding_that_is_dropped_says_by_what(
    files: dict[str, str], options: tuple[str, ...], reason: str, program: Program
) -> None:
    text = explained(program, "train.py:11", "TL201", *options, files=files)
    assert "TL201 sync-in-step: found, not reported\n  `loss.item()` waits for the GPU" in text
    assert reason in text


def test_isolated_passes_over_the_configuration(program: Program) -> None:
    text = explained(program, "train.py:11", "TL201", "--isolated", files={"trainlint.toml": 'ignore = ["TL2"]'})
    assert "TL201 sync-in-step: reported" in text


def test_several_reasons_are_all_named(program: Program) -> None:
    files = with_comment("# noqa: TL201") | {"trainlint.toml": 'ignore = ["TL201"]'}
    text = explained(program, "train.py:11", "TL201", files=files)
    assert "turns the rule off" in text and "silences it" in text


def test_a_rule_outside_the_default_set_says_how_to_select_it(program: Program) -> None:
    text = explained(program, "train.py:6", "TL401")
    assert "the rule is not in the default set: `--extend-select TL401` selects it" in text
    text = explained(program, "train.py:6", "TL401", "--config", "extend-select = ['TL401']")
    assert "TL401 no-mixed-precision: reported" in text


def test_too_little_confidence(program: Program) -> None:
    source = TRAIN.replace("total += loss.item()", "if loss.max() > 3: total += loss.item()")
    text = explained(program, "train.py:11", "TL201", files={"train.py": source})
    assert "its confidence is low, and `min-confidence` is medium (default)" in text


def test_a_release_of_torch_that_the_rule_does_not_hold_for(program: Program) -> None:
    source = TRAIN.replace("loss = model", "with torch.cuda.amp.autocast(): loss = model")
    files = {"train.py": source, "requirements.txt": "torch<1.8\n"}
    text = explained(program, "train.py:7", "TL405", files=files)
    assert "not found" in text
    assert "the rule holds for torch >=1.10, and the newest that the project admits is 1.7 (requirements.txt)" in text


def test_a_release_of_torch_that_decides_in_the_rule_itself(program: Program) -> None:
    files = {"amp.py": "import torch\nscaler = torch.cuda.amp.GradScaler()\n", "uv.lock": LOCK}
    text = explained(program, "amp.py:2", "TL405", files=files)
    assert "`torch.cuda.amp.GradScaler`: the newest torch release that the project admits is 2.1\n" in text


def test_a_baseline(program: Program) -> None:
    program.write({"train.py": TRAIN, "pyproject.toml": ""})
    program(".", "--write-baseline", "known.json")
    text = explained(program, "train.py:11", "TL201", "--baseline", "known.json")
    assert "TL201 sync-in-step: found, not reported\n  `loss.item()` waits for the GPU at" in text
    assert "\n  - the baseline lists it\n" in text


NOT_FOUND = {
    "behind an interval": (
        "train.py:13", "TL201", "  - `loss.item()`: it runs every few steps", "under `step % 100 == 0` (an interval)"
    ),
    "once per epoch": (
        "train.py:14", "TL201", "  - `loss.item()`: it is part of set-up, and it runs once per epoch", "at train.py:26"
    ),
    "of another kind": ("train.py:11", "TL205", "nothing that the rule is about", "a call of torch.cuda.synchronize"),
}  # fmt: skip


@pytest.mark.parametrize(("place", "code", "fact", "other"), NOT_FOUND.values(), ids=NOT_FOUND)
def test_what_is_not_found_says_why(place: str, code: str, fact: str, other: str, program: Program) -> None:
    text = explained(program, place, code)
    assert ": not found\n" in text
    assert fact in text and other in text


def test_a_value_on_the_host_is_the_reason(program: Program) -> None:
    text = explained(program, "train.py:11", "TL201", files={"train.py": TRAIN.replace(".cuda()", "")})
    assert ": not found\n" in text
    assert "the tensor is on the CPU" in text


CONFIGURED = """\
import torch
import yaml
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

config = yaml.safe_load(open("config.yaml"))
images = datasets.MNIST("data", transform=transforms.ToTensor())
loader = DataLoader(images, batch_size=64, num_workers=config["workers"])
model = torch.nn.Linear(784, 10).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch, labels in loader:
    model(batch.cuda().flatten(1)).mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("workers", "verdict"), [(0, "reported"), (4, "not found")])
def test_what_a_configuration_file_says_is_told(workers: int, verdict: str, program: Program) -> None:
    files = {"train.py": CONFIGURED, "config.yaml": f"workers: {workers}\n"}
    text = explained(program, "train.py:8", "TL103", files=files)
    assert f"TL103 loader-no-workers: {verdict}" in text
    assert "not known" not in text
    assert workers == 0 or ": `num_workers` is `4`\n" in text


NOWHERE = {
    "a comment": ("train.py:20", "the row holds no code"),
    "a docstring": ("described.py:2", "the row holds no code: it is part of a text, such as a docstring"),
    "an empty row": ("train.py:19", "the row holds no code"),
    "nothing calls it": ("train.py:18", "nothing in the project calls `helper`"),
    "a unit test": ("test_it.py:4", "`test_it` counts as a unit test"),
    "no training library": ("plain.py:1", "mentions a training library"),
    "a file that does not parse": ("broken.py:1", "the file cannot be linted: broken.py:2:"),
}


@pytest.mark.parametrize(("place", "reason"), NOWHERE.values(), ids=NOWHERE)
@pytest.mark.parametrize("rule", [("TL201",), ()], ids=["a rule", "all rules"])
def test_where_nothing_is_known(place: str, reason: str, rule: tuple[str, ...], program: Program) -> None:
    unit_test = "import pytest, torch\n\ndef test_it():\n    assert torch.ones(1).cuda().item()\n"
    described = '"""What\nit does."""\nimport torch\n'
    files = {
        "described.py": described,
        "test_it.py": unit_test,
        "plain.py": "x = 1\n",
        "broken.py": "import torch\nx = (\n",
    }
    assert reason in explained(program, place, *rule, files=files)


def test_a_row_that_nothing_is_known_of_stands_in_its_loop(program: Program) -> None:
    source = TRAIN.replace("        optimizer.step()\n", "        y = 1\n        optimizer.step()\n")
    text = explained(program, "train.py:9", "TL201", files={"train.py": source})
    assert "nothing stands there that the rule is about: it looks for output, a read of a tensor's value" in text
    assert "the step loop at train.py:6, `for step, batch in enumerate(loader):`" in text
    assert "runs at every training step" in text and "train.main (train.py:23)" in text


def test_code_that_runs_once_says_so(program: Program) -> None:
    source = TRAIN.replace("    main()\n", '    main()\n    print("done")\n')
    text = explained(program, "train.py:31", "TL202", files={"train.py": source})
    assert '\n  - `print("done")`: it runs once\n' in text


def test_a_forward_that_nothing_matters_in_is_not_said_to_be_uncalled(program: Program) -> None:
    model = "class Model(nn.Module):\n    def forward(self, x):\n        return x + 1\n\n"
    source = TRAIN.replace("def train(", model + "def train(", 1).replace("nn.Linear(8, 1)", "Model()")
    text = explained(program, "train.py:6", "TL201", files={"train.py": source})
    assert "nothing calls `Model.forward`, or nothing in its class is something that a rule could be about" in text


def test_a_branch_says_which_side_of_its_test_it_is(program: Program) -> None:
    moved = "if torch.cuda.is_available():\n            pass\n        else:\n            total += loss.item()"
    source = TRAIN.replace("total += loss.item()", moved)
    text = explained(program, "train.py:14", "TL201", files={"train.py": source})
    assert "`loss.item()`: it stands under `torch.cuda.is_available()` (the branch for no GPU)" in text


def test_without_a_rule_all_that_is_found_is_told(program: Program) -> None:
    text = explained(program, "train.py:11", files={"trainlint.toml": 'ignore = ["TL201"]'})
    assert "TL201 sync-in-step: found, not reported" in text
    assert "reported" in explained(program, "train.py:11:18")
    assert "No rule finds anything there" in explained(program, "train.py:5")


def test_functions_of_scripts_with_the_same_name_are_not_mistaken(program: Program) -> None:
    log = "def log(loss):\n    print(loss.item())\n"
    script = "from tools import log\n" + TRAIN.replace("total += loss.item()", "log(loss)")
    files = {"tools.py": log, "train.py": script, "other/train.py": "import sys\n\n" + script}
    text = explained(program, "tools.py:2", "TL201", files=files)
    assert "train.main (train.py:23) > train.train (train.py:5) > tools.log (tools.py:1)" in text
    assert "train.main (train.py:25)" not in text
    text = explained(program, "other/train.py:10", "TL201", files=files)
    assert "(train.py:" not in text


def test_a_statement_that_is_left_out_leaves_the_others_explained(program: Program) -> None:
    deep = f"deep = {'(' * 180}1{')' * 180}\n"
    text = explained(program, "train.py:11", "TL201", files={"train.py": TRAIN + deep})
    assert "TL201 sync-in-step: reported" in text
    text = explained(program, "train.py:12", "TL201", files={"train.py": TRAIN + deep})
    assert "cannot be linted" not in text


def test_an_excluded_file_is_named_as_such(program: Program) -> None:
    text = explained(program, "build/train.py:11", "TL201", files={"build/train.py": TRAIN})
    assert "The file is excluded: a check lints it only where it is named itself." in text


def test_rules_about_files_and_about_runs(program: Program) -> None:
    assert "only a probe reports it" in explained(program, "train.py:11", "memory-headroom")
    assert "there is nothing of the kind" in explained(program, "train.py:11", "TL003")
    text = explained(program, "train.py:5", "TL003", files={"train.py": TRAIN.replace("= 0.0", "= 0.0  # noqa: TL201")})
    assert "TL003 unused-suppression: reported" in text


def notebook(*cells: str) -> str:
    listed = [
        {"cell_type": "code", "source": text, "metadata": {}, "outputs": [], "execution_count": None} for text in cells
    ]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.mark.parametrize("place", ["train.ipynb:2:11", "train.ipynb:cell 2:11", "train.ipynb:cell 2:11:18:"])
def test_a_row_of_a_notebook(place: str, program: Program) -> None:
    text = explained(program, place, "TL201", files={"train.ipynb": notebook("import os", TRAIN)})
    assert text.startswith("train.ipynb:cell 2:11: `total += loss.item()`\n\nTL201 sync-in-step: reported\n")
    assert "in the loop at train.ipynb:cell 2:6" in text


MISTAKES = {
    "no such file": (("gone.py:3", "TL201"), "gone.py: no such file"),
    "a folder": ((".:3", "TL201"), "is a folder"),
    "a row past the end": (("train.py:999", "TL201"), "train.py: the file has 30 rows, no row 999"),
    "row 0": (("train.py:0", "TL201"), "no row 0"),
    "no such rule": (("train.py:3", "TL2O1"), "there is no rule `TL2O1`; did you mean `TL201`?"),
    "no row": (("train.py", "TL201"), "`train.py` names no row; write PATH:ROW, such as train.py:41"),
    "standard input": (("-", "TL201"), "standard input cannot be explained"),
    "a row of standard input": (("-:3", "TL201"), "standard input cannot be explained"),
    "two rules": (("TL201", "TL202"), "`TL201` is no row of a file"),
    "a notebook without a cell": (("a.ipynb:3", "TL201"), "names no cell"),
    "no such cell": (("a.ipynb:9:1", "TL201"), "there is no such cell"),
    "a cell of a script": (("train.py:cell 1:3", "TL201"), "only notebooks have cells"),
    "a broken configuration": (("train.py:3", "TL201", "--config", "ignore = ['TL999']"), "TL999"),
    "no such baseline": (("train.py:11", "TL201", "--baseline", "gone.json"), "gone.json"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named(arguments: tuple[str, ...], message: str, program: Program) -> None:
    program.write({"train.py": TRAIN, "pyproject.toml": "", "a.ipynb": notebook("x = 1")})
    done = program("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "Traceback" not in done.stderr


PLACES = {
    "train.py:41": ("train.py", None, 41),
    "a/train.py:41:7": ("a/train.py", None, 41),
    "a b:c.py:41": ("a b:c.py", None, 41),
    r"C:\code\train.py:41": (r"C:\code\train.py", None, 41),
    r"C:\code\train.py:41:7:": (r"C:\code\train.py", None, 41),
    "C:/code/run.ipynb:3:12": ("C:/code/run.ipynb", 3, 12),
    "run.ipynb:cell 3:12:5": ("run.ipynb", 3, 12),
}


@pytest.mark.parametrize(("text", "place"), PLACES.items())
def test_a_place_is_read(text: str, place: tuple[str, int | None, int]) -> None:
    found = place_of(text)
    assert found is not None
    assert (found.path, found.cell, found.row) == (Path(place[0]), *place[1:])


@pytest.mark.parametrize("text", ["TL201", "sync-in-step", "train.py", r"C:\train.py"])
def test_what_names_no_row_is_no_place(text: str) -> None:
    assert place_of(text) is None


def test_numbers_beyond_a_column_are_refused() -> None:
    with pytest.raises(Failure, match="only notebooks have cells"):
        place_of("train.py:1:2:3")


@pytest.mark.skipif(sys.platform == "win32", reason="names of files")
def test_control_characters_do_not_reach_the_terminal(program: Program) -> None:
    name = "a\x1b[31m.py"
    text = explained(program, f"{name}:1", "TL201", files={name: "import torch\n"})
    assert "\x1b" not in text
