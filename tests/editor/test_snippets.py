"""The page about editors shows configurations that start the server, and names all that a client can tell it."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import editing
import pytest
from pydantic import BaseModel
from snippets import blocks, section, snippet

from trainlint.lsp.settings import Settings, Start

COMMAND = ["trainlint", "server"]
SETTINGS = "What a client can tell the server"
DATA = {"json": json.loads, "toml": tomllib.loads}
DATA_BLOCKS = [
    pytest.param(language, text, id=f"{title}-{language}")
    for title in ("Helix", "Zed", "Sublime Text", "PyCharm")
    for language, text in blocks(title)
]


@pytest.mark.parametrize(("language", "text"), DATA_BLOCKS)
def test_a_snippet_can_be_read(language: str, text: str) -> None:
    assert DATA[language](text)


def helix() -> dict[str, Any]:
    return tomllib.loads(snippet("Helix", "toml"))


def zed() -> dict[str, Any]:
    return json.loads(snippet("Zed", "json"))["lsp"]["pylsp"]


def sublime() -> dict[str, Any]:
    return json.loads(snippet("Sublime Text", "json"))["clients"]["trainlint"]


def test_helix_starts_the_server_beside_others() -> None:
    server = helix()["language-server"]["trainlint"]
    assert [server["command"], *server["args"]] == COMMAND
    (python,) = helix()["language"]
    assert set(python["language-servers"]) == helix()["language-server"].keys()


def test_zed_starts_the_server_in_a_place_that_is_in_use() -> None:
    assert [zed()["binary"]["path"], *zed()["binary"]["arguments"]] == COMMAND
    assert "pylsp" in json.loads(snippet("Zed", "json"))["languages"]["Python"]["language_servers"]


def test_sublime_starts_the_server() -> None:
    assert sublime()["command"] == COMMAND


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(helix()["language-server"]["trainlint"]["config"]["trainlint"], id="Helix"),
        pytest.param(zed()["initialization_options"]["settings"], id="Zed"),
        pytest.param({key.split(".")[1]: value for key, value in sublime()["settings"].items()}, id="Sublime"),
        pytest.param(json.loads(snippet("PyCharm", "json"))["trainlint"], id="PyCharm"),
    ],
)
def test_the_settings_of_a_snippet_are_known(given: dict[str, Any]) -> None:
    assert Settings.of(given).model_dump(by_alias=True, exclude_unset=True) == given


def test_the_command_is_one_that_is_installed() -> None:
    assert shutil.which(COMMAND[0], path=str(Path(editing.PYTHON).parent))


def table(heading: str) -> dict[str, Any]:
    """Names and defaults in a table of the page."""
    rows = section(SETTINGS).partition(f"| {heading} | default | |\n")[2].partition("\n\n")[0]
    return {name: json.loads(default) for name, default in re.findall(r"^\| `(\w+)` \| `(.+?)` \|", rows, re.MULTILINE)}


@pytest.mark.parametrize(("heading", "model"), [("setting", Settings()), ("initialization option", Start())])
def test_the_page_lists_what_a_client_can_tell(heading: str, model: BaseModel) -> None:
    assert table(heading) == model.model_dump(by_alias=True)
