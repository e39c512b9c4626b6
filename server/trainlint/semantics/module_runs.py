"""Modules: what an import brings into memory, and which of a module's statements run when."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainlint.semantics import code, library, statements, tensors
from trainlint.semantics.decoded import Decoded
from trainlint.semantics.facts import ModuleFacts
from trainlint.semantics.state import NOWHERE, Entered, Frame, Leaves, ModuleState, Role, Run, Units, Where
from trainlint.semantics.text import dotted
from trainlint.semantics.values import UNKNOWN, ModuleValue, Reference, Value


def _is_library(name: str) -> bool:
    """Whether a module is a library that the analyzer knows; inside that library's own project it still is."""
    return name.partition(".")[0] in library.KNOWN_PACKAGES


def run_import(frame: Frame, node: code.Import) -> Leaves:
    """`import module`: bind a module of the project, its package, or a name of a library."""
    for alias in node.names:
        name = alias.name
        path = frame.run.map.locate(frame.module.path, name) if not _is_library(name) else None
        if path is not None and path in frame.run.facts:
            module = frame.run.module(path)
            touch(frame, module)
            if alias.bound is not None or "." not in name:
                frame.bind(alias.bound or name, ModuleValue(module))
            else:
                _bind_package(frame, name)
        elif not _is_library(name) and frame.run.map.resolve(frame.module.path, name, 0, ()):
            _bind_package(frame, name)
        else:
            bound = alias.bound or name.partition(".")[0]
            frame.bind(bound, Reference(library.canonical(name) if alias.bound else name.partition(".")[0]))
    return Leaves.END


def _bind_package(frame: Frame, name: str) -> None:
    """`import package.module` binds the package, from which the module is reached by attribute."""
    first = name.partition(".")[0]
    path = frame.run.map.locate(frame.module.path, first)
    if path is not None and path in frame.run.facts:
        package = frame.run.module(path)
        touch(frame, package)
        frame.bind(first, ModuleValue(package))
        _attach(frame, package, name)
        return
    namespace = _namespace(frame, first)
    frame.bind(first, ModuleValue(namespace))
    _attach(frame, namespace, name)


def _namespace(frame: Frame, name: str) -> ModuleState:
    """A folder without `__init__.py`, as a module with nothing of its own."""
    return ModuleState(
        frame.module.path, name, frame.module.facts, Units((), {}, (), (), ()), started=True, is_main=True
    )


def _attach(frame: Frame, package: ModuleState, name: str) -> None:
    """Make each module on the way of a dotted import an attribute of the one before."""
    parts = name.split(".")
    holder = package
    for end in range(2, len(parts) + 1):
        path = frame.run.map.locate(frame.module.path, ".".join(parts[:end]))
        if path is None or path not in frame.run.facts:
            following = _namespace(frame, parts[end - 1])
        else:
            following = frame.run.module(path)
            touch(frame, following)
        holder.variables.setdefault(parts[end - 1], ModuleValue(following))
        holder = following


def run_import_from(frame: Frame, node: code.ImportFrom) -> Leaves:
    """`from module import name`: bind globals and submodules of the project, or names of a library."""
    known = not node.level and _is_library(node.module)
    path = frame.run.map.locate(frame.module.path, node.module, node.level) if not known else None
    module = frame.run.module(path) if path is not None and path in frame.run.facts else None
    if module is not None:
        touch(frame, module)
    for alias in node.names:
        if alias.name == "*":
            _import_all(frame, module)
            continue
        frame.bind(alias.bound or alias.name, _imported(frame, node, module, alias.name))
    return Leaves.END


def _import_all(frame: Frame, module: ModuleState | None) -> None:
    """`from module import *`: names of an imported module are found as they are asked for, a main module's now."""
    if module is None or not frame.module.is_main:
        return
    module.whole = True
    for name in module.units.binders:
        if not name.startswith("_") and name not in frame.module.variables:
            value = frame.run.find_global(module, name)
            if value is not None:
                frame.bind(name, value)
    for star in module.units.stars:
        path = frame.run.map.locate(module.path, star.module, star.level)
        source = frame.run.module(path) if path is not None and path in frame.run.facts else None
        if source is not None and source is not module and source.path not in frame.run.imported_whole:
            frame.run.imported_whole.add(source.path)
            _import_all(frame, source)


