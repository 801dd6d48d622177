"""exp, log, power, square root and relatives, with one rounding at the end.

The hardware approximates these functions and no document states its error. Here they are computed
in f64 and rounded once to f32 or f16. `sqrt` and `recip` are correctly rounded; the others are
within 0.5 ulp plus 2^-27 ulp (the error of the f64 function), so the host's f32 vector kernels,
which differ between machines, never show in a result. IEEE special values: log(0) is -inf, log of
a negative is NaN, 1/0 is infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

_ROUNDED = (np.dtype(np.float32), np.dtype(np.float16))


def _require_float(values: np.ndarray) -> None:
    if values.dtype not in _ROUNDED:
        raise ValueError(f"expected f32 or f16 values, got {values.dtype}")


def _through_f64(
    function: Callable[[np.ndarray], np.ndarray], values: np.ndarray, out: np.ndarray | None
) -> np.ndarray:
    result = np.empty_like(values) if out is None else out
    np.copyto(result, function(values.astype(np.float64)), casting="unsafe")
    return result


@cache
def _f16_table(function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    every = np.arange(0x10000, dtype=np.uint16).view(np.float16)
    return _through_f64(function, every, None)


def _unary(
    function: Callable[[np.ndarray], np.ndarray], values: np.ndarray, out: np.ndarray | None
) -> np.ndarray:
    """f16 has so few values that a table of all results beats computing any of them."""
    _require_float(values)
    if values.dtype == np.float32:
        return _through_f64(function, values, out)
    return _f16_table(function).take(values.view(np.uint16), out=out)


def _exact(function: np.ufunc, values: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """For functions of which IEEE requires that the f32 one itself is correctly rounded."""
    if values.dtype == np.float32:
        return function(values, out=out)
    return _unary(function, values, out)


def _reciprocal_root(wide: np.ndarray) -> np.ndarray:
    return 1 / np.sqrt(wide)


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
    """bases^exponents for f32 or f16 arrays of one type; `out` may be either operand."""
    _require_float(bases)
    wide = exponents.astype(np.float64)
    return _through_f64(lambda values: np.power(values, wide), bases, out)
