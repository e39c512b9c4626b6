"""Convolutions that batch normalization follows at once, by the form of the code: no interpretation tells more.

Two forms are known: layers beside each other in an `nn.Sequential`, and layers of a model of the project's own whose
methods use them as `self.norm(self.conv(x))`, or in two statements one after the other, and in no other way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from trainlint.semantics import classes, code, expressions
from trainlint.semantics.project import NormalizedConvolution
from trainlint.semantics.state import Frame
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import Class, Function, Reference
from trainlint.semantics.vocabulary import Known

NORMS = frozenset({"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"})
CONVOLUTIONS = frozenset({"Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"})
BIAS_POSITION = 7
"""Of `bias` among the positional arguments of every convolution."""

Layer = code.Expression | None
"""One of several layers in a row; None where something unknown stands between its neighbours."""


# -------------------------------------------------------------------------------------------------------- sequences


def note_sequence(frame: Frame, node: code.Call) -> None:
    """Record the convolutions in a call of `nn.Sequential` that stand right before a batch normalization."""
    _note_pairs(frame, _layers_of(node))


def note_sequences(frame: Frame, body: code.Block) -> None:
    """The same for all such calls in the body of a function, also of lists of layers that are made piece by piece."""
    for item in code.walk(body):
        if isinstance(item, code.Call) and _is_sequence(frame, item):
            note_sequence(frame, item)
            gathered = _spread_name(item)
            if gathered and _only_gathers(frame, body, gathered):
                for block in _blocks(body):
                    _note_pairs(frame, list(_gathered_in(block, gathered)))


def _is_sequence(frame: Frame, node: code.Call) -> bool:
    return called_name(node.function) == "Sequential" and _layer(frame, node) == "Sequential"


def _layers_of(node: code.Call) -> list[Layer]:
    """The layers that an `nn.Sequential` is given, in order."""
    layers: list[Layer] = []
    for argument in node.arguments:
        if argument.star == "*":
            layers += argument.value.items if isinstance(argument.value, code.Sequence) else (None,)
        elif argument.star or argument.keyword:
            layers.append(None)
        else:
            layers += _named_layers(argument.value)
    return layers


def _named_layers(node: code.Expression) -> Sequence[Layer]:
    """The layers of `OrderedDict([("conv", conv), ("norm", norm)])`; anything else is a layer itself."""
    if not (isinstance(node, code.Call) and called_name(node.function) == "OrderedDict" and len(node.arguments) == 1):
        return (node,)
    listed = node.arguments[0].value
    if isinstance(listed, code.Mapping):
        return [value if key is not None else None for key, value in zip(listed.keys, listed.values, strict=True)]
    if not isinstance(listed, code.Sequence):
        return (None,)
    return [
        item.items[1] if isinstance(item, code.Sequence) and len(item.items) == 2 else None for item in listed.items
    ]


def _spread_name(node: code.Call) -> str:
    """`layers` of `nn.Sequential(*layers)`; empty for any other call."""
    only = node.arguments[0] if len(node.arguments) == 1 else None
    return only.value.id if only is not None and only.star == "*" and isinstance(only.value, code.Name) else ""


def _only_gathers(frame: Frame, body: code.Block, name: str) -> bool:
    """Whether a list is made, added to, and handed to `nn.Sequential`, and nothing else."""

    def is_known(item: object) -> bool:
        spreads = isinstance(item, code.Call) and _spread_name(item) == name and _is_sequence(frame, item)
        return spreads or _contribution(item, name) is not None

    return sum(map(is_known, code.walk(body))) == _count(body, name)


def _contribution(statement: object, name: str) -> Sequence[Layer] | None:
    """The layers that a statement puts at the end of the list `name`; None for any other statement."""
    if isinstance(statement, code.Assign) and [dotted(target) for target in statement.targets] == [name]:
        made = _items(statement.value)
        return None if made is None else (None, *made)
    if isinstance(statement, code.Augment) and dotted(statement.target) == name and statement.op == "+":
        return _items(statement.value)
    if isinstance(statement, code.Evaluate) and isinstance(statement.value, code.Call):
        call = statement.value
        method, given = dotted(call.function), call.arguments
        if len(given) == 1 and not given[0].star and given[0].keyword is None:
            if method == f"{name}.append":
                return (given[0].value,)
            if method == f"{name}.extend":
                return _items(given[0].value)
    return None


def _items(node: code.Expression | None) -> tuple[code.Expression, ...] | None:
    """The items of a list or tuple that is written out; None for anything else."""
    return node.items if isinstance(node, code.Sequence) and node.kind in ("list", "tuple") else None


def _gathered_in(block: code.Block, name: str) -> Iterator[Layer]:
    """The layers that the statements of one block put into a list, one after the other."""
    for statement in block:
        added = _contribution(statement, name)
        if added is not None:
            yield from added
        elif _count(statement, name):
            yield None


def _note_pairs(frame: Frame, layers: Iterable[Layer]) -> None:
    for layer, following in pairwise(layers):
        if (
            isinstance(layer, code.Call)
            and isinstance(following, code.Call)
            and _layer(frame, layer) in CONVOLUTIONS
            and _layer(frame, following) in NORMS
        ):
            _record(frame, layer, frame, following)


# ------------------------------------------------------------------------------------------------- layers of a model


def note_attributes(frame: Frame, cls: Class) -> None:
    """Record the convolutions of a model of the project whose output goes to one of its batch normalizations alone.

    `frame` is of the module in which the class stands.
    """
    constructor = cls.members.get("__init__")
    if not isinstance(constructor, Function) or not isinstance(constructor.define, code.Define):
        return
    made = dict(made_by(frame, constructor))
    inside = Frame(frame.run, constructor.module, frame.where, constructor.row, constructor.qualname, {})
    layers = {name: (call, _layer(inside, call)) for name, (call, _) in made.items()}
    bodies = list(_bodies(frame, cls))
    norms = {name for name, (_, kind) in layers.items() if kind in NORMS and _assigned(bodies, name) == 1}
    for name, (call, kind) in layers.items():
        if kind in CONVOLUTIONS and norms:
            followed_by = _followed_by(bodies, name, made[name][1])
            if followed_by and followed_by <= norms:
                _record(inside, call, inside, layers[min(followed_by)][0])


def made_by(frame: Frame, constructor: Function) -> Iterator[tuple[str, tuple[code.Call, code.Expression]]]:
    """What a constructor assigns to attributes by a call, whatever the case: the call and the target, by name."""
    assert isinstance(constructor.define, code.Define)
    for statement in frame.run.body(constructor.module, constructor.define.body):
        if isinstance(statement, code.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
            own = first_parameter(constructor.define)
            if isinstance(target, code.Attribute) and isinstance(value, code.Call) and dotted(target.value) == own:
                yield target.name, (value, target)


def _bodies(frame: Frame, cls: Class) -> Iterator[tuple[str, code.Block]]:
    """The methods of a class, of its bases, and of the classes that derive from it: each with what it calls `self`."""
    derived = [
        one
        for module in list(frame.run.modules.values())
        for one in module.classes.values()
        if one is not cls and cls in classes.lineage(one)
    ]
    for one in dict.fromkeys([*classes.lineage(cls), *derived]):
        for member in one.members.values():
            if isinstance(member, Function) and isinstance(member.define, code.Define):
                yield first_parameter(member.define), frame.run.body(member.module, member.define.body)


def _assigned(bodies: list[tuple[str, code.Block]], name: str) -> int:
    """How many assignments give the attribute `name` a value."""
    targets = (
        (own, dotted(target))
        for own, body in bodies
        for item in code.walk(body)
        if isinstance(item, code.Assign)
        for target in item.targets
    )
    return sum(path == f"{own}.{name}" for own, path in targets)


def first_parameter(define: code.Define) -> str:
    """What a method calls the object that it belongs to; empty where it takes no parameters."""
    return define.parameters[0].name if define.parameters else ""


def _followed_by(bodies: list[tuple[str, code.Block]], name: str, target: code.Expression) -> set[str]:
    """The layers that take the output of the layer `name`; empty where it is used in any other way."""
    found: set[str] = set()
    for own, body in bodies:
        path = f"{own}.{name}"
        mentions = {id(item) for item in code.walk(body) if isinstance(item, code.Attribute) and dotted(item) == path}
        if not mentions - {id(target)}:
            continue
        taken = {**_nested(body, path), **_in_turn(body, path)}
        weights = {
            id(item.value) for item in code.walk(body) if isinstance(item, code.Attribute) and item.name == "weight"
        }
        if mentions - taken.keys() - weights - {id(target)}:
            return set()
        prefix = f"{own}."
        if not all(taker.startswith(prefix) and "." not in taker[len(prefix) :] for taker in taken.values()):
            return set()
        found |= {taker[len(prefix) :] for taker in taken.values()}
    return found


def _nested(body: code.Block, path: str) -> dict[int, str]:
    """The mentions of a layer in `norm(layer(x))`, by identity, with what takes the output."""
    found = {}
    for item in code.walk(body):
        given = _only_argument(item)
        if isinstance(given, code.Call) and dotted(given.function) == path:
            found[id(given.function)] = dotted(item.function)
    return found


def _in_turn(body: code.Block, path: str) -> dict[int, str]:
    """The same in `x = layer(x)` and, in the next statement, `x = act(norm(x))`, after which nothing has the output."""
    found = {}
    for block in _blocks(body):
        for first, second in pairwise(block):
            if not isinstance(first, code.Assign) or not isinstance(first.value, code.Call):
                continue
            target = first.targets[0]
            if dotted(first.value.function) != path or len(first.targets) != 1 or not isinstance(target, code.Name):
                continue
            taker = _taker(second, target.id)
            if taker and (_ends(second, target.id) or _count(body, target.id) == 2):
                found[id(first.value.function)] = taker
    return found


def _taker(statement: code.Statement, name: str) -> str:
    """What a statement calls with the variable `name` and nothing else, where that is its only mention."""
    value = statement.value if isinstance(statement, code.Assign | code.Return) else None
    if value is None or _count(value, name) != 1:
        return ""
    for item in code.walk(value):
        given = _only_argument(item)
        if isinstance(given, code.Name) and given.id == name:
            return dotted(item.function)
    return ""


def _ends(statement: code.Statement, name: str) -> bool:
    """Whether a variable does not outlive a statement, or only with another value."""
    return isinstance(statement, code.Return) or (
        isinstance(statement, code.Assign) and [dotted(target) for target in statement.targets] == [name]
    )


def _only_argument(node: object) -> code.Expression | None:
    given = node.arguments if isinstance(node, code.Call) else ()
    return given[0].value if len(given) == 1 and not given[0].star and given[0].keyword is None else None


def _blocks(body: code.Block) -> Iterator[code.Block]:
    """The blocks of statements in a body, itself included."""
    yield body
    for item in code.walk(body):
        for part in item:
            if isinstance(part, tuple) and part and isinstance(part[0], _STATEMENTS):
                yield part


_STATEMENTS = (
    *(code.Evaluate, code.Assign, code.Augment, code.Return, code.If, code.For, code.While, code.With, code.Try),
    *(code.Raise, code.Assert, code.Delete, code.Leave, code.Scope, code.Import, code.ImportFrom, code.Define),
    *(code.DefineClass, code.Match),
)


def _count(node: object, name: str) -> int:
    return sum(isinstance(item, code.Name) and item.id == name for item in code.walk(node))


# ------------------------------------------------------------------------------------------------------------ records


def _layer(frame: Frame, node: code.Call) -> str:
    """The class of `torch.nn` that a call makes a layer of; empty for any other call."""
    name = called_name(node.function)
    if name not in CONVOLUTIONS and name not in NORMS and name != "Sequential":
        return ""
    callee = expressions.evaluate_quietly(frame, node.function)
    made = callee.name if isinstance(callee, Reference) else ""
    return made.removeprefix("torch.nn.") if made.count(".") == 2 and made.startswith("torch.nn.") else ""


def _record(frame: Frame, convolution: code.Call, of_norm: Frame, norm: code.Call) -> None:
    frame.run.record(
        NormalizedConvolution,
        frame,
        "convolution",
        site=frame.site(convolution.at),
        text=convolution,
        normalization=of_norm.site(norm.at),
        bias=_bias(convolution),
    )


def _bias(convolution: code.Call) -> Known:
    """Whether a convolution is made with a bias."""
    given = [argument.value for argument in convolution.arguments if argument.keyword == "bias"]
    if given:
        value = given[0].value if isinstance(given[0], code.Constant) else None
        return Known.YES if value is True else Known.NO if value is False else Known.UNKNOWN
    positional = sum(argument.keyword is None for argument in convolution.arguments)
    known = positional <= BIAS_POSITION and not any(argument.star for argument in convolution.arguments)
    return Known.YES if known else Known.UNKNOWN


# --------------------------------------------------------------------------------------------------- uses of a bias


def uses_bias(node: object) -> bool:
    """Whether code uses the bias of what may be a convolution as if it were there: `nn.init.zeros_(m.bias)`, but not
    `if m.bias is not None: …`, nor where `m` is tested to be another layer, nor `self.bias`."""
    if isinstance(node, code.If | code.Conditional):
        mentions = [item.name for item in code.walk(node.test) if isinstance(item, code.Attribute)]
        names = [item.id for item in code.walk(node.test) if isinstance(item, code.Name)]
        texts = [str(item.value) for item in code.walk(node.test) if isinstance(item, code.Constant)]
        asks = "bias" in mentions or "bias" in texts
        tests = "isinstance" in names or any("Norm" in text or "Linear" in text for text in texts)
        excludes = tests and not any("Conv" in name or name == "Module" for name in mentions + names + texts)
        return (not asks and not excludes and uses_bias(node.body)) or uses_bias(node.orelse)
    if isinstance(node, code.Attribute) and node.name == "bias" and dotted(node) != "self.bias":
        return True
    return isinstance(node, tuple) and any(uses_bias(part) for part in node if isinstance(part, tuple))
