"""Lane functions of the vector unit on arrays, where they are not NumPy's own.

PTO micro-instruction specification, vector arithmetic and reductions. Integers wrap; a NaN in
either operand of a maximum or minimum gives NaN, and +0 is larger than -0 (no document decides the
zeros; this is the order of IEEE 754-2019, and it does not depend on the host as NumPy's does). exp,
log and square root of f16 are computed in f32 and rounded once more."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from ptosim.machine.numbers import transcendental
from ptosim.machine.numbers.formats import BF16

Function = Callable[..., np.ndarray]

F32 = np.dtype(np.float32)
F16 = np.dtype(np.float16)


def is_float(lanes: np.dtype) -> bool:
    """True for f32, f16 and bf16 lanes."""
    return lanes.kind == "f" or lanes == BF16


def unsigned(lanes: np.dtype) -> np.dtype:
    """Return the unsigned integers of the same width."""
    return np.dtype(f"u{lanes.itemsize}")


# -- larger and smaller ---------------------------------------------------------------------------


def with_zeros(pick: np.ufunc, merge: np.ufunc) -> Function:
    """Return a maximum or minimum that knows the signs of zeros: two of them differ at most in the
    sign bit, which `merge` decides."""

    def choose(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        result = pick(first, second)
        if np.count_nonzero(result) != result.size:
            bits = unsigned(result.dtype)
            zeros = (first == 0) & (second == 0)
            merged = merge(first.view(bits), second.view(bits))
            np.copyto(result.view(bits), merged, where=zeros)
        return result

    return choose


_MAXIMUM = with_zeros(np.maximum, np.bitwise_and)
_MINIMUM = with_zeros(np.minimum, np.bitwise_or)


def maximum_of(lanes: np.dtype, scalar: float) -> Function:
    """Return the larger of a register and of a number that never changes, in every lane: only a
    zero needs care."""
    if is_float(lanes) and scalar == 0:
        if math.copysign(1, scalar) < 0:
            return _MAXIMUM
        zero = lanes.type(0)

        def larger(first: np.ndarray, second: np.ndarray) -> np.ndarray:
            result = np.maximum(first, second)
            return np.add(result, zero, out=result)  # -0 + 0 is +0

        return larger
    return np.maximum


def minimum_of(lanes: np.dtype, scalar: float) -> Function:
    """Return the smaller of a register and of a number that never changes, in every lane."""
    return _MINIMUM if is_float(lanes) and scalar == 0 else np.minimum


def maximum(lanes: np.dtype) -> Function:
    """Return the larger of two registers; NaN if either is NaN."""
    return _MAXIMUM if is_float(lanes) else np.maximum


def minimum(lanes: np.dtype) -> Function:
    """Return the smaller of two registers; NaN if either is NaN."""
    return _MINIMUM if is_float(lanes) else np.minimum


def relu(lanes: np.dtype) -> Function:
    """max(x, 0); the zero is +0, NaN stays NaN."""
    zero = lanes.type(0)
    if not is_float(lanes):
        return lambda values: np.maximum(values, zero)
    return lambda values: np.maximum(values, zero) + zero  # -0 + 0 is +0


def leaky(values: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """x where x >= 0, else x * slope."""
    return np.where(values >= 0, values, values * slopes)


def quotient(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """first / second of signed integers of up to 32 bits, rounded toward zero; by zero it is -1,
    and what does not fit wraps."""
    x, y = first.astype(np.int64), second.astype(np.int64)
    by_zero = y == 0
    whole = np.abs(x) // np.where(by_zero, 1, np.abs(y))
    signed = np.where((x < 0) != (y < 0), -whole, whole)
    return np.where(by_zero, -1, signed).astype(first.dtype)


def shift_left(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Bits shifted by an unsigned count in each lane, whatever integers the counts stand in; a
    count of the width or more shifts everything out."""
    return np.left_shift(values, _within(values, counts))


