"""What did not meet in any run and may with other numbers: windows of one buffer, and tiles of
which a symbol says how large they are, where what is read of memory on chip is compared with what
was written there for other numbers. Both are followed where they meet, or a tile is larger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice, product
from math import prod
from types import MappingProxyType
from typing import Any

from ptosim.engine.paths.forms import (
    CANNOT,
    Assignment,
    Env,
    Form,
    Likeness,
    NoRound,
    Symbol,
    constants_of,
    value_of,
)
from ptosim.engine.paths.noted import Course, Use, Window
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, is_loop, line_of
from ptosim.launch.paths.solve import tries
from ptosim.machine.effects.storage import READ, role_of
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView

_MOST = 12
"""Followings that let windows meet."""
_NEAR = (0, 1, 2, 3, 5, 12, 64)
"""Values of another symbol."""
_MOVED = (0, 1, 2, 3, 7, 16, 64, 100, 101, 128, 1000, 4096)

Key = tuple[int, int, int]
"""The instruction of a window, its core, and which of its rounds it is of."""
Pair = tuple[Any, Key, Key]
"""A way through an entry, and two windows."""


def follow_meetings(front: Front, explored: Explored) -> None:
    """Follow an entry with values that let windows of one buffer meet which did not so far on the
    way that they are on, one of them written: whether they are in order then shows only there. What
    meets in no run is kept as `apart`."""
    meetings = _Meetings(explored)
    for run in explored.valid:
        meetings.add(run)
    follow(explored, meetings.next, meetings.add)
    lines = {w.inst.pc: line_of(front, w.inst)
             for run in explored.valid for w in run.noted.windows.values()}  # fmt: skip
    found: dict[tuple[int, int], set[str]] = {}
    for (_, one, other), each in meetings.found.items():
        names = found.setdefault((lines[one[0]], lines[other[0]]), set())
        names |= {symbol.name for symbol, _ in each}
    explored.apart = tuple(sorted((*pair, tuple(sorted(names))) for pair, names in found.items()))


def follow(
    explored: Explored,
    following: Callable[[], Assignment | None],
    add: Callable[[PathRun], None],
) -> None:
    """Follow an entry with assignments, until none is left, or it was followed often enough."""
    assert explored.again is not None
    for _ in range(_MOST):
        assignment = following()
        if assignment is None:
            break
        explored.runs.append(explored.again(assignment))
        if explored.runs[-1].outcome is not None:
            add(explored.runs[-1])


def way_of(run: PathRun) -> Any:
    """What was decided in a run, but for the rounds of loops: what is in order hangs on that."""
    return frozenset((d.inst.pc, d.outcome) for d in run.noted.decisions if not is_loop(d))


class _Meetings:
    """Pairs of windows that met in no run, by way, with assignments that let them meet."""

    def __init__(self, explored: Explored) -> None:
        self._explored = explored
        self._met: set[Pair] = set()
        self._places: Places = {}
        self._tried: set[frozenset[Any]] = set()
        self.found: dict[Pair, list[tuple[Symbol, Assignment]]] = {}

    def add(self, run: PathRun) -> None:
        """See which windows of a run meet, and which others would with other values."""
        way = way_of(run)
        for (key, one), (key_, other) in combinations(run.noted.windows.items(), 2):
            pair = (way, key, key_) if key < key_ else (way, key_, key)
            if pair in self._met or one.memory != other.memory or _are_in_turn(one, other):
                continue
            if _meet(*(_place_of(_now(w.view)) for w in (one, other))):
                self._met.add(pair)
                self.found.pop(pair, None)
            elif pair not in self.found:
                made = list(_meeting_by(one, other, run, self._explored, self._places))
                if made:
                    self.found[pair] = made

    def next(self) -> Assignment | None:
        """Return an assignment to follow that lets two windows meet; None if there is none left."""
        for each in self.found.values():
            for _, assignment in each[:2]:
                key = frozenset(assignment.items())
                if key not in self._tried:
                    self._tried.add(key)
                    return assignment
        return None


def _are_in_turn(one: Window, other: Window) -> bool:
    """True for windows that are only read, or used by one pipe, which goes by the order of the
    text; what it stores may change places."""
    if not (one.is_write or other.is_write):
        return True
    is_one_pipe = (one.inst.pipe, one.core) == (other.inst.pipe, other.core)
    return is_one_pipe and not (one.is_write and other.is_write)


def _now(view: Any) -> Any:
    return view.now if isinstance(view, Form) else view


Place = tuple[Any, int, int]
"""A buffer or a memory on chip, and from which byte of it to before which one."""
Places = dict[tuple[Any, ...], Place | None]
"""Where a window is with certain numbers, None where no run comes to it: each is compared with
many others."""


def _place_of(view: GmView) -> Place:
    return view.memory, *view.span()


def _meet(one: Place, other: Place) -> bool:
    return one[0] == other[0] and one[1] < other[2] and other[1] < one[2]


def _place(view: Any, tried: Assignment, places: Places) -> Place | None:
    """Where a window, or its form, is under an assignment."""
    if not isinstance(view, Form):
        return _place_of(view)
    key = id(view), *map(tried.get, view.symbols)
    if key not in places:
        try:
            places[key] = _place_of(view.value(Env(tried)))
        except (*CANNOT, NoRound):
            places[key] = None
    return places[key]


def _meeting_by(
    one: Window, other: Window, run: PathRun, explored: Explored, places: Places
) -> Iterator[tuple[Symbol, Assignment]]:
    """Yield symbols of which one, moved by itself, lets two windows meet, with what it is then."""
    base = run.assumed
    forms = [w.view for w in (one, other) if isinstance(w.view, Form)]
    symbols = frozenset[Symbol]().union(*(form.symbols for form in forms))
    limits = [v for v in run.noted.limits.values() if v.inst.pc in (one.inst.pc, other.inst.pc)]
    kept = Course([d for d in run.noted.decisions if not is_loop(d) and d.form.symbols & symbols])

    def views(
        symbol: Symbol, value: int, more: Assignment = MappingProxyType({})
    ) -> tuple[Place, Place, Assignment] | None:
        if not symbol.low <= value <= symbol.high:
            return None
        tried = explored.space.fits({**base, **more, symbol: value})
        if tried is None:
            return None
        first, second = (_place(w.view, tried, places) for w in (one, other))
        return None if first is None or second is None else (first, second, tried)

    def is_inside(tried: Assignment) -> bool:
        return all(limit.is_met(tried) is not False for limit in limits)

    ordered = sorted(symbols, key=lambda s: s.name)
    for symbol in ordered:
        now = base.get(symbol, symbol.default)
        for value in _values(now, [views(symbol, now), views(symbol, now + 1)], forms):
            there = views(symbol, value)
            if there is None or not _meet(*there[:2]):
                continue
            if not kept.holds(there[2]):  # with another number they are on this way
                more = ({other: v} for other in ordered if other != symbol for v in _NEAR)
                again = (views(symbol, value, each) for each in more)
                there = next((t for t in again if t and _meet(*t[:2]) and kept.holds(t[2])), None)
            if there is not None and is_inside(there[2]):
                yield symbol, there[2]
                break


def _values(now: int, there: Sequence[Any], forms: Sequence[Form]) -> list[int]:
    """Values of a symbol to try, where it moves one of two windows: `there` is where they are with
    the one of now, and with the next one."""
    constants = dict.fromkeys(
        c + d for form in forms for c in constants_of(form) for d in (0, -1, 1)
    )
    values = [*_MOVED, *(c for c in constants if c not in _MOVED)]
    if None in there:
        return values
    far, near = (pair[0][1] - pair[1][1] for pair in there)
    if far == near:  # both move alike, or neither does before some number
        return values if constants else []
    return [now + round(far / (far - near)), *values]


_SAMPLES = 48
"""Assignments for which uses are compared."""

Bytes = dict[str, list[tuple[int, int]]]
"""Ranges of bytes, by memory."""
Fact = tuple[Any, ...]
"""What is so in a run: something is read beyond what was written, or two uses meet."""


def follow_extents(front: Front, explored: Explored) -> None:
    """Follow an entry with numbers for which tiles are larger, or meet, as in no run before. Lines
    that read what nothing shows to be written for every number are kept as `beyond`."""
    extents = _Extents(explored)
    for run in list(explored.valid):
        extents.add(run)
    follow(explored, extents.next, extents.add)
    explored.beyond = {
        line_of(front, use.inst): frozenset(s.name for f in use.forms for s in f.own)
        for use in extents.unsure.values()
    }


class _Extents:
    """What uses of memory on chip are to one another, by way."""

    def __init__(self, explored: Explored) -> None:
        self._explored = explored
        self._seen: set[tuple[Any, Fact]] = set()
        self._ways: set[Any] = set()
        self._asked: dict[Any, set[Key]] = {}
        self._known: dict[Any, Any] = {}
        self._new: dict[tuple[Any, Fact], list[Assignment]] = {}
        self.unsure: dict[tuple[Any, Key], Use] = {}

    def add(self, run: PathRun) -> None:
        """See what is so in a run, and on a new way, what may be with other numbers."""
        way, uses = way_of(run), run.noted.uses
        tiles = _Tiles(uses)
        asked = {key for key in uses if tiles.is_asked(key)}
        asked = self._asked[way] = asked | self._asked.get(way, set())
        if not asked:
            return
        base = run.assumed
        for fact in _facts(uses, asked, base, self._known):
            self._seen.add((way, fact))
        if way in self._ways:
            return
        self._ways.add(way)
        self.unsure |= {
            (way, key): use for key, use in uses.items()
            if tiles.forms[key] and tiles.near(key) and not tiles.is_written(key)
        }  # fmt: skip
        forms = list(chain.from_iterable(tiles.forms.values()))
        symbols = frozenset[Symbol]().union(*(form.symbols for form in forms))
        kept = Course(
            [d for d in run.noted.decisions if not is_loop(d) and d.form.symbols & symbols]
        )
        inside = filter(kept.holds, tries(forms, base, self._explored.space))
        for tried in islice(inside, _SAMPLES):
            for fact in _facts(uses, asked, tried, self._known):
                if (way, fact) not in self._seen:
                    self._new.setdefault((way, fact), []).append(tried)

    def next(self) -> Assignment | None:
        """Return an assignment to follow; None if there is none left."""
        for key, found in list(self._new.items()):
            if key in self._seen or not found:
                continue
            return found.pop(0)
        return None


class _Tiles:
    """The tiles that the uses of a run are given, by the bytes that they have if they are as large
    as they can be: many are at few places."""

    def __init__(self, uses: Mapping[Key, Use]) -> None:
        self._uses = uses
        self.forms = {key: use.forms for key, use in uses.items()}
        self._of: dict[Key, list[tuple[Any, Place]]] = {}
        self._at: dict[Place, list[tuple[Key, Any]]] = {}
        self._near: dict[Key, list[tuple[Any, Key, Any]]] = {}
        self._known: dict[tuple[Any, ...], bool] = {}
        for key, use in uses.items():
            for tile in _tiles(use):
                extent = _extent(_now(tile))
                self._of.setdefault(key, []).append((tile, extent))
                self._at.setdefault(extent, []).append((key, tile))

    def near(self, key: Key) -> list[tuple[Any, Key, Any]]:
        """The tiles of a use with others that may share bytes with them, and what uses these."""
        if key not in self._near:
            self._near[key] = [
                (tile, other, each) for tile, extent in self._of.get(key, ())
                for place, there in self._at.items() if _meet(extent, place)
                for other, each in there if other != key
            ]  # fmt: skip
        return self._near[key]

    def is_asked(self, key: Key) -> bool:
        """True if other numbers may let a use reach what no earlier one wrote, or meet another: one
        at another place, or one of a tile that is empty now."""
        near = self.near(key)
        if not self.forms[key] and not any(self.forms[other] for _, other, _ in near):
            return False  # no symbol says how large one of them is
        return any(
            other.addr != tile.addr or not other.v_row * other.v_col * tile.v_row * tile.v_col
            for tile, other in ((_now(t), _now(o)) for t, _, o in near)
        ) or bool(near and not self.is_written(key))

    def is_written(self, key: Key) -> bool:
        """True if another use fills each tile that one reads."""
        return all(self._is_written(key, tile) for tile in _tiles(self._uses[key], read=True))

    def _is_written(self, key: Key, tile: Any) -> bool:
        own = [(other, each) for one, other, each in self.near(key) if one is tile]
        if not any(isinstance(t, Form) for t in (tile, *(each for _, each in own))):
            return True  # no number says how large they are
        return any(self._covers(each, tile) and self._fills(other, each) for other, each in own)

    def _covers(self, other: Any, tile: Any) -> bool:
        key = id(other), id(tile)
        if key not in self._known:
            self._known[key] = _covers_tile(other, tile)
        return self._known[key]

    def _fills(self, key: Key, tile: Any) -> bool:
        known = "fills", key, id(tile)
        if known not in self._known:
            self._known[known] = _fills(self._uses[key], tile)
        return self._known[known]


def _covers_tile(other: Any, tile: Any) -> bool:
    """True if one tile is made like another one, or has all bytes that this may have."""
    if _are_alike(other, tile):
        return True
    if isinstance(other, Form) or (other.v_row, other.v_col) != (other.type.rows, other.type.cols):
        return False
    now = _now(tile)
    return bool(other.addr <= now.addr and _end(now) <= _end(other))


def _end(tile: TileRef) -> int:
    """One past the last byte of a tile, if it is as large as it can be."""
    return tile.addr + tile.type.rows * tile.type.cols * tile.type.dtype.bits // 8


def _tiles(use: Use, *, read: bool = False) -> Iterator[Any]:
    """The tiles among what an operation is given, or their forms: of those all that it may read."""
    for name, slot in use.inst.operands:
        for each in map(use.given.get, slot if isinstance(slot, tuple) else (slot,)):
            is_meant = not read or role_of(use.inst.operation, name) in READ
            if is_meant and isinstance(_now(each), TileRef):
                yield each


def _extent(tile: TileRef) -> Place:
    return tile.type.loc, tile.addr, _end(tile)


def _are_alike(one: Any, other: Any) -> bool:
    """True for tiles that are made alike, of the same numbers."""
    if not (isinstance(one, Form) and isinstance(other, Form)):
        return one is other
    alike = Likeness().of
    if alike(one) == alike(other):
        return True
    parts = [sorted(alike(p) for p in f.parts() if isinstance(p, Form)) for f in (one, other)]
    return parts[0] == parts[1] and all(a is b for a, b in _tried(one, other))


def _tried(one: Any, other: Any) -> Iterator[tuple[Any, Any]]:
    """Two handles for some numbers."""
    symbols = frozenset[Symbol]().union(*(f.symbols for f in (one, other) if isinstance(f, Form)))
    for value in (None, 0, 1, 2, 5, 9, 14, 16, 64):
        tried = {} if value is None else dict.fromkeys(symbols, value)
        try:
            yield value_of(one, Env(tried)), value_of(other, Env(tried))
        except (*CANNOT, NoRound):
            continue


def _fills(use: Use, tile: Any) -> bool:
    """True if an operation writes all of a tile: of a transfer the window says how many rows it
    brings; one without a window is taken to."""
    views = [v for v in use.given.values() if isinstance(_now(v), GmView)]
    return not views or all(
        prod(view.spec.sizes[:4]) == made.v_row for made, view in _tried(tile, views[0])
    )


def _facts(
    uses: dict[Key, Use], asked: set[Key], tried: Assignment, known: dict[Any, Any]
) -> list[Fact]:
    """What is so under an assignment, as far as that can be said; `known` is what operations reach
    with certain values."""
    reached: dict[Key, tuple[Bytes, Bytes]] = {}
    env = Env(tried)
    for key, use in uses.items():
        try:
            values = {slot: value_of(each, env) for slot, each in use.given.items()}
            same = key[:2], tuple(values.values())
            if same not in known:
                known[same] = tuple(map(_bytes, use.reach(values)))
        except (*CANNOT, NoRound):
            continue
        reached[key] = known[same]
    found: list[Fact] = []
    written: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for key, (read, made) in reached.items():
        core = uses[key].core
        for memory, ranges in read.items() if key in asked else ():
            if not _covers(written.get((core, memory), ()), ranges):
                found.append(("beyond", key))
        for memory, ranges in made.items():
            written.setdefault((core, memory), []).extend(ranges)
    pairs = product(sorted(asked & reached.keys()), reached)
    return found + [
        ("meet", *sorted((key, other))) for key, other in pairs
        if uses[key].core == uses[other].core and uses[key].inst.pipe != uses[other].inst.pipe
        and _clash(reached[key], reached[other])
    ]  # fmt: skip


def _bytes(reach: Sequence[tuple[str, tuple[Any, ...]]]) -> Bytes:
    """The ranges of bytes of runs, those that touch joined."""
    found: Bytes = {}
    for memory, parts in reach:
        for part in parts:
            starts = [part.start]
            for count, distance in part.dims:
                starts = [s + n * distance for s in starts for n in range(count)]
            found.setdefault(memory, []).extend((s, s + part.run) for s in starts)
    return {memory: _joined(ranges) for memory, ranges in found.items()}


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    made: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if made and low <= made[-1][1]:
            made[-1] = made[-1][0], max(made[-1][1], high)
        else:
            made.append((low, high))
    return made


def _covers(written: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]]) -> bool:
    whole = _joined(written)
    return all(any(low <= a and b <= high for low, high in whole) for a, b in ranges)


def _clash(one: tuple[Bytes, Bytes], two: tuple[Bytes, Bytes]) -> bool:
    """True if one of two uses writes what the other one uses."""
    pairs = [(one[1], two[0]), (one[1], two[1]), (one[0], two[1])]
    return any(
        a < y and x < b
        for first, other in pairs
        for memory in first.keys() & other.keys()
        for a, b in first[memory]
        for x, y in other[memory]
    )
