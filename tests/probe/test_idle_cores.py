"""Cores that are idle beside the job, which let stacks be read more often."""

from __future__ import annotations

import os
import time

import pytest

from trainlint.probe.sampling.idle_cores import IdleCores, idle_s


def test_idle_cores_are_those_of_the_last_second() -> None:
    idle = IdleCores(100.0, 50.0)
    assert idle.cores is None, "seen once"
    for tenth in range(1, 6):
        idle.saw(100.0 + tenth / 10, 50.0)
    assert idle.cores is None, "seen for half a second"
    for tenth in range(6, 31):
        idle.saw(100.0 + tenth / 10, 50.0 + 1.5 * (tenth - 5) / 10)
    assert idle.cores == pytest.approx(1.5)


def test_idle_cores_are_not_known_where_a_quota_limits_them() -> None:
    idle = IdleCores(100.0, None)
    idle.saw(102.0, None)
    assert idle.cores is None


def test_this_machine_is_idle_for_no_longer_than_its_cores_were_there() -> None:
    start, before = time.perf_counter(), idle_s()
    time.sleep(0.2)
    after, end = idle_s(), time.perf_counter()
    if before is None or after is None:
        pytest.skip("the container has a quota")
    # The kernel counts in ticks of 10 ms, for each core.
    cores = os.cpu_count() or 1
    assert -0.02 * cores <= after - before <= (end - start + 0.02) * cores
