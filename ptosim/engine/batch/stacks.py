"""The operations of a period of a loop, executed for many periods at once: a tile of each of them
is stacked on that of the one before, so that one operation on the stack does what one operation in
each period does.

That is so for operations whose rows know nothing of one another (`rows_apart` in their row), on
tiles that are nothing but rows, if no period reads what another one has left on chip. What does not
change while the loop runs is in the stack as often as there are periods. Windows of global memory
become windows of one dimension more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.core.bound import Inst
from ptosim.ground.records import NamedTuple, dataclass, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects, Reached, effects_of
from ptosim.machine.effects.ranges import intervals
from ptosim.machine.effects.row import bound_values
from ptosim.machine.effects.strided import Strided, Touch, touched_bytes
from ptosim.machine.gm import view_spec
from ptosim.machine.tile import Tile, TileRef, tile_ref
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault

STRIP = 1 << 19
"""Bytes of the stacks of a strip, which stay in cache."""

Commit = Callable[[], object]


class Step(NamedTuple):
    """An operation of a period with its operands, those of the first period; `stride` is by how
    many elements its window of global memory moves, None for an operation without one."""

    inst: Inst
    values: dict[str, Any]
    window: str
    stride: int | None


class Area(NamedTuple):
    """The bytes of a tile on chip: of periods that are stacked, what lies at the same place in
    each."""

    space: str
    start: int
    size: int


class GmWindow(NamedTuple):
    """What a step does to global memory: the buffer, its bytes in the first period counted from the
    window's own first one, by how many bytes it moves, and whether it writes."""

    step: int
    buffer: int
    part: Strided
    distance: int
    is_write: bool


class _Stacked(Binding):
    """A binding whose tiles are stacks, in a memory of their own."""

    __slots__ = ("memory",)

    def bind_tile(self, ref: TileRef, name: str, core: Core | None = None) -> Tile:
        """Return a tile of the stacks."""
        return Tile(ref, self.memory)


@dataclass(slots=True, eq=False)
class _Strip:
    """The steps for so many periods: what loads and computes with the step's number, what stores;
    `found` is what they had to report."""

    periods: int
    bindings: list[Binding]
    commits: list[Commit]
    found: list[Any]


