"""Assignment: to names, to attributes and items, and what in-place changes teach about a variable."""

from __future__ import annotations

from trainlint.semantics import (
    code,
    command_line,
    configurations,
    entry_facts,
    expressions,
    iteration,
    loaders,
    naming,
    object_types,
    tensors,
)
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted
from trainlint.semantics.values import (
    NONE,
    NUMBER,
    UNKNOWN,
    Choice,
    Class,
    Const,
    Instance,
    Listing,
    ModuleValue,
    Object,
    Option,
    Reference,
    Table,
    Tensor,
    Tuple,
    Unknown,
    Value,
    join,
    join_all,
)
from trainlint.semantics.vocabulary import Place


def assign(frame: Frame, target: code.Expression, value: Value) -> None:
    """Bind `value` to a target: a name, an attribute, an item, or a pattern of these."""
    if isinstance(target, code.Name):
        frame.bind(target.id, value)
    elif isinstance(target, code.Sequence):
        _assign_items(frame, target.items, value)
    elif isinstance(target, code.Attribute):
        base = expressions.evaluate(frame, target.value)
        assign_attribute(frame, base, target.name, value, target)
    elif isinstance(target, code.Subscript):
        _assign_item(frame, target, value)
    elif isinstance(target, code.Starred):
        assign(frame, target.value, Listing(value))


def _assign_items(frame: Frame, targets: tuple[code.Expression, ...], value: Value) -> None:
    if isinstance(value, Choice):
        spread = [option for option in value.options if isinstance(option, Tuple) and len(option.items) == len(targets)]
        value = join_all(spread) if len(spread) == len(value.options) else Listing(iteration.item_of(frame, value))
    if (
        isinstance(value, Tuple)
        and len(value.items) == len(targets)
        and not any(isinstance(target, code.Starred) for target in targets)
    ):
        for target, part in zip(targets, value.items, strict=True):
            assign(frame, target, part)
        return
    item: Value
    if isinstance(value, Tensor):
        # the parts of a batch are tensors, whatever the batch itself is
        item = replace(value, container=False)
        if (value.container or value.number) and value.keeps_graph:
            for target in targets:
                assign(frame, target, _part_of_output(frame, target, item))
            return
    elif isinstance(value, Listing):
        item = value.item
    elif isinstance(value, Tuple) and len(value.items) != len(targets):
        item = join_all(value.items)
    elif isinstance(value, Object) and value.type == object_types.GENERATOR:
        item = UNKNOWN
    else:
        item = iteration.item_of(frame, value) if isinstance(value, Object) else UNKNOWN
    for target in targets:
        assign(frame, target, _part_of_tensors(target, item) if isinstance(item, Tensor) else item)


def _part_of_tensors(target: code.Expression, item: Tensor) -> Value:
    """One of several things that are tensors, for all that is known, by what it is called."""
    name = dotted(target)
    if naming.PLACE_IN_LOADER.search(name):
        return NUMBER
    if not item.proved and naming.SURELY_CONFIG.search(name.rpartition(".")[2]):
        return Option("config")
    return item


def _part_of_output(frame: Frame, target: code.Expression, item: Tensor) -> Value:
    """One of several things that a model or a loss function returned: only what is called a loss, or is
    backpropagated, is known to carry the graph."""
    name = dotted(target)
    word = name.rpartition(".")[2]
    if name in frame.backpropagated or naming.LOSS.search(word):
        return item
    if naming.COUNT.search(word):
        return UNKNOWN
    return _part_of_tensors(target, replace(item, keeps_graph=False, number=False))


