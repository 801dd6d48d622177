"""Thousands of operations are planned in a time that grows with them, not with their square."""

from __future__ import annotations

import random

import ptosim
from ptosim.language.place.reuse import _united
from ptosim.launch.analysis.insert_sync import planner
from ptosim.launch.analysis.insert_sync.planner import Touch
from ptosim.machine.effects import storage

TILES = 4000


class Counted(Touch):
    """A touch that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def meets(self, other: Touch) -> bool:
        """Compare, and count."""
        Counted.compared += 1
        return super().meets(other)


def test_what_other_pipes_did_is_looked_at_by_pipe():
    """A load that nothing waits for, and additions of other tiles: each is compared with it twice at most."""
    scan = planner._Scan(planner.Planner(None, "a5"), None)  # type: ignore[arg-type]
    touches = [Counted("MTE2", "vec", 0, 64, True)]
    touches += [Counted("V", "vec", 64, 128, True) for _ in range(TILES)]
    Counted.compared = 0
    for index, touch in enumerate(touches):
        scan.step(index, planner._Item(object(), [touch]), first=True)  # type: ignore[arg-type]
    assert not scan.planner.plan.flags
    assert Counted.compared <= 2 * TILES


def grown(lives, cycles):
    """What is in use in a cycle is in use in all of it, cycle by cycle until nothing changes."""
    changed = True
    while changed:
        before = list(lives)
        for start, end in cycles:
            lives = [
                (min(a, start), max(b, end)) if a < end and b > start else (a, b) for a, b in lives
            ]
        changed = lives != before
    return lives


def test_cycles_of_blocks_that_overlap_are_one():
    rng = random.Random(3)
    for _ in range(300):
        starts = [rng.randrange(25) for _ in range(rng.randrange(7))]
        cycles = [(start, start + rng.randrange(1, 7)) for start in starts]
        lives = [(start, start + rng.randrange(7)) for start in range(0, 30, 3)]
        assert grown(lives, cycles) == grown(lives, _united(cycles))
        assert all(a[1] <= b[0] for a, b in zip(_united(cycles), _united(cycles)[1:], strict=False))


def test_names_of_names_are_followed_once(monkeypatch):
    lines = [f"%v{n + 1} = pto.treshape %v{n} : !v -> !v" for n in range(300)]
    text = "\n".join(
        [
            "!v = !pto.tile_buf<vec, 16x64xf32>",
            "%v0 = pto.alloc_tile : !v",
            *lines,
            "pto.tadd ins(%v300, %v300 : !v, !v) outs(%v300 : !v)",
        ]
    )
    looked = []
    named_by = storage._named_by
    monkeypatch.setattr(storage, "_named_by", lambda value: looked.append(value) or named_by(value))
    assert not [d for d in ptosim.check(text) if d.is_error]
    assert len(looked) < 20 * len(lines)
