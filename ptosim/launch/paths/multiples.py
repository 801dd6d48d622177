"""Of what arguments have to be multiples: rows that are handed out in tiles. A bound asks it that
every multiple meets, whatever else is assumed and in whichever block of a launch, and that nothing
between them meets in all blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from ptosim.engine.paths.forms import ARGUMENT, COUNT, INDEX, Symbol
from ptosim.engine.paths.noted import Decision, Limit
from ptosim.language.frontend import Front
from ptosim.launch.paths.explore import PathRun, line_of
from ptosim.launch.paths.requirement import STEPS, Met, Requirement, is_allowed

_Pair = tuple[Limit, PathRun]
_TIMES = (1, 2, 3, 7, 33)
"""Multiples that are asked."""
_LAUNCHES = ((1, 1), (1, 3), (2, 2))
"""How many times as large as they were other arguments are, and how many blocks a launch has."""
_PLACES = 4
"""Blocks that are asked: those after them get no tile of the numbers that are tried."""


class Bound:
    """A bound as it is asked of one of its symbols, with several values of the others."""

    def __init__(
        self, moved: Symbol, symbols: Iterable[Symbol], base: Mapping[Symbol, int], met: Met
    ) -> None:
        self._moved, self._met = moved, met
        self._others = sorted((s for s in symbols if s is not moved), key=lambda s: s.name)
        self.settings = [list(self._places(base, *launch)) for launch in _LAUNCHES]

    def _places(
        self, base: Mapping[Symbol, int], factor: int, count: int
    ) -> Iterator[dict[Symbol, int]]:
        """What is assumed of the others in a launch, in each of its blocks."""
        given = {s: base.get(s, s.default) for s in self._others}
        given |= {s: v * factor for s, v in given.items() if s.kind == ARGUMENT}
        counts = {s: min(max(count, s.low), s.high) for s in given if s.kind == COUNT}
        given |= counts
        indices = [s for s in given if s.kind == INDEX]
        if all(is_allowed(s, v) for s, v in given.items()):
            several = min(max(counts.values(), default=count), _PLACES)
            for place in product(range(several), repeat=len(indices)):
                yield {**given, **dict(zip(indices, place, strict=True))}

    def asked(self, value: int, launch: int) -> Iterator[bool | None]:
        """Yield for each block of a launch if the bound is met with a value."""
        return (self._met({self._moved: value, **s}) for s in self.settings[launch])

    def contradicts(self, known: Requirement, step: int) -> bool:
        """Return if multiples that break something else do no harm."""
        named = (
            {self._moved.name: t * step, **{s.name: v for s, v in setting.items()}}
            for t in (0, *_TIMES) for settings in self.settings for setting in settings
        )  # fmt: skip
        return any(known.holds(values) is False for values in named)

    def broken_by(self, step: int) -> dict[str, int]:
        """The least values that are no multiple and break it."""
        settings = [s for several in self.settings for s in several]
        for value in (1, step - 1, step + 1, step + step // 2, 2 * step + 1):
            for setting in settings if value % step else ():
                if self._met({self._moved: value, **setting}) is False:
                    of_launch = {s.name: v for s, v in setting.items() if s.kind in (INDEX, COUNT)}
                    is_first = not any(v for s, v in setting.items() if s.kind == INDEX)
                    return {self._moved.name: value, **({} if is_first else of_launch)}
        return {}


class Bounds:
    """Bounds that ask something of a symbol together."""

    def __init__(self, moved: Symbol, bounds: Sequence[Bound]) -> None:
        self._moved, self._bounds = moved, bounds
        every = range(len(_LAUNCHES))
        self._launches = [n for n in every if all(bound.settings[n] for bound in bounds)]
        """Those that occur: what is assumed of others may leave some out."""

    def are_met(self, step: int) -> bool:
        """Return if no multiple of a number breaks one."""
        if not is_allowed(self._moved, 3 * step):
            return False
        values = [v for t in (0, *_TIMES) if is_allowed(self._moved, v := t * step)]
        return not any(self._is_broken(v, n) for v in values for n in self._launches)

    def _is_broken(self, value: int, launch: int) -> bool:
        return any(met is False for bound in self._bounds for met in bound.asked(value, launch))

    def step(self, is_broken: Callable[[Mapping[str, int]], bool]) -> int | None:
        """Of what the symbol has to be a multiple, None if of nothing: in each launch some block
        breaks a bound with what is no multiple, or it `is_broken` another one that is known."""
        step = next(filter(self.are_met, STEPS), None)
        return step if step is not None and all(map(is_broken, self._harmless(step))) else None

    def _harmless(self, step: int) -> Iterator[Mapping[str, int]]:
        """The launches, by name, that break nothing with what is no multiple."""
        half, twice = step // 2, 2 * step
        parts = [step // odd for odd in (3, 5, 7) if step % odd == 0]
        several = [v for part in parts for v in (part, step - part, step + part, twice - part)]
        near = step - 1, step + 1, twice - 1, twice + 1
        for value in (1, half, *near, twice + step + half, *several):
            for launch in self._launches if value % step else ():
                if not self._is_broken(value, launch):
                    given = {
                        s.name: v for b in self._bounds for s, v in b.settings[launch][0].items()
                    }
                    yield {self._moved.name: value, **given}


def multiples(entry: str, limit: Limit, run: PathRun, met: Met) -> Iterator[Requirement]:
    """Yield of what arguments have to be multiples for one bound of a run."""
    for moved in sorted(limit.symbols, key=lambda s: s.name):
        bound = Bound(moved, limit.symbols, run.assumed, met)
        step = Bounds(moved, [bound]).step(lambda _: False) if moved.kind == ARGUMENT else None
        if step is not None:
            yield _multiple_of(entry, moved, step, bound.broken_by(step))


def _multiple_of(entry: str, moved: Symbol, step: int, broken: dict[str, int]) -> Requirement:
    return Requirement(entry, {moved.name: 1}, None, None, ARGUMENT, broken, [], step)


class Multiples:
    """Of what arguments have to be multiples, beside what is `found`: bounds say so that ask `more`
    than sums tell."""

    def __init__(
        self,
        found: dict[tuple[object, ...], Requirement],
        met_of: Callable[[Limit, PathRun], Met],
        ways_of: Callable[[Limit, PathRun], tuple[Decision, ...]],
        told_by: Callable[[Requirement, Limit, PathRun], list[str]],
    ) -> None:
        """`met_of` says of a bound what meets it, `ways_of` without which decisions it is not
        asked, `told_by` what it tells of the values that break a requirement."""
        self._found, self._ways_of, self._told_by = found, ways_of, told_by
        self._met_of = cache(met_of)

    def add(self, front: Front, entry: str, more: Iterable[_Pair], every: Iterable[_Pair]) -> None:
        """Add what `more` bounds ask; sums that such multiples break without harm are not what
        `every` bound asks."""
        groups: dict[tuple[Any, ...], list[_Pair]] = {}
        for limit, run in more:
            ways = self._ways_of(limit, run)
            for moved in limit.symbols:
                if moved.kind == ARGUMENT:
                    groups.setdefault((moved.name, moved, ways), []).append((limit, run))
        for (_, moved, ways), pairs in sorted(groups.items(), key=lambda g: g[0][0]):
            bounds = [self._bound(moved, pair) for pair in pairs]
            step = Bounds(moved, bounds).step(self._is_broken)
            broken = next(filter(None, (b.broken_by(step) for b in bounds)), {}) if step else {}
            if step is None or not broken:
                continue
            made = _multiple_of(entry, moved, step, broken)
            made.told = next(filter(None, (self._told_by(made, *pair) for pair in pairs)), [])
            made.when = tuple((line_of(front, d.inst), d) for d in ways)
            made = self._found.setdefault(made.key, made)
            self._spread(front, made, moved, (p for p in every if moved in p[0].symbols))

    def _bound(self, moved: Symbol, pair: _Pair) -> Bound:
        limit, run = pair
        return Bound(moved, limit.symbols, run.assumed, self._met_of(limit, run))

    def _is_broken(self, values: Mapping[str, int]) -> bool:
        return any(made.holds(values) is False for made in self._found.values())

    def _spread(
        self, front: Front, made: Requirement, moved: Symbol, pairs: Iterable[_Pair]
    ) -> None:
        """Give a multiple the lines of all bounds that ask it."""
        step, lines = made.multiple or 1, set(made.lines)
        for pair in pairs:
            bound, line = self._bound(moved, pair), line_of(front, pair[0].inst)
            if not Bounds(moved, [bound]).are_met(step) or not bound.broken_by(step):
                continue
            lines.add(line)
            for key, known in list(self._found.items()):
                if line in known.lines and bound.contradicts(known, step):
                    known.lines.remove(line)
                    if not known.lines:
                        del self._found[key]
        made.lines = sorted(lines)
