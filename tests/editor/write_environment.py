"""Makes a virtual environment that has torch and nothing of trainlint: the environment of somebody's training.

write_environment.py FOLDER

What torch needs is linked from the environment of this interpreter.
"""

from __future__ import annotations

import os
import re
import sys
import venv
from importlib import metadata
from pathlib import Path


def main(folder: Path) -> None:
    venv.create(folder, clear=True, symlinks=True)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for distribution in needed_by("torch"):
        files = distribution.files or []
        for name in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = packages / name
            if not link.is_symlink():
                link.symlink_to(Path(os.path.realpath(str(distribution.locate_file(name)))))


def needed_by(name: str) -> list[metadata.Distribution]:
    """A distribution and all that it needs and that is installed."""
    found: dict[str, metadata.Distribution] = {}
    wanted = [name]
    while wanted:
        one = wanted.pop()
        if one in found:
            continue
        try:
            found[one] = metadata.distribution(one)
        except metadata.PackageNotFoundError:
            continue  # of another platform
        requirements = [text for text in found[one].requires or [] if "extra ==" not in text]
        wanted += [re.split(r"[^\w.-]", text)[0] for text in requirements]
    return list(found.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
