"""Slow, independent model of the number formats and their conversions.

Everything is exact arithmetic on Python integers and fractions, one element at a time, from the
definitions of the formats. Nothing is imported from ptosim, and no array library is used.

A float value is a `Fraction`, or one of the strings "inf", "-inf", "nan", "-nan" (the sign of a
NaN matters where a format keeps it), or "-0" where the sign of a zero matters.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

Value = Fraction | str


class FloatFormat(NamedTuple):
    """Sign, exponent and mantissa fields from the top; `kind` is what exponent all-ones means.

    "ieee": infinity and NaN; "fn": an ordinary exponent, except that all ones in both fields is
    NaN; "finite": an ordinary exponent.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    kind: str

    @property
    def bits(self) -> int:
        return 1 + self.exponent_bits + self.mantissa_bits


FORMATS = {
    "f64": FloatFormat(11, 52, 1023, "ieee"),
    "f32": FloatFormat(8, 23, 127, "ieee"),
    "f16": FloatFormat(5, 10, 15, "ieee"),
    "bf16": FloatFormat(8, 7, 127, "ieee"),
    "f8E4M3FN": FloatFormat(4, 3, 7, "fn"),
    "f8E5M2": FloatFormat(5, 2, 15, "ieee"),
    "f4E2M1FN": FloatFormat(2, 1, 1, "finite"),
    "f4E1M2FN": FloatFormat(1, 2, 1, "finite"),
}

