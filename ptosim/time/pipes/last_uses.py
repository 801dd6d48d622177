"""Bytes, and who used them last: cells of the memories of a core, stretches of global memory.

On a pipe results are complete in order, and whoever writes waits for everyone before. So of bytes
only the last use by each pipe counts, in reading and in writing; a use that somebody has waited for
since may stay and orders nothing more."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.time.pipes.steps import Placed

HELD = 1 << 62
"""The time of an operation that is not placed in time yet; an event represents its record."""

Given = tuple[int, Any]
"""When an operation is done, and its record; or HELD and the event that says it."""

NEVER: Given = (-1, -1)

MOST = 1 << 16
"""Stretches of a memory that are kept apart."""

FRESH = 1 << 9
"""Uses of a buffer that are kept as they come, while nobody has to wait for them."""


MANY = 64
"""Steps that are asked one by one when they used a cell last."""


@dataclass(slots=True, eq=False)
class Last:
    """The last use of a cell by one pipe, in reading or in writing. As long as no other pipe has to
    wait for it nobody marks it, and each step knows of its own last use (`uses`, by step)."""

    given: Given = NEVER
    is_watched: bool = False
    uses: dict[Any, Any] = field(default_factory=dict)

    def use(self, step: Any, reach: Any) -> None:
        """Let a step find out by itself when it used the cell last."""
        if (old := self.uses.get(step)) is not None and old.given > self.given:
            self.given = old.given
        self.uses[step] = reach

    def watch(self) -> None:
        """From now on every use is marked."""
        self.given = self.found()
        self.is_watched = True
        self.uses.clear()

    def found(self) -> Given:
        """Return the last use."""
        return max((self.given, *(reach.given for reach in self.uses.values())))


Uses = dict[tuple[int, bool], Last]
"""By pipe and by whether it writes."""

Filling = dict[tuple[int, bool], Given]


@dataclass(slots=True, eq=False)
class Cell:
    """Bytes of a core that are always used together, and who used them last. `wrote` and `read` are
    the pipes (bits) that ever did; `past` are the uses of earlier fillings, where bytes represent
    several buffers."""

    first: int
    end: int
    uses: Uses = field(default_factory=dict)
    wrote: int = 0
    read: int = 0
    past: list[Filling] = field(default_factory=list)

    def copy(self, first: int, end: int) -> Cell:
        """Return a part of the cell, with what happened to it."""
        uses = {k: Last(last.found(), is_watched=True) for k, last in self.uses.items()}
        return Cell(first, end, uses, self.wrote, self.read, list(self.past))

    def filling(self) -> Filling:
        """Return the uses since the bytes were filled."""
        return {key: last.found() for key, last in self.uses.items()}


class Cells:
    """A memory of a core, cut where any operand begins or ends."""

    def __init__(self, cells: Iterable[Cell] = ()) -> None:
        self.cells = list(cells)
        self.firsts = [cell.first for cell in self.cells]
        self.cuts = 0  # grows whenever a cell is cut or added

    def of(self, first: int, end: int) -> list[Cell]:
        """Return the cells of some bytes; cuts and adds cells where they are needed."""
        if first >= end:
            return []
        self._cut(first)
        self._cut(end)
        at = bisect_left(self.firsts, first)
        found = []
        while first < end:
            if at == len(self.cells) or self.cells[at].first > first:
                until = min(end, self.cells[at].first) if at < len(self.cells) else end
                self.cells.insert(at, Cell(first, until))
                self.firsts.insert(at, first)
                self.cuts += 1
            found.append(self.cells[at])
            first = self.cells[at].end
            at += 1
        return found

    def _cut(self, place: int) -> None:
        """Let no cell reach across a place."""
        at = bisect_right(self.firsts, place) - 1
        if at < 0:
            return
        cell = self.cells[at]
        if cell.first < place < cell.end:
            self.cells[at : at + 1] = [cell.copy(cell.first, place), cell.copy(place, cell.end)]
            self.firsts.insert(at + 1, place)
            self.cuts += 1


@dataclass(slots=True, eq=False)
class Spans:
    """Stretches of a memory that do not overlap, each with the time and the record of a use; a new
    one replaces what it covers."""

    latest: int = -1  # the time of the latest item
    firsts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    items: list[Given] = field(default_factory=list)

    def put(self, first: int, end: int, item: Given) -> None:
        """Set the item of a stretch."""
        firsts, ends = self.firsts, self.ends
        if item[0] > self.latest:
            self.latest = item[0]
        if not ends or (first > firsts[-1] and end >= ends[-1]):  # as streams do
            if ends and first < ends[-1]:
                ends[-1] = first
            firsts.append(first)
            ends.append(end)
            self.items.append(item)
        else:
            at = bisect_left(firsts, first)
            if at < len(firsts) and firsts[at] == first and ends[at] == end:
                self.items[at] = item
                return
            self._replace(first, end, item)
        if len(ends) > MOST:
            self._join()

    def over(self, first: int, end: int) -> list[Given]:
        """Return the items of everything that overlaps a stretch."""
        low = bisect_right(self.ends, first)
        return self.items[low : bisect_left(self.firsts, end, low)]

    def copy(self) -> Spans:
        """Return the same stretches; items are shared."""
        return Spans(self.latest, list(self.firsts), list(self.ends), list(self.items))

    def _replace(self, first: int, end: int, item: Given) -> None:
        """Put a stretch in the place of what it covers."""
        firsts, ends, items = self.firsts, self.ends, self.items
        low = bisect_right(ends, first)
        high = bisect_left(firsts, end, low)
        if low < high:
            before, after = firsts[low] < first, ends[high - 1] > end
            if before and after and high - low == 1:  # it is inside of one, which becomes two
                firsts.insert(low, firsts[low])
                ends.insert(low, ends[low])
                items.insert(low, items[low])
                high += 1
            if before:
                ends[low] = first
                low += 1
            if after:
                high -= 1
                firsts[high] = end
        firsts[low:high] = (first,)
        ends[low:high] = (end,)
        items[low:high] = (item,)

    def _join(self) -> None:
        """Join neighbours in pairs; the later of the two counts for both."""
        pairs = zip(self.items[::2], self.items[1::2], strict=False)
        odd = self.items[-1:] if len(self.items) % 2 else []
        self.items = [*(max(pair, key=itemgetter(0)) for pair in pairs), *odd]
        self.ends = [*self.ends[1::2], *(self.ends[-1:] if odd else [])]
        self.firsts = self.firsts[::2]


class Forgotten(Exception):
    """Somebody has to wait for a use of which a loop that repeats kept no time."""


class Further(NamedTuple):
    """How a use repeats in a loop: so many `times` more, each `moved` bytes farther on, `later`
    cycles later and so many `records`."""

    moved: int
    later: int
    records: int
    times: int


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Uses of a buffer by one pipe that repeat after the one of a stretch, in loops that lie in one
    another (`loops`, the innermost first). A time that was not known is HELD: then nobody may have
    to wait for one of them."""

    pipe: int
    writes: bool
    first: int
    end: int
    given: Given
    loops: tuple[Further, ...]

    @property
    def latest(self) -> int:
        """When the last one is done."""
        return self.given[0] + sum(loop.later * loop.times for loop in self.loops)

    @property
    def reach(self) -> tuple[int, int]:
        """The first byte of all, and the one after the last."""
        moved = [loop.moved * loop.times for loop in self.loops]
        return self.first + sum(min(m, 0) for m in moved), self.end + sum(max(m, 0) for m in moved)

    def last(self, first: int, end: int) -> Given | None:
        """Return the last use that overlaps a stretch. Raises Forgotten if its time is not known,
        or if it would take long to find it."""
        is_plain = len(self.loops) == 1  # then the first use is known beside the series
        return self._last(first - self.first, end - self.first, self.loops, int(is_plain))

    def _last(self, first: int, end: int, loops: Sequence[Further], least: int) -> Given | None:
        if not loops:
            if first >= self.end - self.first or end <= 0:
                return None
            if self.given[0] >= HELD:
                raise Forgotten
            return self.given
        *inner, loop = loops
        reach = [each.moved * each.times for each in inner]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
        numbers = _overlapping(first, end, low, self.end - self.first + high, loop)
        for tries, number in enumerate(range(numbers.stop - 1, max(numbers.start, least) - 1, -1)):
            if tries > TRIES:
                raise Forgotten
            by = loop.moved * number
            found = self._last(first - by, end - by, inner, 0)
            if found is not None:
                return found[0] + loop.later * number, found[1] + loop.records * number
        return None