def shift_right(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The same to the right: signed values keep their sign, and are it where everything is shifted
    out."""
    return np.right_shift(values, _within(values, counts))


def _within(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Counts in the type of the values, at most the width: NumPy shifts that far with the meaning
    that is wanted here."""
    most = values.dtype.itemsize * 8
    return np.minimum(counts.view(unsigned(counts.dtype)), most).astype(values.dtype)


# -- one register ----------------------------------------------------------------------------------


def absolute(lanes: np.dtype) -> Function:
    """|x|; the smallest integer stays as it is, a float loses its sign bit."""
    if lanes.kind == "u":
        return np.copy
    if lanes.kind != "V" and lanes != BF16:
        return np.abs
    bits = unsigned(lanes)
    keep = bits.type((1 << (lanes.itemsize * 8 - 1)) - 1)
    return lambda values: (values.view(bits) & keep).view(lanes)


def negated(lanes: np.dtype) -> Function:
    """-x; a float changes its sign bit."""
    if not is_float(lanes):
        return np.negative
    bits = unsigned(lanes)
    sign = bits.type(1 << (lanes.itemsize * 8 - 1))
    return lambda values: (values.view(bits) ^ sign).view(lanes)


@cache
def _half_table(name: str) -> np.ndarray:
    every = np.arange(0x10000, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        return getattr(transcendental, name)(every).astype(np.float16)


def transcendent(name: str, lanes: np.dtype) -> Function:
    """exp, log, sqrt, recip or rsqrt of a register."""
    if lanes == F16:
        return lambda values: _half_table(name).take(values.view(np.uint16))
    return getattr(transcendental, name)


def exponential_of_difference(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """e^(a - b) in f32; the difference is rounded to f32."""
    return transcendental.exp(first.astype(F32, copy=False) - second.astype(F32, copy=False))


def bit_count(values: np.ndarray) -> np.ndarray:
    """The number of bits that are set."""
    return np.bitwise_count(values.view(unsigned(values.dtype))).astype(values.dtype)


def sign_run(values: np.ndarray) -> np.ndarray:
    """The number of bits after the sign bit that repeat it."""
    bits = unsigned(values.dtype)
    width = values.dtype.itemsize * 8
    raw = values.view(bits)
    differs = (raw ^ (raw << bits.type(1))) >> bits.type(1)  # bit i: bit i + 1 has another neighbor
    count = np.full(values.shape, width - 1, np.int64)
    for i in range(width - 1):
        count[(differs >> bits.type(i)) & bits.type(1) == 1] = width - 2 - i
    return count.astype(values.dtype)


# -- carry and wide products -----------------------------------------------------------------------


def wide_product(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high 32 bits of the 64-bit products."""
    wide = np.dtype(np.int64 if first.dtype.kind == "i" else np.uint64)
    halves = (first.astype(wide) * second.astype(wide)).view(first.dtype)
    return halves[::2].copy(), halves[1::2].copy()


def add_with_carry(
    first: np.ndarray, second: np.ndarray, carry: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of u32 modulo 2^32, and where they were larger."""
    total = first.astype(np.uint64) + second
    if carry is not None:
        total += carry
    return total.astype(np.uint32), total > 0xFFFFFFFF


def subtract_with_carry(
    first: np.ndarray, second: np.ndarray, carry: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Differences of u32 modulo 2^32 less one where there is no carry in, and where nothing was
    borrowed."""
    taken = second.astype(np.int64)
    if carry is not None:
        taken += ~carry
    rest = first.astype(np.int64) - taken
    return (rest & 0xFFFFFFFF).astype(np.uint32), rest >= 0


# -- reductions ------------------------------------------------------------------------------------


class PairTree:
    """Sums of adjacent pairs, level by level, in the type of the lanes, until `groups` are left.

    The levels are buffers made once, so that a sum costs one NumPy call for each level.
    """

    def __init__(self, lanes: np.dtype, count: int, groups: int) -> None:
        self._top = np.zeros(count, lanes)
        self._levels = []
        level = self._top
        while len(level) > groups:
            below = np.zeros(len(level) // 2, lanes)
            self._levels.append((level[::2], level[1::2], below))
            level = below
        self._bottom = level

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """Return the sums; the array belongs to the tree. Of rows of numbers, those of each row."""
        if values.ndim > 1:
            return self._rows(values)
        self._top[:] = values
        for even, odd, below in self._levels:
            np.add(even, odd, out=below)
        return self._bottom

    def _rows(self, values: np.ndarray) -> np.ndarray:
        level = values.astype(self._top.dtype, copy=False)
        for _ in self._levels:
            level = level[..., ::2] + level[..., 1::2]
        return level


def lowest(lanes: np.dtype) -> np.generic:
    """The value that loses every maximum: -inf, or the least integer."""
    return lanes.type(-np.inf) if is_float(lanes) else lanes.type(np.iinfo(lanes).min)


def highest(lanes: np.dtype) -> np.generic:
    """The value that loses every minimum: inf, or the largest integer."""
    return lanes.type(np.inf) if is_float(lanes) else lanes.type(np.iinfo(lanes).max)
