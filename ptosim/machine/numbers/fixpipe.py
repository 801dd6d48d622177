"""What the fixpipe does to an accumulator on its way out: scale, ReLU, conversion, clip.

A quantisation word has 64 bits: bits 31:13 are the upper bits of an f32 scale (its low 13 mantissa
bits are dropped), bits 35:32 a shift count less one, bits 45:37 a signed offset, and bit 46 says
that an 8-bit result is signed (pto-isa headers; PTO instruction set documentation, fixpipe). The
public micro programs' data fix the order for f32 to f16: scale, then ReLU, then conversion, then
clip in the destination's type. The order with an integer destination is not documented; the offset
comes last."""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import encode, lookup
from ptosim.machine.numbers.rounding import narrow

_SCALE = np.uint64(0xFFFFE000)
_LOW_HALF = np.uint64(0xFFFFFFFF)


def scale_of(words: np.ndarray, *, short: bool = True) -> np.ndarray:
    """Return the scales (f32) of quantisation words, with `short` without their low 13 bits."""
    return (words & (_SCALE if short else _LOW_HALF)).astype(np.uint32).view(np.float32)


def word_of_scale(scale: float, offset: int = 0, *, signed: bool = False) -> int:
    """Return the quantisation word of a scale and a 9-bit offset."""
    bits = int(np.array(scale, np.float32).view(np.uint32))
    return bits | (offset & 0x1FF) << 37 | int(signed) << 46


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


class Rules(NamedTuple):
    """What documents and implementations disagree on. The defaults are the block ISA's text and the
    data; the public CPU simulator has the opposite of each.

    `exact`: 8-bit results come from the exact product, not one rounded to f32. `clip_first`: that
    product is clipped to 9 bits and rounded before the offset is added. `signed_offset`: the offset
    is a signed number. `short_scale`: the low 13 bits of the scale count as zero. `relu`: before
    the scale, after it (`scaled`), or on the result (`last`)."""

    exact: bool = True
    clip_first: bool = True
    signed_offset: bool = True
    short_scale: bool = True
    relu: str = "scaled"


DEFAULT_RULES = Rules()


@np.errstate(all="ignore")
def fixed(
    values: np.ndarray,
    dst: str,
    words: np.ndarray | None = None,
    activation: Activation = NO_RELU,
    *,
    saturate: bool = True,
    nan_to_zero: bool = False,
    rules: Rules = DEFAULT_RULES,
) -> np.ndarray:
    """Return accumulator values [m, n] (f32 or i32) as `dst`, in the array form of `formats`.

    `words` are quantisation words, one, one for each column, or one for each row as [m, 1]. With
    `saturate` a result beyond the range of a float is its largest finite value, and with
    `nan_to_zero` a NaN is 0; without, IEEE.
    """
    if words is None:
        return _unscaled(activation(values), dst, saturate, nan_to_zero)
    early, late = (activation if rules.relu == at else NO_RELU for at in ("before", "scaled"))
    last = activation if rules.relu == "last" else NO_RELU
    values = early(values)
    if dst == "i16":
        shift = ((words >> np.uint64(32)) & np.uint64(15)).astype(np.int64) + 1
        whole = np.clip(values.astype(np.int64) >> shift, -32768, 32767)
        return (last if rules.relu == "last" else late)(whole.astype(np.int16))
    scales = scale_of(words, short=rules.short_scale)
    if dst in ("i8", "ui8"):
        kind = np.float64 if rules.exact else np.float32
        products = late(values.astype(kind) * scales.astype(kind))
        return last(_eight_bits(products, words, rules).view(lookup(dst).dtype))
    products = last(late(values.astype(np.float32) * scales))
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


def _offset(words: np.ndarray, *, signed: bool) -> np.ndarray:
    field = ((words >> np.uint64(37)) & np.uint64(0x1FF)).astype(np.int64)
    return np.where(field > 255, field - 512, field) if signed else field


def _eight_bits(products: np.ndarray, words: np.ndarray, rules: Rules) -> np.ndarray:
    """Codes of round(clip(product)) + offset, in the range that bit 46 names; NaN counts as 0."""
    offset = _offset(words, signed=rules.signed_offset)
    signed = (words >> np.uint64(46)) & np.uint64(1) == 1
    products = np.nan_to_num(products)
    if rules.clip_first:
        whole = np.rint(np.clip(products, -256, 255)).astype(np.int64) + offset
    else:
        whole = np.rint(np.clip(products + offset, -1024, 1024)).astype(np.int64)
    codes = np.where(signed, np.clip(whole, -128, 127), np.clip(whole, 0, 255))
    return (codes & 255).astype(np.uint8)


@np.errstate(all="ignore")
def whole(
    values: np.ndarray, bits: int, words: np.ndarray, activation: Activation = NO_RELU
) -> np.ndarray:
    """Return accumulator values [m, n] as signed integers (int64) of 4, 16 or 32 bits: scaled,
    activated, rounded to the nearest even; of 4 bits the offset of the word added; saturated, a
    NaN is 0."""
    scaled = activation(values.astype(np.float64) * scale_of(words).astype(np.float64))
    top = 1 << (bits - 1)
    result = np.clip(np.rint(np.nan_to_num(scaled)), -4.0 * top, 4.0 * top).astype(np.int64)
    if bits == 4:
        result = result + _offset(words, signed=True)
    return np.clip(result, -top, top - 1)


def clipped(values: np.ndarray, limit: float) -> np.ndarray:
    """The smaller of each value and a limit, in the type of the values."""
    if values.dtype.kind in "iu":
        bound = np.iinfo(values.dtype)
        return np.minimum(values, values.dtype.type(min(max(int(limit), bound.min), bound.max)))
    return np.minimum(values, np.array(limit).astype(values.dtype))
