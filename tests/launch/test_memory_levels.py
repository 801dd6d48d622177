"""How many bytes of a memory are in use over time, against counting byte by byte."""

from __future__ import annotations

import random

from ptosim.ground.isa.targets import machine
from ptosim.launch.analysis.memory_map import Buffer, SpaceMap


def test_levels_count_each_byte_once():
    """Buffers that overlap, repeat, nest and are empty, in use at times that meet."""
    rng = random.Random(7)
    space = machine("a5").spaces["vec"]
    for _ in range(60):
        buffers = [
            Buffer(f"%b{i}", "vec", rng.randrange(0, 40), rng.randrange(0, 20), i, _spans(rng))
            for i in range(rng.randrange(0, 9))
        ]
        levels = SpaceMap(space, buffers, 30).levels()
        at = dict(levels)
        assert [step for step, _ in levels] == sorted(at)
        used = 0
        for step in range(32):
            used = at.get(step, used)
            live = [b for b in buffers if b.is_live(step)]
            assert used == len({byte for b in live for byte in range(b.addr, b.end)}), step


def _spans(rng: random.Random) -> list[tuple[int, int]]:
    """One or two times of use, the second after the first."""
    first = rng.randrange(0, 12)
    second = first + rng.randrange(1, 12)
    spans = [(first, second - 1), (second, second + rng.randrange(0, 5))]
    return spans[: rng.randrange(0, 3)]
