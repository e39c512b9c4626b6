"""What the linter says about the code of a job, and which configuration the job is judged by."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainlint.config.errors import ConfigError
from trainlint.lint.loaded import in_script

LOOP = "for batch in []:\n    print(batch)\n"


def write(folder: Path, configuration: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "trainlint.toml").write_text(configuration)
    script = folder / "train.py"
    script.write_text(LOOP)
    return script


def test_the_configuration_of_the_script_governs_the_job(tmp_path: Path) -> None:
    (tmp_path / "trainlint.toml").write_text('ignore = ["TL902"]\n')
    script = write(tmp_path / "job", 'ignore = ["TL901"]\n')
    found = in_script(script, tmp_path)
    assert "TL901" not in found.selection.rules
    assert "TL902" in found.selection.rules


def test_that_of_the_working_directory_does_where_no_script_is_known(tmp_path: Path) -> None:
    (tmp_path / "trainlint.toml").write_text('ignore = ["TL902"]\n')
    found = in_script(None, tmp_path)
    assert "TL901" in found.selection.rules
    assert "TL902" not in found.selection.rules


def test_each_file_is_judged_by_its_own_configuration(tmp_path: Path) -> None:
    script = write(tmp_path / "job", "")
    other = write(tmp_path / "library", '[severity]\nTL910 = "hint"\n')
    found = in_script(script, tmp_path).with_loaded([other])
    assert {script, other} == found.paths
    one, two = found.selection_of(script), found.selection_of(other)
    severity = one.rules["TL910"].severity
    assert [each.severity("TL910", severity).label for each in (one, two)] == [severity.label, "hint"]


@pytest.mark.parametrize("known", [True, False], ids=["a script", "no script"])
def test_a_wrong_configuration_is_told_before_anything_runs(tmp_path: Path, known: bool) -> None:
    script = write(tmp_path / "job", 'ignore = ["TL9999"]\n')
    with pytest.raises(ConfigError, match="TL9999"):
        in_script(script if known else None, script.parent)
