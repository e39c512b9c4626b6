"""Training jobs under `trainlint probe --continue --quiet --output-file` do what they do in a plain run, and are
measured or say why not.

Each file of `jobs/` is one run with many cases, since it takes seconds to import torch.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.harmless.torch_jobs import differences, run_plainly, run_probed

pytest.importorskip("torch")

OWN_PROFILER = {"kineto"}
SAID: dict[str, dict[str, set[str]]] = {
    "observed.py": {
        "own_profiler_from_before_the_window": OWN_PROFILER,
        "own_profiler_that_begins_in_the_window": OWN_PROFILER,
        "own_profiler_that_ends_in_the_window": OWN_PROFILER,
        "own_profiler_that_waits": OWN_PROFILER,
        "own_profiler_that_waits_in_a_frozen_heap": OWN_PROFILER,
        "own_autograd_profiler": OWN_PROFILER,
        "own_cprofile": {"kineto.stacks", "print"},
        "own_profile_function": {"kineto.stacks", "print"},
        "has_its_own_function_mode": {"kineto.stacks"},
        "has_its_own_dispatch_mode": {"kineto"},
    },
    "configured.py": {
        "has_a_kernel_of_its_own_from_the_start": {"syncs"},
        "has_a_kernel_of_its_own_amid_the_steps": {"syncs"},
        "trains_in_threads": {"kineto"},
    },
    "kept.py": {},
    "loading.py": {},
    "ended.py": {"changes_its_folder": {"kineto"}},
}
"""What cases are not measured in, by file and case: nothing is missing of the others."""
ENDED_EARLY = {
    "raises_in_a_step",
    "raises_in_the_model",
    "raises_in_a_backward_hook",
    "raises_in_the_optimizer",
    "is_interrupted_in_a_step",
    "saves_when_it_is_terminated",
    "is_terminated_in_a_step",
    "exits_at_once_in_a_step",
    "exits_in_a_step",
    "becomes_another_program",
    "ends_while_a_thread_trains",
}
"""Before the measurement was complete."""


@pytest.mark.parametrize("file", SAID)
def test_cases_are_as_without_the_probe(file: str, tmp_path: Path) -> None:
    plain, probed = run_plainly(file, tmp_path), run_probed(file, tmp_path)
    assert differences(plain, probed.ended) == {}
    assert probed.faults == {}
    assert probed.broken == ()
    assert probed.unmeasured <= ENDED_EARLY
    assert probed.missing == SAID[file]
