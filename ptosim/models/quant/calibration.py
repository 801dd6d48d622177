"""What range of a tensor its codes cover: four methods on the values that calibration saw.

`minmax` takes all of it, `percentile` leaves out the rarest magnitudes, `entropy` takes the limit
at which a histogram of 128 levels diverges least from the values (Kullback and Leibler, as TensorRT
and onnxruntime do it), `mse` the one with the least squared error of 8-bit codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.machine.quant.parameters import Storage

METHODS = ("minmax", "percentile", "entropy", "mse")
PERCENTILE = 99.99
_BINS = 2048
_LITTLE = 1 / 64
"""The share of a range that a rounded scale may leave out."""
_LEVELS = 128


def limits(
    values: Sequence[np.ndarray], method: str = "minmax", percentile: float = PERCENTILE
) -> tuple[float, float]:
    """Return the lowest and the highest value that codes should cover, zero among them.

    `values` are the arrays of one tensor; what is not finite is left out. Raises UsageError for an
    unknown method, a percentile outside (0, 100], or values none of which is finite."""
    if method not in METHODS:
        raise UsageError(f"unknown method `{method}`", help=f"known: {', '.join(METHODS)}")
    if not 0 < percentile <= 100:
        raise UsageError(f"a percentile is above 0 and at most 100, not {percentile:g}")
    flat = np.concatenate([np.asarray(v, np.float32).reshape(-1) for v in values])
    flat = flat[np.isfinite(flat)].astype(np.float64)
    if not flat.size:
        raise UsageError("there is no finite value to calibrate with")
    low, high = min(float(flat.min()), 0.0), max(float(flat.max()), 0.0)
    sizes = np.abs(flat)
    top = float(sizes.max())
    if method == "minmax" or top == 0:
        return low, high
    limit = _LIMITS[method](sizes, top, percentile)
    return max(low, -limit), min(high, limit)


def _percentile(sizes: np.ndarray, top: float, percentile: float) -> float:
    return float(np.percentile(sizes, percentile, method="higher")) or top


def _entropy(sizes: np.ndarray, top: float, percentile: float) -> float:
    counts, edges = np.histogram(sizes, _BINS, (0.0, top))
    counts = counts.astype(np.float64)
    counts[0] = counts[1]  # zeros of Relu say nothing about a limit
    ends = range(_LEVELS, _BINS + 1)
    found = [_divergence(counts, end) for end in ends]
    return float(edges[_LEVELS + int(np.argmin(found))])


def _divergence(counts: np.ndarray, end: int) -> float:
    """Of the values, those beyond the limit counted at it, from what 128 levels make of them."""
    kept = counts[:end]
    real = kept.copy()
    real[-1] += counts[end:].sum()
    starts = np.arange(_LEVELS) * end // _LEVELS
    which = np.repeat(np.arange(_LEVELS), np.diff(np.append(starts, end)))
    filled = (kept > 0).astype(np.float64)
    totals = np.add.reduceat(kept, starts)
    share = totals / np.maximum(np.add.reduceat(filled, starts), 1)
    coded = share[which] * filled
    if not coded.any():
        return np.inf
    p, q = real / real.sum(), coded / coded.sum()
    inside = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q <= 0)].sum()  # counted as if the other had the smallest share
    return float(np.sum(p[inside] * np.log(p[inside] / q[inside])) + lost * np.log(1e6))


def _mse(sizes: np.ndarray, top: float, percentile: float) -> float:
    counts, edges = np.histogram(sizes, _BINS, (0.0, top))
    middle = (edges[:-1] + edges[1:]) / 2
    limits = top * np.arange(10, 101) / 100
    steps = limits[:, None] / (_LEVELS - 1)
    coded = np.minimum(np.rint(middle / steps), _LEVELS - 1) * steps
    return float(limits[np.argmin(((coded - middle) ** 2) @ counts)])


_LIMITS: dict[str, Callable[[np.ndarray, float, float], float]] = {
    "percentile": _percentile,
    "entropy": _entropy,
    "mse": _mse,
}


# -- scales of extremes ----------------------------------------------------------------------------


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
    low: float, high: float, out: Storage, bits: int | None = None, end: float | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the f32 scale and the zero point, of the type of `out`, of a range with zero in it;
    `end`: no value is above it, and a scale whose last code is beyond is rounded down if that cuts
    little off."""
    codes = float(out.high) if out.signed else float(out.high - out.low)
    span = max(-low, high) if out.signed else high - low
    scale = symmetric(span * float(out.high) / codes, out, bits)
    if end is not None and low == 0 and bits is not None and np.rint(end / scale) < codes:
        lower = -shortened(np.asarray(-end / codes), bits)  # up is down on the other side
        scale = lower if end - float(lower) * codes <= end * _LITTLE else scale
    if out.signed:
        return scale, np.zeros((), out.array)
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
