"""Steps: the backward passes and optimizer updates that tell which loops train."""

from __future__ import annotations

from trainlint.semantics import accumulation, clocks, code, graphs, naming
from trainlint.semantics.project import BackwardPass, Site
from trainlint.semantics.state import Frame, LoopRun, Role, Where
from trainlint.semantics.text import dotted
from trainlint.semantics.values import UNKNOWN, Tensor, Value
from trainlint.semantics.vocabulary import GuardKind, Place


def mark_backward(frame: Frame, node: code.Call | None, loss: Value = UNKNOWN) -> None:
    """A backward pass runs here, from `loss`."""
    proved = isinstance(loss, Tensor) and loss.proved
    frame.run.training_places.add(loss.place if isinstance(loss, Tensor) and proved else Place.UNKNOWN)
    clocks.note_work(frame, node, loss)
    _note_losses(frame, node)
    _mark(frame, node, update=False)
    if node is not None:
        frame.run.record(
            BackwardPass,
            frame,
            "backward",
            site=frame.site(node.at),
            text=node,
            loss=loss,
            names_scaling=any("scal" in word.lower() for word in _words_around(frame)),
            loop=frame.where.loops[-1].site if frame.where.loops else None,
            retains_graph=_retains_graph(node),
            graph_ends_with_step=_retains_graph(node) and graphs.end_with_step(frame),
        )


def _note_losses(frame: Frame, node: code.Call | None) -> None:
    """A loop that runs the backward pass of what it goes over, and updates nothing, goes over the losses of one step
    and not over data."""
    loop = frame.open_loops[-1] if frame.open_loops else None
    if node is None or not isinstance(loop, code.For) or not isinstance(loop.target, code.Name):
        return
    names = {dotted(one) for one in (code.receiver_of(node), *(argument.value for argument in node.arguments)) if one}
    updates = any(isinstance(item, code.Attribute) and item.name == "step" for item in code.walk(loop.body))
    if loop.target.id in names and not updates and frame.where.loops and not frame.where.loops[-1].over_data:
        frame.where.loops[-1].small = True


def _retains_graph(node: code.Call) -> bool:
    given = {one.keyword: one.value for one in node.arguments}
    retain = given.get("retain_graph")
    return isinstance(retain, code.Constant) and retain.value is True and "create_graph" not in given


def _words_around(frame: Frame) -> frozenset[str]:
    """The names in the function under evaluation, or in the module-level code."""
    facts = frame.module.facts
    define = frame.function.define if frame.function is not None else None
    return facts.words(define.body) if isinstance(define, code.Define) else facts.unit_words


def mark_update(frame: Frame, node: code.Call | None) -> None:
    """An optimizer step runs here."""
    _mark(frame, node, update=True)


def note_start(frame: Frame) -> None:
    """A model or an optimizer is made here: where that happens first, training starts anew."""
    if not frame.where.loops and not frame.where.guards:
        frame.where.root.makes_model = True


def _mark(frame: Frame, node: code.Call | None, *, update: bool) -> None:
    """A backward pass or an optimizer step runs here: the innermost loop over data is a step loop."""
    frame.run.effects += 1
    where = frame.where
    if not where.loops or _loops_over_layers(frame):
        if where.root.role is not Role.PROGRAM:
            where.root.runs_step = True
            where.root.updates = where.root.updates or update
        elif node is None:
            return
        # a forward that steps the optimizer that its model was made with is called to train
        called_to_train = where.root.role is Role.FORWARD and update and not where.root.makes_model
        if where.root.role is Role.FUNCTION or called_to_train:
            frame.run.entry.trains = True
        return
    if not update and not (where.root.for_training and _may_run(frame)):
        return
    frame.run.entry.trains = True
    if where.root.role is Role.PROGRAM and all(loop.listed for loop in where.loops):
        # one set-up after the other is tried, or one optimizer after the other stepped: no turn is a step
        return
    data = [position for position, loop in enumerate(where.loops) if not loop.small] or [len(where.loops) - 1]
    inner = data[-1]
    if where.loops[inner].starts_anew:
        # what runs the steps inside of it is not seen, unless a step of a loop around it is tried again
        around = [position for position in data if where.loops[position].over_data]
        if not around:
            for loop in where.loops[: inner + 1]:
                loop.holds_steps = True
            return
        inner = around[-1]
    step_loop = where.loops[inner]
    step_loop.runs_step = True
    if not update:
        step_loop.only_measured = step_loop.only_measured and _is_measured(where, step_loop)
    for loop in where.loops[inner:]:
        loop.trains = True
    for loop in where.loops[:inner]:
        loop.holds_steps = True
    step_loop.no_sync = step_loop.no_sync or where.no_sync
    if node is None:
        return
    site = _site_in_loop(frame, node, inner)
    if update:
        step_loop.updates[site] = accumulation.follows_several(
            step_loop, [guard for guard in where.guards if guard.depth > inner]
        )
    else:
        step_loop.backward_guards.append(where.guards)
        single = any(guard.kind is GuardKind.SINGLE for guard in where.guards)
        step_loop.backwards[site] = not single
        if inner < len(where.loops) - 1 and not single:
            step_loop.micro_batches = True
        step_loop.wrapper = step_loop.wrapper or frame.run.wrapper


def _loops_over_layers(frame: Frame) -> bool:
    """Whether the open loops are those of a forward over its layers, one of which fits something by itself: what it
    fits is a part of the step that calls the whole forward."""
    where = frame.where
    calls_layer = where.root.role is Role.FORWARD and len(where.loops) <= frame.loop_base
    return calls_layer and not any(loop.over_data for loop in where.loops)


def _may_run(frame: Frame) -> bool:
    """Whether no call in sight switches it off: `add_up(losses, backward=False)` leaves out the backward pass."""
    switched_off = any(guard.kind is GuardKind.OFF for guard in frame.where.guards)
    return frame.called_by is None or not switched_off


def _is_measured(where: Where, loop: LoopRun) -> bool:
    """Whether one of the functions that are entered inside a loop is named for evaluation or measurement."""
    outside = len(loop.where.calls) if loop.where is not None else 0
    return any(naming.measures(entered.name.rpartition(".")[2]) for entered in where.calls[outside:])


def _site_in_loop(frame: Frame, node: code.Call, index: int) -> Site:
    """The call, in the function that holds the loop `index`, that leads to `node`."""
    at: code.Place = node.at
    holder = frame
    while holder.loop_base > index and holder.caller is not None and holder.called_at is not None:
        at, holder = holder.called_at, holder.caller
    return holder.site(at)