def _imported(frame: Frame, node: code.ImportFrom, module: ModuleState | None, name: str) -> Value:
    if module is not None:
        found = frame.run.find_global(module, name)
        if found is not None:
            return found
    whole = f"{node.module}.{name}" if node.module else name
    known = not node.level and _is_library(whole)
    path = frame.run.map.locate(frame.module.path, whole, node.level) if not known else None
    if path is not None and path in frame.run.facts:
        submodule = frame.run.module(path)
        touch(frame, submodule)
        return ModuleValue(submodule)
    if module is not None:
        return UNKNOWN
    if node.level:
        return UNKNOWN
    full = library.canonical(whole)
    return tensors.constant_reference(full) or Reference(full)


def touch(frame: Frame, module: ModuleState) -> None:
    """Import a module: what it does beyond binding its own names happens now, the rest as it is asked for."""
    if module.started:
        return
    module.started = True
    for index in module.units.effects:
        _run_unit(frame.run, module, index)


def run_units(run: Run, module: ModuleState, name: str) -> Value | None:
    """Run the statements of an imported module that bind `name`; None if nothing binds it."""
    _run_binders(run, module, name)
    found = module.variables.get(name)
    if found is not None:
        return found
    if module.star_sources is None:
        module.star_sources = StarSources(run, module)
    for source in module.star_sources:
        found = _own_global(run, source, name)
        if found is not None:
            module.variables[name] = found
            return found
    return None


def _own_global(run: Run, module: ModuleState, name: str) -> Value | None:
    """What a module's own statements bind a name to; None if nothing does."""
    found = module.variables.get(name)
    if found is None and not module.is_main:
        _run_binders(run, module, name)
        found = module.variables.get(name)
    return found


def _run_binders(run: Run, module: ModuleState, name: str) -> None:
    if name not in module.units.binders:
        module.absent.add(name)
        return
    for index in _units_for(module.units, name):
        _run_unit(run, module, index)


def _units_for(units: Units, name: str) -> list[int]:
    """The statements to run for a name, in their order: those that bind it, and all that bind another name which one
    of these binds.

    Else an `if` that binds both would give the other a value before the statement above it does, which would then seem
    to need no run.
    """
    found: set[int] = set()
    waiting, met = [name], {name}
    while waiting:
        new = set(units.binders[waiting.pop()]) - found
        found |= new
        others = set().union(*(units.names[index] for index in new)) - met
        met |= others
        waiting += others
    return sorted(found)


class StarSources:
    """The modules from which a module has names by `from … import *`, directly or through one another, in the order in
    which they are asked for a name.

    Each of them is met once, however many ways lead to it: where modules of a package import all of each other, the
    ways are more than can be counted. They are looked for as far as somebody asks.
    """

    def __init__(self, run: Run, module: ModuleState) -> None:
        self._run = run
        self._met = {module.path}
        self._found: list[ModuleState] = []
        self._left = [self._named_by(module)]

    def __iter__(self) -> Iterator[ModuleState]:
        index = 0
        while index < len(self._found) or self._find_next():
            yield self._found[index]
            index += 1

    def _named_by(self, module: ModuleState) -> Iterator[Path]:
        run, stars = self._run, module.units.stars
        named = (run.map.locate(module.path, star.module, star.level) for star in stars)
        return (path for path in named if path is not None and path in run.facts)

    def _find_next(self) -> bool:
        while self._left:
            path = next(self._left[-1], None)
            if path is None:
                self._left.pop()
            elif path not in self._met:
                self._met.add(path)
                module = self._run.module(path)
                self._found.append(module)
                if not module.is_main:
                    self._left.append(self._named_by(module))
                return True
        return False


def run_module(run: Run, module: ModuleState) -> None:
    """Run the statements of a module from top to bottom, those left out that were run already."""
    module.whole = True
    for index in range(len(module.units.statements)):
        _run_unit(run, module, index)


def _run_unit(run: Run, module: ModuleState, index: int) -> None:
    if index in module.ran:
        return
    module.ran.add(index)
    where = Where(run.root(Role.PROGRAM), calls=(Entered(module.name, NOWHERE),), grad=module.grad)
    frame = Frame(run, module, where, module.facts.unit_rows[index], "", module.variables)
    frame.evaluating, frame.training = module.evaluating, module.training
    statements.run_block(frame, (module.units.statements[index],))
    module.evaluating = frame.evaluating
    statement = module.units.statements[index]
    if isinstance(statement, code.Evaluate) and isinstance(statement.value, code.Call):
        module.grad = frame.last_grad or module.grad


