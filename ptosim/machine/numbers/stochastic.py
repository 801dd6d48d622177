"""Random bits: stochastic rounding into the element formats of the MX modes, and Philox 4x32.

No document says how the hardware draws the random bits of a rounding, so a result is reproducible
within ptosim and statistically right, and nothing more. Philox 4x32 gives four 32-bit words for
each value of a 128-bit counter under a 64-bit key (Salmon, Moraes, Dror, Shaw: "Parallel random
numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import math

import numpy as np

from ptosim.machine.numbers.rounding import step_sizes

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


# -- the generator of the language -----------------------------------------------------------------

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_WORD = 1 << 32


def philox4x32(counters: np.ndarray, key: tuple[int, int], rounds: int) -> np.ndarray:
    """Return the blocks of `counters` (uint32 [n, 4], lowest word first) as uint32 [n, 4]."""
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    for _ in range(rounds):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            second & _LOW,
            (first >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _KEY_STEPS[0]) % _WORD, (k1 + _KEY_STEPS[1]) % _WORD
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)


def counter_words(values: list[int]) -> np.ndarray:
    """Return 128-bit counters as uint32 [n, 4], lowest word first; they wrap around."""
    data = b"".join((value % (1 << 128)).to_bytes(16, "little") for value in values)
    return np.frombuffer(data, np.uint32).reshape(-1, 4)
