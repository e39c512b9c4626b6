"""Puts the server and its libraries for all supported Python versions of one platform into a folder.

The wheels come from the package registry, pinned and checked by digest. Those that are not compiled, or for the stable
interface of Python, serve all versions. The other compiled ones differ between versions only in the compiled modules,
whose names carry the version; so all of them are unpacked into one folder, and each interpreter imports its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "extension/bundle/requirements.txt"
LAUNCHER = ROOT / "extension/bundle/launch.py"
NOT_CARRIED = {"watchfiles": "the command line's --watch alone uses it"}
"""Dependencies of trainlint that its server does without."""
EXTRA = "probe"
"""The extra of trainlint whose packages are carried as well, where they have a wheel for the platform."""
PROGRAMS = "bin"
"""Folder of the programs that packages bring."""
PYTHON_VERSIONS = ("3.11", "3.12", "3.13", "3.14")


@dataclass(frozen=True)
class Target:
    """A platform as VS Code names it."""

    name: str
    tags: tuple[str, ...]
    """Platforms of the wheels that run there, as pip names them."""
    machine: str | None = None
    """Processor, where the names of compiled modules do not tell it."""
    without: frozenset[str] = frozenset()
    """Packages that publish no wheels for it, for all versions of Python, and that the server can do without."""


_WITHOUT_PY_SPY = frozenset({"py-spy"})
TARGETS = {
    target.name: target
    for target in (
        Target("linux-x64", ("manylinux_2_28_x86_64", "manylinux2014_x86_64")),
        Target("linux-arm64", ("manylinux_2_28_aarch64", "manylinux2014_aarch64")),
        Target("alpine-x64", ("musllinux_1_2_x86_64", "musllinux_1_1_x86_64"), without=_WITHOUT_PY_SPY),
        Target("alpine-arm64", ("musllinux_1_2_aarch64", "musllinux_1_1_aarch64"), without=_WITHOUT_PY_SPY),
        Target("darwin-x64", ("macosx_11_0_x86_64",), machine="x86_64"),
        Target("darwin-arm64", ("macosx_11_0_arm64",), machine="arm64"),
        Target("win32-x64", ("win_amd64",)),
        Target("win32-arm64", ("win_arm64",), without=frozenset({"pyyaml"})),
    )
}
"""PyYAML publishes no wheel for Windows on ARM and Python 3.11; without it, YAML files of a project say nothing.
libcst publishes no wheels for macOS on Intel since 1.9; where it does again, `darwin-x64` builds."""

_COMPILED = re.compile(r"(?P<module>[^/.]+)(?P<suffix>(?:\.[^/.]+)?\.(?:so|pyd))")
_PROGRAM = re.compile(r"[^/]+\.data/scripts/(?P<name>[^/]+)")
_REQUIREMENT = re.compile(r"^(?P<name>[\w.-]+)==(?:.*\\\n)*.*\n", re.MULTILINE)
_LEFT_OUT = re.compile(
    r"(?:^|/)tests?/|^example\.py$|\.pyi$|\.dist-info/(?!METADATA$|licenses/|LICEN[CS]E|entry_points\.txt$)"
)
"""What no program imports. Of the description of a distribution, its name, version, licence and entry points stay."""


class BundleError(Exception):
    """The bundle cannot be made; the message says why."""


def build_bundle(target: Target, folder: Path, wheels: Path) -> None:
    """Make the folder hold the launcher, the libraries and a description of them; `wheels` keeps the downloads."""
    downloaded, serving_all = _download_all(target, wheels / target.name)
    shutil.rmtree(folder, ignore_errors=True)
    libraries = folder / "libs"
    compiled = {version: _unpack_all(found, libraries) for version, found in downloaded.items()}
    suffixes = {version: _suffix_of(version, modules) for version, modules in compiled.items()}
    _check_same_modules(compiled)
    stable = _unpack_all(serving_all, libraries)
    server = _build_wheel(wheels / "trainlint")
    _unpack(server, libraries)
    shutil.copy(LAUNCHER, folder)
    description = {
        "target": target.name,
        "trainlint": _version_of(server),
        "suffixes": suffixes,
        "machine": target.machine,
        "stable_modules": sorted(stable),
        "libraries": {_name_of(wheel): _version_of(wheel) for wheel in [*downloaded[PYTHON_VERSIONS[0]], *serving_all]},
        "without": sorted(target.without),
    }
    (folder / "bundle.json").write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def compiled_modules(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Modules that are compiled, each with the end of its file's name, among paths of files."""
    for name in names:
        path = PurePosixPath(name)
        if found := _COMPILED.fullmatch(path.name):
            yield (path.parent / found["module"]).as_posix(), found["suffix"]


