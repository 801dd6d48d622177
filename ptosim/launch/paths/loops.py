"""Loops on numbers that nobody knows, and with which values of these each makes how many rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, islice
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.paths.forms import (
    CANNOT,
    COUNT,
    DATA,
    INDEX,
    Assignment,
    Env,
    Form,
    NoRound,
    Symbol,
    value_of,
)
from ptosim.engine.paths.noted import Decision, Limit
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.launch.paths.explore import PathRun
from ptosim.launch.paths.solve import Space

FEW = 20
"""Rounds of a loop that a requirement or an assumption keeps so short that all are followed."""
MOST_ROUNDS = 600
"""Rounds that are followed of a loop."""
LARGE = 1 << 24
"""A number that counts as one without a bound."""
_FARTHER = (1, 2, 3, 7, 64, 1000)
"""How many rounds more others make that are asked."""

_ORDER = {COUNT: 1, DATA: 2, INDEX: 3}


class Unproven(Exception):
    """It cannot be shown that the loop with a head repeats."""

    def __init__(self, pc: int, why: str) -> None:
        super().__init__(why)
        self.pc, self.why = pc, why


@dataclass(slots=True, eq=False)
class Loop:
    """A loop on symbols: its test in the first round it comes to."""

    inst: Inst
    test: Decision
    base: Assignment
    """What is taken for all symbols."""
    symbol: Symbol = field(init=False)
    """What its number of rounds depends on: what the caller gives first, if it grows with that."""

    def __post_init__(self) -> None:
        every = sorted(self.test.form.symbols, key=lambda s: (_ORDER.get(s.kind, 0), s.name))
        bases = self.base, self.raised(self.base, LARGE)  # the lesser of two numbers
        growing = (s for base in bases for s in every if self._grows_with(s, base))
        self.symbol = next(growing, every[0])

    def _grows_with(self, symbol: Symbol, base: Assignment) -> bool:
        now = self.base.get(symbol, symbol.default)
        most = [v for v in (now + 16, 16 * now, LARGE) if now < v <= symbol.high]
        trips = self.trips({**base, symbol: now})
        return any(self.trips({**base, symbol: value}) > trips for value in most)

    def raised(self, base: Assignment, least: int, but: Symbol | None = None) -> Assignment:
        """Return values with what the caller gives so large that it does not end the loop first."""
        others = [s for s in self.test.form.symbols - {but} if s.kind not in _ORDER]
        return {**base, **{s: min(max(base.get(s, s.default), least), s.high) for s in others}}

    @property
    def step(self) -> int:
        """What a round adds to its variable, in the run that came to it."""
        (round_, _) = self.test.form.sources  # type: ignore[attr-defined]
        return max(1, int(now_of(round_.step)))

    def trips(self, assignment: Assignment) -> int:
        """Return how many rounds it makes under an assignment; -1 where that cannot be said."""
        env = Env(assignment)
        (round_, upper) = self.test.form.sources  # type: ignore[attr-defined]
        try:
            lower, end, step = (value_of(p, env) for p in (round_.lower, upper, round_.step))
        except (*CANNOT, NoRound):
            return -1
        is_sound = step > 0 and (end >= 0 or self.test.form.word != "ltu")  # type: ignore[attr-defined]
        return max(0, -(-(end - lower) // step)) if is_sound else -1


class Way(NamedTuple):
    """A way through an entry: a run that takes it, its loops, its values, what it decides outside
    of the loops, and checks that its values meet."""

    run: PathRun
    loops: Sequence[Loop]
    base: Assignment
    kept: Sequence[Decision]
    bounds: Sequence[Limit]


class Counts:
    """Finds values with which loops make so many rounds, those that fit into a space."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._trips: dict[Any, Callable[[int], int]] = {}

    def at(self, loop: Loop, rounds: int, way: Way) -> Iterator[dict[Symbol, int]]:
        """Yield assignments with which a loop makes so many rounds, the least numbers first, and
        what was decided outside of loops stays: the number of rounds is taken to grow with the
        number that it depends on, and each is looked at."""
        symbol, base = loop.symbol, way.base
        others = loop.test.form.symbols - {symbol}
        key = loop.inst.pc, symbol, frozenset((s, base.get(s)) for s in others)
        at = self._trips.setdefault(key, cache(lambda v: loop.trips({**base, symbol: v})))
        low, high = max(symbol.low, -1), min(symbol.high, LARGE)
        if low < 0 < high and at(low) > at(0):
            low = 0  # a division sees a negative number without its sign: it is a large one
        first, last = _edge(at, rounds, low, high), _edge(at, rounds + 1, low, high) - 1
        near = range(first, min(last, first + 33))
        left: list[dict[Symbol, int]] = []
        # Of a remainder, which does not grow with its number, the last one is.
        likely = first, last, first + 1, (first + last) // 2, *near, rounds
        for value in dict.fromkeys(likely):
            if not low <= value <= high or at(value) != rounds:
                continue
            tried = self._space.fits({**base, symbol: value})
            if tried is None or not holds(way.kept, tried):
                continue
            if all(limit.is_met(tried) is not False for limit in way.bounds):
                yield dict(tried)
            else:
                left.append(dict(tried))
        yield from left[:1]

    def long(self, way: Way, rounds: int) -> dict[Symbol, int]:
        """Return values with which every loop makes at least so many rounds. Raises Unproven where
        none are found."""
        for loop in way.loops:
            if loop.trips(way.base) >= rounds:
                continue
            step = loop.symbol.step  # not every number of rounds may occur
            near = range(rounds, rounds + min(step, FEW))
            ways = (way, way._replace(base=self._raised(loop, way.base, rounds)))
            every = (self.at(loop, n, each) for each in ways for n in near)
            tried = next(chain.from_iterable(every), None)
            if tried is None:
                raise Unproven(loop.inst.pc, f"no value found with which it makes {rounds} rounds")
            way = way._replace(base=tried)
        return dict(way.base)

    def _raised(self, loop: Loop, base: Assignment, rounds: int) -> Assignment:
        """The same with what else the caller gives so large that it does not end a loop first."""
        large = loop.raised(base, FEW * rounds * loop.step, loop.symbol)
        return self._space.fits(large) or base

    def farther(self, loop: Loop, way: Way) -> Iterator[tuple[int, dict[Symbol, int]]]:
        """Yield how many rounds more a loop makes, and an assignment with which it does."""
        trips = loop.trips(way.base)
        step = loop.symbol.step
        for more in (*_FARTHER, *(step * n for n in _FARTHER if step > 1)):
            for tried in islice(self.at(loop, trips + more, way), 3):
                yield more, tried

    def few(self, way: Way, rounds: Mapping[int, int]) -> dict[Symbol, list[int]]:
        """Return values with which loops make so many rounds and each lesser number, those that
        occur on this way."""
        found: dict[Symbol, dict[int, None]] = {}
        for loop in way.loops:
            values = found.setdefault(loop.symbol, {})
            enough = rounds.get(loop.inst.pc, 0)
            occur: list[int] = []
            for count in range(min(MOST_ROUNDS, 32 * (enough + 1))):
                tried = next(self.at(loop, count, way), None)
                if tried is not None:
                    values[tried[loop.symbol]] = None
                    occur.append(count)
                if len(occur) > enough or occur == list(range(1, enough + 1)) != []:
                    break
        return {symbol: sorted(values) for symbol, values in found.items()}


def holds(kept: Iterable[Decision], tried: Assignment) -> bool:
    """Return if all decisions turn out the same under an assignment."""
    env = Env(tried)
    return all(decision.holds(env) for decision in kept)


def _edge(at: Callable[[int], int], rounds: int, low: int, high: int) -> int:
    """The least value from `low` on with at least so many rounds; `high` + 1 if none has."""
    step, tried = 1, low
    while at(tried) < rounds:
        if tried == high:
            return high + 1
        low, tried, step = tried + 1, min(tried + step, high), step * 4
    high = tried
    while low < high:
        middle = (low + high) // 2
        if at(middle) >= rounds:
            high = middle
        else:
            low = middle + 1
    return low


def now_of(source: Any) -> Any:
    """Return the value that a source of a form has in this run."""
    return source.now if isinstance(source, Form) else source
