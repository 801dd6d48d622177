"""The same rules as `CoreTimer.issue` and `DataOrder.issue` for common instructions, in one
function each: everything that a core keeps is bound once.

What these do not handle (the scalar unit's own operations, queues that are held, barriers, shared
bandwidth, events that nobody gave yet) goes to the general functions."""

from __future__ import annotations

from collections.abc import Callable

from ptosim.timing.model import NO_CAUSE, CoreTimer
from ptosim.timing.order import DataOrder
from ptosim.timing.places import HELD, NEVER, Given
from ptosim.timing.steps import S, Step

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

    def place(step: Step, pipe: int, start: int, cause: int) -> None:
        number = len(steps)
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


def ordered_issuer(order: DataOrder) -> Issue:  # noqa: C901 - hot, so in one piece
    """Return the function that issues behind everything that an operation's data depend on."""
    timer, general = order.timer, order.issue
    free, done, queues = timer.free, timer.done, timer.queues
    free_record, done_record = timer.free_record, timer.done_record
    steps, stall, each, wait = timer.steps, timer.stall, timer.scalar_cycles, _waiter(timer)
    add_step, add_start, add_cause = steps.append, timer.starts.append, timer.causes.append
    draining = [pipe in order.draining for pipe in range(len(free))]

    def issue(step: Step, scalars: int) -> None:  # noqa: C901 - hot, so in one piece
        reach, pipe = step.reach, step.pipe
        if reach is None or reach.quick != order.version:
            reach = order.reach(step)
        if reach.quick < 0 or timer.gate is not None or queues[pipe] is not None:
            general(step, scalars)
            return
        now, start = timer.clock + scalars * each, free[pipe]
        after = start if start > now else now  # what is done by then orders nothing
        best = order.far_before(reach, pipe, after) if reach.far else NEVER
        for cell in reach.looked:
            if cell.given[0] > after and cell.by != pipe and cell.given[0] > best[0]:
                best = cell.given
        for cell in reach.written:
            if cell.readers:
                for by, event in cell.readers.items():
                    if event[0] > after and by != pipe and event[0] > best[0]:
                        best = event
        if best[0] >= HELD:
            general(step, scalars)
            return
        timer.clock, cause = now + step.issue, free_record[pipe]
        if draining[pipe]:
            start, cause = order.drained(reach, pipe, start, cause)
        if best[0] > start:
            start, cause = wait(pipe, start, now, best)
        elif now > start:
            stall(pipe, "scalar unit", now - start)
            start, cause = now, timer.gate_record
        number = len(steps)
        add_step(step.base)
        add_start(start)
        add_cause(cause)
        free[pipe] = end = start + step.busy
        free_record[pipe] = number
        end += step.latency
        if end >= done[pipe]:
            done[pipe], done_record[pipe] = given = end, number
        else:
            given = done[pipe], done_record[pipe]
        for cell in reach.read:
            cell.readers[pipe] = given
        for cell in reach.written:
            cell.by, cell.given = pipe, given
            if cell.readers:
                cell.readers.clear()
        for far, first, end, writes in reach.far:
            far.mark(pipe, first, end, given, writes=writes)

    return general if order.buffers else issue


def _waiter(timer: CoreTimer) -> Callable[[int, int, int, Given], tuple[int, int]]:
    """Return the function that lets a pipe wait for an operation before: from when the pipe is free
    and when its operation was issued, when it starts and because of which record."""
    index, steps = timer.index, timer.steps
    add_wait, add_source = timer.waits.append, timer.wait_sources.append
    scalar = [(pipe, "scalar unit") for pipe in range(len(timer.free))]
    data = [(pipe, "data") for pipe in range(len(timer.free))]

    def wait(pipe: int, start: int, now: int, given: Given) -> tuple[int, int]:
        stalls = timer.stalls
        if now > start:
            stalls[scalar[pipe]] = stalls.get(scalar[pipe], 0) + now - start
            start = now
        stalls[data[pipe]] = stalls.get(data[pipe], 0) + given[0] - start
        add_wait(len(steps))
        add_wait(pipe)
        add_source(index)
        add_source(given[1])
        return given

    return wait
