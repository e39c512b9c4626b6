"""Loads the agent as code that is in no file, and that nobody is asked for.

What measures how much of the job's code is run, or steps through it, passes over such code; it would otherwise look for
files that are gone when the probe has ended. The job's finders of modules, and what it puts in the place of
`__import__`, are not asked for modules of the agent. The bootstrap executes this module itself.
"""

from __future__ import annotations

import builtins
import importlib.util
import resource  # noqa: F401 - loaded while nobody of the job can be asked for it
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

PACKAGE = "_trainlint_agent"
_import: Any = builtins.__import__


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return None if code is None else _unfiled(code, "<trainlint %s>" % fullname.rpartition(".")[2])


def _unfiled(code: CodeType, name: str) -> CodeType:
    held = tuple(_unfiled(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=name, co_consts=held)


class _Package:
    """The agent's modules."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._builtins = {**vars(builtins), "__import__": self._imported}
        """What the code of the modules finds: `__import__` takes modules of the package from here."""

    def module(self, name: str) -> ModuleType:
        """A module of the package, by its full name."""
        found = sys.modules.get(name)
        return found if found is not None else self._load(name, self._folder + "/%s.py" % name.rpartition(".")[2], None)

    def load(self) -> None:
        """Load the package itself."""
        self._load(PACKAGE, self._folder + "/__init__.py", [self._folder])

    def _load(self, name: str, path: str, submodules: list[str] | None) -> ModuleType:
        loader = _Loader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=submodules)
        assert spec is not None
        made = importlib.util.module_from_spec(spec)
        vars(made)["__builtins__"] = self._builtins
        sys.modules[name] = made
        try:
            loader.exec_module(made)
        except BaseException:
            del sys.modules[name]
            raise
        return made

    def _imported(
        self, name: str, of: Any = None, names: Any = None, wanted: tuple[str, ...] = (), level: int = 0
    ) -> Any:
        if level == 0:
            return _import(name, of, names, wanted, level)
        if name:
            return self.module("%s.%s" % (PACKAGE, name))
        package = sys.modules[PACKAGE]
        for one in wanted:
            setattr(package, one, self.module("%s.%s" % (PACKAGE, one)))
        return package


def load(folder: str) -> None:
    """Load the package from its folder, and have it wait for torch."""
    package = _Package(folder)
    package.load()
    start: Any = package.module(PACKAGE + ".start")
    start.start()
