"""Order by data, for programs whose synchronisation is inserted: an operation starts after those
that wrote what it reads, and after those that read or wrote what it writes.

This stands for the flags and barriers that the assembler would insert."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.timing.model import CoreTimer
from ptosim.timing.places import HELD, NEVER, NOBODY, Cell, Cells, Far, Given, stretched
from ptosim.timing.steps import Flag, S, Step

Range = tuple[Any, int, int]
"""A memory (space name, or number of a GM buffer), first byte, byte behind the last."""

Ranges = tuple[tuple[Range, ...], tuple[Range, ...]]
"""What an operation reads and what it writes."""

Saved = tuple[dict[Any, list[Cell]], dict[Any, Far]]

Stretches = tuple[tuple[Far, int, int, bool], ...]
"""Buffers of global memory with the first byte, the end, and whether it is written."""

KEPT = 64
"""Cells of a buffer of global memory."""


class Reach:
    """What an operation touches: the cells of the core's memories that it may wait for (`looked`),
    those that it only reads and those that it writes, and stretches of global memory (buffer, first
    byte, end, whether it writes). It holds for one `version` of the cells; `quick` is the same
    where the step needs nothing but order. `is_own`: an earlier operation of its own pipe used the
    same bytes; `is_noted`: the cells know its pipe."""

    __slots__ = (
        "far", "filled", "is_noted", "is_own", "looked", "quick", "read", "version", "written",
    )  # fmt: skip

    def __init__(self, version: int, reads: list[Cell], writes: list[Cell], far: Stretches) -> None:
        self.version = version
        self.looked = tuple(dict.fromkeys((*reads, *writes)))
        self.written = tuple(dict.fromkeys(writes))
        self.read = tuple(cell for cell in dict.fromkeys(reads) if cell not in self.written)
        self.filled = tuple(cell for cell in self.written if cell not in reads)
        self.far = far
        self.is_own = False
        self.is_noted = False
        self.quick = -1

    def beside(self, far: Stretches) -> Reach:
        """Return the same of the core's memories with stretches of global memory."""
        reach = Reach.__new__(Reach)
        reach.version, reach.far = self.version, far
        reach.looked, reach.read = self.looked, self.read
        reach.written, reach.filled = self.written, self.filled
        reach.is_own, reach.is_noted, reach.quick = self.is_own, self.is_noted, self.quick
        return reach


