"""Division by a scalar, and floor modulo: where A2/A3 have no integer divider.

A2/A3 convert integers to floats in place, compute, and convert back: i32 goes through f32 and i16
through f16, so operands beyond 2^24 (2^11) are rounded first. `tdivs` leaves the float image in its
source, `trem` converts its sources back. `tdivs` of floats fills the destination with the scalar
and divides; where source and destination share their storage that is impossible and the library
multiplies by the rounded reciprocal instead. A5 divides integers and floats as they are.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ptosim.machine.numbers.integers import float_to_int
from ptosim.machine.numbers.transcendental import floor_modulo
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, Kernel, kernel
from ptosim.ops.tile.elementwise import Function, divide, elementwise, stored

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
