"""Whether each process that goes over an iterable dataset gets all of it, be it a worker of a loader or a rank."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainlint.semantics import classes, code
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import (
    NONE,
    Class,
    Function,
    Host,
    Instance,
    Listing,
    Option,
    Reference,
    Table,
    Tensor,
    Tuple,
    Value,
    options,
)
from trainlint.semantics.vocabulary import Known

DEEPEST = 4
"""Methods, helpers and assignments that are followed, one leading to the next."""

_BASES = frozenset(
    {"torch.utils.data.IterableDataset", "torch.utils.data.Dataset", "typing.Generic", "abc.ABC", "object"}
)
"""Library classes that leave all iteration to the class that derives from them."""

_SPLITTING = re.compile(
    r"worker|shard|rank|world|replica|partition|process_?(index|id|group)|current_process|num_processes|getpid"
    r"|split_by|num_nodes|islice",
    re.IGNORECASE,
)
"""Words of code that takes a part of the data by who asks for it."""
_RANDOM = re.compile(r"rand|sample|shuffle|normal|choice", re.IGNORECASE)
_READERS = frozenset(
    {"open", "listdir", "scandir", "walk", "glob", "iglob", "rglob", "iterdir", "read_text", "readlines", "read_csv"}
    | {"read_parquet", "read_json", "loadtxt", "genfromtxt", "memmap"}
)
"""What gives the same to every process that calls it, by the name that it is called by."""
_LOADERS = frozenset(
    {"json.load", "json.loads", "np.load", "numpy.load", "torch.load", "pickle.load", "yaml.safe_load"}
)
_PASSING_ON = frozenset(
    {
        "enumerate",
        "sorted",
        "list",
        "tuple",
        "set",
        "reversed",
        "iter",
        "zip",
        "map",
        "filter",
        "tqdm",
        "cycle",
        "chain",
    }
    | {"reader", "DictReader"}
)
"""What goes over what it is given."""
_OF_THE_SAME = frozenset(
    {"items", "keys", "values", "iterrows", "itertuples", "split", "splitlines", "readlines", "copy"}
)
"""Methods whose result depends on their object alone."""


def repeats(frame: Frame, dataset: Value) -> Known:
    """Whether two processes that go over a dataset get the same items: YES only where its class is read, asks for
    neither worker nor rank, and goes over what is there for all alike."""
    found = {_repeats(frame, one) for one in options(dataset) if one != NONE}
    return found.pop() if len(found) == 1 else Known.UNKNOWN


def _repeats(frame: Frame, dataset: Value) -> Known:
    if not isinstance(dataset, Instance) or not _is_plain_class(dataset.cls):
        return Known.UNKNOWN
    iterator = classes.find_member(dataset.cls, "__iter__")
    if not isinstance(iterator, Function):
        return Known.UNKNOWN
    reading = _Reading(frame, dataset)
    if any(_SPLITTING.search(word) for word in reading.words()):
        return Known.NO
    return Known.YES if reading.is_the_same(iterator) else Known.UNKNOWN


def _is_plain_class(cls: Class) -> bool:
    bases = [base for one in classes.lineage(cls) for base in one.bases]
    return classes.library_bases(cls) <= _BASES and all(isinstance(base, Class | Reference) for base in bases)


class _Reading:
    """What the code of one dataset goes over."""

    def __init__(self, frame: Frame, dataset: Instance) -> None:
        self._frame = frame
        self._dataset = dataset

    def words(self) -> Iterator[str]:
        """The identifiers in the class, in its bases of the project, and in the functions that these call."""
        waiting = [
            member
            for cls in classes.lineage(self._dataset.cls)
            for member in cls.members.values()
            if isinstance(member, Function)
        ]
        seen = {id(function) for function in waiting}
        for _ in range(DEEPEST):
            called: list[Function] = []
            for function in waiting:
                for item in code.walk(self._body(function)):
                    if isinstance(item, code.Name):
                        yield item.id
                        other = function.module.variables.get(item.id)
                        if isinstance(other, Function) and id(other) not in seen:
                            seen.add(id(other))
                            called.append(other)
                    elif isinstance(item, code.Attribute):
                        yield item.name
                    elif isinstance(item, code.Argument) and item.keyword:
                        yield item.keyword
            waiting = called

    def is_the_same(self, function: Function, depth: int = DEEPEST) -> bool:
        """Whether all that a function goes over, or returns, is the same for every process."""
        body = self._body(function)
        sources = list(_sources(body))
        return depth > 0 and bool(sources) and all(self._same(function, body, one, depth) for one in sources)

    def _body(self, function: Function) -> code.Block:
        if not isinstance(function.define, code.Define):
            return ()
        return self._frame.run.body(function.module, function.define.body)

    def _same(self, function: Function, body: code.Block, node: code.Expression, depth: int) -> bool:
        if depth <= 0:
            return False
        if isinstance(node, code.Sequence):
            return True
        if isinstance(node, code.Subscript):
            return self._same(function, body, node.value, depth)
        if isinstance(node, code.Comprehension):
            return self._same(function, body, node.clauses[0].iterable, depth)
        if isinstance(node, code.Call):
            return self._call_is_the_same(function, body, node, depth)
        if isinstance(node, code.Attribute) and dotted(node.value) == "self":
            return self._attribute_is_the_same(node.name, depth)
        if isinstance(node, code.Name):
            bound = list(_bound_to(body, node.id))
            if bound:
                return all(self._same(function, body, one, depth - 1) for one in bound)
            return _is_data(function.module.variables.get(node.id))
        return False

    def _call_is_the_same(self, function: Function, body: code.Block, node: code.Call, depth: int) -> bool:
        name, path = called_name(node.function), dotted(node.function)
        if name == "range":
            return not any(_RANDOM.search(word) for word in self.words())
        if name in _READERS or path in _LOADERS:
            return True
        if name in _PASSING_ON:
            return any(self._same(function, body, argument.value, depth) for argument in node.arguments)
        if isinstance(node.function, code.Attribute):
            member = classes.find_member(self._dataset.cls, name) if path == f"self.{name}" else None
            if isinstance(member, Function):
                return self.is_the_same(member, depth - 1)
            return name in _OF_THE_SAME and self._same(function, body, node.function.value, depth)
        called = function.module.variables.get(name)
        return isinstance(called, Function) and self.is_the_same(called, depth - 1)

    def _attribute_is_the_same(self, name: str, depth: int) -> bool:
        if _is_data(self._dataset.attributes.get(name)):
            return True
        assigned = [
            (member, self._body(member), item.value)
            for cls in classes.lineage(self._dataset.cls)
            for member in cls.members.values()
            if isinstance(member, Function)
            for item in code.walk(self._body(member))
            if isinstance(item, code.Assign) and item.value is not None
            if any(dotted(target) == f"self.{name}" for target in item.targets)
        ]
        return bool(assigned) and all(self._same(*one, depth - 1) for one in assigned)


def _is_data(value: Value | None) -> bool:
    """Whether a value is a collection that lies in the memory of each process."""
    return value is not None and all(
        isinstance(one, Listing | Tuple | Table | Host | Tensor | Option) for one in options(value)
    )


def _sources(block: object) -> Iterator[code.Expression]:
    """What the outermost loops of a block go over, and what it returns or hands on."""
    for item in block if isinstance(block, tuple) else ():
        if isinstance(item, code.For):
            yield item.iterable
        elif isinstance(item, code.Return):
            if item.value is not None:
                yield item.value
        elif isinstance(item, code.Evaluate):
            if isinstance(item.value, code.Yield) and item.value.delegates and item.value.value is not None:
                yield item.value.value
        elif isinstance(item, code.While | code.If | code.With | code.Try | code.Handler):
            for part in item:
                yield from _sources(part)


def _bound_to(body: code.Block, name: str) -> Iterator[code.Expression]:
    """What is bound to a plain name in a function: by an assignment, or by `with … as name`."""
    for item in code.walk(body):
        if isinstance(item, code.Assign) and item.value is not None:
            if any(isinstance(target, code.Name) and target.id == name for target in item.targets):
                yield item.value
        elif isinstance(item, code.With):
            for context in item.items:
                if isinstance(context.target, code.Name) and context.target.id == name:
                    yield context.value
