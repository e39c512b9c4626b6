"""Whatever function of the agent fails, each time it is called: the job does what it does in a plain run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest
from tests.harmless.torch_jobs import run_plainly, run_probed

import trainlint.agent

pytest.importorskip("torch")

STAND_INS = {
    "calls:_TimedCall.__get__",
    "imports:_follow.<locals>.exec_module",
    "imports:when_loaded.<locals>.find_spec",
    "processes:_wait_for_worker.<locals>._worker_loop",
    "scopes:_entering.<locals>.__enter__",
    "scopes:_leaving.<locals>.__exit__",
    "syncs:_reading.<locals>._local_scalar_dense",
    "wrapping:preceded.<locals>.call",
    "wrapping:wrapped.<locals>.call",
}
"""Are called in the place of a function of torch or Python, and call it: one that raises is that function raising."""
CANNOT_FAIL = {
    "agent:Agent.forked",
    "agent:Agent.working",
    "backward:_Answer.__bool__",
    "backward:_Answer.__init__",
    "backward:_Level.__le__",
    "backward:_Level.__new__",
    "backward:_Passes.begins",
    "backward:_Passes.ended",
    "backward:_watch_passes.<locals>.get_effective_level",
    "calls:_Print.__eq__",
    "calls:_Print.__getattr__",
    "calls:_Print.__hash__",
    "calls:_Print.__reduce__",
    "calls:_Print.__repr__",
    "calls:_Print.__copy__",
    "calls:_Print.__deepcopy__",
    "calls:_pickle_print.<locals>.reduced",
    "calls:_time_prints.<locals>.compiled",
    "calls:_time_prints.<locals>.compiles",
    "collections:install.<locals>.collection",
    "identity:ByIdentity.__setitem__.<locals>.forget",
    "processes:_end",
    "processes:_in_child",
    "working:Working.__enter__",
    "working:Working.__init__",
    "working:Working.__exit__",
}
"""Have all that may fail in `try`."""
GROUPS = 2


def _functions() -> Iterator[str]:
    for file in sorted(Path(trainlint.agent.__file__).parent.glob("*.py")):
        if file.stem not in ("__init__", "loading", "start"):
            yield from _within(compile(file.read_bytes(), str(file), "exec"), file.stem)


def _within(code: CodeType, module: str) -> Iterator[str]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            is_class = not one.co_flags & 1  # without fast locals: the body of a class
            if not is_class and not one.co_name.startswith("<"):
                yield f"{module}:{one.co_qualname}"
            yield from _within(one, module)


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_fault_anywhere_leaves_the_job_alone(group: int, tmp_path: Path) -> None:
    names = [one for one in _functions() if one not in STAND_INS | CANNOT_FAIL][group::GROUPS]
    (plain,) = run_plainly("faulty.py", tmp_path, "nothing:nothing").values()
    runs = run_probed("faulty.py", tmp_path, *names)
    assert {name: ended for name, ended in runs.ended.items() if ended != plain} == {}
    reached = [name for name in names if os.path.exists(tmp_path / "probed" / "cases" / name / "reached")]  # noqa: PTH110
    assert len(reached) > len(names) // 2
