"""Files that are loaded: whether an optimizer takes its state from them."""

from __future__ import annotations

import pytest
from marked_programs import PLAIN

from trainlint.lint.analyze import analyze

LOADS = {
    "a part of it": ("state = torch.load('x.pt')\noptimizer.load_state_dict(state['optimizer'])\n", True),
    "a part that may be missing": ("state = torch.load('x.pt')\noptimizer.load_state_dict(state.get('o'))\n", True),
    "a file of its own": ("optimizer.load_state_dict(torch.load('x.pt'))\n", True),
    "by a name that says what it is": (
        "def resume(optimizer, path):\n    optimizer.load_state_dict(torch.load(path)['optimizer'])\n\n\n"
        "resume(make(model), 'x.pt')\n",
        True,
    ),
    "the model only": ("model.load_state_dict(torch.load('x.pt')['model'])\n", False),
    "data": ("print(torch.load('x.pt'))\n", False),
}


@pytest.mark.parametrize(("body", "expected"), LOADS.values(), ids=LOADS.keys())
def test_a_load_tells_whether_an_optimizer_takes_its_state_from_it(body: str, expected: bool) -> None:
    (load,) = analyze({"train.py": PLAIN + body}).file_loads
    assert load.restores_optimizer is expected
