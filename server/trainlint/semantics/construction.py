"""Construction: objects of the project's own classes."""

from __future__ import annotations

from collections.abc import Callable

from trainlint.semantics import classes, code, frameworks, functions, library, loaders, steps
from trainlint.semantics.arguments import Given
from trainlint.semantics.immutable import replace
from trainlint.semantics.state import Frame
from trainlint.semantics.values import Class, Const, Function, Instance, Option, Value
from trainlint.semantics.vocabulary import Place


def instantiate(frame: Frame, cls: Class, given: Given, node: code.Call | None) -> Value:
    """Make an object of a class of the project; one stands for all that are made at one place."""
    names = classes.library_bases(cls)
    if names & library.DATA_LOADERS:
        return _own_loader(frame, cls, given, node)
    key = (id(cls), frame.site(node.at) if node is not None else None)
    instance = frame.run.instances.get(key)
    if instance is None:
        instance = frame.run.instances[key] = Instance(cls)
        if classes.is_module_class(cls):
            instance.place = Place.HOST
    elif classes.is_module_class(cls):
        return instance
    if classes.is_optimizer(instance):
        steps.note_start(frame)
    constructor = classes.find_member(cls, "__init__")
    if isinstance(constructor, Function):
        whole = replace(given, positional=[instance, *given.positional])
        if classes.is_module_class(cls) and library.LIGHTNING_MODULE not in names:
            instance.construct = _constructor(frame, constructor, whole, node)
        else:
            functions.call_function(frame, constructor, whole, node)
    else:
        _fill_fields(frame, cls, instance, given)
    _after_instantiation(frame, instance, names, given, node)
    return instance


def _own_loader(frame: Frame, cls: Class, given: Given, node: code.Call | None) -> Value:
    """A subclass of DataLoader: what its constructor passes to `super().__init__`, or else what it is given."""
    constructor = classes.find_member(cls, "__init__")
    if not isinstance(constructor, Function):
        return loaders.make_loader(frame, given, node, "torch.utils.data.DataLoader")
    instance = Instance(cls)
    frame.run.passed_up.pop(id(instance), None)
    functions.call_function(frame, constructor, replace(given, positional=[instance, *given.positional]), node)
    passed = frame.run.passed_up.pop(id(instance), None)
    # what the constructor does not take cannot be added to the call
    reached = replace(passed or given, spread=True)
    return loaders.make_loader(frame, reached, node, "torch.utils.data.DataLoader", exact=passed is not None)


def _constructor(frame: Frame, constructor: Function, given: Given, node: code.Call | None) -> Callable[[], None]:
    where = frame.where

    def construct() -> None:
        outer, frame.where = frame.where, where
        try:
            functions.call_function(frame, constructor, given, node)
        finally:
            frame.where = outer

    return construct


def _fill_fields(frame: Frame, cls: Class, instance: Instance, given: Given) -> None:
    """Dataclasses and their kin: fields in order of their annotation, those of base classes first."""
    fields = field_names(cls)
    instance.attributes.update(zip(fields, given.positional, strict=False))
    instance.attributes.update(given.keywords)
    if not given.complete:
        for name in fields:
            default = classes.find_member(cls, name)
            # `Config(**read(path))` gives most fields a value, where the command line leaves most as they are
            given_perhaps = default is None or (given.spread and isinstance(default, Const | Option))
            if name not in instance.attributes and given_perhaps:
                instance.attributes[name] = Option(name)
    finish = classes.find_member(cls, "__post_init__")
    if isinstance(finish, Function):
        functions.call_function(frame, finish, Given([instance]), None)


def note_any_attribute(frame: Frame, instance: Instance) -> None:
    """`setattr(instance, name, value)` with a name that is not known: its settings may hold anything."""
    frame.run.effects += 1
    defaults = {name: classes.find_member(instance.cls, name) for name in field_names(instance.cls)}
    settings = {name: value for name, value in (defaults | instance.attributes).items() if value is not None}
    for name, value in settings.items():
        if isinstance(value, Const | Option):
            instance.attributes[name] = Option(name)


def field_names(cls: Class) -> list[str]:
    """The fields of a class that is declared by them, in the order in which its constructor takes them."""
    return list(dict.fromkeys(name for one in reversed(classes.lineage(cls)) for name in _annotated_names(one)))


def _annotated_names(cls: Class) -> list[str]:
    statements = [member.statement for member in cls.define.members]
    targets = [one.targets[0] for one in statements if isinstance(one, code.Assign) and one.annotation is not None]
    return [target.id for target in targets if isinstance(target, code.Name)]


def _after_instantiation(
    frame: Frame, instance: Instance, names: set[str], given: Given, node: code.Call | None
) -> None:
    """What a library base class does with a new object of a project class."""
    if names & library.SHARDING_SAMPLERS:
        instance.sampler = loaders.make_sampler(frame, next(iter(names & library.SHARDING_SAMPLERS)), given, node)
    if any(library.is_scheduler(name) for name in names):
        frame.run.entry.resets_learning_rate = True
    if any(library.HF_TRAINERS.match(name) for name in names):
        frameworks.use_hf_trainer(frame, given, instance, node)
