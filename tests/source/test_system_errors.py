"""What the system refuses is told in words that stand within a sentence."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from trainlint.source.system_errors import reason_of


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a"), "no space left on device"),
        (OSError("closed"), "closed"),
        (OSError(), "the system refused"),
    ],
)
def test_a_refusal_is_told_in_words(error: OSError, reason: str) -> None:
    assert reason_of(error) == reason


def test_of_a_folder_the_first_refusal_is_told(tmp_path: Path) -> None:
    (tmp_path / "from").mkdir()
    for name in ("a", "b"):
        (tmp_path / "from" / name).symlink_to(tmp_path / "missing")
    with pytest.raises(shutil.Error) as refused:
        shutil.copytree(tmp_path / "from", tmp_path / "to")
    reason = reason_of(refused.value)
    assert reason.startswith("No such file or directory: ")
    assert reason.count("No such file") == 1
