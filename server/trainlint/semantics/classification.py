"""Classification: what kinds of guard the conditions of the code being run are."""

from __future__ import annotations

from trainlint.semantics import code, expressions, guards, holders, presence
from trainlint.semantics.state import Frame
from trainlint.semantics.text import last_word
from trainlint.semantics.values import Test, Value


def classify(frame: Frame, test: code.Expression) -> Test:
    """What a condition is by its own words, and by the values of the names in it."""
    run = frame.run
    return guards.classify(test, lambda item: expressions.evaluate_quietly(frame, item), run.nodes, run.rank_names)


def classify_in_call(frame: Frame, test: code.Expression) -> Test:
    """What a condition is in this call of its function: parts that the call settles tell nothing."""
    test = presence.open_parts(frame, test)
    found = classify(frame, test).also(Test(*holders.kinds(frame, test)))
    return found.negated if frame.where.compiled and _asks_for_compiler(test) else found


def classify_evaluated(frame: Frame, test: code.Expression, value: Value) -> Test:
    """What a condition is that has been evaluated: a comparison has told with its value."""
    if isinstance(value, Test) and isinstance(test, code.Compare):
        return value
    return classify_in_call(frame, test)


def _asks_for_compiler(test: code.Expression) -> bool:
    """Whether a condition asks whether `torch.compile` traces the code, which turns round in code that it does."""
    while isinstance(test, code.Unary) and test.op == "not":
        test = test.operand
    return isinstance(test, code.Call) and last_word(test.function).endswith("compiling")
