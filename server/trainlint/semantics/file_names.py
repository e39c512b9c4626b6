"""Whether all ranks give a file the same name, as far as the code that makes the name tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainlint.semantics import code, expressions, naming, sharding
from trainlint.semantics.state import Frame
from trainlint.semantics.text import dotted, identifiers, last_word
from trainlint.semantics.values import Const, Option

JOINS = frozenset({"join", "joinpath", "format", "with_suffix", "with_name"})
"""Methods, and functions of `os.path`, that make a name of the parts that they are given."""
CONVERTS = frozenset(
    {"str", "int", "Path", "PurePath", "abspath", "expanduser", "realpath", "normpath", "fspath", "zfill"}
)
"""Functions and methods that return what they are given, as a name."""
DEEPEST = 6
"""Steps from a name to where its parts come from."""


def same_on_all_ranks(frame: Frame, node: code.Expression | None) -> bool:
    """Whether the name of a file is surely the same on every rank: made of literals, settings and counters of steps.

    `node` is the expression for it, in the function of `frame`.
    """
    return node is not None and _same(frame, node, DEEPEST)


def _same(frame: Frame, node: code.Expression, depth: int) -> bool:
    if depth == 0:
        return False
    deeper = depth - 1
    match node:
        case code.Constant():
            return True
        case code.Format():
            return all(_same(frame, part, deeper) for part in node.parts)
        case code.Sequence():
            return all(_same(frame, item, deeper) for item in node.items)
        case code.Binary():
            return _same(frame, node.left, deeper) and _same(frame, node.right, deeper)
        case code.Call():
            return _made_of_same(frame, node, deeper)
        case code.Name() | code.Attribute():
            return _named(frame, node, deeper)
    return False


def _made_of_same(frame: Frame, node: code.Call, depth: int) -> bool:
    name = last_word(node.function)
    if name not in JOINS and name not in CONVERTS:
        return False
    parts = [argument.value for argument in node.arguments]
    if isinstance(node.function, code.Attribute) and not _is_module(node.function.value):
        parts.append(node.function.value)
    return all(_same(frame, part, depth) for part in parts)


def _is_module(node: code.Expression) -> bool:
    return dotted(node) in ("os.path", "os", "path", "pathlib", "osp")


def _named(frame: Frame, node: code.Name | code.Attribute, depth: int) -> bool:
    word = last_word(node)
    if naming.RANK.search(word) or "rank" in word.lower():
        return False
    if naming.EPOCH_INDEX.search(word) or naming.STEP_INDEX.search(word):
        return True
    value = expressions.evaluate(frame, node)
    bound = list(_bound_to(frame, node))
    if isinstance(value, Const | Option) and isinstance(node, code.Attribute):
        # what was read from the command line, unless a function on the way here has put something else in its place, or
        # some function has put each rank's own there
        return all(_same(holder, one, depth) for holder, one in bound) and not _set_by_rank(frame, node.name)
    if bound:
        return all(_same(holder, one, depth) for holder, one in bound)
    if isinstance(node, code.Name) and _is_parameter(frame, node.id):
        return _passed(frame, node.id, depth)
    return isinstance(value, Const | Option)


def _bound_to(frame: Frame, node: code.Name | code.Attribute) -> Iterator[tuple[Frame, code.Expression]]:
    """What is assigned to a variable by its function, or its module; to an attribute by any function on the way."""
    holder: Frame | None = frame
    while holder is not None:
        for item in sharding.nodes(holder):
            if not isinstance(item, code.Assign | code.Augment) or item.value is None:
                continue
            targets = item.targets if isinstance(item, code.Assign) else (item.target,)
            if any(_is_target(target, node) for target in targets):
                yield holder, item.value
        if isinstance(node, code.Name):
            return
        holder = holder.caller


def _set_by_rank(frame: Frame, name: str) -> bool:
    """Whether any code gives an attribute of this name a value with the rank in it: `args.output += f"/{rank}"`."""
    for module in list(frame.run.modules.values()):
        facts = module.facts
        # another statement of the file might do it
        module.whole = True
        blocks = [module.units.statements] if _speaks_of(facts.unit_words, name) else []
        blocks += [
            frame.run.body(module, index)
            for index in range(len(facts.functions))
            if _speaks_of(facts.words(index), name)
        ]
        if any(_sets_by_rank(item, name) for block in blocks for item in code.walk(block)):
            return True
    return False


def _speaks_of(words: Iterable[str], name: str) -> bool:
    found = set(words)
    return name in found and any("rank" in word.lower() for word in found)


def _sets_by_rank(item: object, name: str) -> bool:
    if not isinstance(item, code.Assign | code.Augment) or item.value is None:
        return False
    targets = item.targets if isinstance(item, code.Assign) else (item.target,)
    return any(isinstance(target, code.Attribute) and target.name == name for target in targets) and any(
        "rank" in word.lower() for word in identifiers(item.value)
    )


def _is_target(target: code.Expression, node: code.Name | code.Attribute) -> bool:
    if isinstance(node, code.Name):
        return isinstance(target, code.Name) and target.id == node.id
    return isinstance(target, code.Attribute) and target.name == node.name


def _is_parameter(frame: Frame, name: str) -> bool:
    define = frame.function.define if frame.function is not None else None
    return isinstance(define, code.Define) and any(parameter.name == name for parameter in define.parameters)


def _passed(frame: Frame, name: str, depth: int) -> bool:
    """Whether what the call of the function passes for a parameter, or its default, is the same on all ranks."""
    function, caller = frame.function, frame.caller
    if function is None or caller is None or frame.called_at is None or not isinstance(function.define, code.Define):
        return False
    call = _call_of(function.define.name, caller, frame.called_at)
    if call is None or any(argument.star for argument in call.arguments):
        return False
    parameters = function.define.parameters
    names = [parameter.name for parameter in parameters if parameter.kind == "positional"]
    if function.owner is not None:
        names = names[1:]
    passed = {argument.keyword: argument.value for argument in call.arguments if argument.keyword is not None}
    positional = [argument.value for argument in call.arguments if argument.keyword is None]
    passed |= dict(zip(names, positional, strict=False))
    if name in passed:
        return _same(caller, passed[name], depth)
    default = next((parameter.default for parameter in parameters if parameter.name == name), None)
    return isinstance(default, code.Constant) and default.value is not None


def _call_of(name: str, frame: Frame, at: code.Place) -> code.Call | None:
    """The call of a function at a place in the function that a frame runs; in a module, where there is just one such,
    since places count from the statement on."""
    calls = [item for item in sharding.nodes(frame) if isinstance(item, code.Call) and item.at == at]
    found = [call for call in calls if last_word(call.function) == name]
    return found[0] if len(found) == 1 else None
