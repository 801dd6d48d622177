"""How far stored values are from each other and from the values that they represent."""

from __future__ import annotations

import math

import numpy as np

_PIECE = 1 << 16
"""Elements that are looked at together."""


def differs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return True where two arrays hold different numbers; NaN is equal to NaN."""
    left, right = a.astype(np.float64), b.astype(np.float64)
    return ~((left == right) | (np.isnan(left) & np.isnan(right)))


def ratio(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return x / scale in f64."""
    with np.errstate(all="ignore"):
        return x.astype(np.float64) / scale.astype(np.float64)


def near_tie(ratios: np.ndarray) -> np.ndarray:
    """Return True where a ratio is within two f32 ulp of the middle between two integers."""
    with np.errstate(all="ignore"):
        middle = np.floor(ratios) + 0.5
        ulp = np.spacing(np.abs(ratios).astype(np.float32)).astype(np.float64)
        return np.abs(ratios - middle) <= 2 * ulp


def sqnr(x: np.ndarray, approximation: np.ndarray) -> float:
    """Return the signal to quantisation noise ratio in dB over finite elements; inf if there is no
    noise, NaN if there is no signal."""
    return decibels(*sums(x, approximation))


def sums(x: np.ndarray, approximation: np.ndarray) -> tuple[float, float]:
    """Return the sums of squares of a signal and of its noise over finite elements."""
    one, other = x.reshape(-1), approximation.reshape(-1)
    power = lost = 0.0
    for at in range(0, one.size, _PIECE):
        signal = one[at : at + _PIECE].astype(np.float64)
        noise = signal - other[at : at + _PIECE].astype(np.float64)
        finite = np.isfinite(signal) & np.isfinite(noise)
        power += float(np.sum(signal[finite] ** 2))
        lost += float(np.sum(noise[finite] ** 2))
    return power, lost


def decibels(power: float, lost: float) -> float:
    """Return the ratio of two sums of squares, of a signal and of its noise, in dB: inf if there is
    no noise, NaN if there is no signal either."""
    if power == 0:
        return math.nan if lost == 0 else -math.inf
    return math.inf if lost == 0 else 10 * math.log10(power / lost)
