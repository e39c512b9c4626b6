"""Text that libcst takes and Python does not."""

from __future__ import annotations

import pytest

from trainlint.semantics.extract import SourceError, extract


@pytest.mark.parametrize("literal", ['"\\N{BAD}"', '"\\x1"', '"\\u12"'])
def test_a_string_with_a_broken_escape_is_a_syntax_error(literal: str) -> None:
    with pytest.raises(SourceError) as caught:
        extract(f"import torch\n\nx = {literal}\n")
    assert caught.value.row == 3
