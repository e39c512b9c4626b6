"""What the tests of the language server share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest
import pytest_asyncio
from language_client import Abilities, Editor


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--edits", type=int, default=0, help="random edits for each test of the language server's texts")


class Start(Protocol):
    async def __call__(self, *folders: Path, **how: Any) -> Editor: ...


class Write(Protocol):
    def __call__(self, files: Mapping[str, str], name: str = "project") -> Path: ...


@pytest_asyncio.fixture
async def start() -> AsyncIterator[Start]:
    """Start editors that are ended with the test."""
    editors: list[Editor] = []

    async def start(*folders: Path, **how: Any) -> Editor:
        editors.append(await Editor.start(*folders, **how))
        return editors[-1]

    yield start
    for editor in editors:
        if editor.server is not None and editor.server.returncode is None:
            assert await editor.stop() == 0


@pytest_asyncio.fixture(scope="session")
async def running() -> AsyncIterator[dict[Abilities, Editor]]:
    """The editors that tests share, since starting one takes longer than most tests."""
    editors: dict[Abilities, Editor] = {}
    yield editors
    for editor in editors.values():
        assert await editor.stop() == 0


@pytest_asyncio.fixture
async def edit(running: dict[Abilities, Editor]) -> AsyncIterator[Start]:
    """An editor that other tests used before, with these folders in its workspace."""
    used: list[tuple[Editor, tuple[Path, ...]]] = []

    async def edit(*folders: Path, abilities: Abilities = Abilities()) -> Editor:  # noqa: B008
        if abilities not in running:
            running[abilities] = await Editor.start(abilities=abilities)
        editor = running[abilities]
        used.append((editor, folders))
        editor.tell_folders(added=folders)
        await editor.information()
        return editor

    yield edit
    for editor, folders in used:
        editor.clear()
        editor.tell_folders(removed=folders)
        # Checks that are under way may still have something to say.
        await editor.whole()
        editor.clear()


@pytest.fixture
def project(tmp_path: Path) -> Write:
    """Write the files of a project, by relative path; its folder."""

    def write(files: Mapping[str, str], name: str = "project") -> Path:
        folder = tmp_path / name
        for path, text in {"pyproject.toml": "", **files}.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
        return folder

    return write
