"""What operations of a period do to memory: on chip, and to global memory, and whether periods may
be executed in another order than one after the other."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.core.bound import Inst
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.effects.account import Effects, Reached
from ptosim.machine.effects.ranges import intervals, union
from ptosim.machine.effects.strided import Strided, Touch, strided, touched_bytes
from ptosim.machine.values import GmView


class Step(NamedTuple):
    """An operation of a period with its operands, those of the first period; `stride` is by how
    many elements its window of global memory moves, None for an operation without one, `inner` by
    how many from one repeat in a period to the next. `first` is the number of the first step in the
    period that is the same but for the place of its window."""

    inst: Inst
    values: dict[str, Any]
    window: str
    stride: int | None
    inner: int
    first: int


class GmWindow(NamedTuple):
    """What a step does to global memory: the buffer, its bytes in the first period counted from the
    window's own first one, by how many bytes it moves from period to period and within one, and
    whether it writes."""

    step: int
    buffer: int
    part: Strided
    distance: int
    inner: int
    is_write: bool

    def over(self, repeats: int) -> GmWindow:
        """Return what it reaches in all repeats of a period."""
        way = self.inner * (repeats - 1)
        if not way:
            return self
        part = self.part
        dims = ((part.run, 1), *part.dims, (repeats, abs(self.inner)))
        return self._replace(part=strided(part.start, min(way, 0), dims, 8))


def windows_of(at: int, step: Step, effects: Effects) -> list[GmWindow]:
    """Return what a step does to global memory. Raises NotAtOnceError where that does not begin at
    the window's first element, or adds to what is there."""
    if effects.is_atomic:
        raise NotAtOnceError
    found = []
    sides = ((effects.reads, False), (effects.found, False), (effects.writes, True))
    for reached, is_write in sides:
        for one in (r for r in reached if isinstance(r.where, int)):
            view = step.values.get(step.window)
            if isinstance(one, Touch) or len(one.parts) != 1 or not isinstance(view, GmView):
                raise NotAtOnceError
            size = view.spec.dtype.bits // 8
            (part,) = one.parts
            part = replace(part, start=part.start - view.offset * size)
            moves = (step.stride or 0) * size, step.inner * size
            found.append(GmWindow(at, int(one.where), part, *moves, is_write))
    return found


def are_apart(
    windows: Sequence[GmWindow],
    starts: Sequence[int],
    periods: int,
    repeats: int,
    in_turn: Container[int],
) -> bool:
    """True if no period writes what another one touches, and no repeat in it what another of them
    does; `starts` are the bytes at which windows begin in the first one, in a space that all
    buffers share. Steps `in_turn` are executed one after the other, as they would be: what one of
    them does to another does not matter."""
    whole = [w.over(repeats) for w in windows]
    return _are_apart(whole, starts, [w.distance for w in windows], periods, in_turn) and (
        repeats == 1 or _are_apart(windows, starts, [w.inner for w in windows], repeats, in_turn)
    )


def _are_apart(
    windows: Sequence[GmWindow],
    starts: Sequence[int],
    moves: Sequence[int],
    periods: int,
    in_turn: Container[int],
) -> bool:
    sets = [
        (replace(w.part, start=w.part.start + start), move, w)
        for w, start, move in zip(windows, starts, moves, strict=True)
    ]
    return all(
        _is_apart(part, step, other, gain, periods)
        for number, (part, step, write) in enumerate(sets)
        if write.is_write
        for at, (other, gain, window) in enumerate(sets)
        if at >= number or not window.is_write
        if write.step not in in_turn or window.step not in in_turn
    )


def _is_apart(one: Strided, step: int, other: Strided, gain: int, periods: int) -> bool:
    low, high = hull(one, step, periods)
    first, last = hull(other, gain, periods)
    if high <= first or last <= low:
        return True
    if step != gain or not step:
        return False
    if max(one.end, other.end) - min(one.start, other.start) <= abs(step):
        return True
    return _in_columns(one, other, abs(step), periods)


def hull(part: Strided, step: int, periods: int) -> tuple[int, int]:
    """Return the first byte that a window reaches in so many periods, and the one after the
    last."""
    way = step * (periods - 1)
    return part.start + min(way, 0), part.end + max(way, 0)


def _in_columns(one: Strided, other: Strided, step: int, periods: int) -> bool:
    """True for windows of the same rows that move along them, and do not meet in one period what
    they reach in another."""
    reach = max(one.start + one.run, other.start + other.run) - min(one.start, other.start)
    if not one.dims or one.dims != other.dims or reach > step:
        return False
    width = one.dims[-1][1]
    if any(distance % width for _, distance in one.dims):
        return False
    return step * (periods - 1) + reach <= width


# -- on chip ---------------------------------------------------------------------------------------


class Area(NamedTuple):
    """The bytes of a tile on chip: of periods that are stacked, what is at the same place in
    each."""

    space: str
    start: int
    size: int


def on_chip(effects: Effects) -> tuple[list[Any], list[Any]]:
    """What is read on chip, and what is written, with meaning or without."""
    spoiled = [reached for reached, _ in effects.spoils]
    return (
        [r for r in (*effects.reads, *effects.found) if isinstance(r.where, str)],
        [r for r in (*effects.writes, *spoiled) if isinstance(r.where, str)],
    )


def touched(reached: Sequence[Reached | Touch], area: Area) -> np.ndarray:
    """Which bytes of an area are among those that are reached. Raises NotAtOnceError for bytes
    that are partly in it."""
    found = np.zeros(area.size, np.bool_)
    for low, high in runs_in(reached, area).tolist():
        found[low:high] = True
    return found


def runs_in(reached: Sequence[Reached | Touch], area: Area) -> np.ndarray:
    """The same as sorted intervals, counted from the first byte of the area."""
    sets = []
    for one in reached:
        if one.where == area.space:
            parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
            rows = intervals(parts) - area.start
            sets.append(rows[(rows[:, 0] < area.size) & (rows[:, 1] > 0)])
    found = union(sets)
    if len(found) and (found[0, 0] < 0 or found[-1, 1] > area.size):
        raise NotAtOnceError
    return found


def nothing_else(areas: Sequence[Area], reached: Sequence[Reached | Touch]) -> None:
    for one in reached:
        parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
        low, high = min(p.start for p in parts), max(p.end for p in parts)
        if not any(
            one.where == a.space and a.start <= low and high <= a.start + a.size for a in areas
        ):
            raise NotAtOnceError
