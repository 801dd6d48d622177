"""exp, log, power, square root and relatives, with one rounding at the end.

The hardware approximates these functions and no document states its error. Here they are computed
in f64 and rounded once to f32 or f16. `sqrt` and `recip` are correctly rounded; the others are
within 0.5 ulp plus 2^-27 ulp (the error of the f64 function), so the host's f32 vector kernels,
which differ between machines, never show in a result. (Of exp and log no f32 function of NumPy
gives these bits for every number: their errors are above half an ulp.) f64 numbers exist in pieces
that stay in cache: NumPy converts the operands of a function in buffers. IEEE special values:
log(0) is -inf, log of a negative is NaN, 1/0 is infinite. Of integers, which only C++ has,
the result loses its fraction, as a cast in C does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ptosim.machine.numbers.rounding import narrow

InF64 = Callable[..., np.ndarray]
"""A function of f64 numbers, with the arguments of NumPy's: it converts operands and result."""


def _through_f64(function: InF64, out: np.ndarray | None, *operands: np.ndarray) -> np.ndarray:
    result = np.empty_like(operands[0]) if out is None else out
    function(*operands, out=result, dtype=np.float64, casting="unsafe")
    return result


@cache
def _f16_table(function: InF64) -> np.ndarray:
    every = np.arange(0x10000, dtype=np.uint16).view(np.float16)
    return _through_f64(function, None, every)


def _unary(function: InF64, values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """f16 has so few values that a table of all results beats computing any of them."""
    if values.dtype != np.float16:
        return _through_f64(function, out, values)
    return _f16_table(function).take(values.view(np.uint16), out=out)


def _exact(function: np.ufunc, values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """For functions of which IEEE requires that the f32 one itself is correctly rounded."""
    if values.dtype == np.float32:
        return function(values, out=out)
    return _unary(function, values, out)


def _reciprocal_root(values: np.ndarray, out: np.ndarray, **how: Any) -> np.ndarray:
    return np.divide(1, np.sqrt(values, dtype=np.float64), out=out, **how)


Function = Callable[..., np.ndarray]
"""Of f32 or f16 values, and of an array for the result, which may be that of the values."""


def _function(compute: Function, function: Function) -> Function:
    def apply(values: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        return compute(function, values, out)

    return np.errstate(all="ignore")(apply)


exp = _function(_unary, np.exp)
"""e^x, subnormal results included."""
log = _function(_unary, np.log)
"""Natural logarithm."""
sqrt = _function(_exact, np.sqrt)
"""Square root, correctly rounded."""
rsqrt = _function(_unary, _reciprocal_root)
"""1/sqrt(x), +-inf at +-0."""
recip = _function(_exact, np.reciprocal)
"""1/x, correctly rounded."""


@np.errstate(all="ignore")
def power(bases: np.ndarray, exponents: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """bases^exponents for arrays of floats of one type; `out` may be either operand."""
    return _through_f64(np.power, out, bases, exponents)


# Remainders of tiles and integer powers: what no other level has.


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
