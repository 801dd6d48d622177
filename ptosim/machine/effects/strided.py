"""Which bytes an operand touches, as sets of equally long runs at regular distances, and what
operations on pointers tell about the bytes they reach, for whoever watches a run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.core import Core
from ptosim.machine.gm import ViewSpec
from ptosim.machine.tile import Tile, TileRef
from ptosim.machine.values import Memory

Level = tuple[int, int]
"""How often, and by how many bytes from start to start."""


class Touch(NamedTuple):
    """Runs of `run` bytes from `start` on, repeated at each of `levels`, in a space of a core (by
    name) or a buffer of global memory (by number). Levels may overlap and go backwards."""

    operand: str
    core: Core
    where: Memory
    start: int
    run: int
    levels: tuple[Level, ...] = ()

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and the one after the last."""
        reaches = [(count - 1) * distance for count, distance in self.levels]
        low = self.start + sum(r for r in reaches if r < 0)
        return low, self.start + sum(r for r in reaches if r > 0) + self.run


class Touches:
    """The bytes that one execution reads and writes.

    `tails` are written too, with bytes that mean nothing. `found` are read as they are: what has no
    value there has none at the destination either, and only whoever computes with it is wrong.
    Their destinations are beside them, with the number of bytes that each unit of the source
    becomes, (source bytes, destination bytes). `combines`: what is written is combined with what is
    there, in any order."""

    __slots__ = ("combines", "found", "reads", "tails", "writes")

    def __init__(self) -> None:
        self.combines = False
        self.reads: list[Touch] = []
        self.writes: list[Touch] = []
        self.tails: list[Touch] = []
        self.found: list[tuple[Touch, Touch, tuple[int, int]]] = []


MAX_RUNS = 4096
"""Windows that overlap themselves are listed run by run up to this many runs."""


@dataclass(frozen=True, slots=True)
class Strided:
    """Runs of `run` bytes from `start` on; `dims` are (count, distance in bytes), the widest
    distance first. No two runs overlap."""

    start: int
    run: int
    dims: tuple[tuple[int, int], ...] = ()

    @property
    def end(self) -> int:
        """One past the last byte."""
        end = self.start + self.run
        for count, distance in self.dims:
            end += (count - 1) * distance
        return end

    @property
    def bytes(self) -> int:
        """Bytes in all runs together."""
        return self.run * math.prod(n for n, _ in self.dims)

    def granule(self, unit: int) -> int:
        """Return the largest divisor of `unit`, a power of two, that all borders of runs are
        multiples of."""
        borders = self.start | self.run
        for _, distance in self.dims:
            borders |= distance
        return min(unit, borders & -borders or unit)


class Beyond(NamedTuple):
    """Bytes of an operand's space that one execution writes beside the valid regions of its
    results: with a value, or `spoiled`, without a meaningful one."""

    operand: str
    space: str
    part: Strided
    spoiled: bool = False


class Window(NamedTuple):
    """Rows and columns of a tile, from a row and column on."""

    row: int
    col: int
    rows: int
    cols: int


def tile_bytes(ref: TileRef, rows: int, cols: int) -> tuple[Strided, ...]:
    """Return the bytes of the first rows and columns of a tile, in its layout."""
    if rows <= 0 or cols <= 0:
        return ()
    layout = ref.layout
    s0, s1, s2, s3 = layout.strides
    bits = ref.type.dtype.bits
    cuts = itertools.product(_cuts(rows, layout.box_rows), _cuts(cols, layout.box_cols))
    return tuple(
        strided(
            ref.addr,
            layout.offset(row, col),
            ((row_boxes, s0), (row_count, s1), (col_boxes, s2), (col_count, s3)),
            bits,
        )
        for (row, row_boxes, row_count), (col, col_boxes, col_count) in cuts
    )


def _cuts(size: int, box: int) -> list[tuple[int, int, int]]:
    """Whole boxes, then the rest: (first element, boxes, elements in each box)."""
    if box == 1:
        return [(0, size, 1)]
    whole, rest = divmod(size, box)
    cuts = [(0, whole, box)] if whole else []
    return [*cuts, (whole * box, 1, rest)] if rest else cuts


Piece = tuple[int, list[Level]]
"""The first row (or column), and how often and how many rows apart others follow."""


