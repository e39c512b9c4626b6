"""Python lists of objects that a dataset holds and looks its items up in."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import classes, code, tensors
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import Const, Function, Host, Instance, Listing, Table, Tuple, Value, options

_PARSED = frozenset({"json.load", "json.loads", "pickle.load", "pickle.loads", "yaml.safe_load"})
"""What makes Python objects of a file."""
_ROWS = frozenset({"readlines", "splitlines", "to_dict", "tolist", "to_list"})
"""Methods that make a list of Python objects."""


def object_lists(frame: Frame, dataset: Value) -> tuple[str, ...]:
    """The attributes of a dataset of the project in which `__getitem__` looks up, by the index, one of many Python
    objects: text, numbers, dictionaries, but not tensors or arrays, which keep their data apart."""
    found: set[str] = set()
    for one in options(dataset):
        getter = classes.find_member(one.cls, "__getitem__") if isinstance(one, Instance) else None
        if isinstance(one, Instance) and isinstance(getter, Function) and isinstance(getter.define, code.Define):
            body = frame.run.body(getter.module, getter.define.body)
            looked_up = set(_looked_up(body, [parameter.name for parameter in getter.define.parameters]))
            found |= {name for name in looked_up if _holds_objects(frame, one, name)}
    return tuple(sorted(found))


def _looked_up(body: code.Block, parameters: list[str]) -> Iterator[str]:
    """The attributes of the dataset that are subscripted by the index."""
    index = parameters[1] if len(parameters) > 1 else ""
    for item in code.walk(body):
        if isinstance(item, code.Subscript) and isinstance(item.value, code.Attribute):
            of_the_dataset = dotted(item.value.value) == parameters[0]
            if of_the_dataset and isinstance(item.key, code.Name) and item.key.id == index:
                yield item.value.name


def _holds_objects(frame: Frame, dataset: Instance, name: str) -> bool:
    values = options(dataset.attributes.get(name, Const(None)))
    if all(isinstance(value, Listing) and _is_object(value.item) for value in values):
        return True
    assigned = list(_assigned(frame, dataset, name))
    return bool(assigned) and all(_makes_objects(value) for value in assigned)


def _is_object(item: Value) -> bool:
    """Whether each item of a list is a Python object of its own, of which nothing lies in a tensor or an array."""
    if isinstance(item, Tuple):
        return all(_is_object(one) for one in item.items)
    if isinstance(item, Listing):
        return _is_object(item.item)
    if isinstance(item, Table):
        return not tensors.tensors_in(item) and bool(item.items)
    return isinstance(item, Const) or (isinstance(item, Host) and item.kind in ("string", "number"))


def _assigned(frame: Frame, dataset: Instance, name: str) -> Iterator[code.Expression]:
    members = [member for cls in classes.lineage(dataset.cls) for member in cls.members.values()]
    for member in members:
        if isinstance(member, Function) and isinstance(member.define, code.Define):
            for item in code.walk(frame.run.body(member.module, member.define.body)):
                targets = item.targets if isinstance(item, code.Assign) and item.value is not None else ()
                if any(dotted(target) == f"self.{name}" for target in targets):
                    yield item.value


def _makes_objects(node: code.Expression) -> bool:
    """Whether an expression parses a file into Python objects: `json.load(…)`, `list(csv.DictReader(…))`."""
    if isinstance(node, code.Subscript):
        return _makes_objects(node.value)
    if not isinstance(node, code.Call):
        return False
    if dotted(node.function) in _PARSED or called_name(node.function) in _ROWS:
        return True
    inner = [one.value for one in node.arguments if isinstance(one.value, code.Call)]
    reads = any(called_name(one.function) in ("DictReader", "reader") for one in inner)
    return called_name(node.function) == "list" and reads
