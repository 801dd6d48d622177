"""Of a large memory only regions that are touched have maps; what they say is what one map says."""

from __future__ import annotations

import numpy as np
import pytest

from ptosim.engine.watch import shadow
from ptosim.engine.watch.shadow import Shadow, WideShadow, shadow_of
from ptosim.machine.effects.account import DEFINED, UNDEFINED
from ptosim.machine.effects.strided import Strided

SIZE = 1 << 16


@pytest.fixture(autouse=True)
def small_regions(monkeypatch):
    monkeypatch.setattr(shadow, "REGION", 1 << 12)


def bytes_of(part: Strided) -> set[int]:
    starts = np.full(1, part.start)
    for count, step in part.dims:
        starts = (starts[:, None] + np.arange(count) * step).reshape(-1)
    return {int(s) + i for s in starts for i in range(part.run)}


PARTS = [
    Strided(0, SIZE),
    Strided(100, 4),
    Strided(4000, 200),
    Strided(96, 32, ((40, 1500),)),
    Strided(4090, 12, ((5, 4096), (3, 40))),
    Strided(60, 4100, ((3, 9000),)),
    Strided(0, 4, ((16, 4096), (16, 256), (16, 8))),
]


@pytest.mark.parametrize("part", PARTS)
def test_pieces_are_the_bytes_of_the_whole(part):
    found = [(number, byte) for number, piece in shadow._pieces(part) for byte in bytes_of(piece)]
    assert all(byte < 1 << 12 for _, byte in found)
    assert len(found) == len(set(found)) == part.bytes
    assert {number * (1 << 12) + byte for number, byte in found} == bytes_of(part)


def test_it_says_what_one_map_says():
    rng = np.random.default_rng(1)
    wide, plain = WideShadow("x", SIZE, UNDEFINED), Shadow("x", SIZE, UNDEFINED)
    for time, number in enumerate(rng.permutation(len(PARTS[1:])) + 1):
        for memory in (wide, plain):
            for atom in memory.resolve((PARTS[number],)):
                atom.defined = DEFINED
                atom.write = (1, time, None, 1)
    places = np.arange(SIZE)
    np.testing.assert_array_equal(wide.states(places), plain.states(places))
    for part in PARTS[1:]:
        sizes = [sum(a.size * r.unit for a in r.atoms) for _, r in wide.regions()]
        assert sum(sizes) <= SIZE
        times = [{a.write for a in memory.resolve((part,))} for memory in (wide, plain)]
        assert times[0] == times[1]


def _random_part(rng: np.random.Generator, size: int) -> Strided:
    run, count, step = (int(rng.integers(1, n)) for n in (90, 80, 100))
    part = Strided(0, 4 * run, ((count, 4 * (run + step)),) if rng.integers(2) else ())
    return Strided(4 * int(rng.integers(0, max((size - part.end) // 4, 1))), part.run, part.dims)


@pytest.mark.parametrize("seed", range(12))
def test_bytes_are_one_atom_that_the_same_accesses_reached(seed: int) -> None:
    """Each byte has the list of the accesses that reached it: those with equal ones are an atom."""
    rng, size = np.random.default_rng(seed), 80_000
    memory, reached = Shadow("x", size, UNDEFINED), np.zeros(size, np.int64)
    comb = Strided(0, 4, ((2000, 32),))  # more runs than are labelled one by one
    parts = [*(_random_part(rng, size) for _ in range(6)), comb, Strided(40, 70_000)]
    for number, at in enumerate(rng.permutation(len(parts))):
        of_part = sorted(bytes_of(parts[at]))
        atoms = memory.resolve((parts[at],))
        assert sum(a.size for a in atoms) * memory.unit == len(of_part)
        reached[of_part] += 1 << number
    labels = np.repeat(memory.labels, memory.unit)[:size]
    pairs = np.unique(np.stack((labels, reached)), axis=1)
    assert len(np.unique(pairs[0])) == len(np.unique(pairs[1])) == pairs.shape[1]


@pytest.mark.parametrize("count", [200, 300, pytest.param(40_000, marks=pytest.mark.slow)])
def test_labels_have_room_for_all_atoms(count: int) -> None:
    """Atoms of one piece each, then the first half of all of them: beyond what a label of one byte
    or of two holds, at one atom and at many."""
    memory = Shadow("x", 8 * count, UNDEFINED)
    assert memory.labels.nbytes == len(memory.labels)
    for number in range(count):
        (atom,) = memory.resolve((Strided(8 * number, 8),))
        atom.defined = number
    halves = memory.resolve((Strided(0, 4, ((count, 8),)),))
    assert sorted(atom.defined for atom in halves) == [*range(count)]
    assert len(np.unique(memory.labels)) == len(memory.atoms) == 2 * count
    for place in range(0, 8 * count, 8 * count // 100):
        first, second = memory.at(place), memory.at(place + 4)
        assert first in halves
        assert second not in halves
        assert first.defined == second.defined == place // 8


@pytest.mark.parametrize("most", [4, 400])
def test_units_are_counted_by_atom_with_and_without_sorting(most: int) -> None:
    """As many runs as atoms, or fewer: which atoms, which of these each run has, units of each."""
    rng = np.random.default_rng(most)
    of_runs = rng.integers(0, 4, 50).astype(np.int32)
    sizes = rng.integers(1, 9, 50)
    labels, which, counts = shadow._counted(of_runs, sizes, most)
    expected: dict[int, int] = {}
    for label, size in zip(of_runs.tolist(), sizes.tolist(), strict=True):
        expected[label] = expected.get(label, 0) + size
    assert dict(zip(labels.tolist(), counts.tolist(), strict=True)) == expected
    assert labels[which].tolist() == of_runs.tolist()


def test_only_what_is_touched_has_a_map():
    wide = WideShadow("x", 1 << 40, DEFINED)
    (atom,) = wide.resolve((Strided((1 << 39) + 64, 32),))
    assert len(list(wide.regions())) == 1
    assert wide.extent(atom) == ((1 << 39) + 64, (1 << 39) + 96)
    version = wide.version
    wide.resolve((Strided((1 << 39) + 64, 32),))
    assert wide.version == version
    wide.resolve((Strided((1 << 39) + 64, 4),))
    assert wide.version > version


def test_small_memories_have_one():
    assert type(shadow_of("x", 1 << 20, DEFINED)) is Shadow
    assert type(shadow_of("x", 1 << 30, DEFINED)) is WideShadow
