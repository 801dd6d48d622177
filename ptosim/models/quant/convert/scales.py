"""Scales and zero points for ranges, and scales of few bits.

Codes times scales of few significant bits have products whose sums are exact in f32; then every
evaluator gives the same result, whatever order it adds in (`interop.fusion.exactness`)."""

from __future__ import annotations

import numpy as np

from ptosim.machine.quant.storage import Storage


def shortened(scale: np.ndarray, bits: int | None) -> np.ndarray:
    """Return f32 scales rounded up to a number of significant bits (None: as they are); rounding up
    keeps every value inside the range."""
    values = np.asarray(scale, np.float32)
    if bits is None:
        return values
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.ceil(np.ldexp(mantissa, bits)), exponent - bits).astype(np.float32)


def symmetric(limit: np.ndarray | float, out: Storage, bits: int | None = None) -> np.ndarray:
    """Return f32 scales that map magnitudes to the largest code; 1 where there is nothing."""
    top = np.asarray(limit, np.float64) / float(out.high)
    tiny = float(np.finfo(np.float32).tiny)
    return shortened(np.where(top > 0, np.maximum(top, tiny), 1.0).astype(np.float32), bits)


def affine(
    low: float, high: float, out: Storage, bits: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the f32 scale and the zero point, of the type of `out`, of a range with zero in it."""
    if out.signed:
        return symmetric(max(-low, high), out, bits), np.zeros((), out.array)
    codes = float(out.high - out.low)
    scale = symmetric((high - low) * float(out.high) / codes, out, bits)
    zero = np.clip(np.rint(float(out.low) - low / float(scale)), out.low, out.high)
    return scale, zero.astype(out.array)


def clipped_share(x: np.ndarray, scale: np.ndarray, zero: np.ndarray, out: Storage) -> float:
    """Return the share of values that the lowest or highest code represents though they are more
    than half a step beyond it."""
    if not x.size:
        return 0.0
    place = x.astype(np.float64) / scale.astype(np.float64) + zero.astype(np.float64)
    beyond = (place > float(out.high) + 0.5) | (place < float(out.low) - 0.5)
    return float(np.count_nonzero(beyond) / x.size)
