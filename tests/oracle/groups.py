"""Slow, independent model of MX and INT8 quantization: one group, one element at a time."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from tests.oracle.numerics import (
    FORMATS,
    INT_RANGES,
    Value,
    decode,
    encode_exact,
    exponent_of,
    power_of_two,
    round_to_format,
    to_code,
    to_int,
)


class MxGroup(NamedTuple):
    """Maximum (pattern without sign), exponent, scale (pattern) and codes of one group."""

    maximum: int
    exponent: int
    scale: int
    codes: list[int]


_EMAX = {"f8E4M3FN": 8, "f4E2M1FN": 2}
_LIMIT = {"f8E4M3FN": 448, "f4E2M1FN": 6}


def _f32_of(value: Fraction) -> int:
    return encode_exact(round_to_format(value, "f32", "rint"), "f32")


def _bf16_truncated(pattern: int) -> int:
    value = decode(pattern, "f16")
    if value == "nan":
        return 0x7FC0
    if value == "inf":
        return 0x7F80
    assert isinstance(value, Fraction)
    return encode_exact(round_to_format(value, "bf16", "trunc"), "bf16")


def _ocp_exponent(maximum: Value, emax: int) -> int:
    if maximum == "nan":
        return 255
    if maximum == "inf":
        return 255 - emax
    if maximum == 0:
        return 0
    assert isinstance(maximum, Fraction)
    return max(exponent_of(maximum) + 127 - emax, 0)


def _nv_exponent(maximum: Value, limit: int) -> int:
    if isinstance(maximum, str):
        return 255 if maximum == "nan" else 254
    reciprocal = decode(_f32_of(Fraction(1, limit)), "f32")
    assert isinstance(reciprocal, Fraction)
    quotient = decode(_f32_of(maximum * reciprocal), "f32")
    assert isinstance(quotient, Fraction)
    exponent = 0
    while power_of_two(exponent - 127) < quotient:
        exponent += 1
    return exponent


def mx_group(patterns: list[int], src: str, dst: str, algorithm: str) -> MxGroup:
    """All three stages for the 32 bit patterns of one group."""
    sign = 1 << (FORMATS[src].bits - 1)
    largest = max(pattern & (sign - 1) for pattern in patterns)
    stored_as = "bf16" if (src, algorithm) == ("f16", "ocp") else src
    stored = _bf16_truncated(largest) if stored_as != src else largest
    maximum = decode(stored, stored_as)
    if algorithm == "ocp":
        exponent = _ocp_exponent(maximum, _EMAX[dst])
    else:
        exponent = _nv_exponent(maximum, _LIMIT[dst])
    narrow = src != "f32"
    if exponent == 255:
        e4m3 = dst == "f8E4M3FN"
        scale = (0x7F81 if e4m3 else 0x7FC0) if narrow else 0x7FC00000
        return MxGroup(stored, exponent, scale, [0x7F if e4m3 else 7] * len(patterns))
    factor = power_of_two(127 - exponent)
    scale = encode_exact(factor, "bf16" if narrow else "f32")
    codes = [_scaled_code(decode(pattern, src), factor, dst) for pattern in patterns]
    return MxGroup(stored, exponent, scale, codes)


def _scaled_code(value: Value, factor: Fraction, dst: str) -> int:
    product = value if isinstance(value, str) else value * factor
    return to_code(product, dst)


# --- INT8 quantization ------------------------------------------------------------------------


def int8_code(x: Value, scale: Fraction, offset: Fraction | None) -> int:
    """One element: round the product, then the sum, to f32, then to an integer, then clamp.

    `scale` is positive.
    """
    total = x if isinstance(x, str) else _f32_value(x * scale)
    if offset is not None and isinstance(total, Fraction):
        total = _f32_value(total + offset)
    low, high = INT_RANGES["i8" if offset is None else "ui8"]
    return min(max(to_int(total, "i32", "rint"), low), high)


def _f32_value(value: Fraction) -> Value:
    rounded = round_to_format(value, "f32", "rint")
    return Fraction(0) if rounded == "-0" else rounded
