"""What an arithmetic word means for one pair of elements, from the rules of the instruction set.

Floats: one rounding of the exact result. Integers: exact, cut when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.oracle import ieee, numerics
from tests.oracle.ieee import ZERO
from tests.oracle.tile import FLOATS, Call, plain

Word = Callable[[Any, Any, str, Call], Any]


def _float_or_int(of_floats: Callable, of_ints: Callable) -> Word:
    def compute(a: Any, b: Any, dtype: str, call: Call) -> Any:
        if dtype in FLOATS:
            return ieee.rounded(of_floats(a, b), dtype)
        exact = of_ints(a, b)
        if call.switches["int.overflow"] == "wrap":
            return exact
        low, high = numerics.INT_RANGES[plain(dtype)]
        return max(low, min(high, exact))

    return compute


def wrapped(value: int, dtype: str) -> int:
    """An integer cut to its type."""
    return numerics.low_bits(value, plain(dtype))


def divide_ints(a: int, b: int) -> int:
    """Truncated quotient; 0 for a zero divisor."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


def _maximum(a: Any, b: Any, dtype: str, call: Call) -> Any:
    if dtype not in FLOATS:
        return max(a, b)
    if call.switches["maxmin.nan"] == "cpu":
        return b if ieee.less(a, b) else a
    if ieee.is_nan(a) or ieee.is_nan(b):
        return a if ieee.is_nan(b) else b
    if ieee.is_zero(a) and ieee.is_zero(b):
        return "-0" if a == "-0" and b == "-0" else ZERO
    return b if ieee.less(a, b) else a


def _minimum(a: Any, b: Any, dtype: str, call: Call) -> Any:
    if dtype not in FLOATS:
        return min(a, b)
    return ieee.negated(_maximum(ieee.negated(a), ieee.negated(b), dtype, call))


def _exponential_difference(a: Any, b: Any, dtype: str, call: Call) -> Any:
    """A2/A3 round the difference first; A5 rounds once."""
    difference = ieee.subtract(a, b)
    if call.switches["expdif.rounding"] == "twice":
        difference = ieee.rounded(difference, dtype)
    return ieee.rounded(ieee.exponential(difference), dtype)


WORDS: dict[str, Word] = {
    "add": _float_or_int(ieee.add, lambda a, b: a + b),
    "sub": _float_or_int(ieee.subtract, lambda a, b: a - b),
    "mul": _float_or_int(ieee.multiply, lambda a, b: a * b),
    "div": _float_or_int(ieee.divide, divide_ints),
    "max": _maximum,
    "min": _minimum,
    "expdif": _exponential_difference,
}


def relu(value: Any, dtype: str, call: Call) -> Any:
    """max(value, 0)."""
    return WORDS["max"](value, ZERO if dtype in FLOATS else 0, dtype, call)


# -- remainders ------------------------------------------------------------------------------------


def _rest(a: Any, b: Any, mode: str) -> Any:
    """a - fl(whole(fl(a / b)) * b) in f32."""
    quotient = ieee.integral(ieee.rounded(ieee.divide(a, b), "f32"), mode)
    product = ieee.rounded(ieee.multiply(quotient, b), "f32")
    return ieee.rounded(ieee.subtract(a, product), "f32")


def float_floor_modulo(a: Any, b: Any, dtype: str, *, fix: bool) -> Any:
    """The remainder in f32, for f16 narrowed toward zero; then moved to the divisor's sign."""
    rest = ieee.rounded(_rest(a, b, "floor"), dtype, "trunc")
    product = ieee.rounded(ieee.multiply(b, rest), dtype)
    if fix and ieee.less(product, ZERO):
        return ieee.rounded(ieee.add(rest, b), dtype)
    return rest


def floor_modulo(a: Any, b: Any, dtype: str, *, fix: bool) -> Any:
    if dtype in FLOATS:
        return float_floor_modulo(a, b, dtype, fix=fix)
    return a - b * (a // b) if b else 0


def trunc_modulo(a: Any, b: Any, dtype: str, call: Call) -> Any:
    if dtype in FLOATS and call.switches["tfmod.quotient"] == "exact":
        return _exact_rest(a, b, dtype)
    if dtype in FLOATS:
        return ieee.rounded(_rest(a, b, "trunc"), dtype, "trunc")
    return a - b * divide_ints(a, b) if b else 0


def _exact_rest(a: Any, b: Any, dtype: str) -> Any:
    """fmod of C: exact, with the sign of the dividend."""
    if ieee.is_nan(a) or ieee.is_nan(b) or ieee.is_inf(a) or ieee.is_zero(b):
        return "nan"
    if ieee.is_inf(b) or ieee.is_zero(a):
        return a
    rest = abs(a) % abs(b)
    signed = ieee.negated(rest) if a < 0 else rest
    return ieee.rounded(signed, dtype)


# -- integer powers, shifts ------------------------------------------------------------------------


def power(a: Any, b: Any, dtype: str, call: Call) -> Any:
    if dtype in FLOATS:
        if not call.is_a5 and a in (ZERO, "-0") and b not in (ZERO, "-0", "nan"):
            return ZERO if ieee.less(ZERO, b) else "inf"
        return ieee.rounded(ieee.power(a, b), dtype)
    if not call.is_a5 and dtype == "ui32":
        a, b = (v - (1 << 32) if v >> 31 else v for v in (a, b))
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


def shift_left(a: int, b: int, dtype: str, call: Call) -> int:
    return a << b


def shift_right(a: int, b: int, dtype: str, call: Call) -> int:
    """Unsigned elements are not negative, so that Python's shift is logical for them."""
    return a >> b


def leaky(a: Any, slope: Any, dtype: str, call: Call) -> Any:
    """a where it is positive, else a * slope."""
    return a if ieee.less(ZERO, a) else WORDS["mul"](a, slope, dtype, call)


def multiply_add(a: Any, b: Any, c: Any, dtype: str, call: Call) -> Any:
    product = ieee.multiply(a, b)
    if call.switches["muladd.rounding"] == "separate":
        product = ieee.rounded(product, dtype)
    return ieee.rounded(ieee.add(product, c), dtype)


def to_int(value: Any, dtype: str) -> int:
    """Truncated and saturated; NaN is 0."""
    return numerics.to_int("nan" if ieee.is_nan(value) else _signless(value), plain(dtype), "trunc")


def _signless(value: Any) -> Any:
    return Fraction(0) if value == "-0" else value
