"""The same rules as `CoreTimer.issue` and `DataOrder.issue` for common instructions, in one
function each: everything that a core keeps is bound once.

What these do not handle (the scalar unit's own operations, queues that are held, barriers, shared
bandwidth, events that nobody gave yet) goes to the general functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.time.pipes.last_uses import FRESH, HELD, NEVER
from ptosim.time.pipes.order import DataOrder
from ptosim.time.pipes.records import NO_CAUSE
from ptosim.time.pipes.steps import Issued, S, Step
from ptosim.time.pipes.timers import CoreTimer

Issue = Callable[[Step, int], None]
SCALAR = "scalar unit"
"""Why a pipe waits for the next operation of the program."""

OrderedIssue = Callable[[Issued, int], None]


def issuer(timer: CoreTimer) -> Issue:
    """Return the function that issues the next operation of a core's program."""
    free, done, queues = timer.free, timer.done, timer.queues
    free_record, done_record = timer.free_record, timer.done_record
    general, place, take, late = timer.issue, _placer(timer), timer.take, timer.stalls_for(SCALAR)
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
                late[pipe] += now - start
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

    def place(step: Step, pipe: int, start: int, cause: int) -> None:
        number = len(steps) + timer.skipped
        add_step(step.base)
        add_start(start)
        add_cause(cause)
        free[pipe] = end = start + step.busy
        free_record[pipe] = number
        end += step.latency
        if end >= done[pipe]:
            done[pipe] = end
            done_record[pipe] = number

    return place


def ordered_issuer(order: DataOrder) -> OrderedIssue:  # noqa: C901 - hot, so in one piece
    """Return the function that issues after everything that an operation's data depend on."""
    timer, general = order.timer, order.issue
    free, done, queues, place = timer.free, timer.done, timer.queues, _placer(timer)
    free_record, done_record, each = timer.free_record, timer.done_record, timer.scalar_cycles
    late, barrier, data = map(timer.stalls_for, (SCALAR, "barrier", "data"))
    draining = [pipe in order.draining for pipe in range(len(free))]

    def issue(placed: Any, scalars: int) -> None:  # noqa: C901 - hot, so in one piece
        step, buffer = placed.base, placed.buffer
        reach, pipe = step.reach, step.pipe
        if reach is None or reach.quick != order.version:
            reach = order.reach(step)
        held = timer.gate is not None or queues[pipe] is not None
        if held or reach.quick < 0 or not placed.is_quick:
            general(placed, scalars)
            return
        now, start = timer.clock + scalars * each, free[pipe]
        best, after = NEVER, start if start > now else now  # what is done by then orders nothing
        for last in reach.waits:
            if last.given[0] > after:
                best = last.given
                after = best[0]
        if buffer is not None and buffer.used[placed.writes] & ~(1 << pipe):
            best = buffer.latest(placed, pipe, after, best)
        if best[0] >= HELD:
            general(placed, scalars)
            return
        timer.clock, cause = now + step.issue, free_record[pipe]
        if draining[pipe]:
            if not reach.is_own:
                order.note(reach, pipe)
            if done[pipe] > start and reach.is_own:
                barrier[pipe] += done[pipe] - start
                start, cause = done[pipe], done_record[pipe]
        if now > start:
            late[pipe] += now - start
            start, cause = now, timer.gate_record
        if best[0] > start:
            data[pipe] += best[0] - start
            start, cause = best
        place(step, pipe, start, cause)
        reach.given = given = done[pipe], done_record[pipe]
        for last in reach.marks:
            last.given = given
        if buffer is not None:
            buffer.fresh.append((pipe, placed.first, placed.end, given, placed.writes))
            if len(buffer.fresh) >= FRESH:
                buffer.settle()

    return general if order.buffers else issue
