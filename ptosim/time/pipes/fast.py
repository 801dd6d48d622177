"""The same rules as `CoreTimer.issue` and `DataOrder.issue` for common instructions, in one
function each: everything that a core keeps is bound once.

What these do not handle (the scalar unit's own operations, queues that are held, barriers, shared
bandwidth, events that nobody gave yet) goes to the general functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ptosim.machine.effects.ranges import Range, Ranges
from ptosim.machine.values import Memory
from ptosim.time.pipes.last_uses import FRESH, HELD, MANY, NEVER, Cell, Cells, Far, Given, Last
from ptosim.time.pipes.records import NO_CAUSE
from ptosim.time.pipes.steps import Flag, Issued, Placed, S, Spread, Step, Stretch
from ptosim.time.pipes.timers import CoreTimer

# Order by data, for programs whose synchronisation is inserted: an operation starts after those
# that wrote what it reads, and after those that read or wrote what it writes.
#
# This represents the flags and barriers that the assembler would insert.

ANOTHER = -1
"""Any pipe but the own one."""

Saved = tuple[dict[Memory, list[Cell]], dict[Any, Far]]


class Reach:
    """What a step touches of the core's memories: the cells that it may wait for (`looked`), reads,
    writes, and fills (writes without reading). `waits` are the uses by other pipes that it waits
    for, `marks` its own that others wait for, `lasts` all of its own; `given` is when it was done
    last. It holds for one `version` of the cells; `quick` is the same where the step needs nothing
    but order. `is_own`: an earlier operation of its own pipe used the same bytes (kept for pipes
    that drain)."""

    __slots__ = (
        "filled", "given", "is_own", "lasts", "looked", "marks", "quick", "read",
        "version", "waits", "written",
    )  # fmt: skip

    def __init__(self, reads: Iterable[Cell], writes: Iterable[Cell]) -> None:
        self.looked = tuple(dict.fromkeys((*reads, *writes)))
        self.written = tuple(dict.fromkeys(writes))
        self.read = tuple(cell for cell in dict.fromkeys(reads) if cell not in self.written)
        self.filled = tuple(cell for cell in self.written if cell not in reads)
        self.given: Given = NEVER
        self.is_own = False
        self.version = self.quick = -1
        self.waits: tuple[Last, ...] = ()
        self.marks: tuple[Last, ...] = ()
        self.lasts: tuple[Last, ...] = ()

    def kinds(self) -> Iterator[tuple[Cell, bool]]:
        """Yield the cells that it reads only and those that it writes."""
        for cell in self.read:
            yield cell, False
        for cell in self.written:
            yield cell, True


class DataOrder:
    """Issues the operations of a core so that data order them. On the pipes of `draining` an
    operation that depends on an earlier one of the same pipe waits for its result. With `buffers`
    all bytes of the core represent that many more: what fills them anew waits for those who used
    them so many fillings ago."""

    def __init__(self, timer: CoreTimer, draining: frozenset[int], buffers: int = 0) -> None:
        self.timer = timer
        timer.by_data = True
        self.draining = draining
        self.buffers = buffers
        self.version = 0  # of the cells: what a step found out about its own holds until it changes
        self.near: dict[Memory, Cells] = {}
        self.far: dict[Any, Far] = {}

    # -- what a step touches -----------------------------------------------------------------------

    def placed(self, step: Step, ranges: Ranges) -> Issued:
        """Return what is issued of a step for an execution on some bytes. Those of the core's own
        memories are the same for every execution of a step."""
        near: tuple[list[Range], ...] = ([], [])
        far: list[Stretch] = []
        for writes, part in enumerate(ranges):
            for place in part:
                if isinstance(place[0], str):
                    near[writes].append(place)
                else:
                    far.append((self._buffer(place[0]), place[1], place[2], bool(writes)))
        if step.ranges is None:
            step.ranges = tuple(near[0]), tuple(near[1])
        if not far:
            return step
        for buffer, _, _, writes in far:
            buffer.use(step.pipe, writes=writes)
        if len(far) > 1 or step.pipe in self.draining:
            return Spread(step, tuple(far))
        return Placed(step, *far[0])

    def _buffer(self, number: Any) -> Far:
        far = self.far.get(number)
        if far is None:
            far = self.far[number] = Far()
        return far

    def reach(self, step: Step) -> Reach:
        """Return what a step touches of the core's memories."""
        reach = step.reach
        if reach is not None and reach.version == self.version:
            return reach
        reads, writes = step.ranges
        for place in (*reads, *writes):
            self._touch(place)  # which may cut other cells: first all, then find them
        reach = step.reach = Reach(self._cells(reads), self._cells(writes))
        self._join(step, reach)
        reach.version = self.version
        if step.is_plain and step.pipe != S:
            reach.quick = self.version
        return reach

    def _touch(self, place: Range) -> None:
        """Let cells begin and end where an operand does."""
        name, first, end = place
        memory = self.near.setdefault(name, Cells())
        before = memory.cuts
        memory.of(first, end)
        if memory.cuts != before:
            self.version += 1

    def _cells(self, places: Iterable[Range]) -> list[Cell]:
        return [cell for name, first, end in places for cell in self.near[name].of(first, end)]

    def _join(self, step: Step, reach: Reach) -> None:
        """Find the uses that a step waits for, and let others know of its own."""
        pipe = step.pipe
        reach.lasts = tuple(self._own(cell, pipe, writes) for cell, writes in reach.kinds())
        reach.waits = tuple(self._others(reach, pipe))
        self._watch(reach.waits)
        for last in reach.lasts:
            if not last.is_watched:
                last.use(step, reach)
        self._watch(last for last in reach.lasts if len(last.uses) > MANY)
        reach.marks = tuple(last for last in reach.lasts if last.is_watched)

    def _own(self, cell: Cell, pipe: int, writes: bool) -> Last:
        """Return the last use of a cell by the own pipe."""
        last = cell.uses.get((pipe, writes))
        if last is None:
            last = cell.uses[pipe, writes] = Last(is_watched=bool(self.buffers))
            self.version += 1  # whoever uses the cell may have to wait for it
        return last

    @staticmethod
    def _others(reach: Reach, pipe: int) -> Iterator[Last]:
        """Yield the uses by other pipes that a reader or a writer waits for."""
        for cell in reach.looked:
            writes = cell in reach.written
            for (by, wrote), last in cell.uses.items():
                if by != pipe and (wrote or writes):
                    yield last

    def _watch(self, lasts: Iterable[Last]) -> None:
        """Let every use be marked."""
        for last in lasts:
            if not last.is_watched:
                last.watch()
                self.version += 1  # whoever uses the cell so has to mark it

    # -- issue -------------------------------------------------------------------------------------

    def issue(self, placed: Issued, scalars: int) -> None:
        """Issue a step after everything that its data depend on."""
        step, far = placed.base, placed.far
        timer, pipe = self.timer, step.pipe
        reach = self.reach(step)
        best, pending = NEVER, []
        own = False
        uses = self._refilled(reach, far) if self.buffers else self._before(reach, far)
        for by, event in uses:
            if by == pipe:
                own = True
                continue
            if event[0] >= HELD:
                flag = event[1]
                if not flag.times:
                    pending.append(flag)
                    continue
                event = flag.times[0][0], flag.times[0][2]
            if event[0] > best[0]:
                best = event
        drains = pipe in self.draining and (own if self.buffers else self.is_own(reach, far, pipe))
        given: Given
        if step.is_plain and not pending and timer.gate is None and timer.queues[pipe] is None:
            given = timer.run_behind(step, scalars, best, drains=drains)
        else:
            given = HELD, self._wait(step, scalars, best, pending, drains=drains)
        self._mark(reach, far, pipe, given)

    def is_own(self, reach: Reach, far: tuple[Stretch, ...], pipe: int) -> bool:
        """True if an operation of the same pipe used the bytes before, in a way that orders."""
        if not reach.is_own:
            self.note(reach, pipe)
        return reach.is_own or any(
            buffer.is_own(pipe, first, end, writes=writes) for buffer, first, end, writes in far
        )

    @staticmethod
    def note(reach: Reach, pipe: int) -> None:
        """Find out for an operation on a pipe that drains whether an earlier one of the same pipe
        used its bytes, and let the cells know of this one."""
        bit = 1 << pipe
        reach.is_own = any(cell.wrote & bit for cell in reach.looked) or any(
            cell.read & bit for cell in reach.written
        )
        for cell in reach.read:
            cell.read |= bit
        for cell in reach.written:
            cell.wrote |= bit

    @staticmethod
    def _before(reach: Reach, far: tuple[Stretch, ...]) -> Iterator[tuple[int, Given]]:
        """Yield what a step waits for: pipe (of its own memories just another one) and time."""
        for last in reach.waits:
            yield ANOTHER, last.given
        for buffer, first, end, writes in far:
            yield from buffer.before(first, end, writes=writes)

    def _refilled(self, reach: Reach, far: tuple[Stretch, ...]) -> list[tuple[int, Given]]:
        """Return what a step waits for where bytes have more buffers than one."""
        found: list[tuple[int, Given]] = []
        for cell in reach.looked:
            if cell not in reach.filled:
                writes = cell in reach.written
                found += [
                    (by, last.given) for (by, wrote), last in cell.uses.items()
                    if (wrote or writes) and last.given is not NEVER
                ]  # fmt: skip
        for cell in reach.filled:
            past = cell.past
            if len(past) >= self.buffers:
                found += [
                    (by, given) for (by, _), given in past[-self.buffers].items()
                    if given is not NEVER
                ]  # fmt: skip
            past.append(cell.filling())
            del past[: -self.buffers]
            for last in cell.uses.values():
                last.given = NEVER
        for buffer, first, end, writes in far:
            found += buffer.before(first, end, writes=writes)
        return found

    def _mark(self, reach: Reach, far: tuple[Stretch, ...], pipe: int, given: Given) -> None:
        if given[0] >= HELD:  # only the event says when it was
            self._watch(reach.lasts)
        reach.given = given
        for last in reach.lasts:
            if last.is_watched:
                last.given = given
        if self.buffers:
            self._overwrite(reach, pipe)
        for buffer, first, end, writes in far:
            buffer.mark(pipe, first, end, given, writes)

    @staticmethod
    def _overwrite(reach: Reach, pipe: int) -> None:
        """Who used bytes before they were written orders nothing any more."""
        for cell in reach.written:
            for key, last in cell.uses.items():
                if key != (pipe, True):
                    last.given = NEVER

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> Saved:
        """Return who used which bytes, as it is now, for `restore`."""
        near = {name: [c.copy(c.first, c.end) for c in m.cells] for name, m in self.near.items()}
        return near, {number: far.copy() for number, far in self.far.items()}

    def restore(self, saved: Saved) -> None:
        """Go back to a state of this run; steps have to find out anew what they touch. Buffers of
        global memory keep their identity, because executions refer to them."""
        self.version += 1
        near, far = saved
        self.near = {n: Cells(c.copy(c.first, c.end) for c in m) for n, m in near.items()}
        for number, buffer in self.far.items():
            buffer.set(far.get(number) or Far())

    def events(self) -> Iterator[Flag]:
        """Yield the events that represent operations which are not placed in time yet."""
        for memory in self.near.values():
            for cell in memory.cells:
                for filling in (cell.filling(), *cell.past):
                    yield from _held(filling.values())
        for far in self.far.values():
            yield from _held(far.everything())

    # -- waiting -----------------------------------------------------------------------------------

    def _wait(
        self, step: Step, scalars: int, best: Given, pending: list[Flag], *, drains: bool
    ) -> Flag:
        """Issue with events, where something before is not placed in time yet."""
        takes = list(dict.fromkeys(pending))
        if best is not NEVER:
            known = Flag(None, "data", keeps=True)
            known.times.append((best[0], self.timer.index, best[1]))
            takes.append(known)
        event = Flag(None, "data", keeps=True)
        drains = drains and step.pipe != S
        self.timer.issue(step.ordered(tuple(takes), (event,), drains=drains), scalars)
        return event


def _held(uses: Iterable[Given]) -> Iterator[Flag]:
    for when, event in uses:
        if when >= HELD:
            yield event


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
