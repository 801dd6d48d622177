"""The log of a vector region as runs of bytes in the order of execution, and what of them has no
value: loads that find such bytes, and the stores that follow them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ptosim.engine.watch.definedness import Trail
from ptosim.ground.records import NamedTuple
from ptosim.machine.vector import VectorWindow

NONE = np.zeros(0, np.int64)


def entries_of(ub: VectorWindow) -> np.ndarray:
    return np.array(ub.log, np.int64)


class Runs(NamedTuple):
    """Runs of bytes that were accessed, and by which access, counted from 0."""

    numbers: np.ndarray
    codes: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray


NO_RUNS = Runs(NONE, NONE, NONE, NONE)


class Lost(NamedTuple):
    """Loads of an instruction that found the same of their bytes without a value: where they are
    among all runs, which bytes, and how they came there."""

    code: int
    places: np.ndarray
    bytes: np.ndarray
    trail: Trail = Trail(())


def in_order(ub: VectorWindow) -> Runs:
    """Every run in the order of execution."""
    log = entries_of(ub)
    numbers = np.arange(len(log))
    single = log >= 0
    found = [Runs(numbers[single], *_unpacked(log[single]))]
    for number in numbers[~single].tolist():
        code, starts, size = ub.parts[-1 - int(log[number])]
        same = np.ones(len(starts), np.int64)
        found.append(Runs(same * number, same * code, np.asarray(starts), same * size))
    runs = Runs(*(np.concatenate(column) for column in zip(*found, strict=True)))
    order = np.argsort(runs.numbers, kind="stable")
    return Runs(*(column[order] for column in runs))


def _unpacked(log: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return log >> 32, log & 0xFFFFF, log >> 20 & 0xFFF


def by_size(runs: Runs, places: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Some runs by how many bytes they have."""
    sizes = runs.sizes[places]
    for size in np.unique(sizes).tolist():
        yield size, places[sizes == size]


def between(
    runs: Runs, chosen: np.ndarray, loads: np.ndarray, numbers: np.ndarray, *, later: bool
) -> np.ndarray:
    """Those of the chosen runs that follow one of some loads: up to the next execution of the load,
    all of which are numbered, or any later one."""
    after = runs.numbers[loads]
    following = np.searchsorted(numbers, after, "right")
    last = runs.numbers[-1:]
    end = last if later else np.concatenate((numbers, last))[following]
    first, behind = (np.searchsorted(runs.numbers[chosen], n, "right") for n in (after, end))
    edges = np.zeros(len(chosen) + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, np.broadcast_to(behind, first.shape), -1)
    return chosen[np.cumsum(edges[:-1]) > 0]


def alike(code: int, runs: Runs, poor: np.ndarray, loads: np.ndarray) -> Iterator[Lost]:
    """Loads of an instruction by which of their bytes have no value, where no store has been."""
    for size, some in by_size(runs, loads):
        rows = poor[runs.starts[some][:, None] + np.arange(size)]
        is_all = rows.all(1)
        if is_all.any():
            yield Lost(code, some[is_all], np.arange(size))
        if not is_all.all():
            patterns, which = np.unique(rows[~is_all], axis=0, return_inverse=True)
            for number, wrong in enumerate(patterns):
                same = some[~is_all][which.ravel() == number]
                yield Lost(code, same, np.flatnonzero(wrong))


def left_of(runs: Runs, stores: np.ndarray, poor: np.ndarray, load: int) -> np.ndarray:
    """Which bytes of a load have no value: what the region has stored before has one."""
    start, end = int(runs.starts[load]), int(runs.starts[load] + runs.sizes[load])
    wrong = poor[start:end].copy()
    earlier = stores[runs.numbers[stores] < runs.numbers[load]]
    over = (runs.starts[earlier] < end) & (runs.starts[earlier] + runs.sizes[earlier] > start)
    for store in earlier[over].tolist():
        first = int(runs.starts[store])
        wrong[max(first - start, 0) : max(first + int(runs.sizes[store]) - start, 0)] = False
    return wrong


def in_part(runs: Runs, stores: np.ndarray, poor: np.ndarray, loads: np.ndarray) -> np.ndarray:
    """The bytes without a value of the first of some loads that finds a part without."""
    for at in loads.tolist():
        wrong = left_of(runs, stores, poor, at)
        if 0 < wrong.sum() < len(wrong):
            return int(runs.starts[at]) + np.flatnonzero(wrong)
    return NONE


def sums_of(starts: np.ndarray, ends: np.ndarray, size: int) -> np.ndarray:
    """How many of the bytes before each one are in any of the runs."""
    edges = np.zeros(size + 1, np.int64)
    np.add.at(edges, starts, 1)
    np.add.at(edges, ends, -1)
    return np.concatenate(([0], np.cumsum(np.cumsum(edges[:-1]) > 0)))
