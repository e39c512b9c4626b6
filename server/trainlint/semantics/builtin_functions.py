"""Calls of Python's built-in functions."""

from __future__ import annotations

from trainlint.semantics import (
    assignment,
    attributes,
    calls,
    code,
    command_line,
    configurations,
    construction,
    expressions,
    iteration,
    lightning,
    object_types,
    packages,
    records,
    tensors,
)
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import ReportKind, SyncKind
from trainlint.semantics.state import Frame
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    OBJECT,
    STRING,
    UNKNOWN,
    Const,
    Host,
    Instance,
    Listing,
    ModuleValue,
    Object,
    Option,
    Reference,
    Table,
    Tensor,
    Test,
    Tuple,
    Value,
    join_all,
)


def call_builtin(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    """The result of calling the built-in function `name`."""
    handler = _BUILTINS.get(name)
    if handler is not None:
        return handler(frame, given, node)
    if name in ("list", "tuple", "reversed", "sorted", "set", "iter"):
        return _same_items(frame, name, given)
    return OBJECT if name in ("isinstance", "hasattr", "callable", "issubclass", "id", "hash") else UNKNOWN


def _same_items(frame: Frame, name: str, given: Given) -> Value:
    if not given.positional:
        return Listing(UNKNOWN, growing=True)
    value = given.positional[0]
    if name == "iter":
        loader = iteration.loader_in(value)
        if loader is not None:
            records.note_iteration(frame, loader)
        return Object(object_types.ITERATOR, inner=value)
    if isinstance(value, Tuple):
        return value
    return Listing(iteration.item_of(frame, value), growing=name == "list")


def _number(name: str) -> packages.Call:
    return lambda frame, given, node: _number_of(frame, name, given, node)


def _option_as_number(option: Option, name: str) -> Value:
    """`int(args.workers)`: a setting whose default is of that type already stays what it is."""
    kinds = {"int": (int,), "float": (float,), "bool": (bool,)}[name]
    return option if option.has_default and option.default.__class__ in kinds else NUMBER


def _number_of(frame: Frame, name: str, given: Given, node: code.Call | None) -> Value:
    for value in given.positional[:1]:
        if isinstance(value, Tensor) and not value.container and node is not None:
            tensors.sync(frame, SyncKind.READ, node, value, node.arguments[0].value if node.arguments else None)
        tensors.note_question(frame, value)
        if isinstance(value, Const) and value.value in ("inf", "-inf"):
            return Const(float(str(value.value)))
        if isinstance(value, Option):
            return _option_as_number(value, name)
        if isinstance(value, Const):
            return value if not isinstance(value.value, str) else NUMBER
        if isinstance(value, Test):
            return value
        if isinstance(value, Host) and (value.kind in ("rank", "world-size") or value.ranks):
            return value
        if isinstance(value, Object) and value.type == object_types.ENVIRONMENT:
            return Host("rank")
    return NUMBER


def _extreme(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`max` and `min` of tensors compare them, which reads each."""
    values = (
        given.positional
        if len(given.positional) > 1
        else [iteration.item_of(frame, value) for value in given.positional]
    )
    tensors.note_question(frame, *values)
    for value in values:
        if (
            isinstance(value, Tensor)
            and node is not None
            and (len(given.positional) > 1 or isinstance(given.positional[0], Listing | Tuple))
        ):
            tensors.sync(frame, SyncKind.BRANCH, node, value, node.arguments[0].value if node.arguments else None)
            return value
    grown = next((value for value in values if isinstance(value, Host) and expressions.ranks_in(value) > 0), None)
    if grown is not None:
        return grown
    if any(isinstance(value, Option) for value in values):
        return NUMBER
    return join_all(values) if values else NUMBER


def _rounded(given: Given) -> Value:
    value = given.first()
    return value if isinstance(value, Tensor) or (isinstance(value, Host) and value.ranks) else NUMBER


def _truth(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`any` and `all` ask each item for its truth."""
    frame.run.note_possible_wait()
    return NUMBER


def _sum(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return NUMBER
    added = given.positional[0]
    if isinstance(added, Tensor) and not added.container and not added.keeps_graph:
        # nobody has Python add the rows of a tensor: what a batch holds there is a list of sizes
        return UNKNOWN
    item = iteration.item_of(frame, added)
    return replace(item, loader=None) if isinstance(item, Tensor) else NUMBER


def _print(frame: Frame, given: Given, node: code.Call | None) -> Value:
    speaker = _speaker(frame) if given.keywords.keys() <= _OF_ALL_PRINTERS else ""
    records.record_report(frame, ReportKind.PRINT, "print", given, node, speaker=speaker)
    return NONE


_OF_ALL_PRINTERS = frozenset({"sep", "end"})
"""Arguments of `print` that the printers of frameworks take as well."""
_SPEAKERS = (object_types.FABRIC, object_types.ACCELERATOR)


def _speaker(frame: Frame) -> str:
    """A printer of a framework that is at hand: `self.print`; empty where there is none."""
    for name, value in frame.variables.items():
        if lightning.is_module(value) or (isinstance(value, Object) and value.type in _SPEAKERS):
            return f"{name}.print"
    return ""


def _text(frame: Frame, given: Given, node: code.Call | None) -> Value:
    for value in given.positional[:1]:
        if node is not None:
            tensors.format_sync(frame, node, value, node.arguments[0].value if node.arguments else None)
        if isinstance(value, Object) and value.type == object_types.PATH:
            return value
    return STRING


def _range(frame: Frame, given: Given, node: code.Call | None) -> Value:
    for argument, value in zip(given.nodes, given.positional, strict=False):
        if isinstance(value, Tensor) and not value.container and node is not None:
            tensors.sync(frame, SyncKind.INDEX, node, value, argument.value)
    return Object(object_types.RANGE)


def _enumerate(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.ENUMERATE, inner=given.first())


def _zip(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return Object(object_types.ZIP, inner=Tuple(tuple(given.positional)))


def _next(frame: Frame, given: Given, node: code.Call | None) -> Value:
    # whatever makes the item may wait for the device
    frame.run.note_possible_wait()
    return iteration.item_of(frame, given.positional[0]) if given.positional else UNKNOWN


def _map(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if not given.positional:
        return UNKNOWN
    items = [iteration.item_of(frame, value) for value in given.positional[1:]]
    return Listing(calls.call(frame, given.positional[0], Given(items), node))


def _filter(frame: Frame, given: Given, node: code.Call | None) -> Value:
    return given.positional[1] if len(given.positional) > 1 else UNKNOWN


def _getattr(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) >= 2 and isinstance(given.positional[0], ModuleValue):
        return expressions.item_at(
            frame, Object(object_types.MODULE_DICT, inner=given.positional[0]), given.positional[1]
        )
    if (
        len(given.positional) >= 2
        and isinstance(given.positional[0], Reference)
        and not isinstance(given.positional[1], Const)
    ):
        return Reference(f"{given.positional[0].name}.any")
    if (
        len(given.positional) >= 2
        and isinstance(given.positional[1], Const)
        and isinstance(given.positional[1].value, str)
    ):
        return attributes.read(frame, given.positional[0], given.positional[1].value)
    return UNKNOWN


def _dict(frame: Frame, given: Given, node: code.Call | None) -> Value:
    base = given.positional[0] if given.positional else None
    items = dict(base.items) if isinstance(base, Table) else {}
    if not given.complete:
        items = {name: configurations.perhaps(value) for name, value in items.items()}
    items.update(given.keywords)
    known = given.complete and (base is None or (isinstance(base, Table) and base.rest is None))
    return Table(tuple(items.items()), None if known else UNKNOWN, base.file if isinstance(base, Table) else "")


def _setattr(frame: Frame, given: Given, node: code.Call | None) -> Value:
    if len(given.positional) > 2 and isinstance(given.positional[1], Const):
        assignment.assign_attribute(frame, given.positional[0], str(given.positional[1].value), given.positional[2])
    elif given.positional and command_line.holds_options(given.positional[0]):
        command_line.forget_defaults(frame)
    elif given.positional and isinstance(given.positional[0], Instance):
        construction.note_any_attribute(frame, given.positional[0])
    elif given.positional and isinstance(given.positional[0], Table):
        configurations.note_any_change(frame, given.positional[0])
    return NONE


def exit(frame: Frame, given: Given, node: code.Call | None) -> Value:
    """`exit()`: the statement that holds it ends the program, not the call."""
    return NONE


_BUILTINS: dict[str, packages.Call] = {
    "print": _print,
    "float": _number("float"),
    "int": _number("int"),
    "bool": _number("bool"),
    "round": lambda frame, given, node: _rounded(given),
    "abs": lambda frame, given, node: (
        given.positional[0] if given.positional and isinstance(given.positional[0], Tensor) else NUMBER
    ),
    "max": _extreme,
    "min": _extreme,
    "sum": _sum,
    "str": _text,
    "format": _text,
    "repr": _text,
    "range": _range,
    "enumerate": _enumerate,
    "zip": _zip,
    "next": _next,
    "map": _map,
    "filter": _filter,
    "getattr": _getattr,
    "setattr": _setattr,
    "dict": _dict,
    "len": lambda frame, given, node: NUMBER,
    "open": lambda frame, given, node: configurations.opened(frame, given.get("file", 0), given.get("mode", 1)),
    "any": _truth,
    "all": _truth,
    "vars": lambda frame, given, node: given.first(),
    "exit": exit,
    "quit": exit,
}
