"""Elementwise arithmetic where the hardware differs from NumPy.

Sums, products, shifts, bitwise operations and comparisons are NumPy's own: integers wrap around,
floats round to nearest with ties to even.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.numbers.choices import require
from ptosim.machine.numbers.formats import BF16
from ptosim.machine.numbers.lanes import Function, with_zeros
from ptosim.machine.numbers.rounding import narrow

COMPARISONS: dict[str, np.ufunc] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
"""By the word of the assembly; NaN is unequal to everything."""


@np.errstate(all="ignore")
def divide_int(dividends: np.ndarray, divisors: np.ndarray) -> np.ndarray:
    """Integer quotients truncated toward zero.

    The lowest integer over -1 wraps to itself. Division by zero is undefined on the hardware and
    gives 0 here.
    """
    quotients = np.floor_divide(dividends, divisors)
    rest = dividends - quotients * divisors
    towards_zero = (rest != 0) & ((dividends < 0) != (divisors < 0)) & (divisors != 0)
    return quotients + towards_zero.astype(quotients.dtype)


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


_CANONICAL_NAN = {
    np.dtype(np.float32): np.uint32(0x7FC00000),
    np.dtype(np.float16): np.uint16(0x7E00),
    BF16: np.uint16(0x7FC0),
}


def _extreme(integers: np.ufunc, better: np.ufunc, pick: Function) -> Callable[..., np.ndarray]:
    @np.errstate(all="ignore")
    def choose(first: np.ndarray, second: np.ndarray, nan: str = "cpu") -> np.ndarray:
        require("NaN rule", nan, ("cpu", "spec"))
        if first.dtype.kind in "iu":
            return integers(first, second)
        if nan == "cpu":
            return np.where(better(second, first), second, first)
        result = pick(first, second)
        missing = np.isnan(result)
        if missing.any():
            canonical = _CANONICAL_NAN[result.dtype]
            result.view(canonical.dtype)[missing] = canonical
        return result

    return choose


maximum = _extreme(np.maximum, np.greater, with_zeros(np.fmax, np.bitwise_and))
"""Larger of two arrays of one type under one of two NaN rules.

`cpu`: the first operand unless it is less than the second, so a NaN or a zero in the first stays
and a NaN in the second is lost. `spec`: one NaN gives the other operand, two give the canonical
NaN, and +0 is larger than -0."""
minimum = _extreme(np.minimum, np.less, with_zeros(np.fmin, np.bitwise_or))
"""Smaller of two arrays of one type; the NaN rules are those of `maximum`, mirrored."""
