"""What the code of a class says about its attributes: the text below each of them, the docstring of each property."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from functools import cache


@cache
def attribute_docs(of: type) -> Mapping[str, str]:
    """The texts by attribute, each as one paragraph; none where the class was installed without its source."""
    try:
        tree = ast.parse(inspect.getsource(of))
    except (OSError, TypeError, SyntaxError):
        return {}
    (definition,) = tree.body
    assert isinstance(definition, ast.ClassDef)
    found: dict[str, str] = {}
    for statement, following in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef):
            found[statement.name] = ast.get_docstring(statement) or ""
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            below = following.value if isinstance(following, ast.Expr) else None
            if isinstance(below, ast.Constant) and isinstance(below.value, str):
                found[statement.target.id] = below.value
    return {name: " ".join(text.split()) for name, text in found.items() if text}
