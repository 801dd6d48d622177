"""Sets of bytes as sorted intervals: rows (first byte, one past the last), which do not touch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.effects.strided import Strided

EMPTY = np.empty((0, 2), np.int64)


def intervals(parts: Iterable[Strided]) -> np.ndarray:
    """Return the bytes of some parts."""
    return union([_rows(part) for part in parts])


def _rows(part: Strided) -> np.ndarray:
    starts = np.array([part.start], np.int64)
    run = part.run
    for count, distance in part.dims:
        steps = np.arange(count, dtype=np.int64) * distance
        starts = (starts[:, None] + steps).reshape(-1)
    return np.stack([starts, starts + run], 1)


def union(sets: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bytes that are in one of several sets (or lists of rows in any order)."""
    if not sets:
        return EMPTY
    rows = np.concatenate(sets)
    if len(rows) < 2:
        return rows
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    ends = np.maximum.accumulate(rows[:, 1])
    first = np.concatenate(([True], rows[1:, 0] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.stack([rows[first, 0], ends[last]], 1)


def contains(whole: np.ndarray, rows: np.ndarray) -> bool:
    """True if all bytes of some rows are in a set."""
    if not len(rows):
        return True
    at = np.searchsorted(whole[:, 0], rows[:, 0], "right") - 1
    return bool((at >= 0).all() and (rows[:, 1] <= whole[at, 1]).all())


class Meeting(NamedTuple):
    """A byte that two owners reach, of whom the first writes it."""

    writer: int
    other: int
    byte: int


def meeting(
    written: Sequence[tuple[int, np.ndarray]], read: Sequence[tuple[int, np.ndarray]]
) -> Meeting | None:
    """Return a byte that one owner writes and another one writes or reads; None if there is none.
    Sets come with the numbers of their owners, at most one for each."""
    owners, rows = _owned(written)
    if not len(rows):
        return None
    order = np.argsort(rows[:, 0], kind="stable")
    owners, rows = owners[order], rows[order]
    over = np.flatnonzero(rows[1:, 0] < rows[:-1, 1])  # the first overlap is of neighbours
    if len(over):
        at = int(over[0])
        return Meeting(int(owners[at]), int(owners[at + 1]), int(rows[at + 1, 0]))
    readers, windows = _owned(read)
    if not len(windows):
        return None
    low = np.searchsorted(rows[:, 1], windows[:, 0], "right")
    high = np.searchsorted(rows[:, 0], windows[:, 1], "left")
    changes = np.concatenate(([0], np.cumsum(owners[1:] != owners[:-1])))
    meets = np.flatnonzero(low < high)
    first, last = low[meets], high[meets] - 1
    wrong = (owners[first] != readers[meets]) | (changes[first] != changes[last])
    found = meets[wrong]
    if not len(found):
        return None
    one = int(found[0])
    for at in range(int(low[one]), int(high[one])):
        if owners[at] != readers[one]:
            byte = max(int(rows[at, 0]), int(windows[one, 0]))
            return Meeting(int(owners[at]), int(readers[one]), byte)
    return None


def _owned(sets: Sequence[tuple[int, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """All rows, and the owner of each."""
    owners = [np.full(len(rows), owner, np.int64) for owner, rows in sets]
    return (
        np.concatenate([*owners, np.empty(0, np.int64)]),
        np.concatenate([*(rows for _, rows in sets), EMPTY]),
    )
