"""Learning that the job has imported a module, without a place in `sys.meta_path`.

The job's own finders are asked as often and in the order as without the agent: only Python's finder of files is
watched, and only until it has found the module.
"""

from __future__ import annotations

import importlib.machinery
from collections.abc import Callable
from typing import Any


def when_loaded(name: str, then: Callable[[], None]) -> None:
    """Call `then` once the module called `name` has been executed; what it raises is dropped."""
    finder: Any = importlib.machinery.PathFinder
    original = finder.__dict__["find_spec"]
    find = original.__get__(None, finder)

    def find_spec(cls: object, fullname: str, path: object = None, target: object = None) -> Any:
        spec = find(fullname, path, target)
        if fullname == name and spec is not None and hasattr(spec.loader, "exec_module"):
            finder.find_spec = original
            _follow(spec.loader, then)
        return spec

    finder.find_spec = classmethod(find_spec)


def _follow(loader: Any, then: Callable[[], None]) -> None:
    """Call `then` after the loader's next module."""
    execute = loader.exec_module

    def exec_module(module: object) -> None:
        loader.__dict__.pop("exec_module", None)
        try:
            execute(module)
        except BaseException as error:
            # Without this frame, the traceback is that of a plain run.
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
            raise
        try:
            then()
        except Exception:
            return

    loader.exec_module = exec_module
