"""Which variables only grow in a loop, by being joined with what is new at each turn."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze

COLLECTING = {
    "nothing else reads it": "rows = torch.cat([rows, x])",
    "a tuple, the other way round": "rows = torch.cat((x, rows), dim=0)",
    "another function": "rows = torch.hstack([rows, x])",
    "by keyword": "rows = torch.cat(tensors=[rows, x])",
    "first value in the other branch": """if rows is None:
        rows = x
    else:
        rows = torch.cat([rows, x])""",
    "first value where it is empty": """if len(rows) == 0:
        rows = x
    else:
        rows = torch.cat([rows, x])""",
    "under a condition on something else": "if x.ndim:\n        rows = torch.cat([rows, x])",
}

OTHERWISE = {
    "read in the loop": "rows = torch.cat([rows, x])\n    print(rows.shape)",
    "cut": "rows = torch.cat([rows, x])\n    rows = rows[-8:]",
    "cut at once": "rows = torch.cat([rows, x])[-8:]",
    "what is new depends on it": "rows = torch.cat([rows, x + rows.mean()])",
    "joined with itself": "rows = torch.cat([rows, rows])",
    "bound to another name too": "rows = kept = torch.cat([rows, x])",
    "started anew at each turn": "rows = x\n    rows = torch.cat([rows, x])",
    "bounded by a condition": "if len(rows) < 100:\n        rows = torch.cat([rows, x])",
    "cut in the other branch": """if x.ndim:
        rows = torch.cat([rows, x])
    else:
        rows = rows[1:]""",
    "a function of the project": "rows = cat([rows, x])",
    "a list that is passed by name": "pair = [rows, x]\n    rows = torch.cat(pair)",
    "an attribute": "self.rows = torch.cat([self.rows, x])",
}


def targets(body: str) -> list[str]:
    source = f"""
import torch

def cat(parts):
    return parts[0]

rows = torch.empty(0)
self = object()
for x in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    {body}
"""
    return [one.target for one in analyze({"train.py": source}).concatenations]


@pytest.mark.parametrize("body", COLLECTING.values(), ids=COLLECTING.keys())
def test_a_variable_that_is_only_added_to_grows(body: str) -> None:
    assert targets(body) == ["rows"]


@pytest.mark.parametrize("body", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_a_variable_that_is_used_or_bounded_does_not(body: str) -> None:
    assert targets(body) == []


def test_it_grows_in_the_loop_that_it_is_bound_before() -> None:
    source = """
import torch

for x in torch.utils.data.DataLoader(torch.randn(64, 8), batch_size=8):
    rows = x
    for y in x:
        rows = torch.cat([rows, y])
"""
    (found,) = analyze({"train.py": source}).concatenations
    assert found.loop.row == 6
