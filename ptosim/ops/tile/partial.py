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
from ptosim.machine.numbers.integers import float_to_int
from ptosim.machine.numbers.transcendental import floor_modulo
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, Kernel, kernel
from ptosim.ops.tile.elementwise import Function, divide, elementwise, stored, word
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


# Division by a scalar, and floor modulo: where A2/A3 have no integer divider.
#
# A2/A3 convert integers to floats in place, compute, and convert back: i32 goes through f32 and i16
# through f16, so operands beyond 2^24 (2^11) are rounded first. `tdivs` leaves the float image in
# its source, `trem` converts its sources back. `tdivs` of floats fills the destination with the
# scalar and divides; where source and destination share their storage that is impossible and the
# library multiplies by the rounded reciprocal instead. A5 divides integers and floats as they are.

_IMAGES = {np.dtype(np.int32): np.float32, np.dtype(np.int16): np.float16}
_FORMATS = {np.dtype(np.int32): "i32", np.dtype(np.int16): "i16"}


def _through_floats(
    op: Binding, names: tuple[str, str], function: Function, *, back: bool
) -> Commit:
    """dst = the truncated function of the float images of integers; sources become those images, or
    with `back` what converting them back gives."""
    out, *values = op.array_operands(("dst", *names))
    image, form = _IMAGES[out.dtype], _FORMATS[out.dtype]
    op.report(
        "PTO7022",
        f"computes {form} elements in {np.dtype(image).name}, and converts its sources in place",
        notes=("A2/A3 have no integer division", "larger operands are rounded first"),
    )
    arrays = [v for v in values if isinstance(v, np.ndarray) and v.ndim]

    def compute() -> None:
        images = [v.astype(image) for v in values]
        rest = np.empty_like(out, image)
        function(*images, out=rest)
        for array in arrays:
            wide = array.astype(image)
            if back:
                array[...] = float_to_int(wide, form, "trunc")
            else:
                array.view(image)[...] = wide
        out[...] = float_to_int(rest, form, "trunc")

    return compute


# -- tdivs -----------------------------------------------------------------------------------------


def _shares_storage(op: Binding) -> bool:
    return op.tile("src").addr == op.tile("dst").addr


def _times_reciprocal(values: np.ndarray, divisor: Any, out: np.ndarray) -> None:
    np.multiply(values, out.dtype.type(1) / divisor, out=out)


def _quotient(names: tuple[str, str]) -> Kernel:
    plain = elementwise(names, divide)

    def bind(op: Binding) -> Commit:
        _check_divisor(op)
        integer = op.tile("dst").dtype in _IMAGES
        if integer and op.switch("division.integers") == "floats":
            return _through_floats(op, names, np.divide, back=False)
        return plain(op)

    return bind


_tile_by_scalar = _quotient(("src", "scalar"))
kernel("pto.tdivs:scalar_tile", over="dst src")(_quotient(("scalar", "src")))


@kernel("pto.tdivs:tile_scalar", over="dst src")
def tdivs(op: Binding) -> Commit:
    """dst = src / scalar."""
    floats = op.tile("dst").dtype.kind not in "iu"
    if floats and op.switch("tdivs.in_place") == "reciprocal" and _shares_storage(op):
        out, values, divisor = op.array_operands(("dst", "src", "scalar"))
        op.report(
            "PTO7023",
            "multiplies by the rounded reciprocal, because source and destination are one",
            help="divide into another tile for correctly rounded quotients",
        )
        return partial(_times_reciprocal, values, divisor, out=out)
    return _tile_by_scalar(op)


def _check_divisor(op: Binding) -> None:
    if op.tile("dst").dtype.kind in "iu" and op.values.get("scalar") == 0:
        op.report("PTO7024", "divides integers by zero; the hardware's result is undefined")


# -- trem ------------------------------------------------------------------------------------------


def _remainder(names: tuple[str, str], *, scalar_fix: bool) -> Kernel:
    """The remainder that takes the divisor's sign. The tile-scalar form has the sign fix by the
    switch `trems.sign`."""

    def choose(op: Binding, dtype: np.dtype) -> Function:
        fix = scalar_fix or op.switch("trems.sign") == "divisor"
        return stored(partial(floor_modulo, sign_fix=fix))

    plain = elementwise(names, choose)

    def bind(op: Binding) -> Commit:
        _check_divisor(op)
        if op.switch("division.integers") == "floats" and op.tile("dst").dtype in _IMAGES:
            return _through_floats(op, names, stored(floor_modulo), back=True)
        return plain(op)

    return bind


kernel("pto.trem", over="dst src0 src1")(_remainder(("src0", "src1"), scalar_fix=True))
kernel("pto.trems", over="dst src")(_remainder(("src", "scalar"), scalar_fix=False))
