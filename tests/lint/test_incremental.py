"""Runs that reuse what earlier ones found: the same answer as from nothing, with no more work than the change asks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from projects_on_disk import TRAINING, lines, run, write

from trainlint.lint import component, entries, entry_workers, garbage, workers
from trainlint.lint.cache import FILE, FOLDER, _checksum
from trainlint.lint.component import FunctionKey, Uncalled, Walked
from trainlint.lint.extraction import Extraction
from trainlint.semantics.context import Entry

SECOND = {
    "finetune.py": """
        import torch
        from lib.step import train_step
        from lib.logs import report
        from model import Net

        def main():
            model = Net().cuda()
            optimizer = torch.optim.AdamW(model.parameters())
            for step in range(100):
                report(train_step(model, optimizer, torch.randn(8, 4, device="cuda")))

        if __name__ == "__main__":
            main()
    """,
    "lib/logs.py": """
        def report(value):
            print(value)

        def report_norms(model, optimizer, loader):
            for batch in loader:
                loss = model(batch.cuda()).sum()
                loss.backward()
                optimizer.step()
                print(loss.item())
    """,
    "probe_loader.py": """
        from torch.utils.data import DataLoader
        from model import Net

        loader = DataLoader(list(range(10)), num_workers=0)
        for batch in loader:
            Net()(batch.cuda())
    """,
}
"""Another two entry points, which share files with the first."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write(tmp_path / "project", TRAINING | SECOND)


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the entry points that were walked."""
    names: list[str] = []
    walk = component.EntryRuns.walk

    def noting(self: component.EntryRuns, entry: Path) -> Walked:
        names.append(entry.name)
        return walk(self, entry)

    monkeypatch.setattr(component.EntryRuns, "walk", noting)
    return names


@pytest.fixture
def uncalled(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose uncalled functions were walked."""
    names: list[str] = []
    walk = component.EntryRuns._uncalled_in

    def noting(self: component.EntryRuns, path: Path, owner: Entry, called: frozenset[FunctionKey]) -> Uncalled:
        names.append(str(path.relative_to(project)))
        return walk(self, path, owner, called)

    monkeypatch.setattr(component.EntryRuns, "_uncalled_in", noting)
    return names


def told(root: Path, **options: object) -> list[str]:
    result = run(root, **options)
    assert result.errors == ()
    return [repr(one) for one in result.findings]


def edit(file: Path, before: str, after: str) -> None:
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


# ---------------------------------------------------------------------------------------------------- the same answer

PARTS = {
    "train.py": ("for step in range(1000)", "if True", "for step in range(7)"),
    "finetune.py": ("report(train_step", "print(train_step", "float(train_step"),
    "lib/step.py": ("return value_of(loss)", "return loss", "return str(loss)", "return loss.cpu()"),
    "lib/numbers.py": ("tensor.item()", "tensor", "float(tensor)", "tensor.tolist()"),
    "lib/logs.py": ("print(value)", "return value", "report_norms(value, value, [])", "print(float(value))"),
    "probe_loader.py": ("num_workers=0", "num_workers=2", "batch_size=4"),
    "model.py": ("return self.layer(x)", "return self.layer(x).item()", "return (self.layer(x)"),
}
"""For each file, texts that stand in for each other; one of them leaves a file that does not parse."""
ADDED = {
    "another.py": "from lib.logs import report_norms\nfrom model import Net\n\nreport_norms(Net(), None, [])\n",
    "lib/__init__.py": "import torch\n",
    "pyproject.toml": '[tool.trainlint]\ndevice = "cpu"\n',
    "lib/trainlint.toml": '[severity]\nTL201 = "error"\n',
    "lib/notes.py": "x = 1  # noqa: TL201\n",
}
"""Files that come and go."""
APPENDED = (
    "def spare(x):\n    return x\n",
    "def print(value):\n    return value\n",
    "def train_step(model, optimizer, batch):\n    return 0.0\n",
    "def helper(x):\n    return x.item()\n",
    "class Net:\n    def __call__(self, x):\n        return x.cpu().item()\n",
    "float = int\n",
    "from lib.numbers import *\n",
    "import torch\ntorch.set_grad_enabled(False)\n",
    "def len(x):\n    print(x.item())\n",
    "print('imported')\n",
)
"""What is added at the end of a file, and goes again: names that nobody asks for, names that hide others, and more."""


def append_or_cut(file: Path, choose: random.Random) -> None:
    kept, mark, _ = file.read_text().partition("\n# appended\n")
    file.write_text(kept if mark and choose.random() < 0.5 else kept + "\n# appended\n" + choose.choice(APPENDED))


def change(root: Path, choose: random.Random) -> None:
    if choose.random() < 0.3:
        append_or_cut(choose.choice(sorted(root.rglob("*.py"))), choose)
        return
    if choose.random() < 0.35:
        name = choose.choice(sorted(ADDED))
        file = root / name
        if name == "pyproject.toml":
            file.write_text("" if file.read_text() else ADDED[name])
        elif file.exists():
            file.unlink()
        else:
            file.write_text(ADDED[name])
        return
    name = choose.choice(sorted(PARTS))
    file = root / name
    text = file.read_text() if file.exists() else (root / f"{name}.away").read_text()
    if choose.random() < 0.15 and file.exists():
        file.rename(root / f"{name}.away")
        return
    present = next(part for part in sorted(PARTS[name], key=len, reverse=True) if part in text)
    file.write_text(text.replace(present, choose.choice(PARTS[name])))


