"""Parts of buffers as boxes along the dimensions of their views, and the lines that windows touch
which leave holes between them.

Windows that fill the box around them touch that box. Others are listed, by the numbers of blocks
and rounds that they hang on: a loop that only repeats them adds nothing. Of more than `MOST`
windows those of the first rounds are listed, and of more rows than that the first ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple, dataclass, replace
from ptosim.language.same_blocks import loops_around
from ptosim.language.toolchains import BLOCK
from ptosim.launch.intervals import Numbers, Range, is_one

MOST = 1 << 16
"""Windows of an operation, and rows of windows of a buffer, that are listed."""
_FAR = 1 << 60
"""Bytes beyond which no window is listed: numbers are whole ones of 64 bits."""


MOST_BOXES = 48
"""Boxes of a buffer whose overlaps are counted exactly."""
MOST_ROWS = 1 << 12
"""Rows of a box that are listed where they are apart along several dimensions."""


@dataclass(frozen=True, slots=True)
class Box:
    """A part of a buffer: first and end along each dimension of its view (arrays where it is one
    for each block and round), the bytes of an index of each, and how many of them a window has."""

    buffer: Any
    first: tuple[Any, ...]
    end: tuple[Any, ...]
    strides: tuple[int, ...]
    item: float
    window: tuple[Any, ...] = ()

    def bytes(self, granule: int) -> Any:
        """Return the bytes of whole lines in it; of an array without where its rows begin."""
        sizes = [e - f for f, e in zip(self.first, self.end, strict=True)]
        order = sorted(range(len(sizes)), key=lambda d: self.strides[d], reverse=True)
        run, outer = self.item, order
        while outer and self.strides[outer[-1]] * self.item <= np.max(run) + self.item / 2:
            run = run * sizes[outer[-1]]
            outer = outer[:-1]
        if np.ndim(run) == 0 and all(np.ndim(x) == 0 for x in (*self.first, *sizes)):
            begin = self.buffer[1] + sum(
                f * s for f, s in zip(self.first, self.strides, strict=True)
            )
            return self._lines(begin * self.item, run, outer, granule)
        lines = -(-run // granule) * granule
        if outer:  # rows that are apart do not share lines, unless they are shorter
            apart = max(self.strides[outer[-1]] * self.item, self.item)
            lines = np.minimum(lines, max(apart, self.item))
            lines = np.maximum(lines, run)
        return lines * prod((sizes[d] for d in outer), start=1)

    def _lines(self, begin: float, run: float, outer: list[int], granule: int) -> float:
        """Bytes of the lines that rows of `run` bytes touch which are apart along the dimensions
        `outer`: no more than those from the first to the last. Planes whose rows go on from one to
        the next are one; few rows of others are listed."""
        sizes = [int(e - f) for f, e in zip(self.first, self.end, strict=True)]
        if not outer:
            return _lines(begin, run, 0, 1, granule)
        *outer, last = outer
        apart, rows = self.strides[last], sizes[last]
        while outer and self.strides[outer[-1]] == apart * rows:
            rows *= sizes[outer.pop()]
        each = _lines(begin, run, apart * self.item, rows, granule)
        planes = prod(sizes[d] for d in outer)
        if not outer or each <= 0 or planes <= 0:
            return each * planes
        if planes * rows <= MOST_ROWS:
            return _listed(begin, run, [(self.strides[d] * self.item, sizes[d]) for d in outer]
                           + [(apart * self.item, rows)], granule)  # fmt: skip
        reach = sum(self.strides[d] * (sizes[d] - 1) for d in (*outer, last)) * self.item + run
        return min(each * planes, _lines(begin, reach, 0, 1, granule))


def _listed(begin: float, run: float, outer: list[tuple[float, int]], granule: int) -> float:
    """Bytes of the lines that rows touch, one by one: how far apart they are and how many, by
    dimension."""
    starts = np.full(1, begin)
    for apart, rows in outer:
        starts = (starts[:, None] + apart * np.arange(rows)).ravel()
    starts.sort()
    first, ends = starts // granule, -(-(starts + run) // granule)
    fresh = ends[1:] - np.maximum(first[1:], ends[:-1])
    return float((ends[0] - first[0] + np.maximum(fresh, 0).sum()) * granule)


def _lines(begin: float, run: float, apart: float, rows: int, granule: int) -> float:
    """Bytes of the lines that rows of `run` bytes touch which are `apart` from each other: after as
    many as bring the begin of a row to the same place in a line, they do as before."""
    if run <= 0 or rows <= 0:
        return 0.0
    step = int(apart * 2)  # half bytes: of elements of four bits, too
    period = min(2 * granule // gcd(step, 2 * granule), rows) if step else 1
    starts = begin + apart * np.arange(min(period + 1, rows))
    ends = -(-(starts + run) // granule)
    fresh = ends[1:] - np.maximum(starts[1:] // granule, ends[:-1])
    fresh = np.maximum(np.concatenate(([ends[0] - starts[0] // granule], fresh)), 0)
    if rows <= period + 1:
        return float(fresh.sum() * granule)
    whole, rest = divmod(rows - 1, period)
    return float((fresh[0] + fresh[1:].sum() * whole + fresh[1 : rest + 1].sum()) * granule)


def line_share(box: Box, granule: int) -> float:
    """How many times its bytes the lines of a window of a box are."""
    if box.window:
        first = tuple(np.min(f) for f in box.first)
        size = [np.max(w) for w in box.window]
        end = tuple(f + n for f, n in zip(first, size, strict=True))
        box = Box(box.buffer, first, end, box.strides, box.item)
    plain = box.item * prod(e - f for f, e in zip(box.first, box.end, strict=True))
    return float(box.bytes(granule) / plain) if plain else 1.0


def union_of(boxes: list[Box], granule: int) -> float:
    """Bytes of all lines in some boxes of one buffer."""
    distinct = list(dict.fromkeys((b.first, b.end) for b in boxes))
    one = boxes[0]
    if len(distinct) > MOST_BOXES:
        first = tuple(min(d) for d in zip(*(f for f, _ in distinct), strict=True))
        end = tuple(max(d) for d in zip(*(e for _, e in distinct), strict=True))
        return float(Box(one.buffer, first, end, one.strides, one.item).bytes(granule))
    parts: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = []
    for box in distinct:
        fresh = [box]
        for old in parts:
            fresh = [piece for each in fresh for piece in _without(each, old)]
        parts += fresh
    whole = Box(one.buffer, *_hull(distinct), one.strides, one.item)
    total = sum(Box(one.buffer, f, e, one.strides, one.item).bytes(granule) for f, e in parts)
    return float(min(total, whole.bytes(granule)))


def _hull(boxes: list[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    first = tuple(min(d) for d in zip(*(f for f, _ in boxes), strict=True))
    return first, tuple(max(d) for d in zip(*(e for _, e in boxes), strict=True))


def _without(box: Any, other: Any) -> list[Any]:
    """The parts of a box that are not in another one."""
    first, end = box
    low, high = other
    if any(e <= a or b <= f for f, e, a, b in zip(first, end, low, high, strict=True)):
        return [box]
    found = []
    first, end = list(first), list(end)
    for d in range(len(first)):
        if first[d] < low[d]:
            found.append((tuple(first), (*end[:d], low[d], *end[d + 1 :])))
            first[d] = low[d]
        if end[d] > high[d]:
            found.append(((*first[:d], high[d], *first[d + 1 :]), tuple(end)))
            end[d] = high[d]
    return found


class Runs(NamedTuple):
    """Lines of a buffer, as the numbers of the first and of the one after the last of each run, and
    how often a run is moved at most. `is_whole` says that they are all lines of some windows, not a
    part."""

    first: Any
    end: Any
    times: Any
    is_whole: bool = True

    def lines(self) -> int:
        """Return how many different lines they are."""
        if not len(self.first):
            return 0
        order = np.argsort(self.first, kind="stable")
        first, end = self.first[order], np.maximum.accumulate(self.end[order])
        fresh = end - np.maximum(first, np.concatenate((first[:1], end[:-1])))
        return int(np.maximum(fresh, 0).sum())

    def most(self) -> int:
        """Return how often one line is moved at most."""
        at = np.concatenate((self.first, self.end))
        begins = np.repeat((1, 0), len(self.first))
        change = np.concatenate((self.times, -self.times))[np.lexsort((begins, at))]
        return int(np.cumsum(change).max(initial=1))


def joined(runs: Iterable[Runs]) -> Runs:
    """Return the lines of several operations."""
    each = list(runs)
    if not each:
        none = np.zeros(0, np.int64)
        return Runs(none, none, none)
    first, end, times = (np.concatenate(side) for side in list(zip(*each, strict=True))[:3])
    return Runs(first, end, times, all(r.is_whole for r in each))


class Part(NamedTuple):
    """Dimensions of a view that hang on the same numbers, and the different places of windows along
    them, as arrays: where each begins in each dimension, then where it ends."""

    dims: tuple[int, ...]
    places: tuple[Any, ...]

    def sides(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the firsts and the ends, by dimension."""
        return self.places[: len(self.dims)], self.places[len(self.dims) :]

    def closed(self) -> Part:
        """Return the same places with those in one that touch, along one dimension."""
        if len(self.dims) > 1:
            return self
        order = np.argsort(self.places[0], kind="stable")
        low, high = self.places[0][order], np.maximum.accumulate(self.places[1][order])
        opens = np.concatenate(([True], low[1:] > high[:-1]))
        closes = np.concatenate((opens[1:], [True]))
        return Part(self.dims, (low[opens], high[closes]))

    def fills(self) -> bool:
        """True if windows leave no hole in the box around them: along no dimension, and every place
        of one goes with every place of the others."""
        count = 1
        for low, high in zip(*self.sides(), strict=True):
            order = np.argsort(low, kind="stable")
            low, high = low[order], np.maximum.accumulate(high[order])
            if np.any(low[1:] > high[:-1]):
                return False
            count *= 1 + int(np.count_nonzero(np.diff(low)))
        return count == len(self.places[0])


