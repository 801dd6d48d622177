"""INT8 TQUANT and TDEQUANT: one multiplier and one offset per row.

Quantization is a chain of single roundings: f32 product, f32 sum, 32-bit integer (nearest, ties
to even, saturating), then f16 and an 8-bit integer. The step through f16 never changes the 8-bit
result, because every integer it rounds is already far out of the 8-bit range.
"""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import lookup, require
from ptosim.machine.numbers.integers import float_to_int, int_to_float


class Int8Result(NamedTuple):
    """Stages of INT8 TQUANT, all of the source's shape.

    `products` (f32) are the values after the multiplication and addition, `integers` (int32) the
    rounded values, `codes` the result: int8 without an offset, uint8 with one.
    """

    products: np.ndarray
    integers: np.ndarray
    codes: np.ndarray


@np.errstate(all="ignore")
def quantize_int8(
    values: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray | None = None,
    *,
    scale_by: str = "mul",
    offset_at: str = "pre",
    signed_range: bool = False,
) -> Int8Result:
    """Quantize f32 `values` [rows, cols] to int8, or with `offset` to uint8.

    `scale` and `offset` are f32 and broadcast against the values ([rows, 1], or [rows, cols] where
    a target picks them per lane). Implementations multiply by `scale` (`scale_by="mul"`, the
    operand is the inverse scale) and add the offset before the only integer rounding
    (`offset_at="pre"`); the public description divides (`div`) and adds after it (`post`).
    `signed_range`: -128..127 limits uint8 too, as the description has it. Infinities saturate; NaN
    gives 0.
    """
    require("scale_by", scale_by, ("mul", "div"))
    require("offset_at", offset_at, ("pre", "post"))
    products = values * scale if scale_by == "mul" else values / scale
    if offset is not None and offset_at == "pre":
        products = products + offset
    integers = float_to_int(products, "i32", "rint")
    if offset is not None and offset_at == "post":
        integers = float_to_int(integers + offset.astype(np.float64), "i32", "rint")
    form = lookup("i8" if offset is None else "ui8")
    highest = min(int(form.highest), 127) if signed_range else int(form.highest)
    codes = np.clip(integers, int(form.lowest), highest).astype(form.dtype)
    return Int8Result(products, integers, codes)


def half_image(integers: np.ndarray) -> np.ndarray:
    """f16 values of the rounded int32 `integers`, which A2/A3 leaves in the source tile.

    Integers beyond +-65504 are clamped to it, as its other int32 to f16 conversion does.
    """
    return int_to_float(integers, "f16")


@np.errstate(all="ignore")
def dequantize(
    codes: np.ndarray, scale: np.ndarray, offset: np.ndarray, out: np.ndarray | None = None
) -> np.ndarray:
    """f32 (code - offset) * scale, one rounding each, for int8, uint8 or int16 `codes`.

    `scale` and `offset` are f32 and broadcast against the codes; `out`, if given, is an f32 array
    of the codes' shape.
    """
    difference = np.subtract(codes.astype(np.float32), offset, out=out)
    return np.multiply(difference, scale, out=difference if out is None else out)
