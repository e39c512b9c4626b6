"""Loads without `weights_only`: what they do depends on the release."""

from __future__ import annotations

import pytest

from trainlint.lint.analyze import analyze
from trainlint.semantics.link import LinkOptions
from trainlint_rules.checkpoint.unsafe_load import UnsafeLoad


@pytest.mark.parametrize(("newest", "expected"), [((2, 5), 1), ((2, 6), 0), (None, 0)])
def test_a_load_that_leaves_it_to_torch_is_reported_where_torch_is_too_old(
    newest: tuple[int, int] | None, expected: int
) -> None:
    program = {"train.py": 'import torch\nprint(torch.load("model.pt"))\n'}
    project = analyze(program, LinkOptions(torch_version=newest))
    assert len(list(UnsafeLoad().check(project))) == expected
