"""Clocks of the host: where the program reads them, and what of the device's work the time between two readings leaves
out, since nothing waits for it.

The host gives work to the device and goes on; so does a clock of the host. What may wait counts as waiting here, so
that work is said to be left out only where nothing between the readings can have waited for it.
"""

from __future__ import annotations

from typing import Any

from trainlint.semantics import code
from trainlint.semantics.context import Context
from trainlint.semantics.immutable import replace
from trainlint.semantics.project import Timing
from trainlint.semantics.state import Frame, LoopRun, Reading, Standing, Where, Work
from trainlint.semantics.text import describe
from trainlint.semantics.values import NUMBER, OBJECT, Host, Instance, Object, Tensor, Value
from trainlint.semantics.vocabulary import Place


def read(frame: Frame, name: str, node: code.Call | None) -> Value:
    """The time that a call of the clock `name` tells."""
    told = OBJECT if name.startswith("datetime.") else NUMBER
    if node is None:
        return told
    site, run = frame.site(node.at), frame.run
    run.reads += 1
    run.effects += 1
    run.readings[site] = Reading(node, frame.where, len(run.works), run.waits)
    return replace(told, clock=site)


def note_work(frame: Frame, node: code.Expression | None, *values: Value) -> None:
    """The device is given something to compute, if it is certain that one of `values`, with which it is computed, lives
    there."""
    if node is not None and any(_is_on_device(value) for value in values):
        frame.run.works.append(Work(node, frame.site(node.at), frame.where))


def _is_on_device(value: Value) -> bool:
    if isinstance(value, Tensor):
        return value.place is Place.DEVICE and value.proved and (value.single or not value.container)
    if isinstance(value, Object):
        return value.place is Place.DEVICE and value.proved
    return isinstance(value, Instance) and value.place is Place.DEVICE


def note_elapsed(frame: Frame, later: Value, earlier: Value) -> None:
    """Record that a difference of two readings is taken for the time that the work between them took."""
    if not isinstance(later, Host) or not isinstance(earlier, Host) or later.clock is None or earlier.clock is None:
        return
    start, end = frame.run.readings[earlier.clock], frame.run.readings[later.clock]
    if start.waits != end.waits or len(start.where.loops) != len(end.where.loops):
        return
    if not _leads_to(start.where, end.where):
        return
    works = tuple(work for work in frame.run.works[start.works : end.works] if _leads_to(work.where, end.where))
    if works:
        frame.run.record(
            timing,
            frame,
            earlier.clock,
            site=later.clock,
            text=end.node,
            start=earlier.clock,
            works=works,
            depth=len(end.where.loops),
        )


def _leads_to(one: Where, other: Where) -> bool:
    """Whether what runs under the circumstances of `other` comes after `one` did run: it stands under the conditions of
    the latter, and in its loops."""
    loops, guards = other.loops, other.guards
    return one.loops[: len(loops)] == loops and _begins_with(guards, one.guards)


def _begins_with(guards: tuple[Standing, ...], first: tuple[Standing, ...]) -> bool:
    return len(first) <= len(guards) and all(one is other for one, other in zip(guards, first, strict=False))


def timing(*, context: Context, works: tuple[Work, ...], depth: int, **fields: Any) -> Timing | None:
    """A timing of work, unless all of it is done in loops that train or go over data: over many steps, what the last
    ones leave unfinished does not count."""
    counted = [work for work in works if not any(_goes_on(loop) for loop in work.where.loops[depth:])]
    if not counted:
        return None
    last = counted[-1]
    return Timing(context=context, work=describe(last.node), work_site=last.site, **fields)


def _goes_on(loop: LoopRun) -> bool:
    return loop.over_data or loop.trains or loop.runs_step or loop.holds_steps
