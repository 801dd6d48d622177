"""The operations of a period of a loop, executed for many periods at once: a tile of each of them
is stacked on that of the one before, so that one operation on the stack does what one operation in
each period does.

That is so for operations whose rows know nothing of one another (`rows_apart` in their row), on
tiles that are nothing but rows, if no period reads what another one has left on chip. What does not
change while the loop runs is in the stack as often as there are periods. Windows of global memory
become windows of one dimension more.

A period may be the same steps again and again (a loop of its own), at places at one distance: then
the tiles of its repeats are a stack, and of several periods, if these are small.

Where that does not hold of some operations (a sum over all rounds, one along columns), those from
the first of them to the last are executed in turn, period by period: on the memory of the core what
only they touch, on their part of a stack everything else."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from ptosim.engine.batch.steps import NotAtOnceError
from ptosim.engine.batch.windows import (
    NOWHERE,
    Area,
    Step,
    are_apart,
    area_of,
    hull,
    is_rows,
    nothing_else,
    on_chip,
    overlap,
    runs_in,
    tiles_of,
    windows_of,
)
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import NamedTuple, replace
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects, effects_of
from ptosim.machine.effects.ranges import EMPTY, contains, union
from ptosim.machine.effects.storage import are_apart as lanes_are_apart
from ptosim.machine.effects.storage import role_of
from ptosim.machine.gm import view_spec
from ptosim.machine.tile import Tile, TileRef, tile_ref
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault

STRIP = 1 << 20
"""Bytes of the stacks of a strip, which stay in cache."""

WHOLE = 1 << 21
"""Bytes of the stacks of a period of repeats that is not divided: pages of global memory that it
writes as a whole need not be read."""

MOST = 256
"""Periods of a strip at most."""

Commit = Callable[[], object]


class _Part(NamedTuple):
    """Repeats of periods: so many periods from one on, and so many repeats of each from one on.
    `waits`: its stores are executed after everything else."""

    period: int
    periods: int
    repeat: int
    repeats: int
    waits: bool

    @property
    def tiles(self) -> int:
        """Tiles in a stack."""
        return self.periods * self.repeats


class _Stacked(Binding):
    """A binding whose tiles are stacks, in a memory of their own, but for those that are `real`."""

    __slots__ = ("memory", "real")

    def bind_tile(self, ref: TileRef, name: str, core: Core | None = None) -> Tile:
        """Return a tile of the stacks, or of the core."""
        return super().bind_tile(ref, name, core) if name in self.real else Tile(ref, self.memory)


Bound = tuple[Binding, Commit]


class Stacks:
    """The steps of a period, or of each of its `repeats`, as they are executed for many periods.
    Raises NotAtOnceError for steps that are not to be executed in this way, OpFault for those that
    cannot be executed."""

    def __init__(self, engine: Any, core: Core, steps: Sequence[Step], repeats: int) -> None:
        self._engine, self._core, self._steps, self._repeats = engine, core, steps, repeats
        self._found: list[Any] = []
        self._strips: dict[tuple[int, int, bool], dict[int, Bound]] = {}
        self._singles: dict[tuple[int, int], Bound] = {}
        self._dead: dict[int, frozenset[str]] = {}
        self._places: dict[Area, int] = {}
        # Tiles of joined steps are in no memory of the core, but their effects are asked for.
        ends = [area_of(tile) for step in steps if step.is_joined for tile in tiles_of(step)]
        self._memory = bytearray(max((area.start + area.size for area in ends), default=0))
        effects = {
            at: effects_of(self._bound(step, step.values, () if step.is_joined else step.values)[0])
            for at, step in enumerate(steps)
            if step.first == at
        }
        self._memory = bytearray(0)
        self._effects = [effects[step.first] for step in steps]
        if self._found:
            raise NotAtOnceError
        areas = _areas(steps)
        fixed, carried = _uses(areas, self._effects)
        self._turn = _in_turn(steps, areas, carried, engine.profile.target)
        # A tile of joined steps that nobody writes is one that nobody touches.
        read = [r for effect in effects.values() for r in on_chip(effect)[0]]
        unmade = [area for area in fixed if area.start >= NOWHERE]
        wrong = [steps[at].is_joined for at in self._turn]
        if any(wrong) or any(len(runs_in(read, area)) for area in unmade):
            raise NotAtOnceError
        stacked = [step for at, step in enumerate(steps) if at not in self._turn]
        own = {area_of(tile) for step in stacked for tile in tiles_of(step)}
        self.areas = [area for area in areas if area in own]
        self._fixed = [area for area in fixed if area in own and area.start < NOWHERE]
        self._kept = [area for area in areas if area not in own and area not in fixed]
        self._dead = self._forgotten(carried)
        self.windows = [
            w
            for at, step in enumerate(steps)
            for w in windows_of(at, steps[step.first], self._effects[at])
        ]
        writes = {w.step for w in self.windows if w.is_write}
        self._is_store = [at in writes for at in range(len(steps))]
        self._may_wait = not self._turn and self._stores_may_wait()
        used = {area_of(tile) for step in stacked for tile in self._left_in(step)}
        self._size = sum(area.size for area in self.areas if area in used)
        views = [v for step in stacked for v in step.values.values() if isinstance(v, GmView)]
        self._is_flat = all(view.spec.sizes[1] == 1 for view in views)

    def _bound(
        self,
        step: Step,
        values: dict[str, Any],
        real: Container[str],
        stacked: int = 1,
        *,
        waits: bool = False,
    ) -> Bound:
        """Bind a step, and refuse it if it does more than to take tiles and windows."""
        engine, inst = self._engine, step.inst
        binding = _Stacked(
            inst.operation, values, inst.attrs, self._core, engine.machine, engine.profile,
            engine.resolved.module.source,
        )  # fmt: skip
        binding.emit, binding.slots = self._found.append, engine.program.slots
        binding.memory, binding.real, binding.stacked = self._memory, real, stacked
        binding.at_once = ("read",) if waits else ("read", "fill")
        binding.forgotten = self._dead.get(step.first, ())
        commit = inst.semantics(binding)
        does_more = (
            binding.sync, binding.guard, binding.at_issue, binding.signals, binding.awaits,
            binding.made, binding.touches, binding.done, binding.prints,
        )  # fmt: skip
        if any(does_more):
            raise NotAtOnceError
        return binding, self._engine.domain.watched(binding, commit)

    def _forgotten(self, carried: Sequence[Area]) -> dict[int, frozenset[str]]:
        """Of steps that leave more than their results, or are wide: the tiles that nobody looks at
        before they are written as a whole, by the number of the step. Those of `carried` areas are
        looked at later."""
        found: dict[int, frozenset[str]] = {}
        for at, step in enumerate(self._steps):
            if at in self._turn or not (step.is_joined or self._effects[at].spoils):
                continue
            tiles = {n: area_of(v) for n, v in step.values.items() if isinstance(v, TileRef)}
            dead = frozenset(
                name for name, area in tiles.items()
                if list(tiles.values()).count(area) == 1
                and area not in carried and area not in self._fixed and self._dies(at, area)
            )  # fmt: skip
            found[step.first] = found.get(step.first, dead) & dead
        return found

    def _left_in(self, step: Step) -> list[TileRef]:
        """The tiles that a step uses, but for scratch in which it leaves nothing."""
        op, dead = step.inst.operation, self._dead.get(step.first, ())
        tiles = [(n, v) for n, v in step.values.items() if isinstance(v, TileRef)]
        return [v for n, v in tiles if n not in dead or role_of(op, n) is not Role.SCRATCH]

    def _dies(self, at: int, area: Area) -> bool:
        """True if what a step leaves in an area is written again before it is read, or never read
        in its period."""
        written = EMPTY
        for effects in self._effects[at + 1 :]:
            reads, writes = (runs_in(side, area) for side in on_chip(effects))
            if not contains(written, reads):
                return False
            written = union([written, writes])
            if contains(written, np.array([[0, area.size]])):
                break
        return True

    # -- execution ---------------------------------------------------------------------------------

    def run(self, offsets: Sequence[int], starts: Sequence[int], periods: int) -> int:
        """Execute so many periods, the first of which has its windows at `offsets` (by step, in
        elements), which are `starts` in a space that all buffers share (by window, in bytes).
        Return how many were: fewer where one has something to report. Raises NotAtOnceError where
        one of them writes what another one touches."""
        if not are_apart(self.windows, starts, periods, self._repeats, self._turn):
            raise NotAtOnceError
        waits = self._stores_wait(starts, periods)
        group, repeats = self._strip_size(periods, waits=waits)
        self._make_room(group * repeats)
        for area in self._fixed:
            self._spread(area, group * repeats)
        for done in range(0, periods, group):
            for first in range(0, self._repeats, repeats):
                part = _Part(
                    done,
                    min(group, periods - done),
                    first,
                    min(repeats, self._repeats - first),
                    waits,
                )
                if not self._strip_of(part, offsets):
                    return done
        return periods

    def _strip_size(self, periods: int, *, waits: bool) -> tuple[int, int]:
        """Of how many periods, and how many repeats of each, a strip is. Raises NotAtOnceError
        where a period would have to be divided that must not be."""
        size, repeats = max(self._size, 1), self._repeats
        if repeats == 1:
            return min(max(STRIP // size, 1), MOST, periods), 1
        if repeats * size <= WHOLE:
            most = min(STRIP // (repeats * size), MOST // repeats, periods) if self._is_flat else 1
            return max(most, 1), repeats
        if waits or self._turn:
            raise NotAtOnceError
        return 1, min(max(STRIP // size, 1), MOST)

    def _stores_wait(self, starts: Sequence[int], periods: int) -> bool:
        """True if stores are executed after everything else, as their windows are loaded too. Then
        rounds that are given up can be executed as usual; if nothing is loaded that was stored,
        they can be in any case. Raises NotAtOnceError if that would not be the same."""
        hulls = [
            (hull(replace(w.part, start=w.part.start + at), w.distance, periods), w)
            for w, at in zip((w.over(self._repeats) for w in self.windows), starts, strict=True)
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
            taken = on_chip(self._effects[at])[0] if self._is_store[at] else ()
            for effects in self._effects[at + 1 :] if taken else ():
                written = on_chip(effects)[1]
                sides = ([runs_in(s, a) for s in (taken, written)] for a in self.areas)
                if any(len(one) + len(two) > len(union([one, two])) for one, two in sides):
                    return False  # they meet, or are neighbours
        return True

    def _strip_of(self, part: _Part, offsets: Sequence[int]) -> bool:
        """Execute a part; False if it was not, as something would have to be reported in the order
        of its periods."""
        kept = [self._bytes(area).copy() for area in self._kept]
        stores: list[Commit] = []
        domain = self._engine.domain
        counted = domain.counted
        try:
            self._execute(part, offsets, stores)
            is_quiet = not self._found
        except (OpFault, NotAtOnceError, ValueError):
            is_quiet = False
        if not is_quiet:
            domain.is_unsure |= domain.counted != counted
            for area, held in zip(self._kept, kept, strict=True):
                self._bytes(area)[...] = held
            return False
        for commit in stores:
            commit()
        return True

    def _execute(self, part: _Part, offsets: Sequence[int], stores: list[Commit]) -> None:
        """Execute the steps of a part, but for stores that wait, which are added to a list."""
        strip, turn = self._strip(part), self._turn
        for at in range(len(self._steps)):
            if at in turn:
                if at == turn.start:
                    self._one_by_one(part, offsets)
                continue
            commit = self._placed(
                at, strip[self._steps[at].first], offsets, part.period, part.repeat
            )
            if part.waits and self._is_store[at]:
                stores.append(commit)
            else:
                commit()

    def _one_by_one(self, part: _Part, offsets: Sequence[int]) -> None:
        """Execute what has to be executed in turn."""
        for number in range(part.tiles):
            period, repeat = divmod(number, part.repeats)
            for at in self._turn:
                bound = self._singles.get((at, number))
                if bound is None:
                    step = self._steps[at]
                    bound = self._bound(step, *self._single(step, number))
                    self._singles[at, number] = bound
                self._placed(at, bound, offsets, part.period + period, part.repeat + repeat)()

    def _placed(
        self, at: int, bound: Bound, offsets: Sequence[int], period: int, repeat: int
    ) -> Commit:
        """The effect of a step with its window where it is in a period. Raises NotAtOnceError where
        it has to be bound anew for that."""
        (binding, commit), step = bound, self._steps[at]
        if step.stride is None:
            return commit
        place = offsets[at] + step.stride * period + step.inner * repeat
        moved = binding.moved(place) if binding.moved is not None else None
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

    def _strip(self, part: _Part) -> dict[int, Bound]:
        """The steps that are stacked, for as many repeats as a part has; each once."""
        key = part.periods, part.repeats, part.waits
        strip = self._strips.get(key)
        if strip is None:
            strip = {}
            for at, step in enumerate(self._steps):
                if at not in self._turn and step.first not in strip:
                    values = self._stacked(step, part)
                    made = self._bound(step, values, (), part.tiles, waits=part.waits)
                    self._check(effects_of(made[0]), self._effects[at], part.tiles)
                    strip[step.first] = made
            self._strips[key] = strip
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

    def _stacked(self, step: Step, part: _Part) -> dict[str, Any]:
        """The operands of a step as stacks."""
        values, periods = dict(step.values), part.tiles
        for name, value in values.items():
            if isinstance(value, TileRef):
                rows = value.type.rows * periods
                type_ = replace(
                    value.type, rows=rows, v_row=rows if value.type.v_row is not None else None
                )
                if step.window and type_.cols == 1:  # a window's dimension more is of rows
                    type_ = replace(type_, blayout="row_major")
                values[name] = tile_ref(type_, self._places[area_of(value)], rows, value.v_col)
            elif isinstance(value, GmView):
                spec, outer = value.spec, step.stride or 0
                sizes, strides = (periods, *spec.sizes[1:]), (outer, *spec.strides[1:])
                if part.periods == 1:
                    strides = (step.inner if part.repeats > 1 else outer, *strides[1:])
                elif part.repeats > 1:
                    sizes = (part.periods, part.repeats, *sizes[2:])
                    strides = (outer, step.inner, *strides[2:])
                values[name] = value._replace(spec=view_spec(sizes, strides, spec.dtype, "nd"))
        return values

    def _check(self, stacked: Effects, single: Effects, periods: int) -> None:
        """Raise NotAtOnceError unless the stack of an operation touches what it touches in each
        period."""
        for many, one in zip(on_chip(stacked), on_chip(single), strict=True):
            for area in self.areas:
                where = Area(area.space, self._places[area], area.size * periods)
                touches, runs = runs_in(many, where), runs_in(one, area)
                if not len(touches) and not len(runs):
                    continue
                each = runs + area.size * np.arange(periods)[:, None, None]
                if not np.array_equal(touches, union([each.reshape(-1, 2)])):
                    raise NotAtOnceError


def _room(area: Area, periods: int) -> int:
    return -(-area.size * periods // 64) * 64


# -- on chip ---------------------------------------------------------------------------------------


def _areas(steps: Sequence[Step]) -> list[Area]:
    """The areas of all tiles; those that overlap are one."""
    found: list[Area] = []
    for area in sorted({area_of(tile) for step in steps for tile in tiles_of(step)}):
        last = found[-1] if found else None
        if last is None or last.space != area.space or last.start + last.size <= area.start:
            found.append(area)
            continue
        end = max(last.start + last.size, area.start + area.size)
        found[-1] = Area(last.space, last.start, end - last.start)
    return found


def _in_turn(
    steps: Sequence[Step], areas: Sequence[Area], carried: Sequence[Area], target: str
) -> range:
    """The steps from the first one that cannot be stacked to the last: its rows know of others, or
    it takes tiles that only overlap, or what an earlier period left."""
    apart = {area_of(tile) for step in steps for tile in tiles_of(step)}
    known = [a for a in areas if a not in carried and not any(overlap(a, b) for b in apart)]
    alone = [
        at
        for at, step in enumerate(steps)
        if not _may_stack(step, target)
        or any(area_of(tile) not in known for tile in tiles_of(step))
    ]
    return range(alone[0], alone[-1] + 1) if alone else range(0)


def _may_stack(step: Step, target: str) -> bool:
    """True for an operation on rows that know nothing of one another. Raises NotAtOnceError for one
    that cannot be executed in turn either, as it is none on tiles alone."""
    op, tiles = step.inst.operation, tiles_of(step)
    apart = lanes_are_apart(op, "rows_apart", target)
    if not tiles or not (apart or op.has("by_rows")):
        raise NotAtOnceError
    views = [v for v in step.values.values() if isinstance(v, GmView)]
    rows = {tile.v_row for tile in tiles} | {_lines(view) for view in views}
    return apart and len(rows) == 1 and all(map(is_rows, tiles))


def _lines(view: GmView) -> int:
    """The rows of a window that may have one dimension more; 0 for any other."""
    spec = view.spec
    is_rows_too = spec.layout == "dn" and spec.sizes[4] == 1
    if not (spec.layout == "nd" or is_rows_too) or spec.sizes[0] != 1 or spec.dtype.bits < 8:
        return 0
    return spec.sizes[1] * spec.sizes[2] * spec.sizes[3]


def _uses(areas: Sequence[Area], effects: Sequence[Effects]) -> tuple[list[Area], list[Area]]:
    """The areas that nothing writes, and those of which a period reads what an earlier one may have
    left there. Raises NotAtOnceError where more is touched on chip than tiles."""
    fixed, carried = [], []
    each = {id(effect): effect for effect in effects}
    sides = {key: on_chip(effect) for key, effect in each.items()}
    nothing_else(areas, [r for side in sides.values() for reached in side for r in reached])
    for area in areas:
        known, is_carried = EMPTY, False
        for key, effect in each.items():  # those that come again have all that they read
            is_carried |= not contains(known, runs_in(sides[key][0], area))
            known = union([known, runs_in(effect.writes, area)])
        if not any(len(runs_in(written, area)) for _, written in sides.values()):
            fixed.append(area)
        elif is_carried:
            carried.append(area)
    return fixed, carried
