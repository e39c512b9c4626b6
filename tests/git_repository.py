"""Repositories for tests, made with the real git."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SETTINGS = {
    "user.name": "Test",
    "user.email": "test@example.com",
    "commit.gpgsign": "false",
    "core.autocrlf": "false",
}


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, whatever the configuration of the user is; return what it prints.

    Raises:
        subprocess.CalledProcessError: git failed.
    """
    settings = [word for key, value in _SETTINGS.items() for word in ("-c", f"{key}={value}")]
    command = ["git", "-C", str(folder), *settings, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