class Stacks:
    """The steps of a period, as they are executed for many periods. Raises NotAtOnceError for steps
    that are not to be executed in this way, OpFault for those that cannot be executed."""

    def __init__(self, engine: Any, core: Core, steps: Sequence[Step]) -> None:
        self._engine, self._core, self._steps = engine, core, steps
        self._found: list[Any] = []
        self._strips: dict[int, _Strip] = {}
        bindings = [self._bound(step, Binding, step.values) for step in steps]
        self._effects = [effects_of(binding) for binding in bindings]
        if self._found:
            raise NotAtOnceError
        self.areas = _areas(steps)
        self.fixed = _fixed(self.areas, self._effects)
        self.windows = [
            w for at, step in enumerate(steps) for w in _windows(at, step, self._effects[at])
        ]
        self.is_store = [
            any(w.is_write for w in self.windows if w.step == at) for at in range(len(steps))
        ]
        self._may_wait = self._stores_may_wait()
        size = sum(area.size for area in self.areas)
        self.most = max(STRIP // max(size, 1), 1)
        self._memory = bytearray(0)
        self._places: dict[Area, int] = {}

    def _bound(self, step: Step, kind: type[Any], values: dict[str, Any], copies: int = 1) -> Any:
        """Bind a step, and refuse it if it does more than to take tiles and windows."""
        engine, inst = self._engine, step.inst
        binding = kind(
            inst.operation, values, inst.attrs, self._core, engine.machine, engine.profile,
            engine.resolved.module.source,
        )  # fmt: skip
        binding.emit, binding.slots = self._found.append, engine.program.slots
        binding.stacked = copies
        if kind is _Stacked:
            binding.memory = self._memory
        commit = inst.semantics(binding)
        does_more = (
            binding.sync, binding.guard, binding.at_issue, binding.signals, binding.awaits,
            binding.made, binding.touches, binding.done, binding.prints,
        )  # fmt: skip
        if any(does_more):
            raise NotAtOnceError
        return (binding, commit) if kind is _Stacked else binding

    # -- execution ---------------------------------------------------------------------------------

    def run(self, offsets: Sequence[int], starts: Sequence[int], periods: int) -> int:
        """Execute so many periods, the first of which has its windows at `offsets` (by step, in
        elements), which are `starts` in a space that all buffers share (by window, in bytes).
        Return how many were: fewer where one has something to report. Raises NotAtOnceError where
        one of them writes what another one touches."""
        if not are_apart(self.windows, starts, periods):
            raise NotAtOnceError
        waits = self._stores_wait(starts, periods)
        most = min(self.most, periods)
        self._make_room(most)
        for area in self.fixed:
            self._spread(area, most)
        done = 0
        while done < periods:
            count = min(most, periods - done)
            if not self._strip_of(count, offsets, done, waits=waits):
                break
            done += count
        return done

    def _stores_wait(self, starts: Sequence[int], periods: int) -> bool:
        """True if stores are executed after everything else, as their windows are loaded too. Then
        rounds that are given up can be executed as usual; if nothing is loaded that was stored,
        they can be in any case. Raises NotAtOnceError if that would not be the same."""
        hulls = [
            (_hull(replace(w.part, start=w.part.start + at), w.distance, periods), w)
            for w, at in zip(self.windows, starts, strict=True)
        ]
        stores = [(hull, w) for hull, w in hulls if w.is_write]
        met = [
            w.step < store.step
            for (low, high), store in stores
            for (first, last), w in hulls
            if not w.is_write and low < last and first < high
        ]
        if met and not (all(met) and self._may_wait):
            raise NotAtOnceError
        return bool(met)

    def _stores_may_wait(self) -> bool:
        """True if what stores take is not overwritten in the same period."""
        for at in range(len(self._steps)):
            taken = _on_chip(self._effects[at])[0] if self.is_store[at] else ()
            for effects in self._effects[at + 1 :] if taken else ():
                written = _on_chip(effects)[1]
                if any((_touched(taken, a) & _touched(written, a)).any() for a in self.areas):
                    return False
        return True

    def _strip_of(self, count: int, offsets: Sequence[int], first: int, *, waits: bool) -> bool:
        """Execute so many periods from one on; False if they were not, as something would have to
        be reported in their order."""
        try:
            strip = self._strips.get(count)
            if strip is None:
                strip = self._strips[count] = self._bind(count)
            stores = []
            for at, step in enumerate(self._steps):
                commit = strip.commits[at]
                if step.stride is not None:
                    place = offsets[at] + step.stride * first
                    moved = strip.bindings[at].moved
                    commit = moved(place) if moved is not None else None
                    if commit is None:
                        return False
                if waits and self.is_store[at]:
                    stores.append(commit)
                else:
                    commit()
            if self._found:
                return False
        except (OpFault, NotAtOnceError, ValueError):
            return False
        for commit in stores:
            commit()
        return True

    def _make_room(self, periods: int) -> None:
        """Give each area its place in the memory of the stacks."""
        size = sum(_room(area, periods) for area in self.areas)
        if size <= len(self._memory):
            return
        self._memory, self._strips, at = bytearray(size), {}, 0
        for area in self.areas:
            self._places[area] = at
            at += _room(area, periods)

    def _spread(self, area: Area, periods: int) -> None:
        """What stays as it is, once for each period."""
        held = np.frombuffer(self._core.space(area.space).data, np.uint8, area.size, area.start)
        stack = np.frombuffer(self._memory, np.uint8, area.size * periods, self._places[area])
        stack.reshape(periods, area.size)[...] = held

    def _bind(self, periods: int) -> _Strip:
        pairs = [self._bound(s, _Stacked, self._stacked(s, periods), periods) for s in self._steps]
        for (binding, _), effects in zip(pairs, self._effects, strict=True):
            self._check(effects_of(binding), effects, periods)
        return _Strip(periods, [b for b, _ in pairs], [c for _, c in pairs], self._found)

    def _stacked(self, step: Step, periods: int) -> dict[str, Any]:
        """The operands of a step as stacks."""
        values = dict(step.values)
        for name, value in values.items():
            if isinstance(value, TileRef):
                rows = value.type.rows * periods
                type_ = replace(
                    value.type, rows=rows, v_row=rows if value.type.v_row is not None else None
                )
                values[name] = tile_ref(type_, self._places[area_of(value)], rows, value.v_col)
            elif isinstance(value, GmView):
                spec = value.spec
                sizes = (periods, *spec.sizes[1:])
                strides = (step.stride or 0, *spec.strides[1:])
                values[name] = value._replace(spec=view_spec(sizes, strides, spec.dtype, "nd"))
        return values

    def _check(self, stacked: Effects, single: Effects, periods: int) -> None:
        """Raise NotAtOnceError unless the stack of an operation touches what it touches in each
        period."""
        for many, one in zip(_on_chip(stacked), _on_chip(single), strict=True):
            for area in self.areas:
                where = Area(area.space, self._places[area], area.size * periods)
                found = _touched(many, where).reshape(periods, area.size)
                if not (found == _touched(one, area)).all():
                    raise NotAtOnceError


def _room(area: Area, periods: int) -> int:
    return -(-area.size * periods // 64) * 64


# -- on chip ---------------------------------------------------------------------------------------


def area_of(ref: TileRef) -> Area:
    """Return the bytes of a tile. Raises NotAtOnceError for one that is not rows and nothing
    else."""
    type_, layout = ref.type, ref.layout
    in_rows = (layout.name == "nd" and layout.row_stride == type_.cols) or (
        layout.name == "dn" and type_.cols == 1
    )
    whole = ref.v_row == type_.rows and type_.dtype.bits >= 8
    if not (in_rows and whole and type_.loc == "vec" and ref.v_col) or type_.pitch:
        raise NotAtOnceError
    return Area(type_.loc, ref.addr, type_.bytes)


def _areas(steps: Sequence[Step]) -> list[Area]:
    """The areas of all tiles, which are the same or apart from each other."""
    found: set[Area] = set()
    for step in steps:
        op = step.inst.operation
        if not op.has("rows_apart"):
            raise NotAtOnceError
        tiles = [v for _, _, v in bound_values(op, step.values) if isinstance(v, TileRef)]
        views = [v for _, _, v in bound_values(op, step.values) if isinstance(v, GmView)]
        rows = {tile.v_row for tile in tiles} | {_lines(view) for view in views}
        if len(rows) != 1 or len(views) > 1:
            raise NotAtOnceError
        found.update(map(area_of, tiles))
    areas = sorted(found, key=lambda area: (area.space, area.start))
    for one, other in pairwise(areas):
        if one.space == other.space and one.start + one.size > other.start:
            raise NotAtOnceError
    return areas


def _lines(view: GmView) -> int:
    """The rows of a window that may have one dimension more."""
    spec = view.spec
    if spec.layout != "nd" or spec.sizes[0] != 1 or spec.dtype.bits < 8:
        raise NotAtOnceError
    return spec.sizes[1] * spec.sizes[2] * spec.sizes[3]


def _on_chip(effects: Effects) -> tuple[list[Any], list[Any]]:
    """What is read on chip, and what is written, with meaning or without."""
    spoiled = [reached for reached, _ in effects.spoils]
    return (
        [r for r in (*effects.reads, *effects.found) if isinstance(r.where, str)],
        [r for r in (*effects.writes, *spoiled) if isinstance(r.where, str)],
    )


def _touched(reached: Sequence[Reached | Touch], area: Area) -> np.ndarray:
    """Which bytes of an area are among those that are reached. Raises NotAtOnceError for bytes
    that are partly in it."""
    found = np.zeros(area.size, np.bool_)
    for one in reached:
        parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
        for low, high in (intervals(parts) - area.start).tolist():
            if one.where == area.space and low < area.size and high > 0:
                if low < 0 or high > area.size:
                    raise NotAtOnceError
                found[low:high] = True
    return found


def _fixed(areas: Sequence[Area], effects: Sequence[Effects]) -> list[Area]:
    """The areas that nothing writes. Raises NotAtOnceError where a period reads of another one what
    an earlier period may have left there, or touches more on chip than tiles."""
    fixed = []
    sides = [_on_chip(e) for e in effects]
    _nothing_else(areas, [r for side in sides for reached in side for r in reached])
    for area in areas:
        known = np.zeros(area.size, np.bool_)
        reads = [_touched(read, area) for read, _ in sides]
        writes = [_touched(written, area) for _, written in sides]
        if not any(w.any() for w in writes):
            fixed.append(area)
            continue
        for read, effect in zip(reads, effects, strict=True):
            if (read & ~known).any():
                raise NotAtOnceError
            known |= _touched([r for r in effect.writes if isinstance(r.where, str)], area)
    return fixed


def _nothing_else(areas: Sequence[Area], reached: Sequence[Reached | Touch]) -> None:
    for one in reached:
        parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
        low, high = min(p.start for p in parts), max(p.end for p in parts)
        if not any(
            one.where == a.space and a.start <= low and high <= a.start + a.size for a in areas
        ):
            raise NotAtOnceError


# -- global memory ---------------------------------------------------------------------------------


def _windows(at: int, step: Step, effects: Effects) -> list[GmWindow]:
    """What a step does to global memory, where that begins at the window's first element."""
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
            found.append(GmWindow(at, int(one.where), part, (step.stride or 0) * size, is_write))
    return found


def are_apart(windows: Sequence[GmWindow], starts: Sequence[int], periods: int) -> bool:
    """True if no period writes what another one touches; `starts` are the bytes at which windows
    begin in the first one, in a space that all buffers share."""
    sets = [
        (replace(w.part, start=w.part.start + start), w)
        for w, start in zip(windows, starts, strict=True)
    ]
    return all(
        _is_apart(part, write.distance, other, window.distance, periods)
        for number, (part, write) in enumerate(sets)
        if write.is_write
        for at, (other, window) in enumerate(sets)
        if at >= number or not window.is_write
    )


def _is_apart(one: Strided, step: int, other: Strided, gain: int, periods: int) -> bool:
    low, high = _hull(one, step, periods)
    first, last = _hull(other, gain, periods)
    if high <= first or last <= low:
        return True
    if step != gain or not step:
        return False
    if max(one.end, other.end) - min(one.start, other.start) <= abs(step):
        return True
    return _in_columns(one, other, abs(step), periods)


def _hull(part: Strided, step: int, periods: int) -> tuple[int, int]:
    way = step * (periods - 1)
    return part.start + min(way, 0), part.end + max(way, 0)


def _in_columns(one: Strided, other: Strided, step: int, periods: int) -> bool:
    """True for windows of the same rows that move along them, and do not meet in one period what
    they reach in another."""
    hull = max(one.start + one.run, other.start + other.run) - min(one.start, other.start)
    if not one.dims or one.dims != other.dims or hull > step:
        return False
    return step * (periods - 1) + hull <= one.dims[-1][1]