def pieces(size: int, steps: list[int]) -> Iterator[Piece]:
    """Cut rows (or columns) into whole boxes, the rest into smaller ones: `steps` are the heights
    of boxes, each a multiple of the next, the last 1."""
    at = 0
    for number, step in enumerate(steps):
        count = (size - at) // step
        if count:
            inner = itertools.pairwise(steps[number:])
            yield at, [(count, step), *((high // low, low) for high, low in inner)]
        at += count * step


def elements_of(
    tile: Tile, at: tuple[int, int], rows: Piece, cols: Piece
) -> tuple[int, int, tuple[Level, ...]]:
    """Return a piece of a window that begins at row and column `at` as what `Touch` takes: the
    first byte, the bytes of an element, how often and how far apart."""
    layout, size = tile.layout, tile.dtype.itemsize
    down = [(n, layout.offset(step, 0) * size) for n, step in rows[1]]
    across = [(n, layout.offset(0, step) * size) for n, step in cols[1]]
    start = tile.addr + layout.offset(at[0] + rows[0], at[1] + cols[0]) * size
    return start, size, (*down, *across)


def view_bytes(spec: ViewSpec, offset: int) -> tuple[Strided, ...]:
    """Return the bytes of a window of global memory that begins at element `offset`."""
    if 0 in spec.sizes:
        return ()
    dims = []
    for count, stride in zip(spec.sizes, spec.strides, strict=True):
        if count > 1 and stride < 0:
            offset += (count - 1) * stride
        if count > 1 and stride:
            dims.append((count, abs(stride)))
    return _inside(strided(0, offset, dims, spec.dtype.bits), BEYOND)


def strided(
    base: int, offset: int, dims: tuple[tuple[int, int], ...] | list[tuple[int, int]], bits: int
) -> Strided:
    """Return a set of elements as bytes: `base` in bytes, offset and distances in elements."""
    run = 1
    outer: list[tuple[int, int]] = []
    for count, distance in sorted((d for d in dims if d[0] > 1), key=lambda d: d[1]):
        if not outer and distance == run:
            run *= count
        elif outer and distance == outer[-1][0] * outer[-1][1]:
            outer[-1] = (outer[-1][0] * count, outer[-1][1])
        else:
            outer.append((count, distance))
    return Strided(
        base + offset * bits // 8,
        -(-run * bits // 8),
        tuple((n, d * bits // 8) for n, d in reversed(outer)),
    )


def touched_bytes(touch: Touch, limit: int) -> tuple[Strided, ...]:
    """Return the bytes that a pointer reaches, without those outside [0, limit)."""
    start, run, dims = touch.start, touch.run, []
    for count, distance in sorted(touch.levels, key=lambda level: abs(level[1])):
        if distance < 0:
            start += (count - 1) * distance
        if abs(distance) == run and not dims:
            run *= count
        elif distance:
            dims.append((count, abs(distance)))
    return _inside(Strided(start, run, tuple(reversed(dims))), limit)


BEYOND = 1 << 60
"""Bytes that no memory has. A scatter takes its table without the distances of the view's rows,
which may be any."""


def _inside(whole: Strided, limit: int) -> tuple[Strided, ...]:
    """The bytes of a set in [0, limit)."""
    parts = _separated(whole)
    if whole.start >= 0 and whole.end <= limit:
        return parts
    return tuple(piece for part in parts for piece in _clipped(part, limit))


def _clipped(part: Strided, limit: int) -> tuple[Strided, ...]:
    """The runs of a set that are inside; of too many runs what is around them."""
    starts = [part.start]
    if math.prod(n for n, _ in part.dims) > MAX_RUNS:
        part = Strided(part.start, part.end - part.start)
    for count, distance in part.dims:
        starts = [s + i * distance for s in starts for i in range(count)]
    pieces = ((max(s, 0), min(s + part.run, limit)) for s in starts)
    return tuple(Strided(low, high - low) for low, high in pieces if low < high)


def runs_of(starts: np.ndarray, run: int) -> tuple[Strided, ...]:
    """Return equal runs at different places, sorted, as sets: one if they are evenly spaced."""
    count = len(starts)
    first = int(starts[0])
    if count == 1:
        return (Strided(first, run),)
    step = int(starts[1]) - first
    if step >= run and (np.diff(starts) == step).all():
        if step == run:
            return (Strided(first, run * count),)
        return (Strided(first, run, ((count, step),)),)
    parts = _merged(starts.tolist(), run)
    if len(parts) <= MAX_RUNS:
        return parts
    return (Strided(first, int(starts[-1]) + run - first),)


def _separated(found: Strided) -> tuple[Strided, ...]:
    """Runs that overlap each other become a list of different runs (or one run around them)."""
    reach = found.run
    for count, distance in reversed(found.dims):
        if distance < reach:
            break
        reach += (count - 1) * distance
    else:
        return (found,)
    if math.prod(n for n, _ in found.dims) > MAX_RUNS:
        return (Strided(found.start, found.end - found.start),)
    starts = [0]
    for count, distance in found.dims:
        starts = [s + i * distance for s in starts for i in range(count)]
    return _merged(sorted({found.start + s for s in starts}), found.run)


def _merged(starts: list[int], run: int) -> tuple[Strided, ...]:
    merged: list[list[int]] = []
    for start in starts:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = start + run
        else:
            merged.append([start, start + run])
    return tuple(Strided(a, b - a) for a, b in merged)
