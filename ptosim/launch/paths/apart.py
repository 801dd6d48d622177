"""Windows of one buffer that do not meet in what was followed, and do with other values: these are
followed, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

from ptosim.engine.paths.forms import (
    CANNOT,
    Assignment,
    Env,
    Form,
    NoRound,
    Symbol,
    Window,
    constants_of,
    value_of,
)
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import Explored, PathRun, line_of

_MOST = 12
"""Followings that let windows meet."""
_MOVED = (0, 1, 2, 3, 7, 16, 64, 100, 101, 128, 1000, 4096)

Key = tuple[int, int]
"""The instruction of a window, and which of its rounds it is of."""
Meetings = dict[tuple[Key, Key], list[tuple[Symbol, Assignment]]]


def follow_meetings(front: Front, explored: Explored) -> None:
    """Follow an entry with values that let windows of one buffer meet which did not so far, one of
    them written, by different pipes: whether they are in order then shows only there. What meets in
    no run is kept as `apart`."""
    assert explored.again is not None
    tried: set[frozenset[Any]] = set()
    for _ in range(_MOST):
        every = (pair for found in _meetings(explored).values() for pair in found[:2])
        new = (a for _, a in every if frozenset(a.items()) not in tried)
        assignment = next(new, None)
        if assignment is None:
            break
        tried.add(frozenset(assignment.items()))
        explored.runs.append(explored.again(assignment))
    found: dict[tuple[int, int], set[str]] = {}
    lines = {w.inst.pc: line_of(front, w.inst)
             for run in explored.valid for w in run.noted.windows.values()}  # fmt: skip
    for ((one, _), (other, _)), meetings in _meetings(explored).items():
        names = found.setdefault((lines[one], lines[other]), set())
        names |= {symbol.name for symbol, _ in meetings}
    explored.apart = tuple(sorted((*pair, tuple(sorted(names))) for pair, names in found.items()))


def _meetings(explored: Explored) -> Meetings:
    """Pairs of windows that met in no run, with assignments that let them meet."""
    met: set[tuple[Key, Key]] = set()
    found: Meetings = {}
    for run in explored.valid:
        for (key, one), (key_, other) in combinations(run.noted.windows.items(), 2):
            pair = (key, key_) if key < key_ else (key_, key)
            if not (one.is_write or other.is_write) or one.inst.pipe == other.inst.pipe:
                continue
            if pair in met or one.memory != other.memory:
                continue
            if _meet(*(w.view.now if isinstance(w.view, Form) else w.view for w in (one, other))):
                met.add(pair)
            elif pair not in found:
                found[pair] = list(_meeting_by(one, other, run, explored))
    return {pair: each for pair, each in found.items() if each and pair not in met}


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

    def views(symbol: Symbol, value: int) -> tuple[Any, Any, Assignment] | None:
        tried = explored.space.fits({**base, symbol: value})
        if tried is None or not symbol.low <= value <= symbol.high:
            return None
        try:
            made = [value_of(w.view, Env(tried)) for w in (one, other)]
        except (*CANNOT, NoRound):
            return None
        is_inside = all(limit.is_met(tried) is not False for limit in limits)
        return (made[0], made[1], tried) if is_inside else None

    for symbol in sorted(symbols, key=lambda s: s.name):
        now = base.get(symbol, symbol.default)
        for value in _values(now, [views(symbol, now), views(symbol, now + 1)], forms):
            there = views(symbol, value)
            if there is not None and _meet(*there[:2]):
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
    far, near = (pair[0].span()[0] - pair[1].span()[0] for pair in there)
    if far == near:  # both move alike, or neither does before some number
        return values if constants else []
    return [now + round(far / (far - near)), *values]
