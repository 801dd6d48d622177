"""What operations of a period do to memory: on chip, and to global memory, and whether periods may
be executed in another order than one after the other."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.core.bound import Inst
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.effects.account import Effects, Reached
from ptosim.machine.effects.ranges import EMPTY, intervals, union
from ptosim.machine.effects.storage import are_apart as lanes_are_apart
from ptosim.machine.effects.storage import destroyed_sources, role_of
from ptosim.machine.effects.strided import Strided, Touch, strided, touched_bytes
from ptosim.machine.gm import view_spec
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.machine.values import GmView


class Step(NamedTuple):
    """An operation of a period with its operands, those of the first period; `stride` is by how
    many elements its window of global memory moves, None for an operation without one, `inner` by
    how many from one repeat in a period to the next. `first` is the number of the first step in the
    period that is the same but for the place of its window. One that `is_joined` stands for steps
    side by side: its tiles are in no memory of a core."""

    inst: Inst
    values: dict[str, Any]
    window: str
    stride: int | None
    inner: int = 0
    first: int = 0
    is_joined: bool = False


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


def runs_in(reached: Sequence[Reached | Touch], area: Area) -> np.ndarray:
    """Which bytes of an area are among those that are reached: sorted intervals, counted from its
    first byte. Raises NotAtOnceError for bytes that are partly in it."""
    sets, end = [], area.start + area.size
    for one in reached:
        if one.where != area.space:
            continue
        parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
        near = [part for part in parts if part.start < end and part.end > area.start]
        if near:
            rows = intervals(near) - area.start
            sets.append(rows[(rows[:, 0] < area.size) & (rows[:, 1] > 0)])
    if not sets:
        return EMPTY
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


def is_rows(ref: TileRef) -> bool:
    """True for a tile that is rows one below the other, and nothing else."""
    type_, layout = ref.type, ref.layout
    in_rows = (layout.name == "nd" and layout.row_stride == type_.cols) or (
        layout.name == "dn" and type_.cols == 1
    )
    whole = ref.v_row == type_.rows and type_.dtype.bits >= 8 and ref.v_col > 0
    return in_rows and whole and type_.loc == "vec" and not type_.pitch


def area_of(ref: TileRef) -> Area:
    """Return the bytes of a tile."""
    return Area(ref.type.loc, ref.addr, max(ref.type.bytes, ref.layout.reach))


def tiles_of(step: Step) -> list[TileRef]:
    return [tile for _, tile in _named(step)]


def _named(step: Step) -> Iterator[tuple[str, TileRef]]:
    return ((name, v) for name, v in step.values.items() if isinstance(v, TileRef))


def overlap(one: Area, other: Area) -> bool:
    """True for two that share bytes, but not all of them."""
    meets = one.start < other.start + other.size and other.start < one.start + one.size
    return one != other and one.space == other.space and meets


# -- steps side by side ----------------------------------------------------------------------------
#
# Steps of a period that do the same again and again, column by column, are one step that is as
# wide: a loop along the columns of an array in the period of the loop around it. Of operations
# whose columns know nothing of one another (`cols_apart` in their row) one on a tile of all columns
# does what those on its parts do, and its windows are rows that follow one another in memory. Tiles
# have to begin anew in each repeat, with what is loaded or computed before it is used; or they have
# fewer columns, something for each row, and stay as they are.

LONGEST = 32
"""Steps of a repeat at most."""
NOWHERE = 1 << 20
"""Where tiles of joined steps begin: beyond the memories that have tiles."""
BLOCK = 32
"""Bytes of which a source may have one value for each lane, again and again."""


class _ApartError(Exception):
    """The repeats cannot be joined."""


def side_by_side(
    steps: Sequence[Step], keys: Sequence[Any], offsets: Sequence[int], target: str
) -> tuple[list[Step], list[int]]:
    """Return the steps of a period, those that are side by side as one each, and the offsets of
    their windows. `keys` are equal for steps that do the same but for the place of a window."""
    made: list[Step] = []
    places: list[int] = []
    at, free = 0, NOWHERE
    while at < len(steps):
        length, times = _repeated(keys, offsets, at)
        end = at + length * times
        others = [*steps[:at], *steps[end:]]
        try:
            run = _Run(steps[at : at + length], offsets[at : at + 2 * length], times, target, free)
            made += run.joined(others)
            places += offsets[at : at + length]
            free = run.free
        except _ApartError:
            made += steps[at:end]
            places += offsets[at:end]
        at = end
    return made, places


def _repeated(keys: Sequence[Any], offsets: Sequence[int], at: int) -> tuple[int, int]:
    """How many steps from one on come again and again, and how often."""
    for length in range(1, min(LONGEST, (len(keys) - at) // 2) + 1):
        if keys[at] != keys[at + length]:
            continue
        end = at + length
        while end < len(keys) and keys[end] == keys[end - length]:
            if end >= at + 2 * length and (
                offsets[end] - offsets[end - length]
                != offsets[end - length] - offsets[end - 2 * length]
            ):
                break
            end += 1
        times = (end - at) // length
        if times > 1:
            return length, times
    return 1, 1


class _Run:
    """Steps that come again and again, so many times, each time a tile farther on."""

    def __init__(
        self, steps: Sequence[Step], offsets: Sequence[int], times: int, target: str, free: int
    ) -> None:
        if times == 1:
            raise _ApartError
        self._steps, self._times, self._target = steps, times, target
        self._ways = [offsets[len(steps) + at] - offsets[at] for at in range(len(steps))]
        self._offsets = offsets
        self._tiles = {area_of(tile): tile for step in steps for tile in tiles_of(step)}
        self._columns = 0
        self.free = free

    def joined(self, others: Sequence[Step]) -> list[Step]:
        """Return the steps as those of one repeat that is as wide as all of them. Raises
        _ApartError where that is not the same, or `others` of the period use what is computed."""
        self._look_at_windows()
        wide = self._computed()
        used = {area_of(tile) for step in others for tile in tiles_of(step)}
        if any(_meet(area, other) for area in wide for other in used | set(self._tiles) - {area}):
            raise _ApartError
        places: dict[Area, int] = {}
        for area in wide:
            places[area] = self.free
            self.free += -(-area.size * self._times // 64) * 64
        return [self._wide(step, places) for step in self._steps]

    def _look_at_windows(self) -> None:
        """Windows are neighbours in their rows, and nothing is stored where another one is."""
        seen: dict[int, set[Any]] = {}
        stored: set[int] = set()
        for at, step in enumerate(self._steps):
            if not lanes_are_apart(step.inst.operation, "cols_apart", self._target):
                raise _ApartError
            if not step.window:
                continue
            view = step.values[step.window]
            *outer, rows, columns = view.spec.sizes
            *_, down, along = view.spec.strides
            self._columns = self._columns or columns
            is_row = view.spec.layout == "nd" and along == 1 and set(outer) == {1}
            if not is_row or not columns == self._ways[at] == self._columns:
                raise _ApartError
            if rows > 1 and down < columns * self._times:
                raise _ApartError
            seen.setdefault(view.memory, set()).add((view.spec, self._offsets[at]))
            if role_of(step.inst.operation, step.window) is not Role.IN:
                stored.add(view.memory)
        if not self._columns or any(len(seen[memory]) > 1 for memory in stored):
            raise _ApartError

    def _computed(self) -> list[Area]:
        """The tiles that are made anew in each repeat, before they are used."""
        fresh: set[Area] = set()
        made: dict[Area, None] = {}
        read: set[Area] = set()
        for step in self._steps:
            op = step.inst.operation
            each = [(role_of(op, name), area_of(tile)) for name, tile in _named(step)]
            read |= {area for role, area in each if role is Role.IN and area not in fresh}
            if any(role is Role.INOUT and area not in fresh for role, area in each):
                raise _ApartError
            gone = [area_of(step.values[name]) for name in destroyed_sources(op, self._target)]
            gone += [area for role, area in each if role is Role.SCRATCH]
            fresh -= set(gone)
            fresh |= {area for role, area in each if role in (Role.OUT, Role.INOUT)}
            made.update(dict.fromkeys([*gone, *(a for r, a in each if r is Role.OUT)]))
        if read & set(made) or not all(self._is_wide(area) for area in made):
            raise _ApartError
        if any(self._tiles[area].type.cols >= self._columns for area in read):
            raise _ApartError
        return list(made)

    def _is_wide(self, area: Area) -> bool:
        tile = self._tiles[area]
        columns, type_ = self._columns, tile.type
        whole = is_rows(tile) and tile.layout.name == "nd" and tile.v_col == type_.cols == columns
        return whole and columns * type_.dtype.bits % (8 * BLOCK) == 0

    def _wide(self, step: Step, places: dict[Area, int]) -> Step:
        values = dict(step.values)
        for name, value in values.items():
            if isinstance(value, TileRef) and (area := area_of(value)) in places:
                cols, type_ = value.type.cols * self._times, value.type
                type_ = replace(type_, cols=cols, v_col=None if type_.v_col is None else cols)
                values[name] = tile_ref(type_, places[area], value.v_row, cols)
            elif isinstance(value, GmView):
                spec = value.spec
                sizes = (*spec.sizes[:4], spec.sizes[4] * self._times)
                values[name] = value._replace(spec=view_spec(sizes, spec.strides, spec.dtype, "nd"))
        return step._replace(values=values, is_joined=True)


def _meet(one: Area, other: Area) -> bool:
    return one == other or overlap(one, other)
