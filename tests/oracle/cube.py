"""What the cube and the fixpipe compute, one element at a time with exact fractions.

Written from the public descriptions of the operations; nothing is imported from ptosim.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import ml_dtypes
import numpy as np

FLOAT_TYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
}


def nearest_f32(value: Fraction) -> np.float32:
    """The f32 nearest to an exact value, ties to even; beyond the range infinity."""
    if value == 0:
        return np.float32(0)
    size = abs(value)
    top, bottom = size.numerator, size.denominator
    exponent = top.bit_length() - bottom.bit_length()
    if top < bottom << exponent if exponent >= 0 else top << -exponent < bottom:
        exponent -= 1
    shift = 23 - max(exponent, -126)
    if shift >= 0:
        top <<= shift
    else:
        bottom <<= -shift
    whole, rest = divmod(top, bottom)
    if 2 * rest > bottom or (2 * rest == bottom and whole % 2):
        whole += 1
    result = np.ldexp(np.float64(whole), -shift)
    with np.errstate(over="ignore"):
        return np.float32(result if value > 0 else -result)


def keep_bits(value: np.float32, bits: int, away: bool) -> np.float32:
    """An f32 with its mantissa rounded to `bits` bits after the point."""
    if value == 0 or not np.isfinite(value):
        return value
    exact = abs(Fraction(float(value)))
    exponent = max(int(np.frexp(np.float64(abs(value)))[1]) - 1, -126)
    unit = Fraction(2) ** (exponent - bits)
    whole, rest = divmod(exact / unit, 1)
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and (away or whole % 2)):
        whole += 1
    return np.float32(np.copysign(float(whole * unit), value))


def dot(a: Sequence[float], b: Sequence[float]) -> np.float32:
    """Sum of products as one exact sum rounded once; IEEE rules for NaN and infinities."""
    products = [(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    if all(np.isfinite(x) and np.isfinite(y) for x, y in products):
        return nearest_f32(sum((Fraction(x) * Fraction(y) for x, y in products), Fraction(0)))
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.float64(0)
        for x, y in products:
            total = total + np.float64(x) * np.float64(y)
        return np.float32(total)


def _whole(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Finite values as Python integers times a common power of two."""
    mantissas, exponents = np.frexp(values.astype(np.float64))
    low = int(exponents.min()) - 53 if values.size else 0
    digits = (mantissas * 2.0**53).astype(np.int64).astype(object)
    return digits << (exponents - 53 - low).astype(object), low


def matmul_once(a: np.ndarray, b: np.ndarray, start: np.ndarray) -> np.ndarray:
    """start + a x b of finite values, rounded once: start is one more product."""
    m, n = a.shape[0], b.shape[1]
    result, one = np.empty((m, n), np.float32), np.ones((1, 1))
    begin = np.broadcast_to(start, (m, n)).astype(np.float64)
    for i, j in np.ndindex(m, n):
        row = np.append(a[i : i + 1], begin[i : i + 1, j : j + 1], axis=1)
        result[i, j] = matmul(row, np.append(b[:, j : j + 1], one, axis=0))[0, 0]
    return result


def matmul(a: np.ndarray, b: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """a x b: exact sums rounded to f32 once (`dot` where something is not finite); then start is
    added in f32. `a` and `b` hold the values of the elements."""
    m, n = a.shape[0], b.shape[1]
    finite_rows, finite_cols = np.isfinite(a).all(1), np.isfinite(b).all(0)
    x, low_x = _whole(np.where(np.isfinite(a), a, 0))
    y, low_y = _whole(np.where(np.isfinite(b), b, 0))
    totals = x @ y
    unit = Fraction(2) ** (low_x + low_y)
    result = np.empty((m, n), np.float32)
    for i in range(m):
        for j in range(n):
            if finite_rows[i] and finite_cols[j]:
                result[i, j] = nearest_f32(totals[i, j] * unit)
            else:
                result[i, j] = dot(a[i], b[:, j])
    if start is None:
        return result
    with np.errstate(invalid="ignore", over="ignore"):
        return result + np.asarray(start, np.float32)


def matmul_integers(a: np.ndarray, b: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """start + a x b modulo 2^32, as i32."""
    result = np.empty((a.shape[0], b.shape[1]), np.int32)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = sum(int(x) * int(y) for x, y in zip(a[i], b[:, j], strict=True))
            if start is not None:
                total += int(np.broadcast_to(start, result.shape)[i, j])
            result[i, j] = (total + 2**31) % 2**32 - 2**31
    return result


def matmul_in_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Sums in f32, one product after the other along k, each product rounded to f32."""
    result = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = np.float32(0)
            for x, y in zip(a[i], b[:, j], strict=True):
                total = np.float32(total + np.float32(float(x) * float(y)))
            result[i, j] = total
    return result


def scaled(values: np.ndarray, scales: np.ndarray, axis: int) -> np.ndarray:
    """Values times 2^(code - 127) of their group of 32 along an axis; 255 is NaN."""
    result = values.astype(np.float64)
    for at in np.ndindex(*values.shape):
        group = (at[0], at[1] // 32) if axis == 1 else (at[0] // 32, at[1])
        code = int(scales[group])
        result[at] = float("nan") if code == 255 else result[at] * 2.0 ** (code - 127)
    return result


def left_scale_offset(row: int, group: int, groups: int) -> int:
    """Byte of the scale of (row, group): 32 bytes for 16 rows and two groups."""
    return (row // 16) * groups * 16 + (group // 2) * 32 + (row % 16) * 2 + group % 2


def short_scale(scale: float) -> Fraction:
    """The scale of a quantisation word: an f32 without its low 13 bits of mantissa."""
    bits = int(np.float32(scale).view(np.uint32)) & 0xFFFFE000
    return Fraction(float(np.uint32(bits).view(np.float32)))


def requantised(
    value: float,
    scale: float,
    offset: int,
    *,
    signed: bool,
    relu: str | None = None,
    clip_first: bool = True,
) -> int:
    """An accumulator value as 8 bits: exact product, clip to 9 bits, round half to even, offset,
    clip. `relu` says where negative values become 0: before the scale, after it, or last."""
    if np.isnan(value):
        value = 0.0
    value = min(max(value, -(2.0**100)), 2.0**100)
    exact = Fraction(value)
    if relu == "before":
        exact = max(exact, Fraction(0))
    product = exact * short_scale(scale)
    if relu == "scaled":
        product = max(product, Fraction(0))
    if clip_first:
        whole = round(min(max(product, Fraction(-256)), Fraction(255))) + offset
    else:
        whole = round(product + offset)
    code = min(max(whole, -128), 127) if signed else min(max(whole, 0), 255)
    return max(code, 0) if relu == "last" else code