class Placed(NamedTuple):
    """The windows of an operation, or of several that go through the same places but along one
    part: each place of a part goes with each of the others. `is_whole`: these are all, or if
    they are not, `tells`: holes between the others would be between these, too. `is_certain`: no
    condition decides whether they are moved; `times`: how often the same one is, at most."""

    box: Box
    parts: tuple[Part, ...]
    is_whole: bool
    tells: bool
    is_certain: bool
    times: int

    def fills(self) -> bool:
        """True if windows leave no hole in the box around them."""
        known = self._reach() if self.is_whole else self.tells
        return known and all(part.fills() for part in self.parts)

    def _reach(self) -> bool:
        """True if the windows that are listed reach the ends of the box."""
        return all(
            low.min() <= self.box.first[d] and high.max() >= self.box.end[d]
            for part in self.parts
            for d, low, high in zip(part.dims, *part.sides(), strict=True)
        )

    def row_bytes(self) -> float:
        """Return the bytes of the longest row of a window without a hole."""
        sizes = [0] * len(self.box.first)
        for part in self.parts:
            for d, low, high in zip(part.dims, *part.sides(), strict=True):
                sizes[d] = max(int((high - low).max()), 1)
        return _rows(sizes, self.box.strides)[0] * self.box.item

    def runs(self, granule: int) -> Runs:
        """Return the lines of so many bytes that they touch."""
        view, rank, left, is_whole = self.box, len(self.box.first), MOST, self.is_whole
        places: list[Any] = [None] * (2 * rank)
        for nth, part in enumerate(sorted(self.parts, key=lambda part: len(part.places[0]))):
            shape = [1] * len(self.parts)
            shape[nth] = min(len(part.places[0]), left)
            is_whole = is_whole and len(part.places[0]) <= left
            for d, at in zip(
                (*part.dims, *(d + rank for d in part.dims)), part.places, strict=True
            ):
                places[d] = at[: shape[nth]].reshape(shape)
            left = max(left // shape[nth], 1)
        whole = np.broadcast_arrays(*places)
        first, end = (np.stack([x.ravel() for x in side]) for side in (whole[:rank], whole[rank:]))
        begins = view.buffer[1] + sum(f * s for f, s in zip(first, view.strides, strict=True))
        found = joined(_runs(begins, end - first, view, granule))
        times = np.full(len(found.first), self.times)
        return found._replace(times=times, is_whole=is_whole and found.is_whole)


def merged(places: Iterable[Placed]) -> list[Placed]:
    """Return the windows with those of several operations in one where they differ along one part:
    rounds of a loop that was unrolled."""
    found: list[Placed] = []
    for one in places:
        place = one._replace(parts=tuple(part.closed() for part in one.parts))
        for nth, other in enumerate(found):
            both = _merge(other, place)
            if both is not None:
                found[nth] = both
                break
        else:
            found.append(place)
    return found


def _merge(a: Placed, b: Placed) -> Placed | None:
    if [part.dims for part in a.parts] != [part.dims for part in b.parts]:
        return None
    differ = [
        nth for nth, (x, y) in enumerate(zip(a.parts, b.parts, strict=True))
        if not all(map(np.array_equal, x.places, y.places))
    ]  # fmt: skip
    if len(differ) > 1:
        return None
    parts = list(a.parts)
    for nth in differ:
        pairs = zip(parts[nth].places, b.parts[nth].places, strict=True)
        places = [np.concatenate(pair) for pair in pairs]
        parts[nth] = _different(Part(parts[nth].dims, tuple(places)), a.box.strides)[0].closed()
    first, end = (tuple(map(min, a.box.first, b.box.first)), tuple(map(max, a.box.end, b.box.end)))
    return Placed(
        replace(a.box, first=first, end=end), tuple(parts), a.is_whole and b.is_whole,
        a.tells and b.tells, a.is_certain and b.is_certain, a.times + b.times,
    )  # fmt: skip


def _different(part: Part, strides: Sequence[int]) -> tuple[Part, int]:
    """The part with each place once, and how often one was there at most."""
    every = list(zip(*part.sides(), part.dims, strict=True))
    begins = sum((low * strides[d] for low, _, d in every), np.int64(0))
    if any(np.ptp(high - low) for low, high, _ in every):
        begins = np.stack([x for low, high, _ in every for x in (low, high)])
    axis = begins.ndim - 1
    _, which, counts = np.unique(begins, axis=axis, return_index=True, return_counts=True)
    times, places = int(counts.max()), [at[which] for at in part.places]
    return Part(part.dims, tuple(places)), times


def _runs(begins: Any, sizes: Any, view: Box, granule: int) -> Iterator[Runs]:
    """The lines of windows that begin at some elements, by their sizes."""
    left = MOST
    for form in np.unique(sizes, axis=1).T:
        if not form.all():
            continue
        of_form = np.unique(begins[(sizes == form[:, None]).all(axis=0)])
        run, rows, count = _rows(form.tolist(), view.strides)
        of_rows = (of_form[: max(left // len(rows), 1), None] + rows).ravel()[:left]
        left -= len(of_rows)
        starts = of_rows * view.item
        ends = -np.floor_divide(-(starts + run * view.item), granule)
        first, end = (x.astype(np.int64) for x in (np.floor_divide(starts, granule), ends))
        yield Runs(first, end, np.ones_like(first), len(of_rows) == len(of_form) * count)


def _rows(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, Any, int]:
    """Elements of a row of a window without a hole, where the first rows begin, and how many there
    are."""
    order = sorted(range(len(sizes)), key=lambda d: strides[d], reverse=True)
    run = 1
    while order and strides[order[-1]] <= run:
        d = order.pop()
        run += (sizes[d] - 1) * strides[d]
    rows = np.zeros(1, dtype=np.int64)
    for d in order:
        steps = np.arange(min(sizes[d], MOST), dtype=np.int64) * strides[d]
        rows = (rows[:, None] + steps).ravel()[:MOST]
    return run, rows, prod(sizes[d] for d in order)


def placed(
    numbers: Numbers, op: Operation, window: Value, blocks: int, box_of: Callable[[], Box | None]
) -> Placed | None:
    """Return the windows of an operation; `box_of` is asked for their box with the numbers as they
    are pinned. None where data decide where they are."""
    numbers.pin({})
    whole, loops = box_of(), loops_around(op)[::-1]
    if whole is None or _far(whole):
        return None
    if not all(loop.has("counted") and loop.regions[0].blocks[0].values for loop in loops):
        return None
    is_whole, tells, times, parts, used = True, True, 1, [], frozenset[Any]()
    for keys, dims in _parts(numbers, window, loops, len(whole.first)):
        found = _rounds(numbers, loops, keys, blocks)
        if found is None:
            return None
        numbers.pin(found[0])
        operands = [numbers.operand(o) for d in dims for o in _operands(window, d)]
        box = box_of() if all(r is not None and is_one(r) for r in operands) else None
        numbers.pin({})
        if box is None or not _within(box, whole, dims):
            return None
        size = max([len(at[0]) for at in found[0].values()], default=1) if keys else 1
        if not size or any(not len(at[0]) for at in found[0].values()):
            return None
        places = tuple(
            np.broadcast_to(np.asarray(side[d], dtype=np.int64), (size,))
            for side in (box.first, box.end) for d in dims
        )  # fmt: skip
        part, often = _different(Part(dims, places), whole.strides)
        parts.append(part)
        is_whole, tells = is_whole and found[1], tells and found[2]
        times, used = times * often, used | keys
    times *= _repeated(numbers, loops, used, blocks)
    return Placed(whole, tuple(parts), is_whole, tells, _is_certain(op), times)


def _parts(
    numbers: Numbers, window: Value, loops: Sequence[Operation], rank: int
) -> list[tuple[frozenset[Any], tuple[int, ...]]]:
    """Dimensions of a window that hang on the same blocks and rounds, with these. What decides
    whether there are rounds at all decides all of them."""
    always = [
        numbers.hangs_on(loop.bound.get(n)) for loop in loops for n in ("lower", "upper", "step")
    ]
    keys_of = [
        frozenset[Any]().union(*map(numbers.hangs_on, _operands(window, d))) for d in range(rank)
    ]
    used = frozenset[Any]().union(*keys_of)
    found: list[tuple[frozenset[Any], tuple[int, ...]]] = []
    for d, keys in enumerate(keys_of):
        dims: tuple[int, ...] = (d,)
        for other in [each for each in found if each[0] & keys]:
            found.remove(other)
            keys, dims = keys | other[0], (*other[1], *dims)
        found.append((keys, dims))
    deciding = frozenset[Any]().union(*always) - used
    if deciding and found:
        keys = deciding.union(*(keys for keys, _ in found))
        found = [(keys, tuple(d for _, dims in found for d in dims))]
    return found


def _operands(window: Value, d: int) -> Iterable[Any]:
    """Yield the operands that say where a window is along a dimension, down to its view."""
    op = window.owner
    while op is not None and (op.has("window") or op.has("view")):
        for name in ("offsets", "sizes", "shape", "strides"):
            yield from (op.bound.get(name) or ())[d : d + 1]
        source = op.bound["source"].value if op.has("window") else None
        op = source.owner if source is not None else None


def _repeated(
    numbers: Numbers, loops: Sequence[Operation], keys: frozenset[Any], blocks: int
) -> int:
    """How often at most an operation is executed with the same blocks and rounds."""
    counters = [(loop.regions[0].blocks[0].values[0], loop) for loop in loops]
    others = [_most_rounds(numbers, loop) for counter, loop in counters if counter not in keys]
    return prod(others, start=1 if BLOCK in keys else blocks)


def _far(box: Box) -> bool:
    ends = zip((*box.first, *box.end), box.strides * 2, strict=True)
    return any(abs(int(x)) * max(int(by), 1) > _FAR for x, by in ends)


def _within(box: Box, whole: Box, dims: Sequence[int]) -> bool:
    """True if windows are in the box around them: no number was too large on the way."""
    return all(
        np.all(whole.first[d] <= box.first[d]) and np.all(box.end[d] <= whole.end[d]) for d in dims
    )


def _is_certain(op: Operation) -> bool:
    """True if no condition decides whether an operation is executed."""
    outer = op.parent
    while outer is not None and not outer.has("function"):
        if not outer.has("counted") and not outer.has("section"):
            return False
        outer = outer.parent
    return True


def _rounds(
    numbers: Numbers, loops: Sequence[Operation], keys: frozenset[Any], blocks: int
) -> tuple[dict[Any, Range], bool, bool] | None:
    """Blocks and counters of loops, a number for each of their rounds; whether these are all, and
    whether there are two of each loop at least that goes round more often. None if data decide how
    often loops do."""
    found: dict[Any, Any] = {BLOCK: np.arange(min(blocks, MOST))} if BLOCK in keys else {}
    is_whole, tells = blocks <= MOST or BLOCK not in keys, True
    counters = [loop.regions[0].blocks[0].values[0] for loop in loops]
    inner = [_most_rounds(numbers, loop) if counter in keys else 1
             for loop, counter in zip(loops, counters, strict=True)]  # fmt: skip
    for nth, (counter, loop) in enumerate(zip(counters, loops, strict=True)):
        bounds = [loop.bound.get(n) for n in ("lower", "upper", "step")]
        if counter not in keys and any(numbers.hangs_on(o) - keys for o in bounds):
            continue  # rounds of another part
        numbers.pin({key: (at, at) for key, at in found.items()})
        ranges = [r for r in map(numbers.operand, bounds) if r is not None and is_one(r)]
        if len(ranges) < 3 or np.any(ranges[2][0] <= 0):
            return None
        first, last, by = (r[0] for r in ranges)
        size = len(next(iter(found.values()))) if found else 1
        counts = np.broadcast_to(np.clip(-(-(last - first) // by), 0, _FAR), (size,))
        if counter not in keys:
            found = {key: at[counts > 0] for key, at in found.items()}
            continue
        most = max(MOST // max(size * prod(inner[nth + 1 :]), 1), 1)
        rounds = counts.max(initial=0)
        is_whole, tells = (
            is_whole and bool(rounds <= most),
            tells and bool(rounds <= most or most > 1),
        )
        counts = np.minimum(counts, most).astype(np.int64)
        place = np.repeat(np.arange(size), counts)
        of_place = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        begin, step = (np.broadcast_to(x, (size,))[place] for x in (first, by))
        found = {key: at[place] for key, at in found.items()}
        found[counter] = begin + of_place * step
    return {key: (at, at) for key, at in found.items()}, is_whole, tells


def _most_rounds(numbers: Numbers, loop: Operation) -> int:
    """The most rounds of a loop; 1 where they are not known."""
    numbers.pin({})
    bounds = (numbers.operand(loop.bound.get(n)) for n in ("lower", "upper", "step"))
    ranges = [r for r in bounds if r is not None]
    if len(ranges) < 3 or ranges[2][0] <= 0:
        return 1
    return max(int(-(-(ranges[1][1] - ranges[0][0]) // ranges[2][0])), 1)
