"""Two tiles of different valid shape: `tpart*` combine where both are valid and copy where one is.

What neither source covers: the assembler's goldens hold the lowest finite value for max and the
highest for min (0 is taken for add and mul, which no golden covers). The A5 library instead takes,
for everything that is not covered by both, what the bigger source's memory holds there (source 1 if
source 0 has fewer valid rows or columns). The switch `tpart.uncovered` chooses; a warning says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, Kernel, kernel
from ptosim.ops.tile.elementwise import word
from ptosim.ops.tile.fill import pattern

Combine = Callable[[list[np.ndarray], list[np.ndarray]], Any]
"""Called with the sources' parts and the destinations' parts of a rectangle that both cover."""


@dataclass(frozen=True, slots=True)
class Part:
    """A rectangle of the destination, and which of the two sources cover it."""

    rows: slice
    cols: slice
    covered: tuple[bool, bool]


def parts(first: Tile, second: Tile, dst: Tile) -> Iterator[Part]:
    """Cut the destination's valid region along the borders of the sources' valid regions."""
    shapes = [(0, 0) if t.is_empty else (t.v_row, t.v_col) for t in (first, second)]
    whole = (dst.v_row, dst.v_col)
    cuts = [
        sorted({0, end, *(min(shape[axis], end) for shape in shapes)})
        for axis, end in enumerate(whole)
    ]
    for top, bottom in pairwise(cuts[0]):
        for left, right in pairwise(cuts[1]):
            one, two = (top < rows and left < cols for rows, cols in shapes)
            yield Part(slice(top, bottom), slice(left, right), (one, two))


@dataclass(frozen=True, slots=True)
class PartialForm:
    """The tiles of a partial operation: each role has one or more tiles (value, index)."""

    first: tuple[str, ...]
    second: tuple[str, ...]
    dst: tuple[str, ...]


def bind_partial(op: Binding, form: PartialForm, combine: Combine, pad_code: int) -> Commit:
    """Return the effect of a partial operation: one step for each rectangle."""
    first, second, dst = (op.tile(names[0]) for names in (form.first, form.second, form.dst))
    steps = []
    stale = _bigger(op, form, first, second)
    for part in parts(first, second, dst):
        targets = [_cut(op, n, part) for n in form.dst]
        if all(part.covered):
            sources = [_cut(op, n, part) for n in (*form.first, *form.second)]
            steps.append(partial(combine, sources, targets))
            continue
        names = stale or (form.first if part.covered[0] else form.second)
        if not any(part.covered):
            _warn(op, part)
        if stale is None and not any(part.covered):
            steps += [
                _filler(t, op.tile(n), pad_code) for t, n in zip(targets, form.dst, strict=True)
            ]
        else:
            sources = [_cut(op, n, part) for n in names]
            steps += [partial(np.copyto, t, s) for t, s in zip(targets, sources, strict=True)]
    return steps[0] if len(steps) == 1 else partial(_run, steps)


def _run(steps: list[Commit]) -> None:
    for step in steps:
        step()


def _bigger(op: Binding, form: PartialForm, first: Tile, second: Tile) -> tuple[str, ...] | None:
    """The source that the A5 library copies from; None if each source is copied where it is
    valid."""
    if op.switch("tpart.uncovered") == "pad" or first.is_empty or second.is_empty:
        return None
    smaller = first.v_row < second.v_row or first.v_col < second.v_col
    return form.second if smaller else form.first


def _cut(op: Binding, name: str, part: Part) -> np.ndarray:
    return op.region(name, part.rows.stop, part.cols.stop)[part.rows, part.cols]


def _filler(target: np.ndarray, tile: Tile, pad_code: int) -> Commit:
    bits = pattern(tile.type.dtype, pad_code, "finite")
    return partial(target.view(f"u{tile.dtype.itemsize}").fill, bits)


def _warn(op: Binding, part: Part) -> None:
    mode = op.switch("tpart.uncovered")
    op.report(
        "PTO7025",
        f"has destination elements that neither source covers, from row {part.rows.start}, "
        f"column {part.cols.start}",
        notes=(_UNCOVERED[mode], "switch `tpart.uncovered`"),
        help="make the valid shape of one source that of the destination",
    )


_UNCOVERED = {
    "pad": "they get the lowest (max) or highest (min) finite value, or 0, as in goldens",
    "stale": "they get what the bigger source's memory holds there, as the A5 library",
}


# -- values ----------------------------------------------------------------------------------------

_VALUES = PartialForm(("src0",), ("src1",), ("dst",))
_PAD_CODES = {"add": 1, "mul": 1, "max": 3, "min": 2}


def _arithmetic(name: str) -> Kernel:
    def bind(op: Binding) -> Commit:
        function = word(op, name, op.tile("dst").dtype)

        def combine(sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
            function(*sources, out=targets[0])

        return bind_partial(op, _VALUES, combine, _PAD_CODES[name])

    return bind


for _name in _PAD_CODES:
    kernel(f"pto.tpart{_name}", over="dst")(_arithmetic(_name))


# -- values with their indices ---------------------------------------------------------------------

_INDEXED = PartialForm(("src0", "idx0"), ("src1", "idx1"), ("dst", "dst_idx"))


def _argument(better: np.ufunc, pad_code: int, *, ties: int) -> Kernel:
    """The value and index of the better source, of equal ones those of source `ties`."""

    def combine(sources: list[np.ndarray], targets: list[np.ndarray]) -> None:
        value0, index0, value1, index1 = sources
        second = better(value1, value0) if ties == 0 else ~better(value0, value1)
        value = np.where(second, value1, value0)
        targets[1][...] = np.where(second, index1, index0)
        targets[0][...] = value

    return lambda op: bind_partial(op, _INDEXED, combine, pad_code)


# April's form gives source 0 what is equal, that of August source 1.
kernel("pto.tpartargmax", over="dst")(_argument(np.greater, 3, ties=0))
kernel("pto.tpartargmin", over="dst")(_argument(np.less, 2, ties=0))
kernel("pto.tpartargmax:pairs", over="dst")(_argument(np.greater, 3, ties=1))
kernel("pto.tpartargmin:pairs", over="dst")(_argument(np.less, 2, ties=1))
