"""Scripts as the users of each framework write them: what is planted is reported, and nothing else is.

A line of `tests/fixtures/frameworks` that ends in `# expect: TL201, TL202` has these findings in a default run. The
clean scripts follow the frameworks' own documentation, and have none.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trainlint.lint.analyze import analyze
from trainlint.lint.check_options import CheckOptions
from trainlint.lint.engine import check
from trainlint.semantics.vocabulary import Framework

SCRIPTS = Path(__file__).parents[1] / "fixtures" / "frameworks"
PLANTED = sorted(SCRIPTS.glob("*_planted.py"))
CLEAN = sorted(SCRIPTS.glob("*_clean.py"))
EXPECT = re.compile(r"# expect: (TL\d{3}(?:, TL\d{3})*)$")
OWNERS = {
    "lightning": Framework.LIGHTNING,
    "fabric": Framework.FABRIC,
    "accelerate": Framework.ACCELERATE,
    "hf": Framework.HF_TRAINER,
    "trl": Framework.HF_TRAINER,
    "deepspeed": Framework.DEEPSPEED,
    "fsdp": Framework.FSDP,
    "recipe": Framework.FSDP,
    "train": Framework.FSDP,
    "ignite": Framework.IGNITE,
    "ray": Framework.RAY_TRAIN,
}
"""Who owns the loop, by the first word of a script's name."""


def marked(script: Path) -> list[str]:
    """What the marks of a script say, as `row code`."""
    found = [(row, EXPECT.search(line)) for row, line in enumerate(script.read_text(encoding="utf-8").splitlines(), 1)]
    return [f"{row} {code}" for row, match in found if match for code in match[1].split(", ")]


def reported(script: Path) -> list[str]:
    """What a default run reports, in the same form."""
    result = check([script], CheckOptions(isolated=True, cache=False, jobs=1))
    assert not result.errors
    sites = {(one.finding.site.row, one.finding.code) for one in result.findings}
    return [f"{row} {code}" for row, code in sorted(sites)]


@pytest.mark.parametrize("script", PLANTED, ids=lambda script: script.stem)
def test_what_is_planted_is_reported_and_nothing_else(script: Path) -> None:
    assert reported(script) == marked(script)


@pytest.mark.parametrize("script", CLEAN, ids=lambda script: script.stem)
def test_a_clean_script_has_no_findings(script: Path) -> None:
    assert reported(script) == []


def test_planted_scripts_have_marks_and_clean_ones_have_none() -> None:
    assert [script.stem for script in PLANTED if not marked(script)] == []
    assert [script.stem for script in CLEAN if marked(script)] == []


@pytest.mark.parametrize("script", [*PLANTED, *CLEAN], ids=lambda script: script.stem)
def test_the_owner_of_the_loop_is_known(script: Path) -> None:
    project = analyze({script.name: script.read_text(encoding="utf-8")})
    entry = project.entries[0]
    assert entry.framework is OWNERS[script.stem.split("_")[0]]
    assert entry.trains
