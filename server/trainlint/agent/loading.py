"""Loads the agent as code that is in no file.

What measures how much of the job's code is run, or steps through it, passes over such code; it would otherwise look for
files that are gone when the probe has ended. The bootstrap executes this module itself.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from types import CodeType

PACKAGE = "_trainlint_agent"


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return None if code is None else _unfiled(code, "<trainlint %s>" % fullname.rpartition(".")[2])


def _unfiled(code: CodeType, name: str) -> CodeType:
    held = tuple(_unfiled(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=name, co_consts=held)


def load(folder: str) -> None:
    """Load the package from its folder, and have it wait for torch."""
    sys.path_importer_cache[folder] = FileFinder(folder, (_Loader, [".py"]))
    spec = importlib.util.spec_from_file_location(PACKAGE, folder + "/__init__.py", submodule_search_locations=[folder])
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    __import__(PACKAGE + ".start")
    sys.modules[PACKAGE + ".start"].start()
