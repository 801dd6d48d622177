"""Sums with a product, a*b + c, rounded once, as a fused multiply-add does.

The product of two f32, f16 or bf16 values is exact in f64, the sum need not be. Where it is not,
the f64 sum is rounded to odd (its last bit is set), after which the rounding to the narrow format
gives what one rounding of the exact value would give: f64 has more than two bits to spare.
"""

from __future__ import annotations

import numpy as np

from ptosim.machine.numbers.formats import BF16
from ptosim.machine.numbers.rounding import narrow

_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", BF16: "bf16"}


@np.errstate(all="ignore")
def multiply_add(first: np.ndarray, second: np.ndarray, addend: np.ndarray) -> np.ndarray:
    """first * second + addend in the type of `addend` (f32, f16 or bf16), with one rounding."""
    product = first.astype(np.float64) * second.astype(np.float64)
    wide = addend.astype(np.float64)
    total = product + wide
    # Knuth's two-sum: the exact error of the f64 addition.
    part = total - product
    lost = (product - (total - part)) + (wide - part)
    inexact = np.isfinite(total) & (lost != 0)
    if inexact.any():
        total = np.where(inexact, _to_odd(total, lost), total)
    return narrow(total, _NAMES[addend.dtype], "rint", saturate=False)


def _to_odd(total: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """Round the exact sum total + lost to odd: to that neighbor whose last bit is one."""
    even = (total.view(np.int64) & 1) == 0
    neighbor = np.nextafter(total, np.where(lost > 0, np.inf, -np.inf))
    return np.where(even, neighbor, total)


def odd_float(values: np.ndarray) -> np.ndarray:
    """Return 64-bit integers in f64, rounded to odd where it cannot hold them: narrowing that to a
    smaller float rounds them once, in any mode."""
    high = (values >> 32).astype(np.float64) * 2.0**32
    low = (values & 0xFFFFFFFF).astype(np.float64)
    total = high + low
    lost = low - (total - high)
    return np.where(lost != 0, _to_odd(total, lost), total)
