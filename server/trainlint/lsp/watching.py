"""Notices changes on disk, for clients that do not tell of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainlint.lint.watched import Watched
    from trainlint.lsp.session import Session

_LOG = logging.getLogger(__name__)
_LOOK_UP_MS = 500
"""How often to look whether the workspace has other folders."""


async def watch(session: Session) -> None:
    """Tell the session of files that others make, change or remove in the folders of the workspace, for as long as the
    server runs."""
    try:
        import watchfiles  # noqa: F401, since the servers that editors bring along have no need of it
    except ImportError:
        _LOG.warning("changes on disk are not noticed: the editor does not tell of them, and watchfiles is missing")
        return
    from trainlint.lint.watched import Watched

    # What is told of first is every file, since any may have changed between its first check and now.
    known = Watched(frozenset(), {})
    while True:
        state = _state(session)
        before = await asyncio.to_thread(_survey, session)
        try:
            async for _ in _changes(before, lambda state=state: _state(session) == state):  # type: ignore[misc]
                now = await asyncio.to_thread(_survey, session)
                if changed := now.differences(known):
                    session.changed_on_disk(sorted(changed))
                known = now
                if now.folders != before.folders:
                    break
        except FileNotFoundError:
            continue  # one of the folders went in the meantime
        except OSError as error:
            session.complain(f"trainlint: changes on disk are not noticed, since files cannot be watched: {error}")
            return


def _state(session: Session) -> object:
    """What decides about which files there are that matter."""
    return [(folder.path, folder.settings, folder.inputs) for folder in session.folders.values()]


def _survey(session: Session) -> Watched:
    from trainlint.lint.watched import Watched, watched

    found = [
        watched(
            [folder.path], folder.settings.options(folder.path, trusted=session.trusted), map(Path, folder.inputs or ())
        )
        for folder in list(session.folders.values())
        if folder.path is not None and folder.path.is_dir()
    ]
    return Watched(
        frozenset().union(*(one.folders for one in found)),
        {file: stamp for one in found for file, stamp in one.files.items()},
    )


async def _changes(watched: Watched, goes_on: Callable[[], bool]) -> AsyncIterator[None]:
    """Yield when a change may matter, and first once no change is missed any more.

    Raises:
        OSError: the folders cannot be watched.
    """
    if not watched.folders:
        while goes_on():
            await asyncio.sleep(_LOOK_UP_MS / 1000)
        return
    from watchfiles import awatch

    from trainlint.lint.watched import MANNER

    is_first = True
    batches = awatch(*watched.folders, rust_timeout=_LOOK_UP_MS, **MANNER)
    async for batch in batches:
        if not goes_on():
            return
        if is_first or any(watched.may_matter(Path(path)) for _, path in batch):
            is_first = False
            yield
