"""Windows of one buffer that do not meet in what was followed, and do with other values: these are
followed, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any

from ptosim.engine.paths.forms import (
    CANNOT,
    Assignment,
    Decision,
    Env,
    Form,
    NoRound,
    Symbol,
    Window,
    constants_of,
    value_of,
)
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, is_loop, line_of

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
        self._tried: set[frozenset[Any]] = set()
        self.found: dict[Pair, list[tuple[Symbol, Assignment]]] = {}

    def add(self, run: PathRun) -> None:
        """See which windows of a run meet, and which others would with other values."""
        way = way_of(run)
        for (key, one), (key_, other) in combinations(run.noted.windows.items(), 2):
            pair = (way, key, key_) if key < key_ else (way, key_, key)
            if pair in self._met or one.memory != other.memory or _are_in_turn(one, other):
                continue
            if _meet(*(_now(w.view) for w in (one, other))):
                self._met.add(pair)
                self.found.pop(pair, None)
            elif pair not in self.found:
                made = list(_meeting_by(one, other, run, self._explored))
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


def _meet(one: Any, other: Any) -> bool:
    (low, high), (first, last) = one.span(), other.span()
    return bool(one.memory == other.memory and low < last and first < high)


def _meeting_by(
    one: Window, other: Window, run: PathRun, explored: Explored
) -> Iterator[tuple[Symbol, Assignment]]:
    """Yield symbols of which one, moved by itself, lets two windows meet, with what it is then."""
    base = {**run.assignment, **run.noted.symbols}
    forms = [w.view for w in (one, other) if isinstance(w.view, Form)]
    symbols = frozenset[Symbol]().union(*(form.symbols for form in forms))
    limits = [v for v in run.noted.limits.values() if v.inst.pc in (one.inst.pc, other.inst.pc)]
    kept = [d for d in run.noted.decisions if not is_loop(d) and d.form.symbols & symbols]

    def views(
        symbol: Symbol, value: int, more: Assignment = MappingProxyType({})
    ) -> tuple[Any, Any, Assignment] | None:
        tried = explored.space.fits({**base, **more, symbol: value})
        if tried is None or not symbol.low <= value <= symbol.high:
            return None
        try:
            made = [value_of(w.view, Env(tried)) for w in (one, other)]
        except (*CANNOT, NoRound):
            return None
        return made[0], made[1], tried

    def is_inside(tried: Assignment) -> bool:
        return all(limit.is_met(tried) is not False for limit in limits)

    ordered = sorted(symbols, key=lambda s: s.name)
    for symbol in ordered:
        now = base.get(symbol, symbol.default)
        for value in _values(now, [views(symbol, now), views(symbol, now + 1)], forms):
            there = views(symbol, value)
            if there is None or not _meet(*there[:2]):
                continue
            if not holds(kept, there[2]):  # with another number they are on this way
                more = ({other: v} for other in ordered if other != symbol for v in _NEAR)
                again = (views(symbol, value, each) for each in more)
                there = next((t for t in again if t and _meet(*t[:2]) and holds(kept, t[2])), None)
            if there is not None and is_inside(there[2]):
                yield symbol, there[2]
                break


def holds(kept: Sequence[Decision], tried: Assignment) -> bool:
    """True if decisions turn out the same under an assignment."""
    env = Env(tried)
    return all(decision.holds(env) for decision in kept)


def _values(now: int, there: Sequence[Any], forms: Sequence[Form]) -> list[int]:
    """Values of a symbol to try, where it moves one of two windows: `there` is where they are with
    the one of now, and with the next one."""
    constants = dict.fromkeys(
        c + d for form in forms for c in constants_of(form) for d in (0, -1, 1)
    )
    values = [*_MOVED, *(c for c in constants if c not in _MOVED)]
    if None in there:
        return values
    far, near = (pair[0].span()[0] - pair[1].span()[0] for pair in there)
    if far == near:  # both move alike, or neither does before some number
        return values if constants else []
    return [now + round(far / (far - near)), *values]
