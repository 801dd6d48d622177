"""Remainders of tiles and integer powers: what no other level has."""

from __future__ import annotations

import numpy as np

from ptosim.machine.numbers.rounding import narrow


@np.errstate(all="ignore")
def floor_modulo(
    dividends: np.ndarray, divisors: np.ndarray, *, sign_fix: bool = True
) -> np.ndarray:
    """TREM: the remainder that takes the sign of the divisor.

    Integers: exact; 0 for a zero divisor. f32: a - fl(floor(fl(a/b)) * b), and, with `sign_fix`
    (the tile-tile form; the tile-scalar form has none), plus b if the result times b is negative.
    f16: the same in f32, narrowed toward zero before the sign fix. The quotient is rounded, so for
    large quotients this is not the exact remainder.
    """
    if dividends.dtype.kind in "iu":
        return np.remainder(dividends, divisors)
    rest = _remainder(dividends, divisors, np.floor)
    if not sign_fix:
        return rest
    return np.where(divisors * rest < 0, rest + divisors, rest)


@np.errstate(all="ignore")
def trunc_modulo(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """TFMOD: the remainder that takes the sign of the dividend.

    Integers: exact; 0 for a zero divisor. f32: a - fl(trunc(fl(a/b)) * b); f16: the same in f32,
    narrowed toward zero.
    """
    if dividends.dtype.kind in "iu":
        return np.fmod(dividends, divisors)
    return _remainder(dividends, divisors, np.trunc)


def _remainder(dividends: np.ndarray, divisors: np.ndarray, whole: np.ufunc) -> np.ndarray:
    wide = dividends.astype(np.float32, copy=False)
    by = divisors.astype(np.float32, copy=False)
    rest = wide - whole(wide / by) * by
    if dividends.dtype == np.float16:
        return narrow(rest, "f16", "trunc", saturate=False)
    return rest


@np.errstate(all="ignore")
def power_int(bases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Integer powers, wrapping around; a negative exponent gives the truncated 1/base^|n|.

    That is 1 for base 1, +-1 for base -1, and 0 otherwise, also for base 0.
    """
    result = np.power(bases, np.maximum(exponents, 0))
    negative = exponents < 0
    if negative.any():
        odd = (exponents & 1).astype(bool)
        unit = np.where(bases == 1, 1, np.where(odd, -1, 1)) * (np.abs(bases) == 1)
        result = np.where(negative, unit, result).astype(result.dtype)
    return result
