"""Whether a backward pass may start from what a name collects, so that its graph is needed.

The question decides about cutting graphs off, so all that may lead from the name to a backward pass counts: whatever is
computed from it, functions that it is handed to, and functions that see it besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainlint.semantics import classes, code, expressions
from trainlint.semantics.name_paths import Handed
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name
from trainlint.semantics.values import Bound, Function, Value

if TYPE_CHECKING:
    from trainlint.semantics.state import ModuleState

_DEEPEST = 3
"""How many functions a loss is followed through."""
_TRAINS = re.compile(r"backward|backprop|optimi[sz]e|learn|(?<!s)train(?!er)|_scaler$|^scaler$")
"""Words in the names of unknown functions that run the backward pass of what they are given."""


def may_start(frame: Frame, path: str) -> bool:
    """Whether a backward pass may start from what the function that runs, or the module, collects under this name."""
    define = frame.function.define if frame.function is not None else None
    if isinstance(define, code.Define):
        own = frame.run.body(frame.module, define.body)
    elif define is None:
        own = frame.module.units.statements
    else:
        return False
    blocks = [own]
    if define is None:
        # functions see the variables of their module
        blocks += _seeing(frame, frame.module, range(len(frame.module.facts.functions)), path)
    else:
        blocks += _inner(frame, own, path)
        blocks += _methods(frame, path)
    return path in _sources(frame, blocks, 0)


def _methods(frame: Frame, path: str) -> Iterator[code.Block]:
    """The bodies of the other methods of an object, where the name is an attribute of the object itself."""
    owner = frame.function.owner if frame.function is not None else None
    base, _, name = path.rpartition(".")
    if owner is None or not base or "." in base:
        return
    for cls in classes.lineage(owner):
        for member in cls.members.values():
            if not isinstance(member, Function) or not isinstance(member.define, code.Define):
                continue
            if member.define.name != "__init__" and _mentions(frame, member.module, member.define.body, name):
                yield frame.run.body(member.module, member.define.body)


def _inner(frame: Frame, block: code.Block, path: str) -> Iterator[code.Block]:
    """The bodies of functions that a block defines, and that use the block's variable."""
    yield from _seeing(frame, frame.module, frame.run.nodes.paths(block).inner, path)


def _seeing(frame: Frame, module: ModuleState, indices: range | tuple[int, ...], path: str) -> Iterator[code.Block]:
    name = path.partition(".")[0]
    for index in indices:
        if not all(_mentions(frame, module, index, word) for word in path.split(".")):
            continue
        body = frame.run.body(module, index)
        paths = frame.run.nodes.paths(body)
        if name not in paths.bound or name in paths.shared:
            yield body
            yield from _seeing(frame, module, paths.inner, path)


def _mentions(frame: Frame, module: ModuleState, index: int, word: str) -> bool:
    """Whether a function's body mentions a name; what was found holds only as long as that stays so."""
    frame.run.read.add((module.path, index))
    return word in module.facts.words(index)


def _sources(frame: Frame, blocks: list[code.Block], depth: int) -> frozenset[str]:
    """The names that backward passes in these blocks start from, or that what they start from is computed from."""
    found: set[str] = set()
    edges: list[tuple[str, frozenset[str]]] = []
    for block in blocks:
        paths = frame.run.nodes.paths(block)
        found |= paths.starts
        edges += paths.edges
        for handed in paths.handed:
            found |= _differentiated(frame, handed, depth)
    grown = True
    while grown:
        before = len(found)
        for target, sources in edges:
            if target in found:
                found |= sources
        grown = len(found) > before
    return frozenset(found)


def _differentiated(frame: Frame, handed: Handed, depth: int) -> frozenset[str]:
    """The names among a call's arguments from which the callee may run a backward pass."""
    callee: Value = expressions.evaluate_quietly(frame, handed.call.function)
    bound = isinstance(callee, Bound)
    function = callee.function if isinstance(callee, Bound) else callee
    if not isinstance(function, Function):
        unknown_trains = _TRAINS.search(called_name(handed.call.function))
        return frozenset().union(*handed.names) if unknown_trains else frozenset()
    if not isinstance(function.define, code.Define) or depth >= _DEEPEST:
        return frozenset()
    body = frame.run.body(function.module, function.define.body)
    home = Frame(frame.run, function.module, frame.where, function.row, function.qualname, {}, function.closure)
    if isinstance(callee, Bound) and function.define.parameters:
        home.variables[function.define.parameters[0].name] = callee.receiver
    blocks = [body]
    inner = frame.run.nodes.paths(body).inner
    blocks += [frame.run.body(function.module, index) for index in inner]
    sources = _sources(home, blocks, depth + 1)
    if not sources:
        return frozenset()
    parameters = function.define.parameters[1:] if bound else function.define.parameters
    needed: set[str] = set()
    for index, (argument, names) in enumerate(zip(handed.call.arguments, handed.names, strict=True)):
        if argument.star or any(parameter.kind in ("*", "**") for parameter in parameters):
            needed |= names
        elif argument.keyword is not None:
            needed |= names if argument.keyword in sources else set()
        elif index < len(parameters) and parameters[index].name in sources:
            needed |= names
    return frozenset(needed)
