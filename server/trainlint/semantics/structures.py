"""What the code of models tells by its form alone.

The interpreter follows a model's constructor and forward only where they may do what the walk asks for, and most do
arithmetic and nothing else. Once an entry point has been walked, the code of the models that it makes is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainlint.semantics import attention, classes, code, expressions, normalization
from trainlint.semantics.facts import FunctionSummary
from trainlint.semantics.project import AttentionByHand
from trainlint.semantics.state import Frame, Role, Run, Where
from trainlint.semantics.text import called_name, dotted
from trainlint.semantics.values import Class, Function, Reference

_SOFTMAX = frozenset({"softmax", "Softmax"})
_AT = frozenset({"transpose", "mT", "T", "permute", "t"})
"""What stands in a function that multiplies by the operator."""


def note_structures(run: Run) -> None:
    """Record what the code of the models tells that an entry point makes, if it trains."""
    if run.entry.trains and run.mentions & (normalization.NORMS | _SOFTMAX):
        for function in _functions_of_models(run):
            _note_convolutions(function)
            _note_attentions(function)


def code_uses_biases(run: Run) -> bool:
    """Whether the code of the models, or of the entry point's own file, uses biases of layers without asking whether
    they have one."""
    facts = run.facts[run.entry.path]
    own = (_Function(run, run.entry.path, index) for index in range(len(facts.functions)))
    return any(_uses_bias(function) for function in (*own, *_functions_of_models(run)))


def _uses_bias(function: _Function) -> bool:
    run, path, index = function.run, function.path, function.index
    run.read.add((path, index))
    return "bias" in function.words and normalization.uses_bias(run.decoded.body(path, run.facts[path], index))


@dataclass(frozen=True, slots=True)
class _Function:
    """A function or method that the code of a model names."""

    run: Run
    path: Path
    index: int

    @property
    def summary(self) -> FunctionSummary:
        return self.run.facts[self.path].functions[self.index]

    @property
    def words(self) -> frozenset[str]:
        return self.run.facts[self.path].words(self.index)

    @property
    def words_of_class(self) -> frozenset[str]:
        """Those of the constructor of its class as well."""
        facts, constructor = self.run.facts[self.path], f"{self.summary.qualname.partition('.')[0]}.__init__"
        found = (facts.words(index) for index, one in enumerate(facts.functions) if one.qualname == constructor)
        return self.words.union(*found)

    def frame(self) -> Frame:
        """A frame in which the names of the function's module are known, and none of its own."""
        where = Where(self.run.root(Role.FORWARD, assumed=True))
        return Frame(self.run, self.run.module(self.path), where, self.summary.row, self.summary.qualname, {})

    def owner(self) -> Class | None:
        """The model whose method it is."""
        name, _, method = self.summary.qualname.partition(".")
        found = self.run.find_global(self.run.module(self.path), name) if method else None
        return found if isinstance(found, Class) and classes.is_module_class(found) else None


def _functions_of_models(run: Run) -> Iterator[_Function]:
    """The methods of the models that the entry point makes, and the functions and models that these name."""
    made = {instance.cls for instance in run.instances.values() if classes.is_module_class(instance.cls)}
    named = {(cls.module.path, cls.define.name) for one in made for cls in classes.lineage(one)}
    for path, index in run.interest.functions_named_by(*sorted(named)):
        # what they name decides, so the answer depends on their bodies
        run.read.add((path, index))
        yield _Function(run, path, index)


def _note_convolutions(function: _Function) -> None:
    words = function.words
    if words.isdisjoint(normalization.CONVOLUTIONS) or words.isdisjoint(normalization.NORMS):
        return
    frame = function.frame()
    if "Sequential" in words:
        normalization.note_sequences(frame, function.run.body(frame.module, function.index))
    owner = function.owner()
    if owner is not None and function.summary.qualname.endswith(".__init__"):
        normalization.note_attributes(frame, owner)


def _note_attentions(function: _Function) -> None:
    """Record attention that a function writes out, in a file that names no fused one."""
    run, facts = function.run, function.run.facts[function.path]
    if function.words.isdisjoint(attention.PRODUCTS | _AT) or _SOFTMAX.isdisjoint(function.words_of_class):
        return
    run.read.update((function.path, index) for index in range(len(facts.functions)))
    if any(not facts.words(index).isdisjoint(attention.FUSED) for index in range(len(facts.functions))):
        return
    frame = function.frame()
    softmaxes = _Softmaxes(frame, function.owner())
    for found in attention.attentions(run.body(frame.module, function.index), softmaxes.is_one):
        run.record(
            AttentionByHand,
            frame,
            "attention",
            site=frame.site(found.softmax.at),
            text=found.softmax,
            product=frame.site(found.product),
            result=frame.site(found.result),
        )


class _Softmaxes:
    """Tells the calls in a method or a function that take the softmax over the last dimension."""

    def __init__(self, frame: Frame, owner: Class | None) -> None:
        self._frame = frame
        constructor = owner.members.get("__init__") if owner is not None else None
        self._layers = (
            {
                name
                for name, (call, _) in normalization.made_by(frame, constructor)
                if called_name(call.function) == "Softmax" and self._over_last(call, 0)
            }
            if isinstance(constructor, Function)
            else set()
        )
        """Attributes of the model that are such layers."""

    def is_one(self, node: code.Call) -> bool:
        """Whether a call takes the softmax over the last dimension of what it is given, or of what it is called on."""
        function = node.function
        if isinstance(function, code.Call):
            return called_name(function.function) == "Softmax" and self._over_last(function, 0)
        if dotted(function).partition(".")[0] == "self" and dotted(function).count(".") == 1:
            return isinstance(function, code.Attribute) and function.name in self._layers
        if called_name(function) != "softmax":
            return False
        callee = expressions.evaluate_quietly(self._frame, function) if dotted(function) else None
        return self._over_last(node, 1 if isinstance(callee, Reference) else 0)

    @staticmethod
    def _over_last(node: code.Call, position: int) -> bool:
        """Whether the dimension is the last one: `dim=-1`, or that at `position`."""
        named = [argument.value for argument in node.arguments if argument.keyword == "dim"]
        positional = [argument.value for argument in node.arguments if argument.keyword is None]
        given = named or positional[position : position + 1]
        minus = given[0] if given else None
        return isinstance(minus, code.Unary) and minus.op == "-" and getattr(minus.operand, "value", None) == 1
