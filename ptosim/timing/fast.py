"""The same rules as `CoreTimer.issue` and `DataOrder.issue` for common instructions, in one
function each: everything that a core keeps is bound once.

What these do not handle (the scalar unit's own operations, queues that are held, barriers, shared
bandwidth, events that nobody gave yet) goes to the general functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.timing.model import NO_CAUSE, CoreTimer
from ptosim.timing.order import DataOrder
from ptosim.timing.steps import Flag, S, Step

Issue = Callable[[Step, int], None]


def issuer(timer: CoreTimer) -> Issue:
    """Return the function that issues the next operation of a core's program."""
    free, done, queues = timer.free, timer.done, timer.queues
    free_record, done_record = timer.free_record, timer.done_record
    general, place, take, stall = timer.issue, _placer(timer), timer.take, timer.stall
    each, index, model = timer.scalar_cycles, timer.index, timer.model

    def issue(step: Step, scalars: int) -> None:
        pipe = step.pipe
        if timer.gate is not None or pipe == S or queues[pipe] is not None:
            general(step, scalars)
            return
        if step.is_plain:
            now = timer.clock + scalars * each
            timer.clock = now + step.issue
            start = free[pipe]
            if start >= now:
                place(step, pipe, start, free_record[pipe])
            else:
                stall(pipe, "scalar unit", now - start)
                place(step, pipe, now, timer.gate_record)
            return
        flag = step.flag
        if flag is None or flag.waiters or step.then or not (step.gives or flag.times):
            general(step, scalars)
            return
        now = timer.clock + scalars * each
        timer.clock = now + step.issue
        if not step.gives:
            take(step, flag, now)
            return
        when, record = done[pipe], done_record[pipe]
        if free[pipe] > when:
            when, record = free[pipe], free_record[pipe]
        if now > when:
            when, record = now, NO_CAUSE
        if flag.group == 1:
            flag.times.append((when + step.carry, index, record))
        else:
            model.give(flag, when + step.carry, index, record)

    return issue


def _placer(timer: CoreTimer) -> Callable[[Step, int, int, int], None]:
    """Return the function that records an operation that starts at a cycle, for a reason."""
    free, done = timer.free, timer.done
    free_record, done_record = timer.free_record, timer.done_record
    steps = timer.steps
    add_step, add_start, add_cause = steps.append, timer.starts.append, timer.causes.append
    add_end, add_done = timer.ends.append, timer.dones.append

    def place(step: Step, pipe: int, start: int, cause: int) -> None:
        number = len(steps)
        add_step(step.base)
        add_start(start)
        add_cause(cause)
        free[pipe] = end = start + step.busy
        free_record[pipe] = number
        add_end(end)
        end += step.latency
        add_done(end)
        if end >= done[pipe]:
            done[pipe] = end
            done_record[pipe] = number

    return place


def ordered_issuer(order: DataOrder) -> Issue:  # noqa: C901 - hot, so in one piece
    """Return the function that issues behind everything that an operation's data depend on."""
    timer = order.timer
    if order.buffers:
        return order.issue
    free, done, queues = timer.free, timer.done, timer.queues
    free_record, done_record = timer.free_record, timer.done_record
    general, stall = order.issue, timer.stall
    add_step, add_start, add_cause = timer.steps.append, timer.starts.append, timer.causes.append
    add_end, add_done = timer.ends.append, timer.dones.append
    waits, sources, steps = timer.waits, timer.wait_sources, timer.steps
    each, index, draining = timer.scalar_cycles, timer.index, order.draining

    def issue(step: Step, scalars: int) -> None:  # noqa: C901 - hot, so in one piece
        pipe = step.pipe
        places = step.places
        if (
            places is None
            or places[0] != (order.regions if places[3] else order.local_regions)
            or not step.is_plain
            or timer.gate is not None
            or queues[pipe] is not None
            or pipe == S
        ):
            general(step, scalars)
            return
        best: Any = None
        latest, own = -1, False
        for events in places[1]:
            if not events:
                continue
            if pipe in events:
                own = True
                if len(events) == 1:
                    continue
            for by, event in events.items():
                if by == pipe:
                    continue
                if event.__class__ is Flag:
                    general(step, scalars)
                    return
                if event[0] > latest:
                    best, latest = event, event[0]
        now = timer.clock + scalars * each
        timer.clock = now + step.issue
        start, cause = free[pipe], free_record[pipe]
        if own and done[pipe] > start and pipe in draining:
            stall(pipe, "barrier", done[pipe] - start)
            start, cause = done[pipe], done_record[pipe]
        if latest > start and latest > now:
            if now > start:
                stall(pipe, "scalar unit", now - start)
                start = now
            stall(pipe, "data", latest - start)
            start, cause = latest, best[2]
            waits.extend((len(steps), pipe))
            sources.extend(best[1:])
        elif now > start:
            stall(pipe, "scalar unit", now - start)
            start, cause = now, timer.gate_record
        number = len(steps)
        add_step(step.base)
        add_start(start)
        add_cause(cause)
        free[pipe] = end = start + step.busy
        free_record[pipe] = number
        add_end(end)
        end += step.latency
        add_done(end)
        if end >= done[pipe]:
            done[pipe] = end
            done_record[pipe] = number
            given = (end, index, number)
        else:
            given = (done[pipe], index, done_record[pipe])
        for events in places[2]:
            events[pipe] = given

    return issue
