"""What is said where a package that a probe samples with is not there."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("trainlint", "trainlint_rules", "pydantic", "pydantic_core", "annotated_types", "typing_inspection")
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from trainlint.probe.sampling.pyspy import PySpyUnavailableError, program
try:
    program()
except PySpyUnavailableError as error:
    print(error)
"""


def said_without_py_spy(libraries: Path) -> str:
    """What a trainlint says whose libraries lie in a folder, where nothing else is installed."""
    libraries.mkdir(parents=True)
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        (libraries / name).symlink_to(spec.submodule_search_locations[0], target_is_directory=True)
    typing_extensions = find_spec("typing_extensions")
    assert typing_extensions is not None
    assert typing_extensions.origin is not None
    (libraries / "typing_extensions.py").symlink_to(typing_extensions.origin)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, str(libraries)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_where_py_spy_is_not_installed_the_extra_installs_it(tmp_path: Path) -> None:
    assert said_without_py_spy(tmp_path / "libs") == "py-spy is not installed: pip install 'PATH_OF_THE_CLONE[probe]'"


def test_where_the_editor_extension_carries_no_py_spy_nothing_can_be_installed(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text(json.dumps({"target": "alpine-x64", "without": ["py-spy"]}))
    assert said_without_py_spy(tmp_path / "libs") == (
        "the editor extension carries no py-spy for alpine-x64, since no wheel is published for that platform"
    )