def assign_attribute(frame: Frame, base: Value, name: str, value: Value, node: code.Attribute | None = None) -> None:
    """`base.name = value`, where it is written."""
    frame.run.effects += 1
    if isinstance(base, Instance):
        if frame.where.loops:
            loaders.note_dataset_change(frame, base)
        old = base.attributes.get(name)
        base.attributes[name] = value if old is None or old == NONE else _merge(old, value)
    elif isinstance(base, ModuleValue):
        base.module.variables[name] = value
    elif isinstance(base, Reference):
        entry_facts.set_attribute(frame, base, name)
        if f"{base.name}.{name}" == "sys.argv":
            command_line.note_words(frame, value)
        if node is not None and base.name.startswith("torch.backends."):
            entry_facts.record_setting(frame, node, f"{base.name}.{name}", value)
    elif isinstance(base, Class):
        base.members[name] = value
    elif isinstance(base, Table) and base.file:
        changed = configurations.changed(frame, base, name, value)
        if node is not None:
            rebind(frame, node.value, changed)
    elif isinstance(base, Option):
        command_line.set_option(frame, name, value)
        if node is not None:
            entry_facts.record_setting(frame, node, name, value)


def _merge(old: Value, new: Value) -> Value:
    """An attribute after another assignment: the newest value counts, but knowledge is not lost to the unknown."""
    if isinstance(new, Unknown):
        return old
    if all(isinstance(value, Object) and value.type == object_types.TRANSFORM for value in (old, new)):
        # which of them is used hangs on how the object is made
        return join(old, new)
    return new


def _assign_item(frame: Frame, target: code.Subscript, value: Value) -> None:
    base = expressions.evaluate(frame, target.value)
    key = expressions.evaluate(frame, target.key)
    if isinstance(base, Object) and base.type == object_types.ENVIRONMENT:
        entry_facts.record_environment(frame, target, key, value)
        return
    if isinstance(key, Const) and key.value in _LEARNING_RATES:
        frame.run.entry.resets_learning_rate = True
    if command_line.holds_options(base):
        if isinstance(key, Const) and isinstance(key.value, str):
            command_line.set_option(frame, key.value, value)
        else:
            command_line.forget_defaults(frame)
        return
    path = target.value
    if dotted(path) == "sys.argv":
        command_line.note_words(frame, value)
    updated: Value | None = None
    if isinstance(base, Table) and isinstance(key, Const) and isinstance(key.value, str):
        before = dict(base.items).get(key.value)
        if before is not None and isinstance(path, code.Attribute) and frame.undecided:
            # of attributes no branch is kept apart from the other
            value = join(before, value)
        updated = configurations.changed(frame, base, key.value, value)
    elif isinstance(base, Table):
        configurations.note_change(frame, base, key, value)
        updated = replace(base, rest=value if base.rest is None else join(base.rest, value))
    elif (
        isinstance(base, Tuple)
        and isinstance(key, Const)
        and isinstance(key.value, int)
        and 0 <= key.value < len(base.items)
    ):
        updated = Tuple((*base.items[: key.value], value, *base.items[key.value + 1 :]))
    elif isinstance(base, Tensor) and isinstance(value, Tensor):
        if base.container and base.loader is not None:
            updated = replace(base, place=value.place, proved=value.proved)
        elif base.place is Place.DEVICE and value.place is Place.HOST:
            tensors.record_copy(frame, target, value)
    elif isinstance(base, Listing):
        updated = Listing(value if isinstance(base.item, Unknown) else join(base.item, value), base.growing)
    is_part = isinstance(base, Table) and bool(base.file) and isinstance(path, code.Subscript)
    if updated is not None and (is_part or isinstance(path, code.Name | code.Attribute)):
        assign(frame, path, updated)


def forget_item(frame: Frame, node: code.Expression | None, base: Value, key: Value) -> None:
    """A key of a dict is taken out: `del kwargs["shuffle"]`, `kwargs.pop("shuffle")`."""
    if not isinstance(base, Table) or base.file or not isinstance(key, Const) or not isinstance(key.value, str):
        return
    items = dict(base.items)
    if key.value in items:
        items.pop(key.value)
        if frame.undecided:
            items[key.value] = UNKNOWN
        rebind(frame, node, replace(base, items=tuple(items.items())))


_LEARNING_RATES = frozenset({"lr", "max_lr", "initial_lr"})
"""Keys of the learning rate in the parameter groups of optimizers."""


def rebind(frame: Frame, node: code.Expression | None, value: Value) -> None:
    """Learn that an object was changed in place: `model.cuda()`."""
    if isinstance(node, code.Name | code.Attribute) and dotted(node):
        assign(frame, node, value)