def decode_units(path: Path, facts: ModuleFacts, known: Decoded) -> Units:
    """Decode the top-level statements of a file and index what they bind."""
    decoded = tuple([known.unit(path, facts, index) for index in range(len(facts.unit_rows))])
    binders: dict[str, list[int]] = {}
    names: list[frozenset[str]] = []
    stars: list[code.ImportFrom] = []
    effects: list[int] = []
    for index, statement in enumerate(decoded):
        names.append(frozenset(_names_bound(statement, stars)))
        for name in names[-1]:
            binders.setdefault(name, []).append(index)
        if not isinstance(statement, code.Define | code.DefineClass | code.Import | code.ImportFrom) and _has_effects(
            facts, index
        ):
            effects.append(index)
    return Units(
        decoded,
        {name: tuple(found) for name, found in binders.items()},
        tuple(stars),
        tuple(effects),
        tuple(names),
    )


def names_appended(before: ModuleFacts, now: ModuleFacts) -> frozenset[str] | None:
    """The names that statements bind which a module has at its end and had not `before`; None if it differs in more
    than these and what is inside functions, or if they do more than bind new names."""
    if not now.is_continuation_of(before):
        return None
    stars: list[code.ImportFrom] = []
    known, added = (
        frozenset().union(*(_names_bound(now.unit(index), stars) for index in indices))
        for indices in (range(len(before.unit_rows)), range(len(before.unit_rows), len(now.unit_rows)))
    )
    has_effects = any(_has_effects(now, index) for index in range(len(before.unit_rows), len(now.unit_rows)))
    return None if has_effects or known & added else added


def _has_effects(facts: ModuleFacts, index: int) -> bool:
    """Whether a top-level statement does more, as its module is imported, than bind names."""
    return _EFFECTS.search(facts.lines[index]) is not None


_EFFECTS = re.compile(r'"(environ|putenv|set_detect_anomaly|basicConfig|setLevel|builtins|set_grad_enabled)"')


def _names_bound(node: Any, stars: list[code.ImportFrom]) -> set[str]:
    """The names that a top-level statement binds in its module."""
    found: set[str] = set()
    stack: list[Any] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, code.Define | code.DefineClass):
            found.add(item.name)
        elif isinstance(item, code.Import):
            found |= {alias.bound or alias.name.partition(".")[0] for alias in item.names}
        elif isinstance(item, code.ImportFrom):
            found |= {alias.bound or alias.name for alias in item.names}
            if any(alias.name == "*" for alias in item.names):
                stars.append(item)
        elif isinstance(item, code.Assign):
            for target in item.targets:
                found |= _target_names(target)
        elif isinstance(item, code.Augment | code.For):
            found |= _target_names(item.target)
            stack += [*item.body, *item.orelse] if isinstance(item, code.For) else []
        elif isinstance(item, code.WithItem):
            found |= _target_names(item.target) if item.target is not None else set()
        elif isinstance(item, code.Evaluate):
            found |= _mutated(item.value)
        elif isinstance(item, tuple) and not isinstance(item, code.Call | code.Name | code.Attribute | code.Constant):
            stack.extend(part for part in item if isinstance(part, tuple))
    return found


def _mutated(node: code.Expression) -> set[str]:
    """The name that a statement such as `parser.add_argument(…)` changes in place."""
    if isinstance(node, code.Call) and isinstance(node.function, code.Attribute):
        path = dotted(node.function.value)
        return {path} if path and "." not in path else set()
    return set()


def _target_names(target: code.Expression) -> set[str]:
    if isinstance(target, code.Name):
        return {target.id}
    if isinstance(target, code.Sequence):
        return set().union(*(_target_names(item) for item in target.items))
    if isinstance(target, code.Subscript | code.Attribute | code.Starred):
        return _target_names(target.value)
    return set()


def member_of_module(frame: Frame, module: ModuleState, name: str) -> Value:
    """A global of another module of the project, or a submodule."""
    touch(frame, module)
    found = frame.run.find_global(module, name)
    if found is not None:
        return found
    path = frame.run.map.locate(module.path, f"{name}", 1) if module.path.name == "__init__.py" else None
    if path is not None and path in frame.run.facts:
        return ModuleValue(frame.run.module(path))
    return UNKNOWN
