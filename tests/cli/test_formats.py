"""Every output format on a project with strange names, broken files, notebooks and suppressions: the real program."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from program import PLAIN, Program

from trainlint.report.formats import FORMATS

TRAIN = """\
import torch

def main():
    model = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        größe = model(torch.randn(8, 4, device="cuda")).square().mean()
        optimizer.zero_grad()
        größe.backward()
        optimizer.step()
        print("é|`<b>\\x1b[31m%,:", größe.item(
        ))

main()
"""
SUPPRESSED = "x = 1  # trainlint: ignore[TL201]\ny = 1  # trainlint: ignore[TL101] a reason\n"
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": "# Training"},
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": TRAIN},
    ],
}
FILES = {
    b"a b.py": TRAIN,
    b"new\nline.py": TRAIN,
    b"100%,x:y.py": TRAIN,
    b"back\\slash.py": TRAIN,
    b"<b>`|``.py": TRAIN,
    b"esc\x1b[31m.py": TRAIN,
    "größe.py".encode(): TRAIN,
    b"\xff\xfe.py": TRAIN,
    b"notebook.ipynb": json.dumps(NOTEBOOK),
    b"broken.py": "x = (\n",
    b"unreadable.py": "# coding: no-such-codec\n",
    b"suppressed.py": SUPPRESSED,
    b"trainlint.toml": "extend-select = ['TL004']\n",
}
ON_ALL = {"TL001": 1, "TL002": 1, "TL003": 2, "TL004": 1, "TL201": 9, "TL202": 9}
"""The findings by code."""
TOTAL = sum(ON_ALL.values())


def run(folder: Path, format: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "trainlint", ".", "--output-format", format, "--no-cache"],
        cwd=folder,
        capture_output=True,
        env=PLAIN,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert b"Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / ".git").mkdir()
    for name, text in FILES.items():
        try:
            (folder / os.fsdecode(name)).write_bytes(text.encode())
        except OSError:
            pytest.skip("this file system does not take every name")
    return folder


@pytest.fixture(scope="module")
def reports(project: Path) -> dict[str, str]:
    """What each format prints: UTF-8, strictly."""
    return {format: run(project, format).decode("utf-8") for format in FORMATS}


def counted(codes: list[str]) -> dict[str, int]:
    return {code: codes.count(code) for code in sorted(set(codes))}


def shown(name: bytes) -> str:
    return os.fsdecode(name).encode("utf-8", "backslashreplace").decode()


def test_json_and_json_lines_tell_the_same(project: Path, reports: dict[str, str]) -> None:
    findings = json.loads(reports["json"])
    assert [json.loads(line) for line in reports["json-lines"].splitlines()] == findings
    assert counted([finding["code"] for finding in findings]) == ON_ALL
    named = {finding["filename"] for finding in findings}
    assert named == {f"{project}/{shown(name)}" for name in FILES if not name.endswith(b".toml")}
    assert {finding["cell"] for finding in findings if finding["filename"].endswith(".ipynb")} == {2}


def test_a_span_of_several_rows_is_kept(reports: dict[str, str]) -> None:
    spans = [
        (finding["location"]["row"], finding["end_location"]["row"])
        for finding in json.loads(reports["json"])
        if finding["code"] in ("TL201", "TL202")
    ]
    assert set(spans) == {(11, 12)}
    github = [line for line in reports["github"].splitlines() if "(TL201 " in line and ".ipynb" not in line]
    assert all(",line=11,endLine=12::" in line for line in github)


def test_concise_is_a_line_a_finding(reports: dict[str, str]) -> None:
    lines = reports["concise"].split("\n")[:-1]
    assert len(lines) == TOTAL
    assert all(line.isprintable() for line in lines)
    assert counted([match[1] for line in lines for match in re.finditer(r":\d+: (TL\d{3}) ", line)]) == ON_ALL


def test_full_steers_no_terminal(reports: dict[str, str]) -> None:
    text = reports["full"]
    assert all(line.isprintable() for line in text.split("\n"))
    assert counted(re.findall(r"^(TL\d{3}) ", text, re.MULTILINE)) == ON_ALL


def test_gitlab_paths_are_those_of_the_repository(reports: dict[str, str]) -> None:
    issues = json.loads(reports["gitlab"])
    assert counted([issue["check_name"] for issue in issues]) == ON_ALL
    assert {issue["location"]["path"] for issue in issues} == {shown(name) for name in FILES if name[-4:] != b"toml"}
    assert len({issue["fingerprint"] for issue in issues}) == TOTAL


def test_gitlab_fingerprints_stay_when_lines_move_and_from_any_folder(program: Program) -> None:
    program.write({"src/train.py": TRAIN, "trainlint.toml": "", ".git/HEAD": ""})

    def prints(*paths: str) -> list[str]:
        return [issue["fingerprint"] for issue in json.loads(program(*paths, "--output-format", "gitlab", "-n").stdout)]

    before = prints(".")
    program.write({"src/train.py": "# one\n\n# two\n" + TRAIN})
    assert prints(".") == before
    program.folder = program.folder / "src"
    assert prints("train.py") == before
    program.write({"train.py": TRAIN.replace("größe.item(\n        ))", "größe.item(), step)")})
    assert set(prints("train.py")).isdisjoint(before)


def test_junit_has_a_failed_test_a_finding(reports: dict[str, str]) -> None:
    suites = ElementTree.fromstring(reports["junit"].encode())
    cases = [(case.get("classname"), case.get("name")) for case in suites.iter("testcase")]
    assert len(cases) == len(set(cases)) == TOTAL
    assert counted([str(name)[:5] for _, name in cases]) == ON_ALL
    assert ("notebook.ipynb", "TL201 sync-in-step at cell 2:11:36") in cases


def test_markdown_is_a_row_a_finding(reports: dict[str, str]) -> None:
    head, rule, *rows = reports["markdown"].split("\n")[:-1]
    assert (head.count("|"), rule.count("|")) == (5, 5)
    assert len(rows) == TOTAL
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [5] * TOTAL
    assert not [row for row in rows if re.search(r"(?<!`)<b>(?!`)", re.sub(r"`+[^`]*`+", "", row))]


def test_github_is_a_command_a_finding(project: Path, reports: dict[str, str]) -> None:
    lines = reports["github"].split("\n")[:-1]
    assert len(lines) == TOTAL
    assert all(
        re.match(r"::(error|warning|notice) title=trainlint \(TL\d{3} [a-z-]+\),file=[^,:]+,line=", line)
        for line in lines
    )
    assert any(f"file={project}/100%25%2Cx%3Ay.py," in line for line in lines)
    assert any(f"file={project}/new%0Aline.py," in line for line in lines)


EMPTY = {
    "full": "",
    "concise": "",
    "json": "[]\n",
    "json-lines": "",
    "github": "",
    "gitlab": "[]\n",
    "markdown": "trainlint found nothing.\n",
}


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_run_is_a_report_too(program: Program, format: str) -> None:
    program.write({"a.py": "x = 1\n"})
    done = program(".", "--output-format", format)
    assert done.returncode == 0
    if format in EMPTY:
        assert done.stdout == EMPTY[format]
    elif format == "junit":
        assert ElementTree.fromstring(done.stdout).get("failures") == "0"
    else:
        assert json.loads(done.stdout)["runs"][0]["results"] == []
