"""Bytes, and who used them last: cells where the same bytes are used again and again, stretches
where ever new ones are.

On a pipe results are complete in order, and whoever writes waits for everyone before. So of bytes
only the last writer counts and those who read since then, of each pipe the last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Any

HELD = 1 << 62
"""The time of an operation that is not placed in time yet; an event stands for its record."""

Given = tuple[int, Any]
"""When an operation is done, and its record; or HELD and the event that says it."""

NEVER: Given = (-1, -1)
NOBODY = -1

MOST = 1 << 16
"""Stretches of a memory that are kept apart."""


class Cell:
    """Bytes of a core that are always used together: the pipe that wrote them last and when, and
    those that read them since. `wrote` and `read` are the pipes (bits) that ever did."""

    __slots__ = ("by", "end", "first", "given", "past", "read", "readers", "wrote")

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end
        self.by = NOBODY
        self.given = NEVER
        self.readers: dict[int, Given] = {}
        self.wrote = 0
        self.read = 0
        self.past: list[tuple[int, Given, dict[int, Given]]] = []

    def copy(self, first: int, end: int) -> Cell:
        """Return a part of the cell, with what happened to it."""
        part = Cell(first, end)
        part.by, part.given, part.readers = self.by, self.given, self.readers.copy()
        part.wrote, part.read, part.past = self.wrote, self.read, list(self.past)
        return part

    def events(self) -> Iterable[tuple[int, Given]]:
        """Return who used the bytes last, as pipes with times."""
        return (*self.readers.items(), (self.by, self.given))


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


class Spans:
    """Stretches of a memory that do not overlap, each with an item; a new one replaces what it
    covers."""

    __slots__ = ("ends", "firsts", "items", "last")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ends: list[int] = []
        self.items: list[Any] = []
        self.last = 0  # where the last one was put

    def put(self, first: int, end: int, item: Any) -> None:
        """Set the item of a stretch."""
        at = self.last
        if at < len(self.firsts) and self.firsts[at] == first and self.ends[at] == end:
            self.items[at] = item
            return
        if not self.ends or first >= self.ends[-1]:
            self.last = len(self.ends)
            self.firsts.append(first)
            self.ends.append(end)
            self.items.append(item)
        else:
            self.last = self._replace(first, end, [(first, end, item)])
        if len(self.ends) > MOST:
            self._join()

    def clear(self, first: int, end: int) -> None:
        """Forget a stretch."""
        if self.ends and first < self.ends[-1]:
            self._replace(first, end, [])

    def over(self, first: int, end: int) -> list[Any]:
        """Return the items of everything that overlaps a stretch."""
        low = bisect_right(self.ends, first)
        return self.items[low : bisect_left(self.firsts, end, low)]

    def copy(self) -> Spans:
        """Return the same stretches; items are shared."""
        made = Spans()
        made.firsts, made.ends = list(self.firsts), list(self.ends)
        made.items, made.last = list(self.items), self.last
        return made

    def _replace(self, first: int, end: int, new: list[tuple[int, int, Any]]) -> int:
        """Put new stretches in the place of others; return where they are."""
        low = bisect_right(self.ends, first)
        high = bisect_left(self.firsts, end, low)
        before = after = 0
        if low < high:
            if self.firsts[low] < first:
                new = [(self.firsts[low], first, self.items[low]), *new]
                before = 1
            if self.ends[high - 1] > end:
                new = [*new, (end, self.ends[high - 1], self.items[high - 1])]
                after = 1
        self.firsts[low:high] = [n[0] for n in new]
        self.ends[low:high] = [n[1] for n in new]
        self.items[low:high] = [n[2] for n in new]
        return low + before if len(new) > before + after else 0

    def _join(self) -> None:
        """Join neighbours in pairs; the later of the two counts for both."""
        pairs = zip(self.items[::2], self.items[1::2], strict=False)
        odd = self.items[-1:] if len(self.items) % 2 else []
        self.items = [*(max(pair, key=_when) for pair in pairs), *odd]
        self.ends = [*self.ends[1::2], *(self.ends[-1:] if odd else [])]
        self.firsts = self.firsts[::2]
        self.last = 0


def _when(item: Any) -> int:
    """The time of an item: of a reader, or of a writer with its pipe."""
    if item is True:
        return 0
    return item[1][0] if isinstance(item[1], tuple) else item[0]


class Far:
    """A buffer of global memory: the last writer of its bytes, and by pipe the readers since then.
    `wrote` are the pipes (bits) that ever wrote it; `used` the bytes that the pipes of `draining`
    ever read (False) and wrote (True)."""

    __slots__ = ("draining", "readers", "used", "writers", "wrote")

    def __init__(self, draining: frozenset[int]) -> None:
        self.draining = draining
        self.writers = Spans()
        self.wrote = 0
        self.readers: dict[int, Spans] = {}
        self.used: dict[tuple[int, bool], Spans] = {}

    def copy(self) -> Far:
        """Return the same, apart."""
        made = Far(self.draining)
        made.writers, made.wrote = self.writers.copy(), self.wrote
        made.readers = {pipe: spans.copy() for pipe, spans in self.readers.items()}
        made.used = {key: spans.copy() for key, spans in self.used.items()}
        return made

    def events(self, first: int, end: int, *, writes: bool) -> Iterable[tuple[int, Given]]:
        """Yield who used the bytes before so that a reader or a writer has to wait: pipe, time."""
        if self.writers.ends:
            yield from self.writers.over(first, end)
        if writes:
            for pipe, spans in self.readers.items():
                for given in spans.over(first, end):
                    yield pipe, given

    def everything(self) -> Iterable[tuple[int, Given]]:
        """Yield who used any of the bytes."""
        yield from self.writers.items
        for pipe, spans in self.readers.items():
            for given in spans.items:
                yield pipe, given

    def is_own(self, pipe: int, first: int, end: int, *, writes: bool) -> bool:
        """True if the pipe itself ever used the bytes in a way that orders."""
        kinds = (True, False) if writes else (True,)
        used = [self.used.get((pipe, kind)) for kind in kinds]
        return any(spans is not None and spans.over(first, end) for spans in used)

    def mark(self, pipe: int, first: int, end: int, given: Given, *, writes: bool) -> None:
        """Let a pipe be the last that read or wrote the bytes."""
        if writes:
            self.writers.put(first, end, (pipe, given))
            self.wrote |= 1 << pipe
            for spans in self.readers.values():
                spans.clear(first, end)
        else:
            spans = self.readers.get(pipe)
            if spans is None:
                spans = self.readers[pipe] = Spans()
            spans.put(first, end, given)
        if pipe in self.draining:
            self.used.setdefault((pipe, writes), Spans()).put(first, end, True)


def stretched(memory: Cells, draining: frozenset[int]) -> Far:
    """Return the same memory as stretches."""
    far = Far(draining)
    for cell in memory.cells:
        if cell.by != NOBODY:
            far.mark(cell.by, cell.first, cell.end, cell.given, writes=True)
        for pipe, given in cell.readers.items():
            far.mark(pipe, cell.first, cell.end, given, writes=False)
        for pipe in draining:
            for writes, bits in ((True, cell.wrote), (False, cell.read)):
                if bits >> pipe & 1:
                    used = far.used.setdefault((pipe, writes), Spans())
                    used.put(cell.first, cell.end, True)
    return far
