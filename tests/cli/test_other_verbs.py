"""`rules`, `explain`, `config` and `clean`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from program import Program

FIELDS = ["code", "name", "family", "summary", "default", "severity", "fix", "confirmed_by", "torch", "url"]


def test_rules_are_listed_by_family(program: Program) -> None:
    heading, _, *lines = program("rules").stdout.splitlines()
    assert heading.split() == ["code", "name", "severity", "default", "fix", "what", "it", "finds"]
    assert lines[0] == "tool"
    assert any(line.split()[:2] == ["TL001", "syntax-error"] for line in lines)
    codes = [line.split()[0] for line in lines if line.startswith("  ")]
    assert codes == sorted(codes)


def test_the_headings_of_rules_stand_above_what_they_are_of(program: Program) -> None:
    heading, *lines = program("rules").stdout.splitlines()
    (row,) = [line for line in lines if line.startswith("  TL212")]
    starts = [heading.index(word) for word in ("name", "severity", "default", "fix", "what it finds")]
    assert [row[start:].split()[0] for start in starts[:4]] == ["save-in-step", "warning", "on", "advice"]
    assert row[starts[4] - 1].isspace() and not row[starts[4]].isspace()


def test_rules_as_json_have_the_fields_of_the_contract(program: Program) -> None:
    rules = {rule["code"]: rule for rule in json.loads(program("rules", "--output-format", "json").stdout)}
    assert {tuple(rule) for rule in rules.values()} == {tuple(FIELDS)}
    rule = rules["TL210"]
    assert (rule["name"], rule["family"], rule["default"]) == ("loss-keeps-graph", "step", True)
    assert (rule["severity"], rule["fix"]) == ("warning", "safe")
    assert rule["summary"] and rule["confirmed_by"]
    assert rule["url"].startswith("https://trainlint.readthedocs.io/en/latest/")
    assert rules["TL001"]["fix"] is None
    assert {rule["fix"] for rule in rules.values()} <= {"safe", "unsafe", "display", None}


@pytest.mark.parametrize("name", ["TL210", "loss-keeps-graph", "tl210"])
def test_a_rule_is_explained_by_code_or_name(program: Program, name: str) -> None:
    done = program("explain", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# loss-keeps-graph (TL210)\n")
    for section in ("What it does", "Why it is slow", "When it is fine", "Use instead", "Fix safety"):
        assert f"## {section}\n" in done.stdout


def test_a_misspelled_rule_gets_a_hint(program: Program) -> None:
    assert "did you mean `loss-keeps-graph`?" in program("explain", "loss-keep-graph").stderr


def test_what_only_a_probe_reports_is_explained_too(program: Program) -> None:
    done = program("explain", "TL910")
    assert done.returncode == 0
    assert done.stdout.startswith("# unpredicted-sync (TL910)\n")
    assert "Family: runtime" in done.stdout


def test_settings_name_where_they_come_from(program: Program) -> None:
    program.write(
        {
            "pyproject.toml": "[tool.trainlint]\nignore = ['TL203']\n[tool.trainlint.severity]\nTL201 = 'error'\n",
            "src/train.py": "x = 1\n",
        }
    )
    file = str(program.folder / "pyproject.toml")
    done = program("config", "src/train.py", "--config", "device = 'cuda'")
    lines = done.stdout.splitlines()
    assert f'ignore = ["TL203"]  # {file}' in lines
    assert f'severity.TL201 = "error"  # {file}' in lines
    assert 'device = "cuda"  # --config' in lines
    assert 'min-confidence = "medium"  # default' in lines


def test_printed_settings_are_toml(program: Program) -> None:
    program.write({"trainlint.toml": "[per-file-ignores]\n'tests/*.py' = ['TL2']\n"})
    settings = tomllib.loads(program("config").stdout)
    assert settings["per-file-ignores"] == {"tests/*.py": ["TL2"]}
    assert settings["min-confidence"] == "medium"


def test_settings_as_json(program: Program) -> None:
    program.write({"trainlint.toml": "select = ['TL2']\n"})
    document = json.loads(program("config", "--output-format", "json").stdout)
    assert document["file"] == str(program.folder / "trainlint.toml")
    assert document["settings"]["select"] == ["TL2"]
    assert document["origins"]["select"] == document["file"]
    assert document["origins"]["ignore"] == "default"


def test_isolated_settings_are_the_defaults(program: Program) -> None:
    program.write({"trainlint.toml": "select = ['TL2']\n"})
    document = json.loads(program("config", "--isolated", "--output-format", "json").stdout)
    assert (document["file"], document["settings"]["select"]) == (None, None)


def caches(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob(".trainlint_cache"))


def test_clean_removes_the_caches_of_all_projects_in_a_folder(program: Program) -> None:
    program.write({"a/pyproject.toml": "", "a/train.py": "x = (\n", "b/pyproject.toml": "", "b/train.py": "x = (\n"})
    program("a", "b")
    assert caches(program.folder) == ["a/.trainlint_cache", "b/.trainlint_cache"]
    assert program("clean", "a").returncode == 0
    assert caches(program.folder) == ["b/.trainlint_cache"]
    assert program("clean").returncode == 0
    assert caches(program.folder) == []


def test_clean_of_a_clean_folder_does_nothing(program: Program) -> None:
    done = program("clean")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_clean_removes_a_cache_that_is_elsewhere(program: Program) -> None:
    program.write({"train.py": "x = (\n"})
    program(".", "--cache-dir", "elsewhere")
    assert (program.folder / "elsewhere").is_dir()
    assert program("clean", "--cache-dir", "elsewhere").returncode == 0
    assert not (program.folder / "elsewhere").exists()


def test_clean_removes_nothing_but_a_cache(program: Program) -> None:
    program.write({"precious/notes.txt": "keep"})
    done = program("clean", "--cache-dir", "precious")
    assert done.returncode == 2
    assert "not a cache of trainlint" in done.stderr
    assert program.read("precious/notes.txt") == "keep"


def test_config_prints_the_project(program: Program) -> None:
    program.write({"setup.py": "", "src/trainlint.toml": "", "src/a.py": ""})
    assert f"# project: {program.folder}\n" in program("config", "src/a.py").stdout
    assert json.loads(program("config", "src/a.py", "--output-format", "json").stdout)["project"] == str(program.folder)
