"""Shortened mantissas: what HF32 and TF32 leave of an f32 operand."""

from __future__ import annotations

import numpy as np

from ptosim.numerics.choices import require

MODES = ("round_even", "round_away")


def keep_mantissa(values: np.ndarray, bits: int, mode: str) -> np.ndarray:
    """Round f32 values to `bits` bits of mantissa after the point, to nearest, ties to even or
    away from zero. A NaN stays as it is; rounding up the largest values gives infinity."""
    require("rounding of the mantissa", mode, MODES)
    patterns = np.ascontiguousarray(values).view(np.uint32)
    dropped = np.uint32(23 - bits)
    half = np.uint32(1 << (22 - bits))
    if mode == "round_even":
        half = half - np.uint32(1) + ((patterns >> dropped) & np.uint32(1))
    mask = np.uint32(0xFFFFFFFF << (23 - bits) & 0xFFFFFFFF)
    rounded = (patterns + half) & mask
    return np.where(np.isnan(values), patterns, rounded).view(np.float32)
