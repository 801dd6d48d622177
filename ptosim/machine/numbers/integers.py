"""Integers: conversions into them and of them into floats, carries and wide products.

An integer format of 4 bits is held in `int8`, so its range is not that of its array type: every
limit comes from the format.
"""

from __future__ import annotations

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers.formats import Format, lookup, require
from ptosim.machine.numbers.rounding import narrow, to_integral


def _to_integers(values: np.ndarray, mode: str) -> np.ndarray:
    # f16 and bf16 widen exactly, and NumPy rounds f32 many times faster.
    wide = values if values.dtype.itemsize >= 4 else values.astype(np.float32)
    return to_integral(wide, mode)


def _clipped(whole: np.ndarray, form: Format, nan_to_int: str) -> np.ndarray:
    """Slow path: at least one value is NaN or out of range.

    The highest integer of 32 or 64 bits is not a float, the power of two above it is.
    """
    beyond = whole.dtype.type(form.highest + 1)
    inside = np.clip(
        whole, whole.dtype.type(form.lowest), np.nextafter(beyond, whole.dtype.type(0))
    )
    nan = np.isnan(whole)
    inside[nan] = 0
    result = inside.astype(form.dtype)
    result[whole >= beyond] = form.highest
    if nan_to_int == "max":
        result[nan] = form.highest
    return result


@np.errstate(all="ignore")
def float_to_int(
    values: np.ndarray, dst: str, mode: str, *, nan_to_int: str = "zero"
) -> np.ndarray:
    """Round f64, f32, f16 or bf16 `values` in `mode` and clamp them to the integer format `dst`.

    Infinities give the limits; NaN gives 0, or with `nan_to_int="max"` the upper limit. The result
    is in the array form of `dst`, independent of what the host does with out-of-range casts.
    """
    require("nan_to_int", nan_to_int, ("zero", "max"))
    form = lookup(dst)
    whole = _to_integers(values, mode)
    in_range = whole.min(initial=0) >= form.lowest and whole.max(initial=0) < form.highest + 1
    return whole.astype(form.dtype) if in_range else _clipped(whole, form, nan_to_int)


@np.errstate(all="ignore")
def float_to_low_bits(values: np.ndarray, dst: str, mode: str) -> np.ndarray:
    """Low bits of the exact integer that `values` round to in `mode`; infinities and NaN give 0.

    `dst` is a signed integer format of 16 bits or more.
    """
    form = lookup(dst)
    whole = _to_integers(values, mode).astype(np.float64)
    whole[~np.isfinite(whole)] = 0
    modulus = 2.0**form.bits
    rest = whole - np.trunc(whole / modulus) * modulus
    magnitude = np.abs(rest).astype(np.uint64)
    return np.where(rest < 0, 0 - magnitude, magnitude).view(np.int64).astype(form.dtype)


def clamp_int(values: np.ndarray, src: str, dst: str) -> np.ndarray:
    """Clamp integers of format `src` to the range of the integer format `dst`."""
    low = max(lookup(src).lowest, lookup(dst).lowest)
    high = min(lookup(src).highest, lookup(dst).highest)
    return np.clip(values, low, high).astype(lookup(dst).dtype)


def wrap_int(values: np.ndarray, dst: str) -> np.ndarray:
    """Keep the low bits of integers, or extend them by their own sign to a wider format."""
    return values.astype(lookup(dst).dtype)


@np.errstate(all="ignore")
def int_to_float(values: np.ndarray, dst: str, *, saturate: bool = True) -> np.ndarray:
    """Nearest value of the float format `dst`, ties to even, in one rounding.

    Integers beyond the range of f16 give its largest finite value, or infinity without
    `saturate`.
    """
    if dst == "f16" and values.dtype.itemsize >= 4:
        return narrow(values.astype(np.float64), dst, "rint", saturate=saturate)
    return values.astype(lookup(dst).dtype)


# INT8 TQUANT and TDEQUANT: one multiplier and one offset per row.
#
# Quantization is a chain of single roundings: f32 product, f32 sum, 32-bit integer (nearest, ties
# to even, saturating), then f16 and an 8-bit integer. The step through f16 never changes the 8-bit
# result, because every integer it rounds is already far out of the 8-bit range.


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
    out: np.ndarray | None = None,
) -> Int8Result:
    """Quantize f32 `values` [rows, cols] to int8, or with `offset` to uint8.

    `scale` and `offset` are f32 and broadcast against the values ([rows, 1], or [rows, cols] where
    a target picks them per lane). Implementations multiply by `scale` (`scale_by="mul"`, the
    operand is the inverse scale) and add the offset before the only integer rounding
    (`offset_at="pre"`); the public description divides (`div`) and adds after it (`post`).
    `signed_range`: -128..127 limits uint8 too, as the description has it. Infinities saturate; NaN
    gives 0. The products are in `out` afterwards, if it is given: an f32 array like the values, or
    the values themselves.
    """
    require("offset_at", offset_at, ("pre", "post"))
    shift = offset if offset_at == "pre" else None
    products = _scaled(values, scale, shift, scale_by, out)
    form, wide = lookup("i8" if offset is None else "ui8"), lookup("i32")
    whole = np.rint(products)
    least, most = whole.min(initial=0), whole.max(initial=0)
    is_inside = wide.lowest <= least and most < wide.highest + 1
    integers = whole.astype(wide.dtype) if is_inside else _clipped(whole, wide, "zero")
    if offset is not None and shift is None:
        integers = float_to_int(integers + offset.astype(np.float64), "i32", "rint")
        least, most = integers.min(initial=0), integers.max(initial=0)
    highest = min(int(form.highest), 127) if signed_range else int(form.highest)
    lowest = int(form.lowest)
    if lowest <= least and most <= highest:
        return Int8Result(products, integers, integers.astype(form.dtype))
    return Int8Result(products, integers, np.clip(integers, lowest, highest).astype(form.dtype))


