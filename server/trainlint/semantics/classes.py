"""Classes of the project: their members and bases, and what kind of thing they describe."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from trainlint.semantics import code, library
from trainlint.semantics.values import Bound, Class, Function, Instance, Reference, Value, is_reference

CONSTRUCTORS = frozenset({"__init__", "__new__", "__post_init__"})
_DEEPEST_BASE = 12
"""Bases of bases are looked through this deep; a class that derives from itself has no end."""


def find_member(cls: Class, name: str) -> Value | None:
    """A member of a class of the project or of its bases in the project: the first in the order of Python."""
    for _ in range(_DEEPEST_BASE):
        if name in cls.members:
            return cls.members[name]
        bases = [base for base in cls.bases if isinstance(base, Class) and base is not cls]
        if not bases:
            return None
        if len(bases) > 1:
            return next((one.members[name] for one in lineage(cls) if name in one.members), None)
        cls = bases[0]
    return None


def library_bases(cls: Class, depth: int = 0) -> set[str]:
    """Names of the library classes that a class derives from, through classes of the project."""
    names: set[str] = set()
    for base in cls.bases:
        if isinstance(base, Reference):
            names.add(base.name)
        elif isinstance(base, Class) and base is not cls and depth < _DEEPEST_BASE:
            names |= library_bases(base, depth + 1)
    return names


def other_methods(cls: Class) -> Iterator[tuple[Function, code.Define]]:
    """The methods of a class and its bases in the project that run once an object is made."""
    for one in lineage(cls):
        for name, member in one.members.items():
            if name not in CONSTRUCTORS and isinstance(member, Function) and isinstance(member.define, code.Define):
                yield member, member.define


def lineage(cls: Class) -> list[Class]:
    """A class and its bases in the project, in the order in which Python looks for a member: what several bases derive
    from stands behind all of them, as a protocol that mixins are written against does."""
    return list(dict.fromkeys(reversed(_depth_first(cls, 0))))[::-1]


def _depth_first(cls: Class, depth: int) -> list[Class]:
    bases = [base for base in cls.bases if isinstance(base, Class) and base is not cls and depth < _DEEPEST_BASE]
    return [cls, *(found for base in bases for found in _depth_first(base, depth + 1))]


def derives_from_unseen(cls: Class) -> bool:
    """Whether a class has a base whose code is neither in the project nor known, which may call its methods."""
    bases = [base for one in lineage(cls) for base in one.bases]
    return any(not isinstance(base, Class | Reference) or _is_unseen(base) for base in bases)


def _is_unseen(base: Class | Reference) -> bool:
    package, _, inside = base.name.partition(".") if isinstance(base, Reference) else ("", "", "")
    return bool(inside) and package not in library.KNOWN_PACKAGES and package not in sys.stdlib_module_names


def is_module_class(cls: Class) -> bool:
    """Whether a class of the project is a model or a layer."""
    return any(name in library.MODULE_BASES or library.is_module_class(name) for name in library_bases(cls))


def is_module(value: Value) -> bool:
    """Whether a value is a model or a layer of the project."""
    return isinstance(value, Instance) and is_module_class(value.cls)


def is_optimizer(value: Instance) -> bool:
    """Whether an object of a project class is an optimizer."""
    return any(library.is_optimizer_class(name) for name in library_bases(value.cls))


def is_dataset_class(cls: Class) -> bool:
    """Whether a class of the project is a dataset, by its bases or by its methods and its name."""
    names = library_bases(cls)
    if names & library.DATASET_BASES or any(
        library.TORCHVISION_DATASETS.match(name) or name.endswith("Dataset") for name in names
    ):
        return True
    return (
        "__getitem__" in cls.members
        and "__len__" in cls.members
        and ("dataset" in cls.define.name.lower() or "data" in cls.define.name.lower())
    )


def is_test_case(cls: Class) -> bool:
    """Whether a class holds unit tests, or what they share: `unittest.TestCase`, or a class of the project that is
    called one."""
    names = [one.define.name for one in lineage(cls)] + sorted(library_bases(cls))
    return any(name.endswith("TestCase") for name in names)


def is_tokenizer(cls: Class) -> bool:
    """Whether a class of the project is called a tokenizer."""
    name = cls.define.name.lower()
    return "tokeniz" in name or "tokenis" in name or name.endswith("bpe")


def bind(function: Function, receiver: Value) -> Value:
    """A function as an attribute of an object gives it, by its decorators."""
    if any(is_reference(decorator, "staticmethod") for decorator in function.decorators):
        return function
    if any(is_reference(decorator, "classmethod") for decorator in function.decorators):
        return Bound(function, receiver.cls if isinstance(receiver, Instance) else receiver)
    return Bound(function, receiver)
