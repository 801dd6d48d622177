"""The Philox 4x32 counter generator: four 32-bit words for each value of a 128-bit counter under a
64-bit key (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
"""

from __future__ import annotations

import numpy as np

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
