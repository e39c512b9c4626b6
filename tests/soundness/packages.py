"""Packages of the registry, as they are released: fetched once, unpacked, never installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = (
    "ultralytics",
    "pytorch-lightning",
    "mmengine",
    "monai",
    "trl",
    "peft",
    "sentence-transformers",
    "segmentation-models-pytorch",
    "catalyst",
    "OpenNMT-py",
)
"""Pure Python; between them loops of every framework, and much syntax."""


def fetch(packages: Sequence[str], folder: Path) -> list[Path]:
    """The unpacked packages, in folders below `folder`; only what is not there yet is downloaded.

    Raises:
        subprocess.CalledProcessError: pip could not download one.
    """
    return [_fetch(package, folder / package) for package in packages]


def _fetch(package: str, target: Path) -> Path:
    if target.is_dir():
        return target
    archives = target.with_name(f"{package}.download")
    shutil.rmtree(archives, ignore_errors=True)
    # A wheel rather than a source archive: pip would build the latter to learn its name.
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*pip, "--only-binary", ":all:", "--dest", str(archives), package], check=True)
    unpacked = target.with_name(f"{package}.unpacking")
    shutil.rmtree(unpacked, ignore_errors=True)
    for archive in archives.iterdir():
        _unpack(archive, unpacked)
    unpacked.rename(target)
    shutil.rmtree(archives)
    return target


def _unpack(archive: Path, target: Path) -> None:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(target)
    else:
        with tarfile.open(archive) as sources:
            sources.extractall(target, filter="data")
