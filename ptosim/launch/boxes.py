"""Parts of buffers as boxes along the dimensions of their views, and the lines in them."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np

from ptosim.ground.records import dataclass

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
