"""Both ways to find out what rounds reach agree, and say of a few that they are independent what
executing them one by one says."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from ptosim.engine.batch import places
from ptosim.engine.batch.places import Access
from ptosim.machine.vector import VectorWindow
from ptosim.ops.micro.hazards import RegionPlace, loads, stores

LOADS = [RegionPlace(n, bytes((0, 127, 255, n)), n) for n in (1, 2, 3)]
STORES = [RegionPlace(128 + n, bytes((0, 127, 255, 128 + n, *k)), 9 + n) for n, k in enumerate(((1, 2, 3), (1,)))]  # fmt: skip


def accesses(rng: Random, rounds: int) -> list[Access]:
    found = []
    for place in rng.sample([*LOADS, *STORES], rng.randint(1, 5)):
        size, step = rng.choice((4, 32, 64, 256)), rng.choice((0, 4, 64, 256, 320, -256))
        first = 12000 + rng.choice((0, 0, 0, 64, 20000, 40000, 60000))
        starts = first + step * np.arange(rounds, dtype=np.int64)
        found.append(Access(starts, size, place))
    return sorted(found, key=lambda a: rng.random())


def one_by_one(given: list[Access], rounds: int, seed: int) -> tuple[VectorWindow, bool]:
    """A window after all rounds, and whether nothing was to be reported; every store changes what is
    there."""
    ub, told = VectorWindow(bytearray(1 << 17)), False
    for at in range(rounds):
        for number, access in enumerate(given):
            start, size = int(access.starts[at]), access.size
            if access.place.is_store:
                data = bytes((v + 1 + number) & 0xFF for v in ub.data[start : start + size])
                told |= stores(ub, access.place, start, data) is not None
            else:
                told |= loads(ub, start, access.place.stamp(size), access.place.entry(size))
    return ub, not told


@pytest.mark.parametrize("seed", range(60))
def test_places_of_rounds(seed):
    rng = Random(seed)
    rounds = rng.choice((2, 3, 9))
    given = accesses(rng, rounds)
    expected, is_quiet = one_by_one(given, rounds, seed)
    for way in (places._apart, places._in_pieces):
        found = way(given, rounds)
        if found is None or isinstance(found, int):
            continue
        assert is_quiet
        ub = VectorWindow(bytearray(1 << 17))
        assert not found.is_open(ub)
        found.note(ub)
        assert ub.last == expected.last
        assert ub.marks == expected.marks
        assert ub.touched == expected.touched


def test_what_is_independent_in_one_way_is_in_the_other():
    found = 0
    for seed in range(300):
        rng = Random(seed)
        rounds = rng.choice((2, 3, 9))
        given = accesses(rng, rounds)
        quick = places._apart(given, rounds)
        if quick is not None:
            found += 1
            slow = places._in_pieces(given, rounds)
            assert isinstance(slow, places.Places)
            assert _bytes(slow.loaded) == _bytes(quick.loaded)
            assert _bytes([b for b, _ in slow.first_stored]) == _bytes([b for b, _ in quick.first_stored])  # fmt: skip
    assert found > 30


def _bytes(bands: list[places.Band]) -> set[int]:
    return {
        low + k
        for b in bands
        for low in range(b.low, b.low + max(b.step, 1) * b.times, max(b.step, 1))
        for k in range(b.length)
    }
