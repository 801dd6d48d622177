"""Slow model of the cube: fractal layouts, products, the way of an accumulator out, element by element.

Written from the PTO micro-instruction specification; nothing is imported from ptosim. Matrices are lists
of rows of patterns.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction

from tests.oracle import lanes as one
from tests.oracle.numerics import decode, highest_of, power_of_two

Matrix = list[list[int]]


def up16(n: int) -> int:
    return -(-n // 16) * 16


def fractals(
    source: bytes, n: int, d: int, size: int, inner: int, outer: int, groups: int, l2: int, l3: int,
    l4: int, *, by_rows: bool, memory: bytearray,
) -> None:  # fmt: skip
    """GM to L1: 32-byte rows of n rows and d values, missing values 0."""
    width = 32 // size
    for q in range(groups):
        for row in range(n):
            for block in range(-(-d // width)):
                line = bytearray(32)
                for i in range(width):
                    c = block * width + i
                    if c >= d:
                        break
                    at = q * outer + (row * inner + c * size if by_rows else c * inner + row * size)
                    line[i * size : (i + 1) * size] = source[at : at + size]
                to = (q * l4 + block * l3 + row * l2) * 32
                memory[to : to + 32] = line


def tf32(pattern: int, mode: str) -> int:
    """10 bits of mantissa, by adding to the 13 bits that go."""
    value = decode(pattern, "f32")
    if one.is_nan(value):
        return pattern
    half = 0xFFF + (pattern >> 13 & 1) if mode == "round_even" else 0x1000
    return (pattern + half) & 0xFFFFE000


def _finite(value: one.Value, name: str) -> one.Value:
    if one.is_nan(value):
        return Fraction(0)
    if value in ("inf", "-inf"):
        # sat replaces an infinite operand by the largest value of its type.
        return highest_of(name) if value == "inf" else -highest_of(name)
    return value


def product(
    a: Matrix, b: Matrix, left: str, right: str, start: Matrix | None = None, *,
    saturate: bool = False, scales_a: Matrix | None = None, scales_b: Matrix | None = None,
) -> list[list[one.Pattern]]:  # fmt: skip
    """start + a [m, k] x b [k, n]: exact sums of float products, rounded to f32 before start is added.

    Scales are e8m0 codes for each row (column) and group of 32 along k; code 255 is NaN.
    """
    rows = [
        _Factors(_values(line, left, saturate, scales_a[i] if scales_a else None))
        for i, line in enumerate(a)
    ]
    columns = [
        _Factors(_values(column, right, saturate, scales_b[j] if scales_b else None))
        for j, column in enumerate(zip(*b, strict=True))
    ]
    result = []
    for i, x in enumerate(rows):
        line = []
        for j, y in enumerate(columns):
            total = _dot(x, y)
            if start is not None:
                total = one.plus(one.rounded(total, "f32"), decode(start[i][j], "f32"))
            line.append(_final(total, saturate))
        result.append(line)
    return result


def _values(
    line: Sequence[int], name: str, saturate: bool, scales: Sequence[int] | None
) -> list[one.Value]:
    """A row or column as values, its groups of 32 scaled."""
    values = [decode(p, name) for p in line]
    if saturate:
        values = [_finite(v, name) for v in values]
    if scales is None:
        return values
    factors: list[one.Value] = ["nan" if c == 255 else power_of_two(c - 127) for c in scales]
    return [one.times(v, factors[t // 32]) for t, v in enumerate(values)]


_UNIT = 1 << 300


class _Factors:
    """A row or column, also in units of 2^-300 where all of it is finite: sums of integers are as
    exact as those of fractions, and quicker."""

    def __init__(self, values: list[one.Value]) -> None:
        self.values = values
        numbers = [one.finite(v) for v in values]
        finite = [n.numerator * (_UNIT // n.denominator) for n in numbers if n is not None]
        self.whole = finite if len(finite) == len(values) else None


def _dot(x: _Factors, y: _Factors) -> one.Value:
    """The exact sum of products, from +0 on."""
    if x.whole is not None and y.whole is not None:
        return Fraction(sum(map(operator.mul, x.whole, y.whole)), _UNIT * _UNIT)
    total: one.Value = Fraction(0)
    for p, q in zip(x.values, y.values, strict=True):
        total = one.plus(total, one.times(p, q))
    return total


def _final(total: one.Value, saturate: bool) -> one.Pattern:
    pattern = one.pack(total, "f32")
    if not saturate:
        return pattern
    if pattern is None:
        return 0
    return {0x7F800000: 0x7F7FFFFF, 0xFF800000: 0xFF7FFFFF}.get(pattern, pattern)


def integer_product(a: Matrix, b: Matrix, name: str = "i8") -> Matrix:
    return [
        [
            sum(one.number(x, name) * one.number(b[t][j], name) for t, x in enumerate(line))
            & 0xFFFFFFFF
            for j in range(len(b[0]))
        ]
        for line in a
    ]


# -- the way out ---------------------------------------------------------------------------------------


def out_value(
    acc: int, scale: int | None, slope: int | None, dst: str, *, relu: bool, saturate: bool,
    clip: int | None = None,
) -> one.Pattern:  # fmt: skip
    """One f32 accumulator: scaled, activated, converted to f16, bf16 or f32, clipped."""
    x: one.Value = decode(acc, "f32")
    if scale is not None:
        x = one.rounded(one.times(x, decode(scale & 0xFFFFE000, "f32")), "f32")
    if relu and slope is None:
        x = one.choose(x, Fraction(0), larger=True)
    elif relu and (one.is_nan(x) or one.order(x)[0] < 0):
        assert slope is not None
        x = one.rounded(one.times(x, decode(slope, "f32")), "f32")
    pattern = one.pack(x, dst)
    if saturate and dst != "f32":
        if pattern is None:
            pattern = 0
        elif one.decode(pattern, dst) in ("inf", "-inf"):
            top = highest_of(dst)
            pattern = one.pack(top if one.decode(pattern, dst) == "inf" else -top, dst)
    if clip is None or pattern is None:
        return pattern
    return one.pack(one.choose(decode(pattern, dst), decode(clip, dst), larger=False), dst)


def out_whole(
    acc: int, scale: int, offset: int, bits: int, *, source: str, relu: bool = False,
    clip: int | None = None, signed: bool = True,
) -> int:  # fmt: skip
    """One accumulator (f32 pattern or i32) as an integer: the exact product, to the nearest even."""
    x = decode(acc, "f32") if source == "f32" else Fraction(one.number(acc, "i32"))
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if one.is_nan(x):
        result = offset
    elif x in ("inf", "-inf"):
        result = high if x == "inf" else 0 if relu else low
    else:
        exact = Fraction(0 if x == "-0" else x) * Fraction(decode(scale & 0xFFFFE000, "f32"))
        result = round(max(exact, Fraction(0)) if relu else exact) + offset
    result = max(low, min(high, result))
    if clip is not None:
        result = min(result, clip)
    return result & (1 << bits) - 1


def scale_rows(codes: Sequence[Sequence[int]]) -> bytes:
    """Scales in the order that mte_l1_l0*_mx reads: 16 rows, 2 groups: byte 2 * row + group."""
    rows, groups = up16(len(codes)), -(-len(codes[0]) // 2) * 2
    out = bytearray()
    for block in range(0, rows, 16):
        for pair in range(0, groups, 2):
            for r in range(block, block + 16):
                for g in (pair, pair + 1):
                    known = r < len(codes) and g < len(codes[0])
                    out.append(codes[r][g] if known else 127)
    return bytes(out)
