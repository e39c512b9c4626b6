"""The words of the model as `trainlint explain` says them: what stands at a row, what a rule asks, what it is told.

What has no words here is called by the documentation of the attribute itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from trainlint.lint.questions import Question
from trainlint.report.attribute_docs import attribute_docs
from trainlint.report.paths import text_of
from trainlint.semantics.context import Site
from trainlint.semantics.values import Const, Host, Option, Unknown
from trainlint.semantics.vocabulary import Confidence, Frequency, GradMode, GuardKind, Known, Place

KINDS = {
    "calls": "a call of",
    "syncs": "a read of a tensor's value",
    "reports": "output",
    "transfers": "a transfer",
    "uploads": "an upload of host values",
    "early_reads": "a read of a copy under way",
    "timings": "a time that is taken",
    "loaders": "a loader",
    "samplers": "a sampler",
    "tokenizations": "a tokenizer's work",
    "frame_accesses": "a look-up in a table of pandas",
    "trainers": "a trainer",
    "kept_graphs": "a value kept with its graph",
    "dynamic_shapes": "a shape that values decide",
    "element_loops": "a loop over the items of a tensor",
    "double_arithmetic": "arithmetic in float64",
    "collectives": "a call that ranks wait for each other in",
    "concatenations": "a concatenation in a loop",
    "normalized_convolutions": "a convolution before a normalization",
    "attentions": "an attention that is written out",
    "wrappings": "a wrapper of a model",
    "placements": "a model moved to a device",
    "step_loops": "a step loop",
    "backward_passes": "a backward pass",
    "evaluations": "a forward pass",
    "checkpoints": "a checkpoint",
    "file_loads": "a file that is loaded",
    "name_uses": "a mention of",
    "environment": "a setting of the environment:",
    "settings": "a setting of a configuration:",
    "deepspeed": "a configuration of DeepSpeed",
}
"""What the records of each list of a project are."""

GUARDS = {
    GuardKind.INTERVAL: "an interval",
    GuardKind.PAUSE: "an evaluation or a checkpoint every few steps",
    GuardKind.RANK: "one rank",
    GuardKind.OTHER_RANKS: "the other ranks",
    GuardKind.FIRST: "one step or epoch",
    GuardKind.ACCUMULATION: "gradient accumulation",
    GuardKind.SINGLE: "no gradient accumulation",
    GuardKind.DEVICE: "a GPU",
    GuardKind.NOT_DEVICE: "no GPU",
    GuardKind.DISTRIBUTED: "several processes",
    GuardKind.NOT_DISTRIBUTED: "a single process",
    GuardKind.EXCEPTIONAL: "an error, or the end",
    GuardKind.DEBUG: "debugging",
    GuardKind.EVALUATION: "evaluation",
    GuardKind.TRAINING: "training",
    GuardKind.DATA: "values of the step",
    GuardKind.OFF: "a switch that is off",
    GuardKind.FLAG: "a condition",
}
"""What a condition stands for."""

PLACES = {Place.DEVICE: "on the GPU", Place.HOST: "on the CPU", Place.UNKNOWN: "in a place that is not known"}
"""Where a tensor is."""

_GRAD = {GradMode.ENABLED: "it does", GradMode.DISABLED: "it does not", GradMode.UNKNOWN: "not known"}

_QUESTIONS = {
    "Context.hot": "whether it runs at every training step or more often",
    "Context.frequency": "how often it runs",
    "Context.region": "what the code is there for",
    "Context.loop": "which loop runs it",
    "Context.path": "which calls lead to it",
    "Context.guards": "under which conditions it stands",
    "Context.under": "whether it stands under {}",
    "Context.grad": "whether autograd records",
    "Context.confidence": "how well all this is known",
    "Context.routine": "whether ordinary steps get there",
    "Entry.framework": "whose training loop it is",
    "Entry.distributed": "whether the program trains in several processes",
    "Entry.cuda": "whether the program trains on CUDA",
    "Entry.autocast": "whether the program computes under autocast",
    "Arguments.absent": "whether {} is surely left out",
    "Arguments.given": "whether {} is surely given",
    "Arguments.constant": "what {} is",
    "Arguments.value": "what {} is",
    "Arguments.setting": "which option {} is",
    "Arguments.holding": "what {} holds",
    "Arguments.certainty": "how sure it is what {} is",
    "Arguments.told_by": "what tells what {} is",
    "Arguments.unknown": "whether {} may be anything",
    "Project.torch_version": "which torch release is the newest that the project admits",
    "SyncPoint.on_device": "whether the tensor is on the GPU",
    "Transfer.target": "where it goes to",
    "Transfer.non_blocking": "whether the host goes on without waiting",
    "Transfer.may_be_cuda": "whether that may be CUDA",
    "Loader.dataset": "what it loads from",
    "Loader.dataset_kind": "what kind of dataset that is",
    "Loader.uses": "which loops iterate it",
    "Loader.transfers": "where its batches are moved",
    "Loader.sampler": "which sampler it has",
    "Sampler.sets_epoch": "whether it is told the epoch",
    "Sampler.loaders": "which loaders use it",
    "Collective.is_barrier": "whether it only waits",
    "Wrapping.model": "what it wraps",
    "Placement.device": "where the model goes to",
    "StepLoop.steps": "where it updates the model",
    "StepLoop.backwards": "where it runs backward passes",
    "EvaluationForward.model": "what it runs",
    "Checkpoint.content": "what goes into the file",
    "Checkpoint.holds_model": "whether that holds the model",
    "Checkpoint.holds_optimizer": "whether that holds the optimizer",
    "Call.receiver": "what its method is called on",
    "NameUse.called": "whether it is called",
    "Tensor.place": "where the tensor is",
    "Tensor.pinned": "whether it is in pinned memory",
    "Tensor.proved": "whether that is proved, rather than told by a name",
}
"""What a rule asks, by class and attribute; `{}` is what it asks for."""

_QUESTIONS_OF_ANY = {
    "library": "what of a library it is",
    "positional": "what it is given by position",
    "value": "what its value is",
    "work": "what work it does",
}
"""What a rule asks of records of several classes alike, by attribute."""


def question_of(question: Question) -> str:
    """What a rule asked, to continue "the rule asked"."""
    key = f"{question.of.__name__}.{question.name}"
    known = _QUESTIONS.get(key) or _documented(question.of).get(question.name)
    text = known or _QUESTIONS_OF_ANY.get(question.name) or f"for its {question.name.replace('_', ' ')}"
    wanted = " or ".join(_word(one) for one in question.arguments)
    if isinstance(question.answer, bool) and not text.startswith(("whether", "for its")):
        text = f"whether it is {text}"
    if "{}" in text:
        return text.format(wanted)
    return f"{text} ({wanted})" if wanted else text


def answer_of(question: Question) -> str:
    """What the rule was told."""
    return told(question.answer)


def _word(argument: object) -> str:
    """What a rule asked for: a kind of condition, the name of an argument."""
    return GUARDS[argument] if isinstance(argument, GuardKind) else f"`{argument}`"


def told(answer: object) -> str:
    """An answer of the model in words."""
    match answer:
        case True | Known.YES:
            return "yes"
        case False | Known.NO:
            return "no"
        case Known.UNKNOWN | Unknown():
            return "not known"
        case None | "" | ():
            return "none"
        case Frequency():
            return answer.phrase
        case Confidence():
            return answer.label
        case Place():
            return PLACES[answer]
        case GradMode():
            return _GRAD[answer]
        case GuardKind():
            return GUARDS[answer]
        case Enum():
            return str(answer.value)
        case Const():
            return f"`{answer.value!r}`"
        case Option():
            return f"an option, `{answer.default!r}` by default" if answer.has_default else "an option"
        case Host():
            return f"a value of the host ({answer.kind})"
        case Site():
            return f"{text_of(answer.path)}:{answer.row}"
        case str() | int() | float():
            return f"`{answer}`"
        case (int() as major, int() as minor):
            return f"{major}.{minor}"
        case tuple() | list() | frozenset():
            return ", ".join(map(told, answer)) or "none"
    return _object(answer)


def _object(answer: Any) -> str:
    """An object by its text in the program, else by what kind of thing it is."""
    text = getattr(answer, "text", "") or getattr(answer, "type", "")
    if isinstance(text, str) and text:
        return f"`{' '.join(text.split())}`"
    name = type(answer).__name__ if is_dataclass(answer) else ""
    return f"a {name.lower()}" if name else "something"


@cache
def _documented(of: type) -> Mapping[str, str]:
    """The first sentence of what the code says about each attribute and property of a class, as part of a sentence."""
    return {name: _as_part(text) for name, text in attribute_docs(of).items()}


def _as_part(text: str) -> str:
    """The first sentence of a documentation, without its end and examples, to stand in a sentence."""
    first = re.split(r"[.:;] ", text, maxsplit=1)[0].removesuffix(".")
    return first if first[:2].isupper() else first[:1].lower() + first[1:]
