"""What the fixpipe does to an accumulator on its way out: scale, ReLU, conversion, clip.

A quantisation word has 64 bits: bits 31:13 are the upper bits of an f32 scale (its low 13 mantissa
bits are dropped), bits 35:32 a shift count less one, bits 45:37 a signed offset, and bit 46 says
that an 8-bit result is signed (pto-isa headers; PTO instruction set documentation, fixpipe). The
public micro programs' data fix the order for f32 to f16: scale, then ReLU, then conversion, then
clip in the destination's type. The order with an integer destination is not documented; the offset
comes last."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ptosim.numerics.codes import encode
from ptosim.numerics.formats import lookup
from ptosim.numerics.rounding import narrow

_SCALE = np.uint64(0xFFFFE000)


def scale_of(words: np.ndarray) -> np.ndarray:
    """Return the scales (f32) of quantisation words."""
    return (words & _SCALE).astype(np.uint32).view(np.float32)


def word_of_scale(scale: float, *, signed: bool = False) -> int:
    """Return the quantisation word of a scale, without offset."""
    bits = int(np.array(scale, np.float32).view(np.uint32))
    return bits | (1 << 46 if signed else 0)


def relu(values: np.ndarray, slopes: np.ndarray | None) -> np.ndarray:
    """max(x, 0), or with slopes x where x >= 0, else x * slope."""
    if slopes is None:
        return np.maximum(values, values.dtype.type(0))
    return np.where(values >= 0, values, values * slopes)


class Activation(NamedTuple):
    """ReLU on the way out: none, plain, or with a slope or one for each column."""

    active: bool = False
    slopes: np.ndarray | None = None

    def __call__(self, values: np.ndarray) -> np.ndarray:
        return relu(values, self.slopes) if self.active else values


NO_RELU = Activation()


@np.errstate(all="ignore")
def fixed(
    values: np.ndarray,
    dst: str,
    words: np.ndarray | None = None,
    activation: Activation = NO_RELU,
    *,
    saturate: bool = True,
    nan_to_zero: bool = False,
) -> np.ndarray:
    """Return accumulator values [m, n] (f32 or i32) as `dst`, in the array form of `formats`.

    `words` are quantisation words, one or one for each column. With `saturate` a result beyond the
    range of a float is its largest finite value, and with `nan_to_zero` a NaN is 0; without, IEEE.
    """
    if words is None:
        return _unscaled(activation(values), dst, saturate, nan_to_zero)
    if dst == "i16":
        shift = ((words >> np.uint64(32)) & np.uint64(15)).astype(np.int64) + 1
        whole = np.clip(values.astype(np.int64) >> shift, -32768, 32767)
        return activation(whole.astype(np.int16))
    products = activation(values.astype(np.float32) * scale_of(words))
    if dst in ("i8", "ui8"):
        return _eight_bits(products, words).view(lookup(dst).dtype)
    return _as_float(products, dst, saturate, nan_to_zero)


def _unscaled(values: np.ndarray, dst: str, saturate: bool, nan_to_zero: bool) -> np.ndarray:
    if values.dtype == lookup(dst).dtype:
        return values
    return _as_float(values.astype(np.float32), dst, saturate, nan_to_zero)


def _as_float(values: np.ndarray, dst: str, saturate: bool, nan_to_zero: bool) -> np.ndarray:
    if lookup(dst).kind == "code":
        if saturate and nan_to_zero:
            values = np.where(np.isnan(values), np.float32(0), values)
        rounding = "round" if dst == "hif8" else "rint"
        return encode(values, dst, rounding, saturate=saturate)
    if dst == "f32":
        return values
    result = narrow(values, dst, "rint", saturate=saturate)
    if saturate and nan_to_zero:
        result[np.isnan(result)] = 0
    return result


def _eight_bits(products: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Codes of round(clip(product)) + offset, in the range that bit 46 names; NaN counts as 0."""
    field = ((words >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int64)
    offset = np.where(field > 255, field - 512, field)
    signed = (words >> np.uint64(46)) & np.uint64(1) == 1
    whole = np.rint(np.clip(np.nan_to_num(products), -256, 255)).astype(np.int64) + offset
    codes = np.where(signed, np.clip(whole, -128, 127), np.clip(whole, 0, 255))
    return (codes & 255).astype(np.uint8)


def clipped(values: np.ndarray, limit: float) -> np.ndarray:
    """The smaller of each value and a limit, in the type of the values."""
    return np.minimum(values, np.array(limit).astype(values.dtype))
