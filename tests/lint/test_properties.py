"""What holds for any training program, however it is put together."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainlint.cli.program import run as run_program
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check

HEADS = [
    "import torch\nfrom torch.utils.data import DataLoader\n",
    '"""Größe 😀."""\nfrom __future__ import annotations\n\nimport torch\nfrom torch.utils.data import DataLoader\n',
    "#!/usr/bin/env python\n# 😀\nimport os; import torch\nfrom torch.utils.data import (\n    DataLoader,  # why\n)\n",
]
SETUPS = [
    "model = torch.nn.Linear(4, 2).cuda()\n",
    "device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\nmodel = torch.nn.Linear(4, 2).to(device)\n",
    "model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), find_unused_parameters=True)\n",
]
LOADERS = [
    "loader = DataLoader(torch.load('é😀.pt'), batch_size=8)\n",
    "loader = DataLoader(\n    torch.load('a.pt'),  # größe\n    shuffle=True,\n    num_workers=0\n)\n",
    "loader = [torch.randn(8, 4) for _ in range(100)]\n",
]
STEPS = [
    "total += loss.item()\n",
    "losses.append(loss.item())\n",
    "print('größe 😀', loss.item())\n",
    'print(f"{step}: {loss.item():.3f}")\n',
    "print(\n    '''é\n  😀''',\n    loss.item(),  # why\n)\n",
    "if loss.isnan(): break\n",
    "if step % 100 == 0:\n    print(step)\n",
    "torch.cuda.empty_cache()\n",
    "torch.cuda.synchronize(); count = 0\n",
    "total = total + float(loss)  # noqa: TL201\n",
    "value = loss.item()  # trainlint: ignore[TL202] old\n",
    "x = [loss \\\n  .item(), '😀', loss.item()]\n",
    "def report(value):\n    print(value)\nreport(loss.item())\n",
    "with torch.cuda.amp.autocast():\n    hidden = model(batch)\n",
    "history = {'é': loss}\n",
    "# trainlint: off[TL202]\nprint(loss)\n# trainlint: on[TL202]\n",
]
TAILS = ["print(total)\n", "print(sum(losses) / max(len(losses), 1))\n", "torch.save(model.state_dict(), 'é.pt')\n", ""]
BASE = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total, losses = 0.0, []
for step, batch in enumerate(loader):
"""
STEP = [
    "batch = batch.cuda()\n",
    "loss = model(batch).square().mean()\n",
    "optimizer.zero_grad()\n",
    "loss.backward()\n",
]

LINT = settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def indented(text: str) -> str:
    """One level further in, but for what stands in triple quotes."""
    found, inside = "", False
    for row in text.splitlines(keepends=True):
        found += row if inside or not row.strip() else "    " + row
        inside ^= row.count("'''") % 2 == 1
    return found