TRIES = 256
"""Rounds of an outer loop in which a use that repeats in an inner one is looked for."""


def _overlapping(first: int, end: int, low: int, high: int, loop: Further) -> range:
    """The rounds in which bytes from `low` to `high`, which move with them, meet a stretch."""
    moved, count = loop.moved, loop.times
    if not moved:
        return range(count + 1 if first < high and end > low else 0)
    if moved > 0:
        least, most = (first - high) // moved + 1, (end - low - 1) // moved
    else:
        least, most = (low - end) // -moved + 1, (high - first - 1) // -moved
    return range(max(least, 0), max(min(most, count), -1) + 1)


@dataclass(slots=True, eq=False)
class Far:
    """A buffer of global memory: by pipe and by whether it writes, the last use of each stretch.

    Most buffers are only read, or only written by one pipe. So uses are kept as they come (`fresh`)
    until somebody has to wait for them. `used` are the pipes (bits) for which a reader may have to
    wait (0), those that write, and for which a writer may have to (1), all."""

    spans: dict[tuple[int, bool], Spans] = field(default_factory=dict)
    used: list[int] = field(default_factory=lambda: [0, 0])
    fresh: list[tuple[int, int, int, Given, bool]] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)

    def set(self, saved: Far) -> None:
        """Take over the uses of another one."""
        self.spans = {key: spans.copy() for key, spans in saved.spans.items()}
        self.used = [a | b for a, b in zip(self.used, saved.used, strict=True)]
        self.fresh[:] = saved.fresh

    def copy(self) -> Far:
        """Return the same, apart."""
        made = Far()
        made.set(self)
        return made

    def use(self, pipe: int, *, writes: bool) -> None:
        """A pipe is going to read or write the buffer."""
        self.used[1] |= 1 << pipe
        if writes:
            self.used[0] |= 1 << pipe

    def mark(self, pipe: int, first: int, end: int, given: Given, writes: bool) -> None:
        """Let a pipe be the last that read or wrote the bytes."""
        self.fresh.append((pipe, first, end, given, writes))
        if len(self.fresh) >= FRESH:
            self.settle()

    def latest(self, placed: Placed, pipe: int, after: int, best: Given) -> Given:
        """Return the last use of the bytes by another pipe that is done later than a cycle, as far
        as a reader or a writer waits for it (`best` if there is none); one that is not placed in
        time counts as the last."""
        if self.fresh:
            self.settle()
        first, end, writes = placed.first, placed.end, placed.writes
        for (by, wrote), spans in self.spans.items():
            if by != pipe and (wrote or writes) and spans.latest > after and first < spans.ends[-1]:
                for event in spans.over(first, end):
                    if event[0] > after:
                        best = event
                        after = event[0]
        for series in self.series:
            if series.pipe != pipe and (series.writes or writes) and series.latest > after:
                last = series.last(first, end)
                if last is not None and last[0] > after:
                    best = last
                    after = last[0]
        return best

    def before(self, first: int, end: int, *, writes: bool) -> list[tuple[int, Given]]:
        """Return who used the bytes before so that a reader or a writer has to wait: pipe, time."""
        if self.fresh:
            self.settle()
        found = []
        for (pipe, wrote), spans in self.spans.items():
            if wrote or writes:
                found += [(pipe, given) for given in spans.over(first, end)]
        for series in self.series:
            if series.writes or writes:
                last = series.last(first, end)
                found += [(series.pipe, last)] if last is not None else []
        return found

    def is_own(self, pipe: int, first: int, end: int, *, writes: bool) -> bool:
        """True if the pipe itself ever used the bytes in a way that orders."""
        return any(by == pipe for by, _ in self.before(first, end, writes=writes))

    def everything(self) -> Iterator[Given]:
        """Yield the uses of any of the bytes."""
        for _, _, _, given, _ in self.fresh:
            yield given
        for spans in self.spans.values():
            yield from spans.items

    def settle(self) -> None:
        """Sort the uses that are kept as they came into stretches."""
        for pipe, first, end, given, writes in self.fresh:
            spans = self.spans.get((pipe, writes))
            if spans is None:
                spans = self.spans[pipe, writes] = Spans()
            spans.put(first, end, given)
        self.fresh.clear()
