"""What leaves an accumulator tile: the fixpipe scales, applies ReLU and converts on the way.

A scalar quantisation word serves every column; the words of a parameter tile serve one column each.
The arithmetic is that of `numerics.fixpipe`: the scale comes before ReLU, as the public micro
programs' data have it (the documentation of the tile operations leaves the order open)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ir.types import DType
from ptosim.isa.conversions import conversion_name
from ptosim.machine.tile import Tile
from ptosim.numerics.fixpipe import Activation, fixed
from ptosim.semantics.access import tile_array
from ptosim.semantics.binding import Binding, OpFault

Convert = Callable[[int, int], np.ndarray]
Words = Callable[[int], np.ndarray]

_PLAIN = {
    "f32": ("f32", "f16", "bf16"),
    "i32": ("i32",),
}
"""Destinations without a quantisation word."""

_SCALED = {
    "a2a3": {"f32": ("i8", "ui8"), "i32": ("i8", "ui8", "f16", "i16")},
    "a5": {
        "f32": ("i8", "ui8", "f16", "bf16", "f32", "hif8", "f8E4M3FN", "f8E5M2"),
        "i32": ("i8", "ui8", "f16", "bf16"),
    },
}


def stored(op: Binding, tile: Tile, dtype: DType) -> Convert:
    """Return the function that gives the first rows and columns of an accumulator as elements of
    `dtype`. Raises OpFault for a pair of types that the fixpipe of the target does not have."""
    words = _words(op, tile)
    src, dst = conversion_name(tile.type.dtype), conversion_name(dtype)
    known = _PLAIN[src] if words is None else _SCALED[op.target][src]
    if dst not in known:
        how = "without a scale" if words is None else "with a scale"
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': the fixpipe of {op.target} does not turn {src} into {dst} {how}",
            notes=(f"it turns {src} into {', '.join(known)} {how}",),
        )
    activation = Activation(op.attr("reluPreMode") == "normal_relu")

    def convert(rows: int, cols: int) -> np.ndarray:
        values = tile.read(rows, cols)
        return fixed(values, dst, None if words is None else words(cols), activation)

    return convert


def _words(op: Binding, tile: Tile) -> Words | None:
    """The quantisation words of the columns: of a parameter tile, of a scalar, or none."""
    if op.has("fp"):
        return lambda cols: tile_array(op.tile("fp"), (cols,), (8,), np.uint64)
    if op.has("preQuantScalar"):
        word = np.array([op.scalar("preQuantScalar") & (1 << 64) - 1], np.uint64)
        return lambda cols: word
    return None
