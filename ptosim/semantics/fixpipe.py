"""What leaves an accumulator: the fixpipe scales, applies ReLU and narrows on the way.

A quantisation word has 64 bits: bits 31:13 are the upper bits of an f32 scale (its low 13 mantissa
bits are dropped), bits 35:32 a shift count less one, bits 45:37 a signed offset, and bit 46 says
that an 8-bit result is signed. A scalar word serves every column; the words of a parameter tile
serve one column each. ReLU comes before the scale. The products are those of the library's test
generators; the order of ReLU and scale, and the product of a large i32, are not documented.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ir.types import DType
from ptosim.isa.conversions import conversion_name
from ptosim.machine.tile import Tile
from ptosim.numerics.codes import encode
from ptosim.numerics.formats import lookup
from ptosim.numerics.rounding import narrow
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
    relu = op.attr("reluPreMode") == "normal_relu"

    def convert(rows: int, cols: int) -> np.ndarray:
        values = tile.read(rows, cols)
        if relu:
            values = np.maximum(values, values.dtype.type(0))
        if words is None:
            return values if src == dst else narrow(values, dst, "rint", saturate=True)
        return _scaled(values, words(cols), dst)

    return convert


def _words(op: Binding, tile: Tile) -> Words | None:
    """The quantisation words of the columns: of a parameter tile, of a scalar, or none."""
    if op.has("fp"):
        return lambda cols: tile_array(op.tile("fp"), (cols,), (8,), np.uint64)
    if op.has("preQuantScalar"):
        word = np.array([op.scalar("preQuantScalar") & (1 << 64) - 1], np.uint64)
        return lambda cols: word
    return None


@np.errstate(all="ignore")
def _scaled(values: np.ndarray, words: np.ndarray, dst: str) -> np.ndarray:
    if dst == "i16":
        shift = ((words >> np.uint64(32)) & np.uint64(15)).astype(np.int64) + 1
        return np.clip(values.astype(np.int64) >> shift, -32768, 32767).astype(np.int16)
    scales = (words & np.uint64(0xFFFFE000)).astype(np.uint32).view(np.float32)
    products = values.astype(np.float32) * scales
    if dst in ("i8", "ui8"):
        return _eight_bits(products, words).view(lookup(dst).dtype)
    if dst == "f32":
        return products
    if dst in ("f16", "bf16"):
        return narrow(products, dst, "rint", saturate=True)
    rounding = "round" if dst == "hif8" else "rint"
    return encode(products, dst, rounding, saturate=True)


def _eight_bits(products: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Codes of round(clip(product)) + offset, in the range that bit 46 names; NaN counts as 0."""
    field = ((words >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int64)
    offset = np.where(field > 255, field - 512, field)
    signed = (words >> np.uint64(46)) & np.uint64(1) == 1
    whole = np.rint(np.clip(np.nan_to_num(products), -256, 255)).astype(np.int64) + offset
    codes = np.where(signed, np.clip(whole, -128, 127), np.clip(whole, 0, 255))
    return (codes & 255).astype(np.uint8)
