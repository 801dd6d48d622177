"""Conversions into integers, and of integers into floats.

An integer format of 4 bits is held in `int8`, so its range is not that of its array type: every
limit comes from the format.
"""

from __future__ import annotations

import numpy as np

from ptosim.machine.numbers.formats import Format, lookup, require
from ptosim.machine.numbers.rounding import narrow, to_integral


def _whole(values: np.ndarray, mode: str) -> np.ndarray:
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
    whole = _whole(values, mode)
    in_range = whole.min(initial=0) >= form.lowest and whole.max(initial=0) < form.highest + 1
    return whole.astype(form.dtype) if in_range else _clipped(whole, form, nan_to_int)


@np.errstate(all="ignore")
def float_to_low_bits(values: np.ndarray, dst: str, mode: str) -> np.ndarray:
    """Low bits of the exact integer that `values` round to in `mode`; infinities and NaN give 0.

    `dst` is a signed integer format of 16 bits or more.
    """
    form = lookup(dst)
    whole = _whole(values, mode).astype(np.float64)
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
