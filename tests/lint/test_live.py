"""The engine that is kept warm says what a cold one says, whatever was edited before."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.lint.projects_on_disk import write
from tests.semantics.random_edits import edited

from trainlint.lint import reuse
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.lint.live import LiveEngine
from trainlint.lint.result import Reported
from trainlint.lint.stored import dump

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = CheckOptions(cache=False, jobs=1, isolated=True)


def parses(data: bytes) -> bool:
    try:
        compile(data, "text", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def cold(paths: list[Path], texts: dict[Path, bytes]) -> tuple[Reported, ...]:
    return check(paths, CheckOptions(cache=False, jobs=1, isolated=True, texts=texts)).findings


@pytest.mark.parametrize("example", ["text", "trainer", "ddp"])
def test_after_any_edits_it_says_what_a_cold_check_says(example: str, tmp_path: Path) -> None:
    project = tmp_path / example
    shutil.copytree(EXAMPLES / example, project)
    paths = sorted(project.glob("*.py"))
    texts = {path: path.read_bytes() for path in paths}
    engine = LiveEngine(OPTIONS)
    engine.check(paths, dict(texts))
    choose = random.Random(example)
    compared = 0
    for _ in range(60):
        path = choose.choice(paths)
        changed = edited(texts[path].decode(), choose).encode("utf-8", "replace")
        if not parses(changed):
            continue
        texts[path] = changed
        warm = engine.check(paths, dict(texts)).result.findings
        assert dump(warm, project) == dump(cold(paths, texts), project)
        compared += 1
    assert compared >= 10


HELPER = """
def describe(loss):
    return str(loss.shape)
"""
SYNCING = """
def describe(loss):
    return str(loss.item())
"""
TRAIN = """
import torch
from helper import describe

model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, batch in enumerate(torch.utils.data.DataLoader(data, num_workers=2, pin_memory=True)):
    loss = model(batch.cuda(non_blocking=True)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    record = describe(loss)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    write(tmp_path, {"pyproject.toml": "", "helper.py": HELPER, "train.py": TRAIN})
    yield tmp_path


def codes(findings: tuple[Reported, ...], name: str) -> set[str]:
    return {one.finding.code for one in findings if one.path.name == name}


def test_an_edit_in_a_helper_reaches_the_files_that_use_it(project: Path) -> None:
    engine, helper = LiveEngine(OPTIONS), project / "helper.py"
    before = engine.check([project], {helper: HELPER.encode()}).result.findings
    after = engine.check([project], {helper: SYNCING.encode()}).result.findings
    assert "TL201" not in codes(before, "helper.py")
    assert "TL201" in codes(after, "helper.py")


def test_a_file_that_changed_on_disk_is_read_again_once_that_is_said(project: Path) -> None:
    engine, helper = LiveEngine(OPTIONS), project / "helper.py"
    engine.check([project], {})
    helper.write_text(SYNCING)
    assert "TL201" not in codes(engine.check([project], {}).result.findings, "helper.py")
    engine.forget([helper])
    assert "TL201" in codes(engine.check([project], {}).result.findings, "helper.py")


def test_a_text_that_stops_parsing_counts_as_it_was(project: Path) -> None:
    engine, helper = LiveEngine(OPTIONS), project / "helper.py"
    engine.check([project], {helper: SYNCING.encode()})
    broken = engine.check([project], {helper: (SYNCING + "x = (\n").encode()})
    assert [error.finding.code for error in broken.broken[helper]] == ["TL001"]
    assert "TL201" in codes(broken.result.findings, "helper.py")


def test_an_edit_inside_a_function_that_an_entry_point_does_not_reach_reuses_its_walk(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unrelated = "\n\ndef unrelated():\n    return 1\n"
    engine, helper = LiveEngine(OPTIONS), project / "helper.py"
    engine.check([project], {helper: (SYNCING + unrelated).encode()})
    answers: list[bool] = []
    looked_up = reuse.Reuse.entry

    def noted(self: reuse.Reuse, *arguments: object) -> object:
        answer = looked_up(self, *arguments)  # type: ignore[arg-type]
        answers.append(answer is not None)
        return answer

    monkeypatch.setattr(reuse.Reuse, "entry", noted)
    engine.check([project], {helper: (SYNCING + unrelated.replace("1", "2")).encode()})
    assert answers == [True]
