"""What an arithmetic word (`add`, `max`, ...) computes for an element type, target and profile.

Every operation that is built from a word (tile-tile, tile-scalar, partial, broadcast and reducing
forms) asks here, so that a rule is written once. A function takes arrays or scalars of one element
type and `out`, which may be one of its operands.

Floats round the exact result once, to nearest with ties to even, subnormals kept. NumPy computes
f16, and ml_dtypes bf16, in f32 and rounds the f32 result; f32 has enough bits that for a single +,
-, *, / this is the one rounding of the exact result.

Integers beyond their type wrap around, or stop at its limit (switch `int.overflow`); an overflow of
signed elements is reported as a note.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.machine.numbers import lanes, transcendental
from ptosim.ops.base.binding import Binding

Function = Callable[..., Any]
"""Called as f(operand, ..., out=array)."""

Choice = Callable[[Binding, np.dtype], Function]


def stored(function: Callable[..., np.ndarray]) -> Function:
    """Return a function with `out` for one that returns a new array."""

    def store(*operands: Any, out: np.ndarray) -> None:
        out[...] = function(*operands)

    return store


def always(function: Function) -> Choice:
    """Return the choice that does not depend on anything."""
    return lambda op, dtype: function


def lane_function(name: str, dtype: np.dtype, rule: str = "") -> Function:
    """Return what a word of `numbers.lanes` computes, with `out`."""
    function = lanes.of(name, dtype, rule)
    return function if isinstance(function, np.ufunc) else stored(function)


def divide(op: Binding, dtype: np.dtype) -> Function:
    """Quotients; integers truncate toward zero."""
    return lane_function("div", dtype, "zero")


def _by_nan_rule(name: str) -> Choice:
    """The word by the NaN rule of the profile; of relu a float -0 stays under the rule `cpu`."""
    return lambda op, dtype: lane_function(name, dtype, op.switch("maxmin.nan"))


maximum, minimum, relu = _by_nan_rule("max"), _by_nan_rule("min"), _by_nan_rule("relu")


def _exponential_difference(op: Binding, dtype: np.dtype) -> Function:
    """exp(a - b). A2/A3 subtract and round first; A5 has one instruction, rounded at its end."""
    if op.switch("expdif.rounding") == "twice":
        return stored(lambda first, second: transcendental.exp(np.subtract(first, second)))
    return stored(_exact_exponential_difference)


def _exact_exponential_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    # The f64 difference of f32 values can be inexact, but only so far below the last bit of the
    # larger operand that the power is infinite or 0, or that its error is far below half an ulp.
    return np.exp(first.astype(np.float64) - second.astype(np.float64))


# -- integers beyond their type --------------------------------------------------------------------

Overflow = Callable[[Any, Any, np.ndarray], np.ndarray]

# Where a wrapped result has another sign than the exact one (products: another value).
_OVERFLOWS: dict[np.ufunc, Overflow] = {
    np.add: lambda a, b, wrapped: (a ^ wrapped) & (b ^ wrapped) < 0,
    np.subtract: lambda a, b, wrapped: (a ^ b) & (a ^ wrapped) < 0,
    np.multiply: lambda a, b, wrapped: np.multiply(a, b, dtype=np.int64) != wrapped,
}


def ring(ufunc: np.ufunc) -> Choice:
    """Return the choice for a sum, difference or product: floats as they are, integers by the
    switch `int.overflow`."""

    def choose(op: Binding, dtype: np.dtype) -> Function:
        if dtype.kind not in "iu":
            return ufunc
        if op.switch("int.overflow") == "saturate":
            return stored(partial(_saturated, ufunc, dtype))
        if dtype.kind == "u" or dtype.itemsize == 8:
            return ufunc
        return _wrapping(op, ufunc)

    return choose


def _saturated(ufunc: np.ufunc, dtype: np.dtype, first: Any, second: Any) -> np.ndarray:
    """The exact result, limited to the type. Operands have at most 32 bits."""
    wide = np.uint64 if dtype.kind == "u" and ufunc is np.multiply else np.int64
    limits = np.iinfo(dtype)
    exact = ufunc(np.asarray(first).astype(wide), np.asarray(second).astype(wide))
    return np.clip(exact, wide(limits.min), wide(limits.max))


def _wrapping(op: Binding, ufunc: np.ufunc) -> Function:
    beyond = _OVERFLOWS[ufunc]

    def compute(first: Any, second: Any, out: np.ndarray) -> None:
        wrapped = ufunc(first, second)
        if beyond(first, second, wrapped).any():
            op.report(
                "PTO6424",
                "wraps integers around that leave their type",
                notes=("switch `int.overflow`: `wrap` or `saturate`; the hardware's is unknown",),
            )
        out[...] = wrapped

    return compute


WORDS: dict[str, Choice] = {
    "add": ring(np.add),
    "sub": ring(np.subtract),
    "mul": ring(np.multiply),
    "div": divide,
    "max": maximum,
    "min": minimum,
    "expdif": _exponential_difference,
}


def word(op: Binding, name: str, dtype: np.dtype) -> Function:
    """Return the function of an arithmetic word for an element type."""
    return WORDS[name](op, dtype)
