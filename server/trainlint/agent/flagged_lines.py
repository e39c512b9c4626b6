"""Which of the lines that the linter flagged run, by the events of `sys.monitoring` in Python 3.12 and newer.

Code objects of the flagged files are met as they start for the first time; their lines tell of themselves once, and
once more from the first clean step on. Each event is switched off as it comes, so that code which has run goes on as if
nobody watched.

A line is watched where all code that could hold it is known to be met: that of a file whose own execution was seen.
Others may run unseen, and are said to be unwatched: in files that were loaded before, and in code that
`torch.compile`, `torch.export` or `torch.jit.script` took over, which runs without its lines.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

from . import control, records
from .agent import Agent
from .attributes import loaded_files
from .wrapping import preceded

clock = time.perf_counter

TOOLS = (4, 3)
"""Numbers of tools that Python keeps for no purpose."""
FILES_AT_MOST = 20_000
"""Code that is made anew again and again does not fill the memory."""

Rows = frozenset[int]
NONE: Rows = frozenset()


def install(agent: Agent) -> None:
    flagged = _flagged(agent.folder)
    if not flagged:
        return
    monitoring: Any = getattr(sys, "monitoring", None)
    if monitoring is None:
        agent.missing("lines", "Python before 3.12 does not tell which lines run")
        return
    tool = next((one for one in TOOLS if monitoring.get_tool(one) is None), None)
    if tool is None:
        agent.missing("lines", "other tools hold all of Python's means to tell which lines run")
        return
    watch = _Watch(agent, monitoring, tool, flagged)
    agent.at_forks.append(watch.anew)
    agent.at_phases.append(watch.phase)
    agent.at_boundaries.append(watch.say_traced)
    agent.at_end.append(watch.say_taken_over)
    agent.undo_with(watch.stop)
    watch.start()


def _flagged(folder: str) -> dict[str, Rows]:
    try:
        with open(os.path.join(folder, control.WATCHED_FILE), encoding="utf-8") as text:
            return {path: frozenset(rows) for path, rows in json.load(text).items()}
    except FileNotFoundError:
        return {}


class _Watch:
    """The watch over the flagged lines of a process."""

    def __init__(self, agent: Agent, monitoring: Any, tool: int, flagged: dict[str, Rows]) -> None:
        self._agent = agent
        self._monitoring = monitoring
        self._tool = tool
        self._flagged = flagged
        self._files: dict[str, tuple[str, Rows]] = {}
        """Path and flagged rows by the file names in code objects."""
        self._codes: dict[int, CodeType] = {}
        """Code with flagged lines by its identity: code objects of the same content are equal."""
        self._holds = False
        """Whether the number of the tool is the watch's."""
        self._seen: set[tuple[str, int]] = set()
        self._complete: set[str] = set()
        """Paths of files whose own execution was seen."""
        self._unwatched: set[tuple[str, int]] = set()
        self._said_traced = 0

    # ---------------------------------------------------------------------------------------------------------- events

    def start(self) -> None:
        monitoring, tool, events = self._monitoring, self._tool, self._monitoring.events
        # That a process can watch is said before anything else, and of what file as it comes.
        self._agent.channel.note("watched", lines=[])
        monitoring.use_tool_id(tool, "trainlint")
        self._holds = True
        self._agent.replace(monitoring, "use_tool_id", _giving_way(self))
        starts, runs = _callbacks(self)
        monitoring.register_callback(tool, events.PY_START, starts)
        monitoring.register_callback(tool, events.PY_RESUME, starts)
        monitoring.register_callback(tool, events.LINE, runs)
        monitoring.set_events(tool, events.PY_START | events.PY_RESUME)
        running = [frame.f_code for frame in _frames()]
        self._say_loaded_before({self._path(code.co_filename) for code in running if code.co_name == "<module>"})
        for code in running:
            self.meet(code)

    def stop(self) -> None:
        if not self._holds:
            return
        self._holds = False
        monitoring, tool, events = self._monitoring, self._tool, self._monitoring.events
        monitoring.set_events(tool, 0)
        for code in self._codes.values():
            monitoring.set_local_events(tool, code, 0)
        for event in (events.PY_START, events.PY_RESUME, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
        self._codes.clear()

    def gives_way(self, tool: object) -> None:
        """The job asks for the number of a tool: it gets that of the watch, too."""
        if self._holds and tool == self._tool:
            self.stop()
            self._agent.missing("lines", "the job took the means by which Python tells which lines run")

    def anew(self) -> None:
        """Have all lines tell of themselves once more."""
        self._seen.clear()
        monitoring, tool = self._monitoring, self._tool
        for code in self._codes.values():
            monitoring.set_local_events(tool, code, 0)
            monitoring.set_local_events(tool, code, monitoring.events.LINE)

    def phase(self, begins: int) -> None:
        self.say_taken_over()
        if begins == records.CLEAN:
            self.anew()

    def meet(self, code: CodeType) -> None:
        """A code object starts, or goes on."""
        path, rows = self._file(code.co_filename)
        if not rows:
            return
        if code.co_name == "<module>" and path not in self._complete:
            self._complete.add(path)
            self._say("watched", ((path, row) for row in rows & _rows_within(code)))
        if id(code) not in self._codes and rows & _rows_of(code):
            self._codes[id(code)] = code
            self._monitoring.set_local_events(self._tool, code, self._monitoring.events.LINE)

    def runs(self, code: CodeType, row: int) -> None:
        """A line of a code object with flagged lines runs."""
        path, rows = self._file(code.co_filename)
        if row in rows and (path, row) not in self._seen:
            self._seen.add((path, row))
            self._agent.record(records.LINE, clock(), name=self._agent.channel.name("%s:%d" % (path, row)))

    # ------------------------------------------------------------------------------------------------------- unwatched

    def say_taken_over(self) -> None:
        """Say which lines are in code that runs without them."""
        self.say_traced()
        self._unwatch(self._lines_within(_scripted(self._agent.torch)))

    def say_traced(self) -> None:
        """Likewise for code that Dynamo has traced since."""
        traced = self._agent.traced
        codes = traced.codes()
        if not traced.tells:
            self._unwatch((path, row) for path, rows in self._flagged.items() for row in rows)
        elif len(codes) != self._said_traced:
            self._said_traced = len(codes)
            self._unwatch(self._lines_within(codes))

    def _say_loaded_before(self, running: set[str]) -> None:
        before = {self._path(one) for one in loaded_files()} - running
        self._unwatch((path, row) for path in before for row in self._flagged.get(path, NONE))

    def _lines_within(self, codes: Iterable[CodeType]) -> Iterator[tuple[str, int]]:
        for code in codes:
            path, rows = self._file(code.co_filename)
            if rows:
                yield from ((path, row) for row in rows & _rows_within(code))

    def _unwatch(self, lines: Iterable[tuple[str, int]]) -> None:
        new = set(lines) - self._unwatched
        self._unwatched |= new
        if new:
            self._say("unwatched", new)

    def _say(self, note: str, lines: Iterable[tuple[str, int]]) -> None:
        self._agent.channel.note(note, lines=["%s:%d" % line for line in sorted(lines)])

    # ----------------------------------------------------------------------------------------------------------- files

    def _path(self, filename: str) -> str:
        return self._agent.lines.path(filename)

    def _file(self, filename: str) -> tuple[str, Rows]:
        known = self._files.get(filename)
        if known is None:
            if len(self._files) >= FILES_AT_MOST:
                self._files.clear()
            path = self._path(filename)
            known = self._files[filename] = path, self._flagged.get(path, NONE)
        return known


def _callbacks(watch: _Watch) -> tuple[Any, Any]:
    """What Python calls as code starts, and as a line runs: nothing of it reaches the job."""
    agent, switch_off = watch._agent, watch._monitoring.DISABLE

    def starts(code: CodeType, _: int) -> object:
        if agent.on:
            with agent.working("lines"):
                watch.meet(code)
        return switch_off

    def runs(code: CodeType, row: int) -> object:
        if agent.on:
            with agent.working("lines"):
                watch.runs(code, row)
        return switch_off

    return starts, runs


def _giving_way(watch: _Watch) -> Any:
    """`sys.monitoring.use_tool_id`, for which the watch's own number is free."""

    def asks(arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        if arguments:
            watch.gives_way(arguments[0])

    return preceded(watch._agent, watch._monitoring.use_tool_id, "lines", asks)


def _frames() -> Iterator[FrameType]:
    """The frames of all threads."""
    frames: dict[int, FrameType] = sys._current_frames()
    for innermost in [frames.pop(threading.get_ident()), *frames.values()]:
        frame: FrameType | None = innermost
        while frame is not None:
            yield frame
            frame = frame.f_back


def _rows_of(code: CodeType) -> Rows:
    """The rows that a code object has instructions for."""
    lines: Any = code.co_lines
    return frozenset(row for _, _, row in lines() if row is not None)


def _rows_within(code: CodeType) -> Rows:
    """The rows of a code object and of all code inside it."""
    inside = [_rows_within(one) for one in code.co_consts if isinstance(one, CodeType)]
    return _rows_of(code).union(*inside)


def _scripted(torch: Any) -> list[CodeType]:
    """The code of functions and modules that TorchScript has compiled."""
    state, recursive = torch.jit._state, torch.jit._recursive
    functions = list(getattr(state, "_jit_caching_layer", ()))
    store = getattr(getattr(recursive, "concrete_type_store", None), "type_store", {})
    for kind in list(store):
        functions += [value for one in kind.__mro__ for value in list(vars(one).values())]
    return [code for one in functions if isinstance(code := getattr(one, "__code__", None), CodeType)]