@pytest.mark.parametrize("seed", range(6))
def test_any_series_of_edits_gives_what_a_run_from_nothing_gives(
    project: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "WORTHWHILE", 1)
    monkeypatch.setattr(entries, "WORTHWHILE_S", 0.0)
    choose = random.Random(seed)
    for _ in range(12):
        for _ in range(choose.randint(1, 2)):
            change(project, choose)
        jobs = choose.choice((1, 1, 1, 2))
        assert told(project, cache=True, jobs=jobs) == told(project)
        alone = choose.choice(sorted(file for file in project.rglob("*.py")))
        assert told(alone, cache=True) == [one for one in told(project) if f"path={alone!r}, location" in one]


# --------------------------------------------------------------------------------------------------------- what is done


def test_from_nothing_each_entry_point_is_walked_once(project: Path, walked: list[str]) -> None:
    run(project)
    assert sorted(walked) == ["finetune.py", "probe_loader.py", "train.py"]


UNTOUCHED = {
    "an entry point itself": ("train.py", "range(1000)", "range(999)", ["train.py"]),
    "what two import": ("lib/numbers.py", "tensor.item()", "float(tensor)", ["finetune.py", "train.py"]),
    "what one imports": ("lib/logs.py", "print(value)", "print(str(value))", ["finetune.py"]),
}


@pytest.mark.parametrize(("name", "before", "after", "expected"), UNTOUCHED.values(), ids=UNTOUCHED)
def test_only_entry_points_that_import_a_changed_file_are_walked_again(
    project: Path, walked: list[str], name: str, before: str, after: str, expected: list[str]
) -> None:
    run(project, cache=True)
    walked.clear()
    edit(project / name, before, after)
    told(project, cache=True)
    assert sorted(walked) == expected


def test_functions_are_walked_by_themselves_once_no_entry_point_calls_them_any_more(
    project: Path, walked: list[str], uncalled: list[str]
) -> None:
    edit(project / "lib/numbers.py", "return tensor.item()", "return tensor.item()\n\ndef unused(x):\n    return x")
    edit(project / "train.py", "import torch", "import torch\nimport lib.numbers")
    edit(project / "train.py", "main()\n", "main()\nlib.numbers.unused(1)\n")
    run(project, cache=True)
    walked.clear()
    uncalled.clear()
    edit(project / "train.py", "lib.numbers.unused(1)", "")
    told(project, cache=True)
    assert walked == ["train.py"]
    assert "lib/numbers.py" in uncalled


CALLS_REPORT = """

def tune(model, optimizer):
    for step in range(10):
        loss = model(torch.randn(8, 4).cuda()).sum()
        loss.backward()
        report(loss)
"""


def test_the_uncalled_functions_of_a_file_are_walked_again_if_something_they_call_changes(
    project: Path, uncalled: list[str]
) -> None:
    edit(project / "finetune.py", "main()\n", f"main()\n{CALLS_REPORT}")
    run(project, cache=True)
    uncalled.clear()
    edit(project / "lib/logs.py", "print(value)", "print(value, flush=True)")
    told(project, cache=True)
    assert sorted(uncalled) == ["finetune.py", "lib/logs.py"]


@pytest.mark.parametrize("before", ["loss.backward()\n        optimizer.step()", "print(loss.item())"])
def test_what_does_not_look_into_a_changed_function_is_not_walked_again(
    project: Path, walked: list[str], uncalled: list[str], before: str
) -> None:
    run(project, cache=True)
    walked.clear()
    uncalled.clear()
    edit(project / "lib/logs.py", before, before.replace("loss", "(loss)", 1))
    assert told(project, cache=True) == told(project)
    del walked[-3:]
    assert walked == []
    assert uncalled[0] == "lib/logs.py"


def test_a_function_at_the_end_of_a_file_costs_the_walk_of_that_file_alone(
    project: Path, walked: list[str], uncalled: list[str]
) -> None:
    run(project, cache=True)
    for number in range(3):
        walked.clear()
        uncalled.clear()
        with (project / "lib/logs.py").open("a") as file:
            file.write(f"\n\ndef spare_{number}(x):\n    return x\n")
        told(project, cache=True)
        assert walked == []
        assert uncalled == ["lib/logs.py"]


@pytest.mark.parametrize(("name", "counts"), [("print", True), ("report_norms", True), ("value_of", False)])
def test_a_name_at_the_end_of_a_file_that_hides_one_that_was_asked_for_counts(
    project: Path, walked: list[str], name: str, counts: bool
) -> None:
    run(project, cache=True)
    walked.clear()
    with (project / "lib/logs.py").open("a") as file:
        file.write(f"\n\ndef {name}(x, *rest):\n    return x\n")
    found = told(project, cache=True)
    assert walked == (["finetune.py"] if counts else [])
    assert found == told(project)