INT_RANGES = {
    "i64": (-(2**63), 2**63 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i8": (-128, 127),
    "i4": (-8, 7),
    "ui32": (0, 2**32 - 1),
    "ui16": (0, 2**16 - 1),
    "ui8": (0, 255),
}


@cache
def power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _signed(negative: bool, magnitude: Fraction) -> Value:
    if magnitude == 0:
        return "-0" if negative else Fraction(0)
    return -magnitude if negative else magnitude


@lru_cache(maxsize=1 << 17)  # tests ask of the same codes again and again
def decode(code: int, name: str) -> Value:
    """Value of a bit pattern, read field by field."""
    if name == "hif8":
        return _decode_hif8(code)
    if name == "f8E8M0FNU":
        return "nan" if code == 255 else power_of_two(code - 127)
    form = FORMATS[name]
    mantissa = code & ((1 << form.mantissa_bits) - 1)
    exponent = (code >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    negative = bool(code >> (form.bits - 1))
    all_ones = exponent == (1 << form.exponent_bits) - 1
    if form.kind == "ieee" and all_ones:
        special = "nan" if mantissa else "inf"
        return "-" + special if negative else special
    if form.kind == "fn" and all_ones and mantissa == (1 << form.mantissa_bits) - 1:
        return "-nan" if negative else "nan"
    significand = mantissa + ((1 << form.mantissa_bits) if exponent else 0)
    scale = max(exponent, 1) - form.bias - form.mantissa_bits
    return _signed(negative, significand * power_of_two(scale))


def _decode_hif8(code: int) -> Value:
    """Sign, then a prefix that tells how many exponent bits follow; the rest is mantissa.

    11: 4, 10: 3, 01: 2, 001: 1, 0001: 0; without a one in the first four bits the three that
    follow are a denormal exponent. The exponent is a sign bit and a magnitude whose leading one
    is not stored.
    """
    if code == 0x80:
        return "nan"
    negative = code >= 0x80
    text = f"{code & 0x7F:07b}"
    if code & 0x7F == 0x6F:
        return "-inf" if negative else "inf"
    for prefix, exponent_bits in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
        if text.startswith(prefix):
            rest = text[len(prefix) :]
            magnitude = _hif8_normal(rest[:exponent_bits], rest[exponent_bits:])
            return _signed(negative, magnitude)
    denormal = int(text[4:], 2)
    return _signed(negative, power_of_two(denormal - 23)) if denormal else Fraction(0)


def _hif8_normal(exponent: str, fraction: str) -> Fraction:
    significand = Fraction(int("1" + fraction, 2), 1 << len(fraction))
    if not exponent:
        return significand
    magnitude = int("1" + exponent[1:], 2)
    return significand * power_of_two(-magnitude if exponent[0] == "1" else magnitude)


def round_to_int(value: Fraction, mode: str) -> int:
    """Integer next to `value` that the rounding mode picks."""
    return _round_ratio(value.numerator, value.denominator, mode)


def _round_ratio(numerator: int, denominator: int, mode: str) -> int:
    below, rest = divmod(numerator, denominator)
    if rest == 0:
        return below
    negative = numerator < 0
    if mode in ("rint", "round"):
        twice = 2 * rest - denominator
        tie_up = below % 2 == 1 if mode == "rint" else not negative
        up = twice > 0 or (twice == 0 and tie_up)
    elif mode == "odd":
        up = below % 2 == 0
    else:
        up = {"floor": False, "ceil": True, "trunc": negative}[mode]
    return below + up


def exponent_of(magnitude: Fraction) -> int:
    """floor(log2(magnitude)), exactly."""
    above, below = magnitude.numerator, magnitude.denominator
    exponent = above.bit_length() - below.bit_length()
    reached = below << exponent <= above if exponent >= 0 else below <= above << -exponent
    return exponent if reached else exponent - 1


class _Steps(NamedTuple):
    """`count` steps of 2**`place`."""

    count: int
    place: int

    def exceeds(self, other: _Steps) -> bool:
        """Whether the magnitude is larger than another one."""
        shift = self.place - other.place
        left, right = abs(self.count), abs(other.count)
        return left << shift > right if shift >= 0 else left > right << -shift


def _rounded(value: Fraction, name: str, mode: str) -> _Steps | str:
    """A value that is not zero in steps of the format, or an infinity.

    Also the unbounded result rounded to the format's precision decides about overflow."""
    form = FORMATS[name]
    place = max(exponent_of(abs(value)), 1 - form.bias) - form.mantissa_bits
    above, below = value.numerator, value.denominator
    count = _round_ratio(above << max(-place, 0), below << max(place, 0), mode)
    found, highest = _Steps(count, place), _highest_steps(name)
    if not found.exceeds(highest):
        return found
    negative = value < 0
    if mode in ("trunc", "odd", "ceil" if negative else "floor"):
        return highest._replace(count=-highest.count if negative else highest.count)
    return "-inf" if negative else "inf"


@cache
def _highest_steps(name: str) -> _Steps:
    form, value = FORMATS[name], highest_of(name)
    place = exponent_of(value) - form.mantissa_bits
    return _Steps(int(value / power_of_two(place)), place)


def round_to_format(value: Fraction, name: str, mode: str) -> Value:
    """Value of the IEEE format that the rounding mode picks; overflow as IEEE defines it."""
    if value == 0:
        return value
    found = _rounded(value, name, mode)
    if isinstance(found, str):
        return found
    return _signed(value < 0, abs(found.count) * power_of_two(found.place))


@cache
def highest_of(name: str) -> Fraction:
    """Largest finite value of a float format."""
    form = FORMATS[name]
    top = (1 << (form.exponent_bits + form.mantissa_bits)) - 1
    if form.kind == "ieee":
        top = (((1 << form.exponent_bits) - 1) << form.mantissa_bits) - 1
    elif form.kind == "fn":
        top -= 1
    value = decode(top, name)
    assert isinstance(value, Fraction)
    return value


def encode_exact(value: Value, name: str) -> int:
    """Pattern of a value that the format represents; NaN is the quiet one with the given sign."""
    form = FORMATS[name]
    sign = 1 << (form.bits - 1)
    infinity = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
    if isinstance(value, str):
        magnitude = {
            "inf": infinity,
            "nan": infinity | 1 << (form.mantissa_bits - 1),
            "0": 0,
        }[value.lstrip("-")]
        return magnitude | (sign if value.startswith("-") else 0)
    if value == 0:
        return 0
    place = max(exponent_of(abs(value)), 1 - form.bias) - form.mantissa_bits
    units, rest = divmod(value.numerator << max(-place, 0), value.denominator << max(place, 0))
    assert rest == 0, f"{value} is not a value of {name}"
    return _pattern(_Steps(units, place), form, negative=units < 0)


def _pattern(steps: _Steps, form: FloatFormat, *, negative: bool) -> int:
    """Fields of a number; a count with one bit more carries into the exponent."""
    exponent = steps.place + form.mantissa_bits + form.bias - 1
    magnitude = (exponent << form.mantissa_bits) + abs(steps.count)
    return magnitude | (1 << (form.bits - 1) if negative else 0)


class _Ladder(NamedTuple):
    """Non-negative finite values in rising order, and their codes."""

    values: list[Fraction]
    codes: list[int]


@cache
def _ladder(name: str) -> _Ladder:
    codes = 0x80 if name == "hif8" else 1 << (FORMATS[name].bits - 1)
    steps = []
    for code in range(codes):
        value = decode(code, name)
        if isinstance(value, Fraction):
            steps.append((value, code))
    steps.sort()
    return _Ladder([value for value, _ in steps], [code for _, code in steps])


def nearest_code(value: Fraction, name: str, *, saturate: bool = True) -> int:
    """Code nearest to `value`, found in the list of all values of the format.

    Ties go away from zero in hif8 and to the even code elsewhere. Beyond the largest value the
    next step the format would have decides: with its rounding the result is overflow. Negative
    values get a sign bit; hif8 has no negative zero.
    """
    values, codes = _ladder(name)
    magnitude = abs(value)
    at = min(bisect_left(values, magnitude), len(values) - 1)
    code = codes[at]
    if magnitude > values[-1]:
        code = _overflow_code(magnitude, name, saturate)
    elif magnitude != values[at]:
        lower, upper = values[at - 1], values[at]
        twice = 2 * magnitude - lower - upper
        to_lower = twice < 0 or (twice == 0 and name != "hif8" and codes[at - 1] % 2 == 0)
        code = codes[at - 1] if to_lower else codes[at]
    if value >= 0 or (name == "hif8" and code == 0):
        return code
    return code | (0x80 if name == "hif8" else 1 << (FORMATS[name].bits - 1))


# First magnitude that no longer rounds to the largest finite value: halfway to the next step
# (464, 61440, 40960), which itself stays with the even mantissa of f8E4M3FN only.
_OVERFLOW = {
    "f8E4M3FN": (464, False, 0x7F),
    "f8E5M2": (61440, True, 0x7C),
    "hif8": (40960, True, 0x6F),
}


def _overflow_code(magnitude: Fraction, name: str, saturate: bool) -> int:
    highest = _ladder(name).codes[-1]
    if saturate or name not in _OVERFLOW:
        return highest
    limit, inclusive, code = _OVERFLOW[name]
    over = magnitude >= limit if inclusive else magnitude > limit
    return code if over else highest


_NAN_CODES = {
    "f8E4M3FN": (0x7F, 0xFF),
    "f8E5M2": (0x7E, 0xFE),
    "f4E2M1FN": (7, 7),
    "f4E1M2FN": (7, 7),
    "hif8": (0x80, 0x80),
}


def to_code(value: Value, name: str, *, saturate: bool = True) -> int:
    """TCVT of one value into an 8- or 4-bit float."""
    if not isinstance(value, str):
        return nearest_code(value, name, saturate=saturate)
    negative = value.startswith("-")
    if value.endswith("nan"):
        return _NAN_CODES[name][negative]
    sign = 1 << (7 if name == "hif8" else FORMATS[name].bits - 1)
    if value == "-0":
        return 0 if name == "hif8" else sign
    highest = _ladder(name).codes[-1]
    infinite = _OVERFLOW.get(name, (0, True, highest))[2]
    return (highest if saturate else infinite) | (sign if negative else 0)


def to_float(value: Value, name: str, mode: str, *, saturate: bool) -> int | None:
    """TCVT of one value into a narrower IEEE format: its pattern, or None for any NaN."""
    if isinstance(value, str) and value.endswith("nan"):
        return None
    result = value if isinstance(value, str) or value == 0 else _rounded(value, name, mode)
    if saturate and result in ("inf", "-inf"):
        result = highest_of(name) if result == "inf" else -highest_of(name)
    if isinstance(result, _Steps):
        return _pattern(result, FORMATS[name], negative=value < 0)  # type: ignore[operator]
    return encode_exact(result, name)


def to_int(value: Value, name: str, mode: str) -> int:
    """TCVT of one value into an integer with saturation; NaN gives 0."""
    low, high = INT_RANGES[name]
    if isinstance(value, str):
        return {"inf": high, "-inf": low}.get(value, 0)
    return min(max(round_to_int(value, mode), low), high)


def low_bits(number: int, name: str) -> int:
    """Low bits of an integer, read as the integer type."""
    low, high = INT_RANGES[name]
    span = high - low + 1
    return (number - low) % span + low


def to_low_bits(value: Value, name: str, mode: str) -> int:
    """Low bits of the exact integer; infinities and NaN give 0."""
    return 0 if isinstance(value, str) else low_bits(round_to_int(value, mode), name)


# --- random words -----------------------------------------------------------------------------


def philox(counter: tuple[int, ...], key: tuple[int, int]) -> tuple[int, ...]:
    """One block of Philox4x64 with ten rounds (Salmon et al., SC 2011): four 64-bit words."""
    mask = 2**64 - 1
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = divmod(c0 * 0xD2E7470EE14C6C93, 2**64)
        high1, low1 = divmod(c2 * 0xCA5A826395121157, 2**64)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & mask, (k1 + 0xBB67AE8584CAA73B) & mask
    return c0, c1, c2, c3
