"""The page about frameworks says what the analyzer holds of them, and shows what the scripts with marks show."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from trainlint.semantics import frameworks, ignite, lightning
from trainlint.semantics.duties import TAKEN_CARE_OF, Duty
from trainlint.semantics.state import Role
from trainlint.semantics.vocabulary import Framework

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "frameworks.md").read_text(encoding="utf-8")
SCRIPTS = REPOSITORY / "tests" / "fixtures" / "frameworks"
OWN_LOOPS = {Framework.PYTORCH, Framework.FSDP, Framework.UNKNOWN}
"""Frameworks without a column: they leave everything to the script, or nothing is known of them."""
STEP, EVALUATION, EPOCH = "At each step", "For each batch of an evaluation", "Once per epoch"
LISTS: dict[tuple[str, str], Iterable[str]] = {
    ("Lightning", STEP): lightning.STEP_HOOKS,
    ("Lightning", EVALUATION): lightning.EVALUATION_HOOKS,
    ("Lightning", EPOCH): lightning.EPOCH_HOOKS,
    ("Lightning", "Once"): (*lightning.ONCE_HOOKS, *lightning.LOADER_HOOKS),
    ("Hugging Face Trainer", STEP): frameworks.TRAINER_METHODS[Role.STEP],
    ("Hugging Face Trainer", EVALUATION): frameworks.TRAINER_METHODS[Role.EVALUATION],
    ("Hugging Face Trainer", EPOCH): frameworks.TRAINER_METHODS[Role.EPOCH],
    ("Hugging Face Trainer", f"{STEP}, of a callback"): frameworks.CALLBACK_METHODS[Role.STEP],
    ("Hugging Face Trainer", f"{EVALUATION}, of a callback"): frameworks.CALLBACK_METHODS[Role.EVALUATION],
    ("Hugging Face Trainer", f"{EPOCH}, of a callback"): frameworks.CALLBACK_METHODS[Role.EPOCH],
    ("Ignite", STEP): ignite.STEP_EVENTS,
    ("Ignite", EPOCH): ignite.EPOCH_EVENTS,
}


def section(title: str) -> str:
    match = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match, f"no section {title}"
    return match[1]


def rows(title: str) -> list[list[str]]:
    """The cells of the table in a section, its head first, the line below that left out."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]


def test_the_table_of_what_is_taken_care_of_is_the_models() -> None:
    (_, _, *columns), *body = rows("What they take care of")
    named = [Framework(column.strip("`")) for column in columns]
    assert set(named) == set(Framework) - OWN_LOOPS
    said = {
        framework: {Duty(what) for what, _, *cells in body if cells[index] == "yes"}
        for index, framework in enumerate(named)
    }
    assert said == {framework: set(TAKEN_CARE_OF[framework]) for framework in named}
    assert [what for what, *_ in body] == list(Duty)


def test_what_leaves_the_loop_to_the_script_takes_care_of_nothing() -> None:
    assert TAKEN_CARE_OF[Framework.PYTORCH] == TAKEN_CARE_OF[Framework.FSDP] == frozenset()


@pytest.mark.parametrize(("place", "names"), LISTS.items(), ids=[": ".join(place) for place in LISTS])
def test_a_list_names_what_the_model_runs_so_often(place: tuple[str, str], names: Iterable[str]) -> None:
    title, label = place
    text = re.sub(r"\n  +", " ", section(title))
    (said,) = re.findall(rf"^- {re.escape(label)}: (.*)$", text, re.MULTILINE)
    assert re.findall(r"`(\w+)`", said) == list(names)


def test_what_is_reported_of_a_framework_is_planted_in_a_script_of_it() -> None:
    planted: dict[str, str] = {}
    for script in SCRIPTS.glob("*_planted.py"):
        first = script.stem.split("_")[0]
        owner = {"hf": "hf-trainer", "trl": "hf-trainer", "ray": "ray-train"}.get(first, first)
        planted[owner] = planted.get(owner, "") + script.read_text(encoding="utf-8")
    missing = [row for row in rows("What is reported of their own")[1:] if row[2] not in planted[row[0].strip("`")]]
    assert missing == []