@pytest.mark.parametrize("damage", ["", "[]", "[[],[],[],[]]", '[{"gone.py":[0]},{},{},[]]', "{"])
def test_notes_of_what_was_read_that_cannot_be_read_cost_a_walk(project: Path, walked: list[str], damage: str) -> None:
    run(project, cache=True)
    with sqlite3.connect(project / FOLDER / FILE) as connection:
        rows = connection.execute("SELECT key FROM entries WHERE kind = 'read'").fetchall()
        assert rows
        for (key,) in rows:
            row = damage, _checksum("read", key, damage), key
            connection.execute("UPDATE entries SET value = ?, checksum = ? WHERE kind = 'read' AND key = ?", row)
    connection.close()
    walked.clear()
    edit(project / "lib/logs.py", "print(value)", "print(value, flush=True)")
    assert told(project, cache=True) == told(project)
    assert walked


def test_code_is_read_of_what_is_walked_again_only(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(project, cache=True)
    read: list[str] = []
    code_of = Extraction._code_of

    def noting(self: Extraction, path: Path) -> str:
        read.append(path.name)
        return code_of(self, path)

    monkeypatch.setattr(Extraction, "_code_of", noting)
    edit(project / "probe_loader.py", "Net()(batch.cuda())", "Net()(batch.cuda(non_blocking=True))")
    told(project, cache=True)
    assert sorted(read) == ["model.py", "probe_loader.py"]


@pytest.mark.parametrize("kind", ["facts", "code"])
def test_what_is_missing_of_a_file_is_extracted_again(project: Path, kind: str) -> None:
    from_nothing = told(project)
    run(project, cache=True)
    with sqlite3.connect(project / FOLDER / FILE) as connection:
        kinds = {kind, "findings", "entry", "reached"}
        connection.executemany("DELETE FROM entries WHERE kind = ?", [(one,) for one in kinds])
    connection.close()
    assert told(project, cache=True) == from_nothing


# ------------------------------------------------------------------------------------------------------------ processes


@pytest.fixture(autouse=True)
def _memory_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the process of these tests has taken for others before them."""
    monkeypatch.setattr(entries, "processes_that_fit", lambda wanted, growth: wanted)


def test_entry_points_are_walked_in_several_processes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = told(project)
    monkeypatch.setattr(entries, "WORTHWHILE_S", 0.0)
    started: list[int] = []
    pooled = entry_workers.PooledRuns.__init__

    def noting(self: entry_workers.PooledRuns, here: component.EntryRuns, count: int, *others: object) -> None:
        started.append(count)
        pooled(self, here, count, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(entry_workers.PooledRuns, "__init__", noting)
    assert told(project, jobs=3) == told(project, jobs=2) == alone
    assert started == [3, 2]


def test_no_more_processes_walk_than_memory_holds(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = told(project)
    monkeypatch.setattr(entries, "WORTHWHILE_S", 0.0)
    monkeypatch.setattr(entries, "processes_that_fit", lambda wanted, growth: 1)
    monkeypatch.setattr(entry_workers.PooledRuns, "__init__", None)
    assert told(project, jobs=3) == alone


def test_findings_are_the_same_while_what_walks_leave_is_collected(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = told(project)
    monkeypatch.setattr(garbage, "MANY", 0)
    collected: list[int] = []
    collect = gc.collect
    monkeypatch.setattr(gc, "collect", lambda: collected.append(collect()))
    assert told(project) == alone
    assert collected


def test_entry_points_are_walked_in_processes_that_inherit_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = told(project)
    monkeypatch.setattr(entries, "WORTHWHILE_S", 0.0)
    monkeypatch.setattr(entry_workers, "process_context", lambda: multiprocessing.get_context("spawn"))
    assert told(project, jobs=2) == alone


@pytest.mark.parametrize("stage", ["walk", "findings", "_uncalled_in"])
def test_a_worker_that_dies_costs_the_entry_point_it_was_on(
    project: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setattr(entries, "WORTHWHILE_S", 0.0)
    monkeypatch.setattr(entry_workers, "process_context", lambda: multiprocessing.get_context("fork"))
    original = getattr(component.EntryRuns, stage)
    parent = os.getpid()

    def dying(self: component.EntryRuns, path: Path, *others: object) -> object:
        if path.name == "probe_loader.py" and os.getpid() != parent:
            os._exit(11)
        return original(self, path, *others)

    monkeypatch.setattr(component.EntryRuns, stage, dying)
    result = run(project, jobs=2, cache=True)
    assert result.errors == (f"internal error: linking failed on {project / 'probe_loader.py'}: its process ended",)
    assert any(line.startswith("lib/numbers.py:2") for line in lines(result, project))
    monkeypatch.setattr(component.EntryRuns, stage, original)
    assert told(project, cache=True) == told(project)


@pytest.fixture(autouse=True)
def _no_process_is_left() -> Iterator[None]:
    yield
    assert multiprocessing.active_children() == []