def _scaled(
    values: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray | None,
    scale_by: str,
    out: np.ndarray | None,
) -> np.ndarray:
    require("scale_by", scale_by, ("mul", "div"))
    products = (np.multiply if scale_by == "mul" else np.divide)(values, scale, out=out)
    return products if offset is None else np.add(products, offset, out=products)


@np.errstate(all="ignore")
def int8_codes(
    values: np.ndarray,
    scale: np.ndarray,
    offset: np.ndarray | None = None,
    *,
    scale_by: str = "mul",
    signed_range: bool = False,
    spare: np.ndarray | None = None,
) -> np.ndarray:
    """The codes of `quantize_int8` with an offset before the rounding, as f32: what nobody asks for
    on the way is not made. `spare`: f32 of the shape of the values that may be overwritten, which
    may be the values."""
    whole = _scaled(values, scale, offset, scale_by, spare)
    np.rint(whole, out=whole)
    form = lookup("i8" if offset is None else "ui8")
    lowest, highest = form.lowest, min(form.highest, 127) if signed_range else form.highest
    least, most = whole.min(initial=0), whole.max(initial=0)
    if np.isnan(least):
        whole[np.isnan(whole)] = 0
    elif lowest <= least and most <= highest:
        return whole
    return np.clip(whole, np.float32(lowest), np.float32(highest), out=whole)


def half_image(integers: np.ndarray) -> np.ndarray:
    """f16 values of the rounded int32 `integers`, which A2/A3 leaves in the source tile.

    Integers beyond +-65504 are clamped to it, as its other int32 to f16 conversion does.
    """
    if integers.min(initial=0) < -_HALVES or integers.max(initial=0) > _HALVES:
        return int_to_float(integers, "f16")
    # The bits of f32, its exponent counted as that of f16: several times as fast as a conversion.
    bits = (integers.astype(np.float32) * _TO_HALVES).view(np.uint32)
    sign = bits >> 16
    sign &= 0x8000
    bits >>= 13
    bits |= sign
    return bits.astype(np.uint16).view(np.float16)


_HALVES = 2048
"""Integers up to here are f16 values."""
_TO_HALVES = np.float32(2.0**-112)
"""The exponents of f32 are counted from 127, those of f16 from 15."""


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


# -- carry and wide products -----------------------------------------------------------------------


def wide_product(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 32 bits of the 64-bit products."""
    wide = np.dtype(np.int64 if first.dtype.kind == "i" else np.uint64)
    halves = (first.astype(wide) * second.astype(wide)).view(first.dtype)
    return halves[::2].copy(), halves[1::2].copy()


def add_with_carry(
    first: np.ndarray, second: np.ndarray, carry: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of u32 modulo 2^32, and where they were larger."""
    total = first.astype(np.uint64) + second
    if carry is not None:
        total += carry
    return total.astype(np.uint32), total > 0xFFFFFFFF


def subtract_with_carry(
    first: np.ndarray, second: np.ndarray, carry: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Differences of u32 modulo 2^32 less one where there is no carry in, and where nothing was
    borrowed."""
    taken = second.astype(np.int64)
    if carry is not None:
        taken += ~carry
    rest = first.astype(np.int64) - taken
    return (rest & 0xFFFFFFFF).astype(np.uint32), rest >= 0


def high_half(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The high halves of the products of integers of one type."""
    kind, bits = first.dtype, first.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if kind.kind == "i" else np.uint64
        product = first.astype(wide) * second.astype(wide)
        return (product >> np.array(bits, wide)).astype(unsigned(kind)).view(kind)
    a, b = first.view(np.uint64), second.view(np.uint64)
    high = _high_of_64(a, b)
    if kind.kind == "i":
        zero = np.uint64(0)
        high = high - np.where(first < 0, b, zero) - np.where(second < 0, a, zero)
    return high.view(kind)


def _high_of_64(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    a1, a0, b1, b0 = a >> half, a & low, b >> half, b & low
    middle = a1 * b0 + (a0 * b0 >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def unsigned(lanes: np.dtype) -> np.dtype:
    """Return the unsigned integers of the same width."""
    return np.dtype(f"u{lanes.itemsize}")
