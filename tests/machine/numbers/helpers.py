"""Bit patterns in hexadecimal to arrays and back, and probe values for exhaustive comparisons."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import pairwise

import numpy as np

from ptosim.machine.numbers.formats import lookup
from tests.oracle import numerics as oracle

MODES = ("rint", "round", "floor", "ceil", "trunc", "odd")


def array(form: str, patterns: str) -> np.ndarray:
    """Array of `form` from bit patterns in hexadecimal, separated by spaces."""
    return from_patterns(form, [int(text, 16) for text in patterns.split()])


def from_patterns(form: str, patterns: list[int]) -> np.ndarray:
    """Array of `form` from bit patterns."""
    dtype = lookup(form).dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    return np.array(patterns, dtype=unsigned).view(dtype)


def patterns_of(values: np.ndarray) -> list[int]:
    """Bit patterns of an array as a flat list."""
    return values.view(f"u{values.dtype.itemsize}").reshape(-1).tolist()


def hexes(values: np.ndarray) -> str:
    """Bit patterns of an array in hexadecimal, separated by spaces."""
    digits = values.dtype.itemsize * 2
    return " ".join(f"{pattern:0{digits}X}" for pattern in patterns_of(values))


@cache
def every16(form: str) -> list[oracle.Value]:
    """Value of each of the 65,536 patterns of `f16` or `bf16`."""
    return [oracle.decode(pattern, form) for pattern in range(0x10000)]


def every16_array(form: str) -> np.ndarray:
    """All 65,536 patterns of `f16` or `bf16` as an array."""
    return np.arange(0x10000, dtype=np.uint16).view(lookup(form).dtype)


def _neighbors(pattern: int, reach: int) -> list[int]:
    return [p for p in range(pattern - reach, pattern + reach + 1) if 0 <= p <= 0x7F800000]


def _midpoints(form: str) -> list[Fraction]:
    codes = 0x80 if form == "hif8" else 1 << (oracle.FORMATS[form].bits - 1)
    decoded = [oracle.decode(code, form) for code in range(codes)]
    values = sorted(value for value in decoded if isinstance(value, Fraction))
    return [(low + high) / 2 for low, high in pairwise(values)] + values


@cache
def f32_probes() -> list[int]:
    """f32 patterns around every boundary of every destination, specials, and a random sample."""
    magnitudes = {0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF, 0x007FFFFF, 0x00400000}
    for exponent in range(256):
        magnitudes.update(_neighbors(exponent << 23, 2))
    limits = [65504, 65519, 65520, 65535, 65536, 448, 464, 480, 57344, 61440, 40960, 49152]
    limits += [32766, 32767, 32768, 127, 128, 255, 256, 40000, 70000, 2**31 - 128]
    halves = [Fraction(k, 2) for k in range(70)] + [Fraction(2 * k + 1, 2) for k in limits]
    for form in ("f8E4M3FN", "f8E5M2", "hif8", "f4E2M1FN", "f4E1M2FN"):
        halves += _midpoints(form)
    for value in [*limits, *halves]:
        pattern = oracle.encode_exact(
            oracle.round_to_format(Fraction(value), "f32", "trunc"), "f32"
        )
        magnitudes.update(_neighbors(pattern, 2))
    sample = np.random.default_rng(7).integers(0, 0x7F800000, 1500).tolist()
    magnitudes.update(sample)
    return sorted(magnitudes) + [magnitude | 1 << 31 for magnitude in sorted(magnitudes)]


@cache
def f32_values() -> list[oracle.Value]:
    """Values of `f32_probes`."""
    return [oracle.decode(pattern, "f32") for pattern in f32_probes()]


def int_probes(form: str) -> list[int]:
    """Integers around zero, every power of two and both limits, and a random sample."""
    low, high = oracle.INT_RANGES[form]
    centers = {0, low, high} | {sign << k for k in range(64) for sign in (1, -1)}
    centers |= {3 << k for k in range(63)} | {65504, 65520, -65520, 2**24 + 2**23}
    near = {center + offset for center in centers for offset in range(-3, 4)}
    near.update(np.random.default_rng(11).integers(low, high, 500, endpoint=True).tolist())
    return sorted(n for n in near if low <= n <= high)


def integral(value: Fraction, mode: str) -> oracle.Value:
    """The integer that a rounding mode gives, with the sign of a zero."""
    whole = oracle.round_to_int(value, mode)
    return "-0" if whole == 0 and value < 0 else Fraction(whole)
