"""Gradient accumulation: which conditions count micro-batches, which updates follow several backward passes, and which
loops accumulate."""

from __future__ import annotations

import re

from trainlint.semantics import code, naming
from trainlint.semantics.project import Site
from trainlint.semantics.state import LoopRun, Standing
from trainlint.semantics.text import identifiers, last_word
from trainlint.semantics.values import Test
from trainlint.semantics.vocabulary import GuardKind

_OF_UPDATE = re.compile(r"optim|zero_grad|backward|unscale|clip_grad|train_step|sync")
"""What is called around an optimizer's step."""

# ------------------------------------------------------------------------------------------------------- conditions


def classify(test: code.Compare, operator: str) -> Test:
    """A comparison of what counts micro-batches: `accum_steps == 1` holds where there is one to a step."""
    bound = test.comparators[0]
    limit = bound.value if isinstance(bound, code.Constant) else None
    if (operator in ("==", "<=") and limit == 1) or (operator == "<" and limit == 2):
        return Test((GuardKind.SINGLE,))
    if (operator in ("!=", ">") and limit == 1) or (operator == ">=" and limit == 2):
        return Test((GuardKind.ACCUMULATION,), (GuardKind.SINGLE,))
    return Test((GuardKind.ACCUMULATION,))


def updates_something_else(node: code.If) -> bool:
    """Whether a condition on how often to update something is about no optimizer: `if step % update_freq == 0:` around
    a moving average of the weights."""
    asked = identifiers(node.test)
    if any(naming.ACCUMULATION.search(word) and not naming.UPDATES.search(word) for word in asked):
        return False
    if not any(naming.UPDATES.search(word) for word in asked):
        # a framework tells where it accumulates: `if accelerator.sync_gradients:`
        return False
    calls = [item for item in code.walk(node.body) if isinstance(item, code.Call)]
    words = {last_word(item.function) for item in calls}
    of_optimizer = any(word == "step" or _OF_UPDATE.search(word) for word in words)
    return not of_optimizer and any("update" in word for word in words)


def only_updates(body: code.Block) -> bool:
    """Whether a block runs an optimizer step and no backward pass: whatever its condition is called, it accumulates."""
    updates = False
    for item in code.walk(body):
        if isinstance(item, code.Call) and isinstance(item.function, code.Attribute):
            name = item.function.name
            word = last_word(item.function.value)
            if "backward" in name:
                return False
            updates = updates or (name == "step" and (naming.OPTIMIZER.search(word) or naming.SCALER.search(word)))
    return updates


# ------------------------------------------------------------------------------------------------------------ loops


def follows_several(step_loop: LoopRun, standing: list[Standing]) -> bool:
    """Whether an optimizer step under these guards of its step loop follows several backward passes."""
    if any(guard.kind is GuardKind.ACCUMULATION for guard in standing):
        return True
    if not step_loop.backward_guards or not all(step_loop.updates.values()):
        return False  # another optimizer, which takes its step each time
    # Not `if step % 5 == 0: generator_loss.backward(); generator_optimizer.step()`.
    thinned = [guard.test for guard in standing if guard.kind is GuardKind.INTERVAL]
    passes = [guard.test for before in step_loop.backward_guards for guard in before]
    return any(all(one is not test for one in passes) for test in thinned)


def fold_micro_batches(loop: LoopRun) -> None:
    """A loop that only runs backward passes, inside one that runs the optimizer step, goes over micro-batches."""
    outer = loop.parent
    several = outer is not None and any(outer.backwards.values())
    if outer is not None and loop.backwards and not loop.updates and outer.updates and not several:
        outer.backwards.update(loop.backwards)
        outer.micro_batches = True
        outer.no_sync = outer.no_sync or loop.no_sync
        outer.wrapper = outer.wrapper or loop.wrapper
        loop.backwards.clear()


def accumulates(loop: LoopRun) -> bool:
    """Whether several backward passes of a loop go into one optimizer step."""
    one_of_several = any(loop.backwards.values()) or not loop.backwards
    return (loop.micro_batches or any(loop.updates.values())) and one_of_several


def first_of_several(loop: LoopRun) -> Site | None:
    """The first backward pass of a loop that may be one of several to an optimizer step."""
    return next((site for site, one_of_several in loop.backwards.items() if one_of_several), None)
