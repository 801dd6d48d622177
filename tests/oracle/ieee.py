"""IEEE arithmetic on the exact values of `numerics`: one element, one rounding, special values
spelled out. Powers, roots and logarithms are computed with 60 decimal digits before they are
rounded.

Nothing is imported from ptosim.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction

from tests.oracle.numerics import Value, decode, power_of_two, to_float

ZERO = Fraction(0)
_DIGITS = Context(prec=60, Emax=10**9, Emin=-(10**9))


def is_nan(value: Value) -> bool:
    return value in ("nan", "-nan")


def is_inf(value: Value) -> bool:
    return value in ("inf", "-inf")


def is_negative(value: Value) -> bool:
    """The sign bit of a value that is not NaN."""
    return value.startswith("-") if isinstance(value, str) else value < 0


def exact(value: Value) -> Fraction:
    """The number of a finite value."""
    return ZERO if value == "-0" else Fraction(value)


def is_zero(value: Value) -> bool:
    return value == "-0" or value == 0


def negated(value: Value) -> Value:
    if is_nan(value):
        return value
    if isinstance(value, str):
        return {"inf": "-inf", "-inf": "inf", "-0": ZERO}[value]
    return "-0" if value == 0 else -value


def magnitude(value: Value) -> Value:
    return negated(value) if not is_nan(value) and is_negative(value) else value


def rounded(value: Value, dtype: str, mode: str = "rint", *, saturate: bool = False) -> Value:
    """The value of a format that an exact value rounds to; overflow as IEEE says."""
    code = to_float(value, dtype, mode, saturate=saturate)
    return "nan" if code is None else decode(code, dtype)


def order(value: Value) -> Fraction:
    """A number that sorts values that are not NaN; the zeros are equal."""
    if is_inf(value):
        return power_of_two(5000) * (-1 if value == "-inf" else 1)
    return exact(value)


def less(a: Value, b: Value) -> bool:
    return not (is_nan(a) or is_nan(b)) and order(a) < order(b)


def equal(a: Value, b: Value) -> bool:
    return not (is_nan(a) or is_nan(b)) and order(a) == order(b)


# -- exact results ---------------------------------------------------------------------------------


def add(a: Value, b: Value) -> Value:
    if is_nan(a) or is_nan(b):
        return "nan"
    if is_inf(a) or is_inf(b):
        if is_inf(a) and is_inf(b) and a != b:
            return "nan"
        return a if is_inf(a) else b
    if a == "-0" and b == "-0":
        return "-0"
    return exact(a) + exact(b)


def subtract(a: Value, b: Value) -> Value:
    return add(a, negated(b))


def _signed(value: Value, a: Value, b: Value) -> Value:
    return negated(value) if is_negative(a) != is_negative(b) else value


def multiply(a: Value, b: Value) -> Value:
    if is_nan(a) or is_nan(b):
        return "nan"
    if is_inf(a) or is_inf(b):
        return "nan" if is_zero(a) or is_zero(b) else _signed("inf", a, b)
    return _signed(abs(exact(a)) * abs(exact(b)), a, b)


def divide(a: Value, b: Value) -> Value:
    if is_nan(a) or is_nan(b):
        return "nan"
    if is_inf(a):
        return "nan" if is_inf(b) else _signed("inf", a, b)
    if is_inf(b):
        return _signed(ZERO, a, b)
    if is_zero(b):
        return "nan" if is_zero(a) else _signed("inf", a, b)
    return _signed(abs(exact(a)) / abs(exact(b)), a, b)


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


def square_root(a: Value) -> Value:
    if is_nan(a) or is_zero(a) or a == "inf":
        return a
    if is_negative(a):
        return "nan"
    return Fraction(_DIGITS.sqrt(_decimal(exact(a))))


def exponential(a: Value) -> Value:
    if is_nan(a) or is_inf(a):
        return {"-inf": ZERO}.get(a, a)
    number = exact(a)
    if number > 1000:
        return "inf"
    return power_of_two(-2000) if number < -1000 else Fraction(_DIGITS.exp(_decimal(number)))


def logarithm(a: Value) -> Value:
    if is_nan(a) or a == "inf":
        return a
    if is_zero(a):
        return "-inf"
    return "nan" if is_negative(a) else Fraction(_DIGITS.ln(_decimal(exact(a))))


def power(a: Value, b: Value) -> Value:
    """pow of IEEE for finite operands and NaN."""
    if not is_nan(b) and is_zero(b):
        return Fraction(1)
    if not isinstance(a, str) and a == 1:
        return Fraction(1)
    if is_nan(a) or is_nan(b):
        return "nan"
    base, exponent = exact(a), exact(b)
    whole = exponent.denominator == 1
    odd = whole and exponent.numerator % 2 == 1
    if base == 0:
        result: Value = "inf" if exponent < 0 else ZERO
        return negated(result) if odd and is_negative(a) else result
    if base < 0 and not whole:
        return "nan"
    result = _positive_power(abs(base), exponent)
    return negated(result) if base < 0 and odd else result


def _positive_power(base: Fraction, exponent: Fraction) -> Value:
    if base == 1:
        return Fraction(1)
    height = _DIGITS.multiply(_DIGITS.ln(_decimal(base)), _decimal(exponent))
    if height > 2000:
        return "inf"
    if height < -2000:
        return power_of_two(-3000)
    return Fraction(_DIGITS.power(_decimal(base), _decimal(exponent)))


def integral(value: Value, mode: str) -> Value:
    """A value rounded to an integral one; zeros keep the sign."""
    if isinstance(value, str) or value == 0:
        return value
    whole = {"floor": value.__floor__(), "trunc": value.__trunc__()}[mode]
    return "-0" if whole == 0 and value < 0 else Fraction(whole)
