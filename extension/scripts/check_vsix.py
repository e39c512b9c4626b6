"""Checks a package of the extension: that it is complete, holds nothing else, and that its server starts."""

from __future__ import annotations

import importlib.machinery
import json
import stat
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from bundled_server import PROGRAMS, PYTHON_VERSIONS, ROOT, BundleError, Target, compiled_modules

SIZE_LIMIT = 40 * 2**20
"""Bytes. What is above has taken in something that does not belong there."""
FOLDERS = ("bundled", "dist", "extension")
"""Folders of the extension in the package."""
START_LIMIT_S = 120


def check_vsix(package: Path, target: Target) -> None:
    """Raise a `BundleError` that says what is wrong with the package."""
    if package.stat().st_size > SIZE_LIMIT:
        raise BundleError(f"{package} is larger than {SIZE_LIMIT / 2**20:.0f} MiB")
    with ZipFile(package) as archive:
        names = [name.removeprefix("extension/") for name in archive.namelist() if name.startswith("extension/")]
        if f'TargetPlatform="{target.name}"' not in archive.read("extension.vsixmanifest").decode():
            raise BundleError(f"{package} is not marked as a package for {target.name}")
        description = json.loads(archive.read("extension/bundled/bundle.json"))
        _check_files(names)
        _check_compiled(names, description["suffixes"], description["stable_modules"])
        _check_programs(archive, target)
        if description["suffixes"].get(_own_version()) in importlib.machinery.EXTENSION_SUFFIXES:
            with tempfile.TemporaryDirectory() as folder:
                _extract(archive, Path(folder))
                bundled = Path(folder) / "extension/bundled"
                _check_server(bundled / "launch.py", description["trainlint"])
                _check_probe(bundled / "libs", target)


def _check_files(names: list[str]) -> None:
    needed = {"package.json", "readme.md", "changelog.md", "LICENSE.txt", "dist/extension.js", "bundled/launch.py"}
    needed |= {f"bundled/libs/{name}/__init__.py" for name in ("trainlint", "trainlint_rules", "libcst", "pygls")}
    manifest = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    needed |= {manifest["icon"]} | {
        step["media"]["markdown"] for walk in manifest["contributes"]["walkthroughs"] for step in walk["steps"]
    }
    if missing := needed - set(names):
        raise BundleError(f"the package lacks {sorted(missing)}")
    strange = [name for name in names if "/" in name and name.split("/")[0] not in FOLDERS]
    strange += [name for name in names if name.endswith((".map", ".pyc", ".ts"))]
    if strange:
        raise BundleError(f"the package holds what it should not: {strange[:5]}")


def _check_compiled(names: list[str], suffixes: dict[str, str], stable: list[str]) -> None:
    """Each compiled module must be there for each version of Python, or be one that serves all of them."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, suffix in compiled_modules(names):
        if module.removeprefix("bundled/libs/") not in stable:
            found[module].add(suffix)
    if set(suffixes) != set(PYTHON_VERSIONS) or any(ends != set(suffixes.values()) for ends in found.values()):
        raise BundleError(f"the compiled modules are not there for {', '.join(PYTHON_VERSIONS)}: {dict(found)}")


def _check_programs(archive: ZipFile, target: Target) -> None:
    """py-spy must be there, and be marked as a program, which the editor makes of it then."""
    programs = [one for one in archive.infolist() if one.filename.startswith(f"extension/bundled/{PROGRAMS}/")]
    names = {Path(one.filename).stem for one in programs}
    if names != {"py-spy"} - target.without:
        raise BundleError(f"the package holds the programs {sorted(names)}")
    if not all(_mode(one) & stat.S_IXUSR for one in programs):
        raise BundleError("py-spy is not marked as a program; build on a system whose files know what is one")


def _mode(entry: ZipInfo) -> int:
    return entry.external_attr >> 16


def _extract(archive: ZipFile, folder: Path) -> None:
    """Unpack as an editor does: files that are marked as programs become some."""
    for entry in archive.infolist():
        path = Path(archive.extract(entry, folder))
        if mode := _mode(entry):
            path.chmod(stat.S_IMODE(mode))


def _check_probe(libraries: Path, target: Target) -> None:
    """The libraries that a probe samples with must be imported, and py-spy run, from the package."""
    code = "import psutil, pynvml, subprocess; from trainlint.probe.sampling.pyspy import program; "
    code += "subprocess.run([program(), '--version'], check=True)" if "py-spy" not in target.without else ""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(libraries)!r}); {code}"],
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
    )
    if done.returncode:
        raise BundleError(f"the package cannot sample:\n{done.stderr.strip()}")


def _check_server(launcher: Path, version: str) -> None:
    """The server of the package must answer a client, with no package of this interpreter in reach."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}})
    request = f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    with tempfile.TemporaryDirectory() as folder:
        server = subprocess.run(
            [sys.executable, "-I", "-S", launcher, "server"],
            input=request,
            capture_output=True,
            cwd=folder,
            timeout=START_LIMIT_S,
        )
    answer = server.stdout.decode()
    if '"serverInfo"' not in answer or version not in answer:
        raise BundleError(f"the server of the package does not answer:\n{answer}\n{server.stderr.decode()}")


def _own_version() -> str:
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
