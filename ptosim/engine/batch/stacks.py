"""The operations of a period of a loop, executed for many periods at once: a tile of each of them
is stacked on that of the one before, so that one operation on the stack does what one operation in
each period does.

That is so for operations whose rows know nothing of one another (`rows_apart` in their row), on
tiles that are nothing but rows, if no period reads what another one has left on chip. What does not
change while the loop runs is in the stack as often as there are periods. Windows of global memory
become windows of one dimension more.

Where that does not hold of some operations (a sum over all rounds, one along columns), those from
the first of them to the last are executed in turn, period by period: on the memory of the core what
only they touch, on their part of a stack everything else."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.batch.windows import are_apart, hull, windows_of
from ptosim.engine.core.bound import Inst
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects, Reached, effects_of
from ptosim.machine.effects.ranges import intervals
from ptosim.machine.effects.strided import Touch, touched_bytes
from ptosim.machine.gm import view_spec
from ptosim.machine.tile import Tile, TileRef, tile_ref
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault

STRIP = 1 << 19
"""Bytes of the stacks of a strip, which stay in cache."""

MOST = 256
"""Periods of a strip at most."""

Commit = Callable[[], object]


class Step(NamedTuple):
    """An operation of a period with its operands, those of the first period; `stride` is by how
    many elements its window of global memory moves, None for an operation without one."""

    inst: Inst
    values: dict[str, Any]
    window: str
    stride: int | None


class Area(NamedTuple):
    """The bytes of a tile on chip: of periods that are stacked, what is at the same place in
    each."""

    space: str
    start: int
    size: int


class _Stacked(Binding):
    """A binding whose tiles are stacks, in a memory of their own, but for those that are `real`."""

    __slots__ = ("memory", "real")

    def bind_tile(self, ref: TileRef, name: str, core: Core | None = None) -> Tile:
        """Return a tile of the stacks, or of the core."""
        return super().bind_tile(ref, name, core) if name in self.real else Tile(ref, self.memory)


Bound = tuple[Binding, Commit]


class Stacks:
    """The steps of a period, as they are executed for many periods. Raises NotAtOnceError for steps
    that are not to be executed in this way, OpFault for those that cannot be executed."""

    def __init__(self, engine: Any, core: Core, steps: Sequence[Step]) -> None:
        self._engine, self._core, self._steps = engine, core, steps
        self._found: list[Any] = []
        self._strips: dict[int, dict[int, Bound]] = {}
        self._singles: dict[tuple[int, int], Bound] = {}
        self._memory = bytearray(0)
        self._places: dict[Area, int] = {}
        bindings = [self._bound(step, step.values, step.values)[0] for step in steps]
        self._effects = [effects_of(binding) for binding in bindings]
        if self._found:
            raise NotAtOnceError
        areas = _areas(steps)
        fixed, carried = _uses(areas, self._effects)
        self._turn = _in_turn(steps, areas, carried)
        stacked = [step for at, step in enumerate(steps) if at not in self._turn]
        own = {area_of(tile) for step in stacked for tile in _tiles(step)}
        self.areas = [area for area in areas if area in own]
        self._fixed = [area for area in fixed if area in own]
        self._kept = [area for area in areas if area not in own and area not in fixed]
        self.windows = [
            w for at, step in enumerate(steps) for w in windows_of(at, step, self._effects[at])
        ]
        self._is_store = [
            any(w.is_write for w in self.windows if w.step == at) for at in range(len(steps))
        ]
        self._may_wait = not self._turn and self._stores_may_wait()
        size = sum(area.size for area in self.areas)
        self.most = min(max(STRIP // max(size, 1), 1), MOST)

    def _bound(
        self, step: Step, values: dict[str, Any], real: Container[str], stacked: int = 1
    ) -> Bound:
        """Bind a step, and refuse it if it does more than to take tiles and windows."""
        engine, inst = self._engine, step.inst
        binding = _Stacked(
            inst.operation, values, inst.attrs, self._core, engine.machine, engine.profile,
            engine.resolved.module.source,
        )  # fmt: skip
        binding.emit, binding.slots = self._found.append, engine.program.slots
        binding.memory, binding.real, binding.stacked = self._memory, real, stacked
        commit = inst.semantics(binding)
        does_more = (
            binding.sync, binding.guard, binding.at_issue, binding.signals, binding.awaits,
            binding.made, binding.touches, binding.done, binding.prints,
        )  # fmt: skip
        if any(does_more):
            raise NotAtOnceError
        return binding, commit

    # -- execution ---------------------------------------------------------------------------------

    def run(self, offsets: Sequence[int], starts: Sequence[int], periods: int) -> int:
        """Execute so many periods, the first of which has its windows at `offsets` (by step, in
        elements), which are `starts` in a space that all buffers share (by window, in bytes).
        Return how many were: fewer where one has something to report. Raises NotAtOnceError where
        one of them writes what another one touches."""
        if not are_apart(self.windows, starts, periods, self._turn):
            raise NotAtOnceError
        waits = self._stores_wait(starts, periods)
        most = min(self.most, periods)
        self._make_room(most)
        for area in self._fixed:
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
            (hull(replace(w.part, start=w.part.start + at), w.distance, periods), w)
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
            taken = _on_chip(self._effects[at])[0] if self._is_store[at] else ()
            for effects in self._effects[at + 1 :] if taken else ():
                written = _on_chip(effects)[1]
                if any((_touched(taken, a) & _touched(written, a)).any() for a in self.areas):
                    return False
        return True

    def _strip_of(self, count: int, offsets: Sequence[int], first: int, *, waits: bool) -> bool:
        """Execute so many periods from one on; False if they were not, as something would have to
        be reported in their order."""
        kept = [self._bytes(area).copy() for area in self._kept]
        stores: list[Commit] = []
        try:
            self._execute(count, offsets, first, stores if waits else None)
            is_quiet = not self._found
        except (OpFault, NotAtOnceError, ValueError):
            is_quiet = False
        if not is_quiet:
            for area, held in zip(self._kept, kept, strict=True):
                self._bytes(area)[...] = held
            return False
        for commit in stores:
            commit()
        return True

    def _execute(
        self, count: int, offsets: Sequence[int], first: int, stores: list[Commit] | None
    ) -> None:
        """Execute the steps for so many periods, but for stores, which are added to a list if there
        is one."""
        strip, turn = self._strip(count), self._turn
        for at in range(len(self._steps)):
            if at in turn:
                if at == turn.start:
                    self._one_by_one(count, offsets, first)
                continue
            commit = self._placed(at, strip[at], offsets, first)
            if stores is not None and self._is_store[at]:
                stores.append(commit)
            else:
                commit()

    def _one_by_one(self, count: int, offsets: Sequence[int], first: int) -> None:
        """Execute what has to be executed in turn."""
        for period in range(count):
            for at in self._turn:
                bound = self._singles.get((at, period))
                if bound is None:
                    step = self._steps[at]
                    bound = self._bound(step, *self._single(step, period))
                    self._singles[at, period] = bound
                self._placed(at, bound, offsets, first + period)()

    def _placed(self, at: int, bound: Bound, offsets: Sequence[int], period: int) -> Commit:
        """The effect of a step with its window where it is in a period. Raises NotAtOnceError where
        it has to be bound anew for that."""
        (binding, commit), stride = bound, self._steps[at].stride
        if stride is None:
            return commit
        moved = binding.moved(offsets[at] + stride * period) if binding.moved is not None else None
        if moved is None:
            raise NotAtOnceError
        return moved

    def _bytes(self, area: Area) -> np.ndarray:
        """The bytes of an area in the memory of the core."""
        return np.frombuffer(self._core.space(area.space).data, np.uint8, area.size, area.start)

    def _make_room(self, periods: int) -> None:
        """Give each area its place in the memory of the stacks."""
        size = sum(_room(area, periods) for area in self.areas)
        if size <= len(self._memory):
            return
        self._memory, self._strips, self._singles, at = bytearray(size), {}, {}, 0
        for area in self.areas:
            self._places[area] = at
            at += _room(area, periods)

    def _spread(self, area: Area, periods: int) -> None:
        """What stays as it is, once for each period."""
        stack = np.frombuffer(self._memory, np.uint8, area.size * periods, self._places[area])
        stack.reshape(periods, area.size)[...] = self._bytes(area)

    def _strip(self, periods: int) -> dict[int, Bound]:
        """The steps that are stacked, for so many periods."""
        strip = self._strips.get(periods)
        if strip is None:
            strip = {}
            for at, step in enumerate(self._steps):
                if at not in self._turn:
                    strip[at] = self._bound(step, self._stacked(step, periods), (), periods)
                    self._check(effects_of(strip[at][0]), self._effects[at], periods)
            self._strips[periods] = strip
        return strip

    def _single(self, step: Step, period: int) -> tuple[dict[str, Any], set[str]]:
        """The operands of a step that is executed in turn, and which are the core's own: all but
        those that are stacks, of which it takes the part of its period."""
        values, real = dict(step.values), set(step.values)
        for name, value in values.items():
            area = area_of(value) if isinstance(value, TileRef) else None
            if area is not None and area in self._places and area not in self._fixed:
                place = self._places[area] + period * area.size
                values[name] = tile_ref(value.type, place, value.v_row, value.v_col)
                real.discard(name)
        return values, real

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


def _tiles(step: Step) -> list[TileRef]:
    return [v for v in step.values.values() if isinstance(v, TileRef)]


def _areas(steps: Sequence[Step]) -> list[Area]:
    """The areas of all tiles; those that overlap are one."""
    found: list[Area] = []
    for area in sorted({area_of(tile) for step in steps for tile in _tiles(step)}):
        last = found[-1] if found else None
        if last is None or last.space != area.space or last.start + last.size <= area.start:
            found.append(area)
            continue
        end = max(last.start + last.size, area.start + area.size)
        found[-1] = Area(last.space, last.start, end - last.start)
    return found


def _in_turn(steps: Sequence[Step], areas: Sequence[Area], carried: Sequence[Area]) -> range:
    """The steps from the first one that cannot be stacked to the last: its rows know of others, or
    it takes tiles that only overlap, or what an earlier period left."""
    apart = {area_of(tile) for step in steps for tile in _tiles(step)}
    known = [a for a in areas if a not in carried and not any(_overlaps(a, b) for b in apart)]
    alone = [
        at
        for at, step in enumerate(steps)
        if not _may_stack(step) or any(area_of(tile) not in known for tile in _tiles(step))
    ]
    return range(alone[0], alone[-1] + 1) if alone else range(0)


def _overlaps(one: Area, other: Area) -> bool:
    """True for two that share bytes, but not all of them."""
    meets = one.start < other.start + other.size and other.start < one.start + one.size
    return one != other and one.space == other.space and meets


def _may_stack(step: Step) -> bool:
    """True for an operation on rows that know nothing of one another. Raises NotAtOnceError for one
    that cannot be executed in turn either, as it is none on tiles alone."""
    op, tiles = step.inst.operation, _tiles(step)
    if not tiles or not (op.has("rows_apart") or op.has("by_rows")):
        raise NotAtOnceError
    views = [v for v in step.values.values() if isinstance(v, GmView)]
    rows = {tile.v_row for tile in tiles} | {_lines(view) for view in views}
    return op.has("rows_apart") and len(rows) == 1 and all(map(is_rows, tiles))


def _lines(view: GmView) -> int:
    """The rows of a window that may have one dimension more; 0 for any other."""
    spec = view.spec
    if spec.layout != "nd" or spec.sizes[0] != 1 or spec.dtype.bits < 8:
        return 0
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


def _uses(areas: Sequence[Area], effects: Sequence[Effects]) -> tuple[list[Area], list[Area]]:
    """The areas that nothing writes, and those of which a period reads what an earlier one may have
    left there. Raises NotAtOnceError where more is touched on chip than tiles."""
    fixed, carried = [], []
    sides = [_on_chip(e) for e in effects]
    _nothing_else(areas, [r for side in sides for reached in side for r in reached])
    for area in areas:
        known = np.zeros(area.size, np.bool_)
        is_carried = False
        for (read, _), effect in zip(sides, effects, strict=True):
            is_carried |= bool((_touched(read, area) & ~known).any())
            known |= _touched([r for r in effect.writes if isinstance(r.where, str)], area)
        if not any(_touched(written, area).any() for _, written in sides):
            fixed.append(area)
        elif is_carried:
            carried.append(area)
    return fixed, carried


def _nothing_else(areas: Sequence[Area], reached: Sequence[Reached | Touch]) -> None:
    for one in reached:
        parts = touched_bytes(one, 1 << 62) if isinstance(one, Touch) else one.parts
        low, high = min(p.start for p in parts), max(p.end for p in parts)
        if not any(
            one.where == a.space and a.start <= low and high <= a.start + a.size for a in areas
        ):
            raise NotAtOnceError