class DataOrder:
    """Issues the operations of a core so that data order them. On the pipes of `draining` an
    operation that depends on an earlier one of the same pipe waits for its result. With `buffers`
    all bytes of the core stand for that many more: what fills them anew waits for those who used
    them so many fillings ago."""

    def __init__(self, timer: CoreTimer, draining: frozenset[int], buffers: int = 0) -> None:
        self.timer = timer
        self.draining = draining
        self.buffers = buffers
        self.version = 0  # of the cells: what a step found out about its own holds until it changes
        self._near: dict[Any, Cells] = {}
        self._far: dict[Any, Far] = {}

    def issue(self, step: Step, scalars: int) -> None:
        """Issue a step behind everything that its data depend on."""
        timer, pipe = self.timer, step.pipe
        reach = self.reach(step)
        best, pending = NEVER, []
        own = False
        for by, event in self._refilled(reach) if self.buffers else self._before(reach):
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
        drains = pipe in self.draining and (own if self.buffers else self.is_own(reach, pipe))
        given: Given
        if step.is_plain and not pending and timer.gate is None and timer.queues[pipe] is None:
            given = timer.run_behind(step, scalars, best, drains=drains)
        else:
            given = HELD, self._wait(step, scalars, best, pending, drains=drains)
        self._mark(reach, pipe, given)

    def reach(self, step: Step) -> Reach:
        """Return what a step touches."""
        reach = step.reach
        if reach is not None and reach.version == self.version:
            return reach
        base, far = step.base, self._stretches(step.ranges)
        if base is not step and far is not None:
            reach = self.reach(base).beside(far)
        else:
            reach = self._reach(step)
        step.reach = reach
        if not step.is_plain or step.pipe == S or (reach.far and step.pipe in self.draining):
            reach.quick = -1
        else:
            reach.quick = self.version
        return reach

    def _reach(self, step: Step) -> Reach:
        """Find the cells of a step."""
        for part in step.ranges:
            for place in part:
                self._touch(place)  # which may cut other cells: first all, then find them
        near: list[list[Cell]] = [[], []]
        far: list[tuple[Far, int, int, bool]] = []
        for writes, part in enumerate(step.ranges):
            for number, first, end in part:
                if number in self._far:
                    far.append((self._far[number], first, end, bool(writes)))
                else:
                    near[writes] += self._near[number].of(first, end)
        return Reach(self.version, near[0], near[1], tuple(far))

    def _stretches(self, ranges: Ranges) -> Stretches | None:
        """Return the global memory among some ranges if all of it is stretches."""
        found = []
        for writes, part in enumerate(ranges):
            for number, first, end in part:
                if number.__class__ is not str:
                    far = self._far.get(number)
                    if far is None:
                        return None
                    found.append((far, first, end, bool(writes)))
        return tuple(found)

    def far_before(self, reach: Reach, pipe: int, after: int) -> Given:
        """Return the last operation of another pipe on the same global memory that is done later
        than a cycle, as far as a reader or writer waits for it; one that is not placed in time
        counts as the last."""
        best = NEVER
        for far, first, end, writes in reach.far:
            if far.writers.ends and far.wrote != 1 << pipe:
                for by, event in far.writers.over(first, end):
                    if event[0] > after and by != pipe and event[0] > best[0]:
                        best = event
            if writes:
                for by, spans in far.readers.items():
                    if by != pipe:
                        best = max((best, *spans.over(first, end)), key=_when)
        return best if best[0] > after else NEVER

    def drained(self, reach: Reach, pipe: int, start: int, cause: int) -> tuple[int, int]:
        """Return when a pipe that drains goes on behind an operation of its own, and why."""
        timer = self.timer
        if timer.done[pipe] > start and (reach.is_own or self.is_own(reach, pipe)):
            timer.stall(pipe, "barrier", timer.done[pipe] - start)
            start, cause = timer.done[pipe], timer.done_record[pipe]
        if not reach.is_noted:
            self.note(reach, pipe)
        return start, cause

    def is_own(self, reach: Reach, pipe: int) -> bool:
        """True if an operation of the same pipe used the bytes before, in a way that orders."""
        if not reach.is_own:
            bit = 1 << pipe
            reach.is_own = (
                any(cell.wrote & bit for cell in reach.looked)
                or any(cell.read & bit for cell in reach.written)
                or any(far.is_own(pipe, a, b, writes=w) for far, a, b, w in reach.far)
            )
        return reach.is_own

    def note(self, reach: Reach, pipe: int) -> None:
        """Let the cells know the pipe."""
        reach.is_noted = True
        bit = 1 << pipe
        for cell in reach.read:
            cell.read |= bit
        for cell in reach.written:
            cell.wrote |= bit

    def _before(self, reach: Reach) -> Iterator[tuple[int, Given]]:
        for cell in reach.looked:
            yield cell.by, cell.given
        for cell in reach.written:
            yield from cell.readers.items()
        for far, first, end, writes in reach.far:
            yield from far.events(first, end, writes=writes)

    def _refilled(self, reach: Reach) -> list[tuple[int, Given]]:
        """Return what a step waits for where bytes have more buffers than one."""
        found = [(cell.by, cell.given) for cell in reach.looked if cell not in reach.filled]
        for cell in reach.written:
            if cell not in reach.filled:
                found += cell.readers.items()
        for cell in reach.filled:
            past = cell.past
            if len(past) >= self.buffers:
                by, given, readers = past[-self.buffers]
                found += [(by, given), *readers.items()]
            past.append((cell.by, cell.given, cell.readers))
            del past[: -self.buffers]
            cell.by, cell.given, cell.readers = NOBODY, NEVER, {}
        for far, first, end, writes in reach.far:
            found += far.events(first, end, writes=writes)
        return found

    def _mark(self, reach: Reach, pipe: int, given: Given) -> None:
        for cell in reach.read:
            cell.readers[pipe] = given
        for cell in reach.written:
            cell.by, cell.given = pipe, given
            cell.readers.clear()
        if not reach.is_noted:
            self.note(reach, pipe)
        for far, first, end, writes in reach.far:
            far.mark(pipe, first, end, given, writes=writes)

    def _touch(self, place: Range) -> None:
        """Let cells begin and end where an operand does. A buffer of global memory of which ever
        new parts are used comes to be one of stretches."""
        number, first, end = place
        if number in self._far:
            return
        memory = self._near.setdefault(number, Cells())
        before = memory.cuts
        memory.of(first, end)
        if memory.cuts == before:
            return
        self.version += 1
        if len(memory.cells) > KEPT and not isinstance(number, str):
            self._far[number] = stretched(self._near.pop(number), self.draining)

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> Saved:
        """Return who used which bytes, as it is now, for `restore`."""
        near = {name: [c.copy(c.first, c.end) for c in m.cells] for name, m in self._near.items()}
        return near, {number: far.copy() for number, far in self._far.items()}

    def restore(self, saved: Saved) -> None:
        """Go back to a state of this run; steps have to find out anew what they touch."""
        self.version += 1
        near, far = saved
        self._near = {n: Cells(c.copy(c.first, c.end) for c in m) for n, m in near.items()}
        self._far = {number: one.copy() for number, one in far.items()}

    def events(self) -> Iterator[Flag]:
        """Yield the events that stand for operations which are not placed in time yet."""
        for memory in self._near.values():
            for cell in memory.cells:
                for _, event in (*cell.events(), *_earlier(cell)):
                    if event[0] >= HELD:
                        yield event[1]
        for far in self._far.values():
            for _, event in far.everything():
                if event[0] >= HELD:
                    yield event[1]

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


def _when(given: Given) -> int:
    return given[0]


def _earlier(cell: Cell) -> Iterator[tuple[int, Given]]:
    """Yield who used the bytes of earlier fillings."""
    for by, given, readers in cell.past:
        yield by, given
        yield from readers.items()
