"""Variables that tell whether something is due: `path = None`, then `if step % 1000 == 0: path = …`."""

from __future__ import annotations

from collections.abc import Iterator

from trainlint.semantics import classification, code
from trainlint.semantics.state import Frame
from trainlint.semantics.vocabulary import GuardKind


def tells_interval(frame: Frame, test: code.Expression) -> bool:
    """Whether a condition asks a variable that each turn clears and that is set under interval guards alone."""
    name = _asked(test)
    block = _one_turn(frame)
    if not name or block is None:
        return False
    # what a call may fill stays set or cleared
    bound = [value for value in frame.run.nodes.bindings(block).get(name, ()) if value is not None]
    if not any(_is_cleared(value) for value in bound) or all(_is_cleared(value) for value in bound):
        return False
    clears = any(isinstance(one, code.Assign) and _assigns(one, name) and _is_cleared(one.value) for one in block)
    found = list(_assignments(block, name, None))
    return (
        clears
        and len(found) == len(bound)
        and name not in frame.run.nodes.once(_bound_otherwise, block)
        and all(under is not None and _is_interval(frame, under) for value, under in found if not _is_cleared(value))
    )


def _bound_otherwise(block: code.Block) -> frozenset[str]:
    """The variables that anything but plain assignments binds, such as a loop or a context manager."""
    found: set[str] = set()
    for item in code.walk(block):
        targets: tuple[code.Expression | None, ...] = ()
        if isinstance(item, code.Augment | code.For | code.Clause | code.WithItem):
            targets = (item.target,)
        elif isinstance(item, code.Assign):
            targets = tuple([target for target in item.targets if not isinstance(target, code.Name)])
        found.update(one.id for target in targets for one in code.walk(target) if isinstance(one, code.Name))
    return frozenset(found)


def _asked(test: code.Expression) -> str:
    """The variable that a condition asks whether it is set."""
    if isinstance(test, code.Compare) and test.ops == ("is not",):
        other = test.comparators[0]
        return _asked(test.left) if isinstance(other, code.Constant) and other.value is None else ""
    return test.id if isinstance(test, code.Name) else ""


def _one_turn(frame: Frame) -> code.Block | None:
    """What runs anew each time: the body of the innermost loop of the function, or all of the function."""
    if frame.open_loops:
        return frame.open_loops[-1].body
    define = frame.function.define if frame.function is not None else None
    if frame.function is None or not isinstance(define, code.Define):
        return None
    return frame.run.body(frame.function.module, define.body)


def _assigns(statement: code.Assign, name: str) -> bool:
    return any(isinstance(target, code.Name) and target.id == name for target in statement.targets)


def _is_cleared(value: code.Expression | None) -> bool:
    return isinstance(value, code.Constant) and not value.value


def _assignments(
    block: code.Block, name: str, under: code.Expression | None
) -> Iterator[tuple[code.Expression | None, code.Expression | None]]:
    """The values that a block gives a variable, each with the innermost condition that it stands under."""
    for statement in block:
        if isinstance(statement, code.Assign) and _assigns(statement, name):
            yield statement.value, under
        elif isinstance(statement, code.If):
            yield from _assignments(statement.body, name, statement.test)
            yield from _assignments(statement.orelse, name, under)
        elif isinstance(statement, code.With):
            yield from _assignments(statement.body, name, under)


def _is_interval(frame: Frame, test: code.Expression) -> bool:
    positive = classification.classify_in_call(frame, test).positive
    return GuardKind.INTERVAL in positive or GuardKind.FIRST in positive
