"""Stacks whose caller was read when the job had gone on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from trainlint.probe.analysis.torn_stacks import put_right
from trainlint.probe.recording import Frame
from trainlint.probe.traces.sites import JobCode

PROGRAM = """\
def load(path, size):
    data = decompress(path)
    picture = avg_pool2d(data)
    picture = F.interpolate(
        picture,
        size,
    )
    return picture

def train(model, loader, optimizer):
    batches = prepare(loader)
    for images, labels in batches:
        images = images.to(device)
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        with watch("more"):
            more = refine(loss)
        total = first(loss); rest = second(loss)
        lines = [describe(one) for one in total]
    for images in loader:
        images.cpu()

for epoch in range(3): train(1, 2, 3)
print(load(1, 2))
"""
SEEN = [("backward", "train", 15), ("_wrapped_call_impl", "train", 14)]
"""What other stacks show: the names of a call and its caller, and the caller's row."""


@pytest.mark.parametrize(
    ("callee", "function", "row", "right"),
    [
        ("interpolate", "load", 4, 4),
        ("interpolate", "load", 5, 5),
        ("interpolate", "load", 8, 4),
        ("interpolate", "load", 2, 4),
        ("interpolate", "load", 3, 4),
        ("F.interpolate", "load", 3, 4),
        ("_wrapped_call_impl", "train", 14, 14),
        ("_wrapped_call_impl", "train", 15, 14),
        ("wrapper", "train", 16, 16),
        ("backward", "train", 16, 15),
        ("refine", "train", 17, 18),
        ("__enter__", "train", 17, 17),
        ("helper", "train", 17, 17),
        ("prepare", "train", 12, 12),
        ("prepare", "train", 13, 11),
        ("__next__", "train", 12, 12),
        ("__next__", "train", 21, 21),
        ("__next__", "train", 13, 12),
        ("__next__", "train", 22, 21),
        ("__add__", "train", 15, 15),
        ("first", "train", 19, 19),
        ("<lambda>", "train", 15, 15),
        ("describe", "train", 20, 20),
        ("load", "<module>", 24, 25),
        ("train", "<module>", 25, 24),
        ("other", "load", 2, 2),
    ],
)
def test_a_row_that_does_not_make_the_call_is_set_back(
    callee: str, function: str, row: int, right: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    stacks = [_stack(script, *one) for one in [*SEEN, (callee, function, row)]]
    (*_, found) = put_right(dict(enumerate(stacks)), JobCode()).values()
    assert [frame.row for frame in found] == [7, right]


def test_what_is_not_the_jobs_own_stays(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(PROGRAM)
    gone = tmp_path / "gone.py"
    for path in (library, gone):
        assert [one.row for one in put_right({0: _stack(path, "interpolate", "load", 8)}, JobCode())[0]] == [7, 8]


def test_outer_calls_are_put_right_as_well(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    stack = [*_stack(script, "interpolate", "load", 8), Frame(path=str(script), row=24, function="<module>")]
    assert [one.row for one in put_right({0: stack}, JobCode())[0]] == [7, 4, 25]


def _stack(script: Path, callee: str, function: str, row: int) -> Sequence[Frame]:
    return [
        Frame(path="/lib/site-packages/torch/functional.py", row=7, function=callee),
        Frame(path=str(script), row=row, function=function),
    ]
