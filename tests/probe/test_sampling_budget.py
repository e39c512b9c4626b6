"""The CPU time that py-spy may take, and how what was not spent is spent later."""

from __future__ import annotations

import pytest

from trainlint.probe.sampling.budget import CORE_SHARE, LARGEST_CORE_SHARE, LARGEST_SAVED_SHARE, Budget


@pytest.mark.parametrize(
    ("clock", "used_s", "idle_cores", "seconds", "core_share"),
    [
        pytest.param(0.0, 0.0, None, 1, CORE_SHARE, id="nothing was saved"),
        pytest.param(0.0, 0.0, 8.0, 1, CORE_SHARE, id="much is idle before training"),
        pytest.param(0.5, 0.0, None, 1, 1.5 * CORE_SHARE, id="the job took half a second to start"),
        pytest.param(60.0, 0.0, None, 1, LARGEST_SAVED_SHARE, id="the job took a minute to start"),
        pytest.param(60.0, 0.07, None, 3, LARGEST_SAVED_SHARE, id="much of it is left"),
        pytest.param(60.0, 0.175, None, 3, LARGEST_SAVED_SHARE, id="some of it is left"),
        pytest.param(4.0, 0.07, None, 30, CORE_SHARE, id="little is left"),
        pytest.param(600.0, 5.0, None, 30, CORE_SHARE, id="all of it was spent"),
        pytest.param(4.0, 0.07, 0.12, 30, 0.03, id="a part of what is idle"),
        pytest.param(4.0, 0.07, 8.0, 30, LARGEST_CORE_SHARE, id="much is idle"),
    ],
)
def test_what_was_not_spent_is_spent_in_training(
    clock: float, used_s: float, idle_cores: float | None, seconds: int, core_share: float
) -> None:
    assert Budget(0.0).chunk(clock, used_s, idle_cores) == (seconds, pytest.approx(core_share))


def test_over_a_run_no_more_than_the_share_is_taken() -> None:
    budget, clock, used_s = Budget(0.0), 3.0, 0.0
    while clock < 600:
        seconds, core_share = budget.chunk(clock, used_s, None)
        clock, used_s = clock + seconds, used_s + seconds * core_share
        assert used_s <= CORE_SHARE * clock * 1.001