def _download_all(target: Target, folder: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """The wheels of all libraries: those for each version of Python, and those that serve all versions."""
    requirements = _pinned(REQUIREMENTS.read_text(encoding="utf-8"))
    if missing := _dependencies() - requirements.keys() - NOT_CARRIED.keys():
        raise BundleError(f"{REQUIREMENTS} lacks {', '.join(sorted(missing))}; its first lines say how to renew it")
    wanted = {name: lines for name, lines in requirements.items() if name not in target.without}
    first, *others = PYTHON_VERSIONS
    all_of_first = _download(target, first, wanted.values(), folder)
    found = {first: [wheel for wheel in all_of_first if not _serves_all_versions(wheel)]}
    names = [_name_of(wheel) for wheel in found[first]]
    for version in others:
        found[version] = _download(target, version, [wanted[name] for name in names], folder)
    return found, [wheel for wheel in all_of_first if _serves_all_versions(wheel)]


def _serves_all_versions(wheel: Path) -> bool:
    """Whether a wheel is not compiled against the interface of one version of Python."""
    return wheel.stem.split("-")[-2] in ("none", "abi3")


def _dependencies() -> set[str]:
    """Names of what trainlint itself asks for, and of its extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"][EXTRA]]
    return {_canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in requirements}


def _pinned(text: str) -> dict[str, str]:
    """The lines of each requirement by its name."""
    return {_canonical(found["name"]): found[0] for found in _REQUIREMENT.finditer(text)}


def _download(target: Target, version: str, requirements: Iterable[str], folder: Path) -> list[Path]:
    """The wheels of requirements; what was downloaded before for the same ones is taken as it is."""
    folder = folder / version
    listed, complete = folder / "requirements.txt", folder / "complete"
    text = "".join(requirements)
    if complete.exists() and listed.read_text(encoding="utf-8") == text:
        return sorted(folder.glob("*.whl"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    listed.write_text(text, encoding="utf-8")
    platforms = [f"--platform={tag}" for tag in target.tags]
    _run(
        *("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"),
        *("--require-hashes", f"--requirement={listed}", f"--dest={folder}"),
        *(*platforms, f"--python-version={version}", "--implementation=cp"),
        failure=f"no libraries for {target.name} with Python {version}",
    )
    complete.touch()
    return sorted(folder.glob("*.whl"))


def _build_wheel(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    _run(
        *("-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", f"--wheel-dir={folder}"),
        str(ROOT),
        failure="the wheel of trainlint was not built",
    )
    (wheel,) = folder.glob("trainlint-*.whl")
    return wheel


def _run(*arguments: str, failure: str) -> None:
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise BundleError(f"{failure}:\n{done.stderr.strip()}")


def _unpack_all(wheels: Sequence[Path], folder: Path) -> dict[str, str]:
    """Unpack wheels; returns the compiled modules and the ends of their files' names."""
    return {module: suffix for wheel in wheels for module, suffix in compiled_modules(_unpack(wheel, folder))}


def _unpack(wheel: Path, folder: Path) -> list[str]:
    """Unpack what is imported of a wheel, and its programs; a file that another wheel brought as well must be the same.
    Returns the names of what is imported."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not _LEFT_OUT.search(name)]
        programs = {name: found["name"] for name in names if (found := _PROGRAM.fullmatch(name))}
        imported = [name for name in names if name not in programs]
        if strange := [name for name in imported if ".data/" in name]:
            raise BundleError(f"{wheel.name} brings {strange[0]}, which is neither imported nor a program")
        for name in imported:
            path, content = folder / name, archive.read(name)
            if path.exists() and path.read_bytes() != content:
                raise BundleError(f"{wheel.name} brings another {name} than a wheel before it")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for name, program in programs.items():
            _install_program(wheel, program, archive.read(name), folder)
    return imported


def _install_program(wheel: Path, program: str, content: bytes, libraries: Path) -> None:
    """Put a program beside the libraries, as pip does, and record with its package that it is there."""
    path = libraries.parent / PROGRAMS / program
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o755)
    description = libraries / f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"
    with (description / "RECORD").open("a", encoding="utf-8") as record:
        record.write(f"../{PROGRAMS}/{program},,\n")


def _suffix_of(version: str, modules: Mapping[str, str]) -> str:
    """The one end that the names of all compiled modules for a version have."""
    suffixes = set(modules.values())
    tag = version.replace(".", "")
    if len(suffixes) != 1 or not re.search(rf"\b(?:cpython-|cp){tag}\b", next(iter(suffixes))):
        raise BundleError(f"the compiled modules for Python {version} end in {sorted(suffixes)}")
    return suffixes.pop()


def _check_same_modules(compiled: Mapping[str, Mapping[str, str]]) -> None:
    first, *others = (set(modules) for modules in compiled.values())
    if any(other != first for other in others):
        raise BundleError(f"the versions of Python do not have the same compiled modules: {compiled}")


def _name_of(wheel: Path) -> str:
    return _canonical(wheel.name.split("-")[0])


def _version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
