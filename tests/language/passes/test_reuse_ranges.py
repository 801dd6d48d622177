"""Places of buffers are those of looking at every pair of buffers, which the planner need not do."""

from __future__ import annotations

import random

import pytest

from ptosim.language.place import reuse
from ptosim.language.place.reuse import Buffer, Lifetime, Ranges, Reuse


def pairwise(buffers, capacity, taken, level):
    """The planner's rule, buffer by buffer against all that are placed."""
    done, found = [], {}
    for buffer in buffers:
        busy, donors = list(taken), []
        for start, end, other in done:
            if reuse._conflict(buffer, other, level):
                busy.append((start, end))
            elif level is not Reuse.OVER_SOURCES and reuse._meet_in_one_operation(buffer, other):
                donors.append((start, end))
        at = reuse._place_one(buffer.bytes, busy, donors)
        if at + buffer.bytes > capacity:
            return None
        done.append((at, at + buffer.bytes, buffer))
        found[buffer.owner] = at
    return found


def made(seed):
    rng = random.Random(seed)
    buffers = []
    for number in range(rng.randrange(1, 14)):
        start = rng.randrange(20)
        pipes = set(rng.sample(["V", "MTE2", "MTE3", "S", "M"], rng.randrange(1, 3)))
        life = Lifetime(start, start + rng.choice([0, 1, 2, 3, 8, 20]), pipes)
        life.followers.update(rng.sample(range(14), 2))  # type: ignore[arg-type]  # any owners
        size = rng.choice([32, 64, 96, 128])
        kept = None if rng.random() < 0.1 else life
        buffers.append(
            Buffer(owner=number, bytes=size, order=number, group=rng.randrange(2), life=kept)
        )
    return buffers, rng.choice([256, 384, 1024]), [(64, 96)] if rng.random() < 0.3 else []


@pytest.mark.parametrize("seed", range(150))
def test_the_same_places(seed):
    buffers, capacity, taken = made(seed)
    for level in Reuse:
        expected = pairwise(buffers, capacity, taken, level)
        assert reuse._place(buffers, capacity, taken, level) == expected


@pytest.mark.parametrize("seed", range(30))
def test_ranges(seed):
    rng, ranges, expected = random.Random(seed), Ranges(), set()
    for _ in range(12):
        start = rng.randrange(60)
        end = start + rng.randrange(1, 9)
        ranges.add(start, end)
        expected |= set(range(start, end))
    assert {b for low, high in ranges.all for b in range(low, high)} == expected
    assert all(a[1] < b[0] for a, b in zip(ranges.all, ranges.all[1:], strict=False))
