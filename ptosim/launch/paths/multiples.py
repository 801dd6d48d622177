"""Of what arguments have to be multiples: rows that are handed out in tiles. A bound asks it that
every multiple meets, whatever else is assumed and in whichever block of a launch, and that nothing
between them meets in all blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from ptosim.engine.paths.forms import ARGUMENT, COUNT, INDEX, Symbol
from ptosim.launch.paths.requirement import Requirement

Met = Callable[[dict[Symbol, int]], bool | None]
"""True or False where a bound is asked, None where the path does not come to it."""
_STEPS = sorted(odd << power for odd in (1, 3, 5, 7) for power in range(13))[1:]
"""Numbers of which a bound may ask multiples."""
_TIMES = (1, 2, 3, 7, 33)
"""Multiples that are asked."""
_LAUNCHES = ((1, 1), (1, 3), (2, 2))
"""How many times as large as they were other arguments are, and how many blocks a launch has."""
_PLACES = 4
"""Blocks that are asked: those after them get no tile of the numbers that are tried."""


def is_allowed(symbol: Symbol, value: int) -> bool:
    """Return if a value is in the range of a symbol."""
    return symbol.low <= value <= symbol.high


def multiple(symbol: Symbol, at: Callable[[int], bool]) -> int | None:
    """Of what the only symbol of a bound has to be a multiple: the number and twice as much meet
    it, and what is between them does not."""
    if not is_allowed(symbol, 1) or at(1):
        return None
    for step in _STEPS:
        if is_allowed(symbol, 2 * step) and at(step) and at(2 * step):
            return None if at(step + 1) or at(step + step // 2) else step
    return None


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

    def are_met(self, step: int) -> bool:
        """Return if no multiple of a number breaks one, and some meet one."""
        first = (b for bound in self._bounds for t in (1, 2, 3) for b in bound.asked(t * step, 0))
        if not is_allowed(self._moved, 3 * step) or not any(first):
            return False
        values = [v for t in (0, *_TIMES) if is_allowed(self._moved, v := t * step)]
        return not any(self._is_broken(v, n) for v in values for n in range(len(_LAUNCHES)))

    def _is_broken(self, value: int, launch: int) -> bool:
        return any(met is False for bound in self._bounds for met in bound.asked(value, launch))

    def step(self, is_broken: Callable[[Mapping[str, int]], bool]) -> int | None:
        """Of what the symbol has to be a multiple, None if of nothing: in each launch some block
        breaks a bound with what is no multiple, or it `is_broken` another one that is known."""
        step = next(filter(self.are_met, _STEPS), None)
        return step if step is not None and all(map(is_broken, self._harmless(step))) else None

    def _harmless(self, step: int) -> Iterator[Mapping[str, int]]:
        """The launches, by name, that break nothing with what is no multiple."""
        half, twice = step // 2, 2 * step
        for value in (1, half, step - 1, step + 1, twice - 1, twice + 1, twice + step + half):
            for launch in range(len(_LAUNCHES)) if value % step else ():
                if not self._is_broken(value, launch):
                    given = {
                        s.name: v for b in self._bounds for s, v in b.settings[launch][0].items()
                    }
                    yield {self._moved.name: value, **given}
