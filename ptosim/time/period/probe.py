"""Issue of one period of a loop on affine times (`machine.affine`): the general rules, with a watch
on global memory.

Of a buffer only the time of the last use by each pipe and kind counts here. Where it is later than
an operation of another pipe could start, the windows have to be apart: both move on by as much, and
the operation is ahead of all that was used (a kernel that works in place loads the next window
while it stores the last one). Else the operation would have to look at single stretches, which
move, and the period proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.records import NamedTuple
from ptosim.machine.affine import Affine, later, settled, step_of
from ptosim.time.pipes.fast import DataOrder
from ptosim.time.pipes.last_uses import HELD, Far, Further, Given, Series
from ptosim.time.pipes.steps import Issued


class Mark(NamedTuple):
    """A use of global memory in the period, by how many bytes it moves in a period of each level
    (the lowest first), and how it repeats in periods inside of this one."""

    buffer: Far
    pipe: int
    first: int
    end: int
    given: Given
    writes: bool
    moved: tuple[int, ...]
    loops: tuple[Further, ...] = ()


class Ahead(NamedTuple):
    """A use of global memory that nothing was waited for, because it is ahead of all that other
    pipes used: its bytes move by `moved` in a period."""

    buffer: Far
    pipe: int
    first: int
    end: int
    writes: bool
    moved: int

    def is_ahead(self, first: int, end: int, by: int = 0) -> bool:
        """True if it comes after some bytes on its way, so many bytes farther on."""
        if self.moved > 0:
            return end <= self.first + by
        return first >= self.end + by

    def meets(self, buffer: Far, pipe: int, *, writes: bool) -> bool:
        """True if it would have to wait for a use of the same bytes."""
        return buffer is self.buffer and pipe != self.pipe and (writes or self.writes)


class ProbedOrder:
    """Issues the operations of a core in one period of a level. `moved` is by how many bytes the
    window of the operation that comes next moves in a period of each level. What cannot be followed
    ends the trial (`give_up`, which is told why) before it is issued; from then on the level around
    it issues (`outer`), or it is issued as usual."""

    def __init__(
        self,
        order: DataOrder,
        level: int,
        give_up: Callable[[str], None],
        outer: ProbedOrder | None,
    ) -> None:
        self.order = order
        self.level = level
        self.outer = outer
        self.moved: tuple[int, ...] = ()
        self.marks: list[Mark] = []
        self._ahead: list[Ahead] = []
        self.is_over = False
        self._give_up = give_up

    def issue(self, placed: Issued, scalars: int) -> None:
        """Issue a step after everything that its data depend on."""
        moved, self.moved = self.moved, ()
        step, far = placed.base, placed.far
        if far and not self.is_over:
            why = self._obstacle(placed, scalars, moved)
            if why:
                self._give_up(why)
        if self.is_over:
            if self.outer is None:
                self.order.issue(placed, scalars)
            else:
                self.outer.moved = moved
                self.outer.issue(placed, scalars)
            return
        self.order.issue(step, scalars)
        for buffer, first, end, writes in far:
            self._mark(Mark(buffer, step.pipe, first, end, step.reach.given, writes, moved))

    def _obstacle(self, placed: Issued, scalars: int, moved: tuple[int, ...]) -> str:
        """Return why an operation on global memory cannot be followed; empty if it can."""
        pipe = placed.base.pipe
        if pipe in self.order.draining:
            return "a pipe with barriers of its own uses global memory"
        if any(moved) and len(placed.far) != 1:
            return "an operation uses several windows of global memory that move"
        after = self._earliest(placed, scalars)
        for buffer, first, end, writes in placed.far:
            if not self._is_awaited(buffer, pipe, after, writes=writes):
                continue
            use = Ahead(buffer, pipe, first, end, writes, moved[0] if any(moved) else 0)
            if not self._is_first(use):
                return "a buffer of global memory is written by one pipe and used by another"
            self._ahead.append(use)
        return ""

    def _earliest(self, placed: Issued, scalars: int) -> Any:
        """The first cycle at which a step could start, for what is known of its core."""
        step, timer = placed.base, self.order.timer
        times = [timer.free[step.pipe], timer.clock + scalars * timer.scalar_cycles]
        waits = () if self.order.buffers else self.order.reach(step).waits  # with more, for others
        times += [last.given[0] for last in waits if last.given[0] < HELD]
        after = times[0]
        for when in times:
            after = when if when > after else after
        return after

    def _is_first(self, use: Ahead) -> bool:
        """True if all that other pipes used so far is after an operation on its way; of periods in
        one another nothing is said."""
        if self.level > 1 or not use.moved:
            return False
        buffer = use.buffer
        known = [
            (spans.firsts[0], spans.ends[-1]) for (by, wrote), spans in buffer.spans.items()
            if use.meets(buffer, by, writes=wrote)
        ]  # fmt: skip
        known += [s.reach for s in buffer.series if use.meets(buffer, s.pipe, writes=s.writes)]
        return all(use.is_ahead(*each) for each in known) and all(
            self._follows(use, mark, 0) for mark in self.marks
        )

    @staticmethod
    def _follows(use: Ahead, mark: Mark, by: int) -> bool:
        """True if a use of this period stays after one that is ahead of it, by so many bytes."""
        if not use.meets(mark.buffer, mark.pipe, writes=mark.writes):
            return True
        moves = mark.moved == (use.moved,) and not mark.loops
        return moves and use.is_ahead(mark.first, mark.end, by)

    def is_apart(self) -> bool:
        """True if what is ahead is so in the next period too, of all that this one used."""
        return all(
            self._follows(use, mark, use.moved) for use in self._ahead for mark in self.marks
        )

    @staticmethod
    def _is_awaited(buffer: Far, pipe: int, after: Any, *, writes: bool) -> bool:
        """True if a use of any bytes by another pipe may be later than a cycle."""
        if not buffer.used[writes] & ~(1 << pipe):
            return False
        known = [(by, wrote, spans.latest) for (by, wrote), spans in buffer.spans.items()]
        known += [(s.pipe, s.writes, s.latest) for s in buffer.series]
        late = [when > after for by, wrote, when in known if by != pipe and (wrote or writes)]
        return any(late)

    def _mark(self, mark: Mark) -> None:
        self.marks.append(mark)
        spans = mark.buffer.spans.get((mark.pipe, mark.writes))
        if spans is not None and mark.given[0] > spans.latest:
            spans.latest = mark.given[0]

    # -- after the period --------------------------------------------------------------------------

    def settle(self, periods: int, records: int) -> None:
        """Put the uses where later operations find them: those of the period, and as often again
        as it repeats, with so many records in each."""
        for mark in self.marks:
            self._settle(mark, periods, records)
        self.marks.clear()
        self.is_over = True

    def _settle(self, mark: Mark, periods: int, records: int) -> None:
        """Put a use, and as many more as there are periods."""
        when, by = _known(mark.given)
        level = self.level
        while isinstance(when, Affine) and when.level > level:  # placed in rounds inside: then
            when = settled(when, when.level)
        moved = mark.moved[level - 1] if mark.moved else 0
        given = settled(when, level), by
        is_held = given[0] >= HELD
        if not (moved or mark.loops or is_held):
            self._put(mark._replace(given=(later(when, level, periods), by + records * periods)))
            return
        if periods:
            further = Further(moved, step_of(when, level), records, periods)
            first = (HELD, None) if is_held else given
            self._put(mark._replace(given=first, loops=(*mark.loops, further)))
        if not periods or not mark.loops:
            self._put(mark._replace(given=given))

    def _put(self, mark: Mark) -> None:
        if self.outer is not None:
            self.outer.marks.append(mark)
            return
        buffer, pipe, first, end, given, writes, _, loops = mark
        if loops:
            buffer.series.append(Series(pipe, writes, first, end, given, loops))
        else:
            buffer.mark(pipe, first, end, given, writes)


def _known(given: Given) -> Given:
    """One that was not placed when it was marked may be now."""
    when, by = given
    if when.__class__ is not Affine and when >= HELD and by is not None and by.times:
        when, _, by = by.times[0]
    return when, by
