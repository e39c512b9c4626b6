"""The language server in a real Neovim, set up as the documentation says."""

from __future__ import annotations

from pathlib import Path

import editing
import pytest
from editing import Report, Step
from snippets import snippet

NEOVIM = editing.editor("nvim")
SCRIPT = Path(__file__).parent / "neovim.lua"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    command = [NEOVIM, "--headless", "--clean", "-n", "-c", f"luafile {SCRIPT}"]
    return editing.play(command, snippet("Neovim", "lua"), tmp_path_factory.mktemp("neovim"))


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


@pytest.mark.parametrize("number", [0, 1], ids=["0.11-and-later", "0.8-to-0.10"])
def test_the_snippet_is_lua_for(number: int, tmp_path: Path) -> None:
    path = tmp_path / "snippet.lua"
    path.write_text(snippet("Neovim", "lua", number), encoding="utf-8")
    load = f"lua assert(loadfile('{path}'))"
    assert editing.complaints([NEOVIM, "--headless", "--clean", "-n", "-c", load, "-c", "qall!"]) == ""
