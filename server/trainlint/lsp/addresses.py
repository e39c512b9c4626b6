"""From addresses to paths."""

from __future__ import annotations

import os
from pathlib import Path

from pygls import uris


def path_of(uri: str) -> Path | None:
    """The absolute path of a file address; None for what is not in a file, or in none that this system could have, as
    with the letter of a drive where there are no drives."""
    path = uris.to_fs_path(uri)
    if path is None or uris.urlparse(uri)[0] != "file" or "\0" in path or not os.path.isabs(path):  # noqa: PTH117
        return None
    return Path(os.path.abspath(path))  # noqa: PTH100
