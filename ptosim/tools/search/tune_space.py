"""Which points of a space are tried: all of a small one, else those that a sampler of Optuna asks
for, the same ones for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.tools.search.source import missing_extra
from ptosim.tools.search.space import Params, Space

SAMPLERS = ("tpe", "random", "gp", "cmaes")
REPEATS = 50
"""Points in a row that were there before, after which a sampler has nothing new to say."""

_SEEDS = 1 << 32
"""That a sampler can have."""

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
    _sampled(space, price, is_over, _study(sampler, seed))


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


def _sampled(space: Space, price: Price, is_over: Callable[[], bool], study: Any) -> None:
    """Ask for points by the place of each value in its list. A refused point is one that failed;
    one that conditions refuse is no trial."""
    from optuna.trial import TrialState

    known: dict[tuple[Any, ...], int | None] = {}
    repeats = accepted = 0
    while not is_over() and repeats < REPEATS:
        trial = study.ask()
        params = {name: values[_place(trial, name, values)] for name, values in
                  space.values.items()}  # fmt: skip
        key = tuple(params.values())
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


def _place(trial: Any, name: str, values: tuple[Any, ...]) -> int:
    numbers = all(isinstance(v, (int, float)) for v in values) and list(values) == sorted(values)
    if numbers:
        return trial.suggest_int(name, 0, len(values) - 1)
    return trial.suggest_categorical(name, list(range(len(values))))
