"""16-bit floats as f64, by integer operations on whole arrays: NumPy's own conversion of f16 takes
twice as long, and the products of the cube spend a third of their time on it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Widen = Callable[[np.ndarray, np.ndarray, np.ndarray], None]
"""Called with the patterns (u16), an array of as many i32 for scratch, and the result (f64)."""

_NOT_FINITE = 0xF800  # twice the pattern of an infinity, its sign shifted out
_FIELDS = np.int32(0x8FFFFFFF - (1 << 32))  # sign, five bits of exponent, mantissa
_UP = np.int32(13)  # from the mantissa of f16 to that of f32
_BIAS = np.float32(2.0**112)  # between the exponents of f16 and f32
_HIGH_HALF = np.int32(16)


def half(bits: np.ndarray, scratch: np.ndarray, out: np.ndarray) -> None:
    """f16: the pattern is that of an f32 whose exponent is 112 too low; exact for subnormals too.
    Infinities and NaN have no such place, NumPy converts arrays with them."""
    doubled = scratch.view(np.uint16)[:, : bits.shape[1]]
    if np.add(bits, bits, out=doubled).max() >= _NOT_FINITE:
        np.copyto(out, bits.view(np.float16))
        return
    np.copyto(scratch, bits.view(np.int16))
    np.left_shift(scratch, _UP, out=scratch)
    np.bitwise_and(scratch, _FIELDS, out=scratch)
    single = scratch.view(np.float32)
    np.multiply(single, _BIAS, out=single)
    np.copyto(out, single)


def brain(bits: np.ndarray, scratch: np.ndarray, out: np.ndarray) -> None:
    """bf16: the high half of an f32."""
    np.copyto(scratch, bits.view(np.int16))
    np.left_shift(scratch, _HIGH_HALF, out=scratch)
    np.copyto(out, scratch.view(np.float32))


WIDEN: dict[str, Widen] = {"f16": half, "bf16": brain}
