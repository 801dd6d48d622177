"""Stochastic rounding into the element formats of the MX modes.

No document says how the hardware draws its random bits, so a result is reproducible within ptosim
and statistically right, and nothing more.
"""

from __future__ import annotations

import math

import numpy as np

from ptosim.numerics.rounding import step_sizes

# Significant bits and the exponent of the smallest subnormal.
_SHAPES = {"f8E4M3FN": (4, -9), "f4E2M1FN": (2, -1)}


def noise(seed: int, counter: int, shape: tuple[int, ...]) -> np.ndarray:
    """uint32 random words of `shape`, a pure function of `seed` and `counter`.

    A counter-based generator (Philox): the words of one operation do not depend on how many were
    drawn before it, so a run can be replayed from any point.
    """
    count = math.prod(shape)
    generator = np.random.Philox(key=seed, counter=[0, 0, counter, 0])
    words = np.asarray(generator.random_raw((count + 1) // 2)).view(np.uint32)
    return words[:count].reshape(shape)


@np.errstate(all="ignore")
def round_stochastically(values: np.ndarray, words: np.ndarray, dst: str) -> np.ndarray:
    """Round f32 `values` up or down to the grid of `dst`, up with the odds of the lost part.

    `dst` is `f8E4M3FN` or `f4E2M1FN`. A magnitude goes up if the lost fraction of its step plus
    word/2^32 reaches one; `words` is uint32 of the same shape. The result is f32 and may be
    beyond the range of `dst`; values of the grid, infinities and NaN pass.
    """
    magnitudes = np.abs(values).astype(np.float64)
    steps = step_sizes(magnitudes, *_SHAPES[dst])
    whole = np.floor(magnitudes / steps + words * 2.0**-32)
    return np.copysign(whole * steps, values).astype(np.float32)
