"""The language server in a real Emacs with Eglot, set up as the documentation says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import editing
import pytest
from editing import Report, Step
from snippets import snippet

EMACS = editing.editor("emacs")
SCRIPT = Path(__file__).parent / "emacs.el"
BATCH = [EMACS, "--batch", "--no-init-file"]
"""Not `-Q`, which hides packages of the distribution such as Eglot."""

if subprocess.run([*BATCH, "--eval", "(require 'eglot)"], capture_output=True, check=False).returncode:
    editing.miss("Eglot")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return editing.play([*BATCH, "-l", str(SCRIPT)], snippet("Emacs", "elisp"), tmp_path_factory.mktemp("emacs"))


@pytest.mark.parametrize("step", editing.STEPS, ids=lambda step: step.name.replace(" ", "-"))
def test_what_is_seen_after(step: Step, report: Report) -> None:
    seen = report[step.name]
    assert {name: seen[name] for name in step.seen} == step.seen


def test_the_menu_of_code_actions_offers_all_there_is(report: Report) -> None:
    assert report["fixed one"]["titles"] == editing.MENU


def test_asking_why_names_the_rule(report: Report) -> None:
    assert editing.WHY in report["asked why"]["said"]


def test_the_settings_of_the_snippet_reach_the_server(report: Report) -> None:
    assert report["settings"]["settings"]["minConfidence"] == "low"
