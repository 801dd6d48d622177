"""Sets of bytes as intervals, against sets of numbers."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.machine.effects.ranges import contains, intervals, meeting, union
from ptosim.machine.effects.strided import Strided


def numbers(rows: np.ndarray) -> set[int]:
    return {byte for low, high in rows.tolist() for byte in range(low, high)}


def rows_of(bytes_: set[int]) -> np.ndarray:
    return union([np.array([[b, b + 1]]) for b in bytes_])


@pytest.mark.parametrize("seed", range(20))
def test_parts_and_unions(seed):
    rng = np.random.default_rng(seed)
    parts, expected = [], set()
    for _ in range(4):
        start, run, count, gap = (int(v) for v in rng.integers(1, 9, 4))
        parts.append(Strided(start, run, ((count, run + gap),)))
        expected |= {start + i * (run + gap) + j for i in range(count) for j in range(run)}
    rows = intervals(parts)
    assert numbers(rows) == expected
    assert (rows[1:, 0] > rows[:-1, 1]).all()  # sorted, and no two of them touch
    assert contains(rows, rows)
    for low in range(min(expected) - 1, max(expected) + 2):
        for high in range(low + 1, max(expected) + 3):
            inside = set(range(low, high)) <= expected
            assert contains(rows, np.array([[low, high]])) == inside


@pytest.mark.parametrize("seed", range(60))
def test_who_meets(seed):
    """Some block writes a byte that another one reads or writes."""
    rng = np.random.default_rng(seed)
    written, read = (
        [set(rng.integers(0, 60, rng.integers(0, 4)).tolist()) for _ in range(4)] for _ in "wr"
    )
    expected = any(
        written[a] & (written[b] | read[b]) for a in range(4) for b in range(4) if a != b
    )
    found = meeting(
        [(i, rows_of(w)) for i, w in enumerate(written)],
        [(i, rows_of(r)) for i, r in enumerate(read)],
    )
    assert (found is not None) == expected
    if found is not None:
        one, other, byte = found
        assert one != other
        assert byte in written[one]
        assert byte in written[other] | read[other]


def test_nothing():
    assert len(intervals([])) == 0
    assert meeting([], []) is None
