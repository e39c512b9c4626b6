"""Whether code that runs again and again does the same each time: from names that nothing rebinds meanwhile.

What is asked is always about the innermost repetition around an expression: the loop of its function that it stands in,
or else whatever calls the function again and again, a loop of a caller or a loader that asks for items. The answer is
True only where it is proved; what is not understood may differ each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trainlint.semantics import classes, code, expressions
from trainlint.semantics.state import Frame, Role
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import Class, Const, Function, Host, Instance, Method, Option, Reference, Value

_DEEPEST = 5
"""Assignments and calls that are followed, one leading to the next."""

_REPEATED = frozenset({Role.SAMPLE, Role.COLLATE, Role.STEP, Role.EVALUATION, Role.EPOCH})
"""Roles in which a function is called again and again."""

_STEADY = re.compile(
    r"^(torchvision\.(transforms|datasets)\..*|torch\.utils\.data\.[A-Z]\w*|torch\.(device|Generator)|functools\.partial"
    r"|os\.(cpu_count|getenv|fspath|environ\.get)|os\.path\.\w+|pathlib\.(Pure)?(Posix|Windows)?Path|albumentations\..*"
    r"|.*\.from_pretrained|datasets\.load_\w+|len|int|str|float|bool|min|max|abs|round|sum|sorted|list|tuple|dict|range)$"
)
"""Functions of libraries that make the same of the same."""
_STEADY_METHODS = frozenset({"format", "join", "joinpath", "lower", "upper", "strip", "replace", "with_suffix", "get"})
"""Methods of text, paths and options that do."""
_CHANGING = re.compile(
    r'"(?:\w*rand\w*|\w*shuffle\w*|\w*sampl\w*|choices?|perm\w*|time|now|today|uuid\w*|next|input'
    r'|open|\w*load\w*|\w*read\w*|listdir|scandir|walk|i?glob|rglob|iterdir|fetch\w*|query)"'
)
"""Names in a constructor, as it is stored, by which two objects that are made of the same may differ: it draws, or it
reads what others may have written meanwhile."""


def same_call(frame: Frame, node: code.Call) -> bool:
    """Whether a call, which runs again and again, is passed the same each time, whatever the path that leads to it."""
    return not _conditional(frame) and all(_same(frame, argument.value, _DEEPEST) for argument in node.arguments)


def same(frame: Frame, node: code.Expression) -> bool:
    """Whether an expression has the same value each time it is evaluated."""
    return _same(frame, node, _DEEPEST)


def by_item(frame: Frame, node: code.Call, *, of_path: bool) -> bool:
    """Whether the name of a file follows from the index of the item that a dataset is asked for: what a call is passed
    first, or the path whose method it is."""
    argument = node.arguments[0].value if node.arguments else None
    first = code.receiver_of(node) if of_path else argument
    return first is not None and _by_item(frame, first, _DEEPEST) and not _is_content(frame, first, _DEEPEST)


_DRAWING = re.compile(r"next|rand|sampl|choice|shuffle|pop|read|load|get|draw|pick|fetch|query|input|decode|generate")
"""In names of calls that give something else each time, of what nobody passed them."""


def made_of_its_own(frame: Frame, node: code.Expression) -> bool:
    """Whether a function makes an expression of nothing that it is passed, and of no item of a loop: a placeholder that
    stands for a picture where a batch has none."""
    function = frame.function
    if function is None or not isinstance(function.define, code.Define) or frame.enclosing is not None:
        return False
    parameters = [parameter.name for parameter in function.define.parameters]
    own = parameters[:1] if function.owner is not None else []
    passed = frozenset(parameters).difference(own)
    bound = _bindings_of(frame)
    waiting: list[code.Expression] = [node]
    followed = set(own)
    while waiting:
        for item in code.walk(waiting.pop()):
            if isinstance(item, code.Call) and _DRAWING.search(called_name(item.function)):
                return False
            if not isinstance(item, code.Name) or item.id in followed:
                continue
            followed.add(item.id)
            values = list(_assigned(frame, item.id))
            if item.id in passed or len(values) < len(bound.get(item.id, ())):
                return False
            waiting += values
    return True


_CONTENT = frozenset({"BytesIO", "StringIO", "open", "extractfile", "read", "get", "urlopen", "tobytes", "b64decode"})
"""Calls that give the content of a file, or something to read it from, rather than its name."""


def _is_content(frame: Frame, node: code.Expression, depth: int) -> bool:
    if any(isinstance(item, code.Call) and called_name(item.function) in _CONTENT for item in code.walk(node)):
        return True
    bound = _bindings_of(frame)
    names = {item.id for item in code.walk(node) if isinstance(item, code.Name)} & bound.keys()
    values = [value for name in names for value in _assigned(frame, name)]
    return depth > 0 and any(_is_content(frame, value, depth - 1) for value in values)


def _assigned(frame: Frame, name: str) -> Iterator[code.Expression]:
    """What a name, or a pattern of names that it is one of, is bound to in the function of a frame."""
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return
    for item in code.walk(frame.run.body(function.module, function.define.body)):
        if isinstance(item, code.Assign) and item.value is not None:
            targets = item.targets
        elif isinstance(item, code.WithItem) and item.target is not None:
            targets = (item.target,)
        else:
            continue
        if any(_binds(target, name) for target in targets):
            yield item.value


def _binds(target: code.Expression, name: str) -> bool:
    """Whether an assignment to a target binds a plain name."""
    if isinstance(target, code.Sequence):
        return any(_binds(one, name) for one in target.items)
    return isinstance(target, code.Name) and target.id == name


def _by_item(frame: Frame, node: code.Expression, depth: int) -> bool:
    function = frame.function
    if depth < 0 or function is None:
        return False
    parameters = [parameter.name for parameter in function.define.parameters]
    bound = _bindings_of(frame)
    for name in {item.id for item in code.walk(node) if isinstance(item, code.Name)}:
        if name in parameters[1:] and function.qualname.endswith("__getitem__"):
            return True
        if name in bound:
            if any(_by_item(frame, value, depth - 1) for value in _assigned(frame, name)):
                return True
        elif name in parameters and frame.caller is not None:
            passed = passed_for(frame, name, parameters)
            if passed is not None and _by_item(frame.caller, passed.value, depth - 1):
                return True
    return False


def _conditional(frame: Frame) -> bool:
    """Whether a condition inside the repetition, which may turn out differently each time, decides whether the code
    runs: it may do so once only."""
    holder, open_loops = frame, len(frame.where.loops)
    for index, guard in reversed(list(enumerate(frame.where.guards))):
        while index < holder.guard_base and holder.caller is not None:
            holder = holder.caller
        if guard.depth >= open_loops and not _decided_once(holder, guard.test):
            return True
    return False


def _decided_once(frame: Frame, test: Any) -> bool:
    """Whether a condition is true each time or never: nothing in it is bound meanwhile, not even to the same."""
    if isinstance(test, str) or not _same(frame, test, _DEEPEST):
        return False
    bound = frame.run.nodes.bindings(frame.open_loops[-1]) if frame.open_loops else {}
    return not any(dotted(item) in bound for item in code.walk(test) if isinstance(item, code.Name | code.Attribute))


def _same(frame: Frame, node: Any, depth: int) -> bool:
    if depth < 0:
        return False
    if isinstance(node, code.Constant):
        return True
    if isinstance(node, code.Name):
        return _same_name(frame, node.id, depth)
    if isinstance(node, code.Attribute):
        return _same_attribute(frame, node, depth)
    if isinstance(node, code.Call):
        return _same_result(frame, node, depth)
    if isinstance(node, _COMPOUND):
        return all(_same(frame, part, depth) for part in _parts(node))
    return False


_COMPOUND = (
    code.Binary,
    code.Boolean,
    code.Unary,
    code.Compare,
    code.Conditional,
    code.Sequence,
    code.Mapping,
    code.Subscript,
    code.Slice,
    code.Format,
    code.Starred,
)


def _parts(node: Any) -> Iterator[Any]:
    """The expressions that a compound one is made of."""
    for part in node:
        if part.__class__ is tuple:
            yield from (one for one in part if isinstance(one, tuple))
        elif isinstance(part, tuple):
            yield part


# ------------------------------------------------------------------------------------------------------------- names


def _same_name(frame: Frame, name: str, depth: int) -> bool:
    if frame.open_loops:
        return _follow(frame, frame.run.nodes.bindings(frame.open_loops[-1]), name, depth)
    if frame.function is None:
        return True
    parameters = [parameter.name for parameter in frame.function.define.parameters]
    if name in parameters:
        return _same_parameter(frame, name, parameters, depth)
    bound = _bindings_of(frame)
    if name in bound:
        return _follow(frame, bound, name, depth)
    holder = _holder(frame, name)
    return holder is None or _same_name(holder, name, depth - 1)


def _follow(frame: Frame, bound: dict[str, tuple[code.Expression | None, ...]], name: str, depth: int) -> bool:
    """Whether what is bound to a name meanwhile is the same each time; True where nothing is."""
    values = bound.get(name, ())
    return all(value is not None and _same(frame, value, depth - 1) for value in values)


def _bindings_of(frame: Frame) -> dict[str, tuple[code.Expression | None, ...]]:
    """What the function of a frame binds anywhere in its body."""
    function = frame.function
    if function is None or not isinstance(function.define, code.Define):
        return {}
    return frame.run.nodes.bindings(frame.run.body(function.module, function.define.body))


def _same_parameter(frame: Frame, name: str, parameters: list[str], depth: int) -> bool:
    function = frame.function
    assert function is not None
    if name in _bindings_of(frame):
        return False
    if name == parameters[0] and function.owner is not None and isinstance(frame.variables.get(name), Instance | Class):
        return True
    if frame.caller is None or frame.called_by is None:
        return not frame.where.loops and frame.where.root.role not in _REPEATED
    if any(argument.star for argument in frame.called_by.arguments):
        return False
    passed = passed_for(frame, name, parameters)
    return passed is None or _same(frame.caller, passed.value, depth - 1)


def passed_for(frame: Frame, name: str, parameters: list[str]) -> code.Argument | None:
    """What the call of a function passes for a parameter; None where that is not written in it."""
    function, call = frame.function, frame.called_by
    if function is None or call is None:
        return None
    bound_first = function.owner is not None and isinstance(call.function, code.Attribute)
    position = parameters.index(name) - (1 if bound_first else 0)
    passed = next((one for one in call.arguments if one.keyword == name), None)
    positional = [one for one in call.arguments if one.keyword is None]
    if passed is None and 0 <= position < len(positional):
        passed = positional[position]
    return passed


def _holder(frame: Frame, name: str) -> Frame | None:
    """The frame further out that holds a free name of a function; None where it was bound once and for all."""
    outer = frame.enclosing
    while outer is not None:
        if name in outer.variables:
            return outer
        outer = outer.enclosing
    outer = frame.caller
    while outer is not None and not (outer.function is None and outer.module is frame.module):
        outer = outer.caller
    return outer


def _same_attribute(frame: Frame, node: code.Attribute, depth: int) -> bool:
    path = dotted(node)
    if not path:
        return _same(frame, node.value, depth)
    first, *rest = path.split(".")
    bound = frame.run.nodes.bindings(frame.open_loops[-1]) if frame.open_loops else _bindings_of(frame)
    prefixes = {".".join([first, *rest[:count]]) for count in range(1, len(rest) + 1)}
    if prefixes & bound.keys() or not _same_name(frame, first, depth):
        return False
    owner = frame.variables.get(first)
    return not isinstance(owner, Instance) or is_set_once(frame, owner.cls, rest[0])


def is_set_once(frame: Frame, cls: Class, name: str) -> bool:
    """Whether an attribute of an instance is assigned by constructors only."""
    for method, define in classes.other_methods(cls):
        receiver = next((parameter.name for parameter in define.parameters), "")
        if f"{receiver}.{name}" in frame.run.nodes.bindings(frame.run.body(method.module, define.body)):
            return False
    return True


# ------------------------------------------------------------------------------------------------------------- calls


def _same_result(frame: Frame, node: code.Call, depth: int) -> bool:
    if not dotted(node.function) and not isinstance(node.function, code.Attribute):
        return False
    if not all(_same(frame, argument.value, depth - 1) for argument in node.arguments):
        return False
    if not dotted(node.function):
        # a method of what a call returned, such as `Path(root).joinpath(name)`
        function = node.function
        assert isinstance(function, code.Attribute)
        return function.name in _STEADY_METHODS and _same(frame, function.value, depth - 1)
    return _is_steady(frame, expressions.callee_of(frame, node.function), node, depth)


def _is_steady(frame: Frame, callee: Value, node: code.Call, depth: int) -> bool:
    """Whether a callee makes the same of the same."""
    if isinstance(callee, Reference):
        return _STEADY.match(callee.name) is not None
    if isinstance(callee, Class):
        constructors = (classes.find_member(callee, name) for name in classes.CONSTRUCTORS)
        return not any(
            isinstance(one, Function)
            and isinstance(one.define, code.Define)
            and _CHANGING.search(frame.run.body_text(one.module, one.define.body))
            for one in constructors
        )
    if isinstance(callee, Method) and isinstance(callee.receiver, Const | Host | Option):
        receiver = code.receiver_of(node)
        return callee.name in _STEADY_METHODS and receiver is not None and _same(frame, receiver, depth - 1)
    return False