@st.composite
def programs(draw: st.DrawFn) -> str:
    step = draw(st.sampled_from(["    ", "  ", "\t"]))
    body = [*STEP, *draw(st.lists(st.sampled_from(STEPS), max_size=5)), "optimizer.step()\n"]
    loop = BASE + "".join(indented(one) for one in body)
    parts = [draw(st.sampled_from(SETUPS)), draw(st.sampled_from(LOADERS)), loop, draw(st.sampled_from(TAILS))]
    code = "".join(parts)
    if draw(st.booleans()):
        code = "def train():\n" + indented(code) + "train()\n"
    code = re.sub(r"^(?:    )+", lambda found: step * (len(found[0]) // 4), code, flags=re.MULTILINE)
    text = draw(st.sampled_from(HEADS)) + draw(st.sampled_from(["", "\n", "\n# 😀\n\n"])) + code
    text = draw(st.sampled_from([text, text.removesuffix("\n")]))
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n", "\r"])))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "train.py"
    path.write_bytes(text.encode("utf-8"))
    return path


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8")


def run(*arguments: str | Path) -> str:
    """What the program prints; it must not fail."""
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = run_program([*map(str, arguments), "--no-cache", "--jobs", "1"])
    assert status in (0, 1), errors.getvalue()
    return output.getvalue()


def found(path: Path, *arguments: str | Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run(path, "--output-format", "json", *arguments))
    return listed


@LINT
@given(text=programs())
def test_suppressions_of_all_that_is_reported_bring_silence(folder: Path, text: str) -> None:
    path = write(folder, text)
    run(path, "--add-suppressions=known")
    silenced = read(path)
    cst.parse_module(silenced)
    assert found(path) == []
    run(path, "--add-suppressions=known")
    assert read(path) == silenced


@LINT
@given(text=programs(), above=st.lists(st.sampled_from(["\n", "# größe 😀\n", "x = 1\n"]), max_size=3))
def test_a_baseline_of_all_that_is_reported_brings_silence(folder: Path, text: str, above: list[str]) -> None:
    path, baseline = write(folder, text), folder / "old.json"
    run(path, "--write-baseline", baseline)
    assert found(path, "--baseline", baseline) == []
    ends = "\r\n" if "\r\n" in text else "\r" if "\r" in text else "\n"
    head, import_, rest = text.partition("from torch.utils")
    write(folder, head + "".join(above).replace("\n", ends) + import_ + rest)
    assert found(path, "--baseline", baseline) == []


@LINT
@given(text=programs())
def test_fixing_twice_is_fixing_once_and_the_program_parses(folder: Path, text: str) -> None:
    path = write(folder, text)
    run(path, "--fix", "--unsafe-fixes")
    fixed = read(path)
    cst.parse_module(fixed)
    compile(fixed, "train.py", "exec")
    run(path, "--fix", "--unsafe-fixes")
    assert read(path) == fixed


def offset(rows: list[str], place: dict[str, int]) -> int:
    assert 1 <= place["row"] <= len(rows)
    row = rows[place["row"] - 1]
    assert 1 <= place["column"] <= len(row.rstrip("\r\n")) + 1
    return sum(map(len, rows[: place["row"] - 1])) + place["column"] - 1


@LINT
@given(text=programs())
def test_places_in_json_lie_in_the_text_and_its_edits_apply(folder: Path, text: str) -> None:
    path = write(folder, text)
    rows = text.splitlines(keepends=True)
    rows = rows if rows and not rows[-1].endswith(("\n", "\r")) else [*rows, ""]
    for one in found(path):
        assert offset(rows, one["location"]) <= offset(rows, one["end_location"])
        assert one["location"]["row"] <= one["noqa_row"] <= len(rows)
        edits = one["fix"]["edits"] if one["fix"] else []
        changed = text
        for edit in reversed(edits):
            start, end = offset(rows, edit["location"]), offset(rows, edit["end_location"])
            assert start <= end
            changed = changed[:start] + edit["content"] + changed[end:]
        cst.parse_module(changed)
        if edits:
            assert changed != text


@settings(LINT, max_examples=8)
@given(text=programs(), other=programs())
def test_findings_are_the_same_however_the_file_is_named(folder: Path, text: str, other: str) -> None:
    path = write(folder, text)
    (folder / "other.py").write_bytes(other.encode("utf-8"))

    def findings(named: Path, **options: Any) -> list[tuple[object, ...]]:
        chosen = {"cache": False, "jobs": 1, **options}
        result = check([named], CheckOptions(**chosen))
        assert not result.errors
        return [
            (one.location, one.end_location, one.finding.code, one.finding.message, one.noqa_row)
            for one in result.findings
            if one.path == path
        ]

    alone = findings(path)
    assert findings(folder) == alone
    assert findings(folder, jobs=2) == alone
    assert findings(path, texts={path: text.encode("utf-8")}) == alone
    for _ in ("stored", "read"):
        assert findings(folder, cache=True) == alone
