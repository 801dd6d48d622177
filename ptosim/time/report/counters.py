"""Levels over time for the trace: bytes in flight, bytes of UB that tiles occupy, FIFO depths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.time.pipes.timers import CoreTimer

Change = tuple[int, int]
"""A cycle, and by how much the level changes there."""

LARGEST = 1 << 24
"""Bytes of a range that is a tile; vector regions, which may touch all of UB, are no tiles."""


def levels(core: CoreTimer) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """Yield every counter of a core: name, unit, and (cycle, level) in the order of time."""
    for name, unit, changes in (
        ("bytes in flight", "bytes", _in_flight(core)),
        ("UB bytes", "bytes", _occupied(core)),
    ):
        if changes:
            yield name, unit, _sums(changes)


def _sums(changes: list[Change]) -> list[tuple[int, int]]:
    level = 0
    found: dict[int, int] = {}
    for cycle, change in sorted(changes):
        level += change
        found[cycle] = level
    return list(found.items())


def _in_flight(core: CoreTimer) -> list[Change]:
    """Bytes that transfers of global memory under way move."""
    changes = []
    for step, start, done in zip(core.steps, core.starts, core.dones, strict=True):
        if step.cost.moved is not None:
            size = step.cost.moved.bytes
            changes += [(start, size), (done, -size)]
    return changes


def _occupied(core: CoreTimer) -> list[Change]:
    """Bytes of UB that hold data of use. Bytes of overlapping tiles count once for each tile."""
    changes: list[Change] = []
    for place, spans in lifetimes(core).items():
        if place[0] == "vec":
            size = place[2] - place[1]
            changes += [change for a, b in spans for change in ((a, size), (b, -size))]
    return changes


Place = tuple[str, int, int]
"""A memory on chip, the first byte, and one past the last."""


def lifetimes(core: CoreTimer) -> dict[Place, list[tuple[int, int]]]:
    """Return when each place on chip that operations name holds data of use, in cycles: from when
    it is filled to when it is used last before it is filled anew."""
    open_: dict[Place, tuple[int, int]] = {}
    found: dict[Place, list[tuple[int, int]]] = {}
    rows = sorted(zip(core.starts, core.dones, range(len(core.steps)), strict=True))
    for start, done, number in rows:
        ranges = core.steps[number].ranges or ((), ())
        reads = {place for place in ranges[0] if _is_tile(*place)}
        writes = {place for place in ranges[1] if _is_tile(*place)}
        for place in writes - reads:
            if place in open_:
                found.setdefault(place, []).append(open_.pop(place))
        for place in reads | writes:
            first, last = open_.get(place, (start, done))
            open_[place] = (first, max(last, done))
    for place, span in open_.items():
        found.setdefault(place, []).append(span)
    return found


def _is_tile(space: object, low: int, high: int) -> bool:
    return isinstance(space, str) and high - low < LARGEST


def fifo_levels(cores: list[CoreTimer]) -> Iterator[tuple[int, str, list[tuple[int, int]]]]:
    """Yield the depth of every FIFO, one for each vector core that takes part: the core that
    pushes, a name, and (cycle, tiles pushed and not yet taken)."""
    changes: dict[tuple[Any, ...], list[Change]] = {}
    pushers: dict[tuple[Any, ...], int] = {}
    for core in cores:
        for step, start, done in zip(core.steps, core.starts, core.dones, strict=True):
            for flag in step.gives:
                if _is_data(flag.key):
                    changes.setdefault(flag.key, []).append((done, 1))
                    pushers[flag.key] = core.index
            for flag in step.takes:
                if _is_data(flag.key):
                    changes.setdefault(flag.key, []).append((start, -1))
    for key, found in changes.items():
        *_, direction, vector = key
        yield pushers.get(key, 0), f"FIFO depth {direction} AIV{vector}", _sums(found)


def _is_data(key: object) -> bool:
    return isinstance(key, tuple) and bool(key) and key[0] == "fifo"
