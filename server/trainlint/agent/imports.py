"""Learning that the job has imported a module, without a place in `sys.meta_path`.

The job's own finders are asked as often and in the order as without the agent: only Python's finder of files is
watched, and only until it has found the module.
"""

from __future__ import annotations

import importlib.machinery
from collections.abc import Callable
from typing import Any


def when_loaded(name: str, then: Callable[[], None], before: Callable[[], None] | None = None) -> Callable[[], None]:
    """Call `before` when the module called `name` is about to be executed and `then` once it has been; what they raise
    is dropped. Returns what calls this off."""
    finder: Any = importlib.machinery.PathFinder
    original = finder.__dict__["find_spec"]

    def find_spec(cls: Any, fullname: str, path: object = None, target: object = None) -> Any:
        spec = original.__get__(None, cls)(fullname, path, target)
        if fullname == name and spec is not None and hasattr(spec.loader, "exec_module"):
            finder.find_spec = original
            _follow(spec.loader, then, before)
        return spec

    mine = finder.find_spec = classmethod(find_spec)

    def call_off() -> None:
        if finder.__dict__["find_spec"] is mine:
            finder.find_spec = original

    return call_off


def _follow(loader: Any, then: Callable[[], None], before: Callable[[], None] | None) -> None:
    """Call both around the execution of the loader's module."""
    execute = loader.exec_module

    def exec_module(module: object) -> None:
        loader.__dict__.pop("exec_module", None)
        if before is not None:
            _quietly(before)
        try:
            execute(module)
        except BaseException as error:
            # Without this frame, the traceback is that of a plain run.
            error.__traceback__ = error.__traceback__.tb_next if error.__traceback__ is not None else None
            raise
        _quietly(then)

    loader.exec_module = exec_module


def _quietly(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        return
