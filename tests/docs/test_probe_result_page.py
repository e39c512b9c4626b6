"""The page of a probe's result tells what each field of the JSON means."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/reference/probe-result.md").read_text(encoding="utf-8")
FIELDS = dict(re.findall(r"^\| `([\w.\[\]]+)` \| .+ \| (.*) \|$", PAGE, re.MULTILINE))
"""The meaning of each field by its path."""
OF_OTHERS = re.compile(r"(^|[._])(share|shares|intervals?|util|data_wait)($|[._\[])|^overlapping\.")
"""Names of fields that are parts of something."""


@pytest.mark.parametrize("path", FIELDS)
def test_a_field_has_a_meaning(path: str) -> None:
    assert FIELDS[path].endswith(".")


@pytest.mark.parametrize("path", [path for path in FIELDS if OF_OTHERS.search(path)])
def test_a_share_says_from_where_to_where_it_goes(path: str) -> None:
    whole = path.rpartition(".")[0]
    in_seconds = path.endswith(("_s", "_ms"))
    assert in_seconds or "0 to 1" in FIELDS[path] + FIELDS.get(whole, "")


@pytest.mark.parametrize(
    "path",
    [
        "share_intervals",
        "lines[].share_interval",
        "cpu.core_wait_share",
        "cpu.other_work_cores",
        "ranks[].above_median",
        "ranks[].above_median_at_least",
        "overhead.window_s",
        "overhead.window_memory_bytes",
    ],
)
def test_a_field_that_came_later_is_told(path: str) -> None:
    assert path in FIELDS
