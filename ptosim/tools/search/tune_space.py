"""Which points of a space are tried: all of a small one, else those that a sampler of Optuna asks
for, the same ones for the same seed; and for how long."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, combinations
from typing import Any

from ptosim.ground.errors import BudgetError, UsageError
from ptosim.ground.limits import Limits, in_force
from ptosim.tools.search.source import missing_extra
from ptosim.tools.search.space import Params, Space

SAMPLERS = ("tpe", "random", "gp", "cmaes")
REPEATS = 50
"""Points in a row that were there before, after which a sampler has nothing new to say."""

_SEEDS = 1 << 32
"""That a sampler can have."""

SEARCH = 0.6
"""Share of the time that is searched; the rest is for proofs."""
INTERRUPTED, LATE = "interrupted", "the time was over"
GRACE = 5.0
"""Seconds for proofs after an interrupt."""
MOST_REFUSED = 4
"""Points that are refused for each trial: what is refused before it is priced is none."""
SHORTEST = 1e-3
"""Seconds that anything is given."""


class Budget:
    """How long a search goes on: a number of trials, seconds of wall-clock time, or both. A part of
    the time is for the proof of what was found."""

    def __init__(self, trials: int, seconds: float | None) -> None:
        self.trials = trials
        self.done = self.refused = 0
        self.stopped = ""
        """Why not everything was tried that might have been: '' if it was."""
        self._seconds = seconds
        self._begun = self._interrupted = time.monotonic()

    @property
    def is_over(self) -> bool:
        """True if nothing more is to be tried."""
        if self._left(SEARCH) < 0:
            self.stopped = self.stopped or LATE
        refused = self.refused >= MOST_REFUSED * self.trials
        return self.done >= self.trials or refused or bool(self.stopped)

    @property
    def is_late(self) -> bool:
        """True if there is no time for proofs either."""
        return self._left(1) < 0

    def _left(self, share: float) -> float:
        ends = [self._interrupted + GRACE] if self.stopped == INTERRUPTED else []
        if self._seconds is not None:
            ends.append(self._begun + share * self._seconds)
        return min(ends, default=math.inf) - time.monotonic()

    @contextmanager
    def within(self, share: float, keeps: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Let what happens inside end when a share of the time is over, or somebody interrupts it:
        what is known by then stays, if that `keeps` something. Raises what other limits raise."""
        left = self._left(share)
        try:
            with in_force(Limits(seconds=None if left == math.inf else max(left, SHORTEST))):
                yield
        except BudgetError:
            if self._left(share) > SHORTEST:
                raise
            self.stopped = self.stopped or LATE
        except KeyboardInterrupt:
            if not keeps():
                raise
            self.stopped, self._interrupted = INTERRUPTED, time.monotonic()


Places = tuple[int, ...]
"""A point by the places of its values."""
FIRST, BEST = 0.3, 3
"""The share of trials after which points next to the best are tried, and to how many of them."""

Price = Callable[[Params], int | None]
"""Returns the cycles of a point, None for a refused one."""


def search(
    space: Space, price: Price, is_over: Callable[[], bool], trials: int, sampler: str, seed: int
) -> None:
    """Call `price` for points of a space until `is_over`. A space of at most `trials` points is
    gone through. Raises UsageError for a sampler that there is none of, a space whose conditions
    refuse everything (PTO7602), and without Optuna (PTO7605)."""
    if sampler not in SAMPLERS:
        raise UsageError(f"there is no sampler `{sampler}`", help=f"one of {', '.join(SAMPLERS)}")
    if space.size <= trials:
        _all(space.accepted(), price, is_over)
        return
    _sampled(space, price, is_over, _study(sampler, seed), trials)


def _all(points: Iterator[Params], price: Price, is_over: Callable[[], bool]) -> None:
    first = next(points, None)
    if first is None:
        raise UsageError("PTO7602: the conditions of the space refuse every point")
    for params in chain([first], points):
        if is_over():
            return
        price(params)


def _study(sampler: str, seed: int) -> Any:
    try:
        import optuna
    except ImportError as problem:
        raise missing_extra("a space of more points than --trials", "search", problem) from problem
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    kinds = {
        "tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler,
        "gp": optuna.samplers.GPSampler, "cmaes": optuna.samplers.CmaEsSampler,
    }  # fmt: skip
    return optuna.create_study(sampler=kinds[sampler](seed=seed % _SEEDS))


def _sampled(
    space: Space, price: Price, is_over: Callable[[], bool], study: Any, trials: int
) -> None:
    """Ask for points by the place of each value in its list; when some are known, every other one
    is next to the best. A refused point is one that failed; one that conditions refuse is no
    trial."""
    from optuna.trial import TrialState

    known: dict[Places, int | None] = {}
    kinds = {name: _kind(values) for name, values in space.values.items()}
    repeats = accepted = turn = 0
    while not is_over() and repeats < REPEATS:
        turn += 1
        near = _near(space, known) if accepted > trials * FIRST and turn % 2 else None
        if near is not None:
            study.enqueue_trial(near)
        trial = study.ask(kinds)
        params = {name: values[trial.params[name]] for name, values in space.values.items()}
        key = tuple(trial.params[name] for name in kinds)
        repeats = repeats + 1 if key in known else 0
        if key not in known:
            is_accepted = not space.refusal(params)
            accepted += is_accepted
            repeats += not is_accepted
            known[key] = price(params) if is_accepted else None
        cycles = known[key]
        if cycles is None:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, cycles)
    if not accepted:
        raise UsageError("PTO7602: the conditions of the space refuse every point that was tried")


def _near(space: Space, known: dict[Places, int | None]) -> dict[str, int] | None:
    """A point that is not known, one value farther than one of the best in one parameter, or in two
    of them; None if there is none."""
    names, sizes = list(space.values), [len(values) for values in space.values.values()]
    priced = sorted((cycles, key) for key, cycles in known.items() if cycles is not None)
    for _, key in priced[:BEST]:
        for moves in _moves(len(names)):
            places = list(key)
            for at, by in moves:
                places[at] += by
            is_there = all(0 <= place < size for place, size in zip(places, sizes, strict=True))
            if not is_there or tuple(places) in known:
                continue
            point = dict(zip(names, places, strict=True))
            if not space.refusal({name: space.values[name][at] for name, at in point.items()}):
                return point
    return None


def _moves(count: int) -> Iterator[tuple[tuple[int, int], ...]]:
    for at in range(count):
        yield from (((at, 1),), ((at, -1),))
    for one, two in combinations(range(count), 2):
        yield from (((one, a), (two, b)) for a in (1, -1) for b in (1, -1))


def _kind(values: tuple[Any, ...]) -> Any:
    from optuna.distributions import CategoricalDistribution, IntDistribution

    numbers = all(isinstance(v, (int, float)) for v in values) and list(values) == sorted(values)
    places = list(range(len(values)))
    return IntDistribution(0, len(values) - 1) if numbers else CategoricalDistribution(places)
