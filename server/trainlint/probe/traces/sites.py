"""Which place in the job's code a call into the driver comes from.

With stacks, every call of a Python function is an event `train.py(12): train_step`, and a call of a built-in one
`<built-in method item of Tensor object at 0x…>`. The row is where the function begins, or the one it was at when
profiling began; the call's own row is not in the trace. `torch.profiler` cuts the folders of `sys.path` off the files'
names, so that a script is named as it stands beside itself and an installed library by its package.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from trainlint.agent.lines import is_generated
from trainlint.probe.traces.reading import Event, Trace
from trainlint.probe.traces.trace_analysis import CodeSite
from trainlint.semantics.modules import INSTALLED

_FRAME = re.compile(r"^(?P<path>.+)\((?P<row>\d+)\): (?P<function>.+)$", re.DOTALL)
_BUILT_IN = re.compile(r"^<(?:built-in (?:method|function)|method|slot wrapper) '?(?P<name>\w+)")
_LIBRARY_FOLDERS = {"site-packages", "dist-packages"}
_STANDARD_LIBRARY = re.compile(r"(?:^|[/\\])lib(?:64)?[/\\]python\d\.\d+[/\\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a call comes from: the innermost function of the job's own code, and what it called."""

    site: CodeSite | None
    operation: str
    """The outermost operator within that function; empty if there is none."""
    callee: str
    """The name by which the function called what led here; empty if the trace does not tell."""
    frame: Event | None
    """The event of the function."""
    inner: Event | None
    """The event within it that led here: of the function or the operator that it called."""


_Thread = tuple[int | str, int | str]
_Stack = list[tuple[Event, bool]]
"""Events around a moment, each with whether it is a call of a Python function rather than an operator."""

NOWHERE = Origin(None, "", "", None, None)


@dataclass(frozen=True, slots=True)
class JobCode:
    """What the job's own code is."""

    roots: Sequence[Path] = ()
    """Folders in which relative names of its files are looked up, such as its working directory."""
    foreign: Sequence[Path] = ()
    """Folders with code that ran in the job and is not its own, such as the probe's agent."""

    def file(self, name: str) -> Path | None:
        """The file of that name, unless it is of the standard library, installed, generated, or foreign."""
        path = PurePath(name)
        if is_generated(name) or _STANDARD_LIBRARY.search(name) or _LIBRARY_FOLDERS.intersection(path.parts):
            return None
        if path.is_absolute():
            return None if any(path.is_relative_to(folder) for folder in self.foreign) else Path(path)
        for root in self.roots:
            if (root / path).is_file():
                return root / path
        package = path.parts[0].removesuffix(".py") if path.parts else ""
        foreign = package in sys.stdlib_module_names or package in INSTALLED
        return None if foreign or any((folder / path).is_file() for folder in self.foreign) else Path(path)


def origins(trace: Trace, calls: Sequence[Event], code: JobCode) -> list[Origin]:
    """Where each of the calls comes from in the job's code."""
    threads: dict[_Thread, list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        threads[call.process, call.thread].append(number)
    around: dict[_Thread, list[tuple[Event, bool]]] = defaultdict(list)
    for events, is_python in ((trace.python, True), (trace.operators, False)):
        for event in events:
            if (event.process, event.thread) in threads:
                around[event.process, event.thread].append((event, is_python))
    found = [NOWHERE] * len(calls)
    names = _Names(code)
    for thread, numbers in threads.items():
        for number, stack in _stacks(around[thread], calls, numbers):
            found[number] = _origin(stack, names)
    return found


def _stacks(
    around: list[tuple[Event, bool]], calls: Sequence[Event], numbers: list[int]
) -> Iterator[tuple[int, _Stack]]:
    """The functions and operators around each call of one thread, the outermost first."""
    around.sort(key=lambda one: (one[0].start, -one[0].end))
    numbers.sort(key=lambda number: calls[number].start)
    stack: _Stack = []
    upcoming = 0
    for number in numbers:
        call = calls[number]
        while upcoming < len(around) and around[upcoming][0].start <= call.start:
            while stack and stack[-1][0].end <= around[upcoming][0].start:
                stack.pop()
            stack.append(around[upcoming])
            upcoming += 1
        while stack and stack[-1][0].end <= call.start:
            stack.pop()
        yield number, stack


def _origin(stack: _Stack, names: _Names) -> Origin:
    for depth in range(len(stack) - 1, -1, -1):
        event, is_python = stack[depth]
        site = names.site(event.name) if is_python else None
        if site is not None:
            inner = stack[depth + 1 :]
            callee = _callee(inner[0][0].name) if inner and inner[0][1] else ""
            return Origin(site, _operation(inner), callee, event, inner[0][0] if inner else None)
    return Origin(None, _operation(stack), "", None, None)


def _operation(stack: _Stack) -> str:
    return next((event.name for event, is_python in stack if not is_python), "")


class _Names:
    """What the names of Python events mean for one job."""

    def __init__(self, code: JobCode) -> None:
        self._code = code
        self._sites: dict[str, CodeSite | None] = {}
        self._files: dict[str, Path | None] = {}

    def site(self, name: str) -> CodeSite | None:
        """The place that a Python event names, if it is in the job's own code."""
        if name not in self._sites:
            match = _FRAME.match(name)
            path = self._file(match["path"]) if match else None
            found = None if match is None or path is None else (path, int(match["row"]), match["function"])
            self._sites[name] = None if found is None else CodeSite(*found, exact=False)
        return self._sites[name]

    def _file(self, name: str) -> Path | None:
        if name not in self._files:
            self._files[name] = self._code.file(name)
        return self._files[name]


def _callee(name: str) -> str:
    """The bare name of the function that an event of Python stands for."""
    if match := _BUILT_IN.match(name):
        return match["name"]
    match = _FRAME.match(name)
    return match["function"] if match else ""
