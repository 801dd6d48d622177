"""Which layers lose most when they are quantised, and which ones stay in float within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass
from ptosim.models.conversion import plan as plans
from ptosim.models.conversion.convert import Conversion, Values, depths_of, output_error, quantise
from ptosim.models.conversion.source import Data, Model
from ptosim.models.conversion.types import Settings


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits: error of the outputs in percent of their root mean square, cycles of the fast form on
    each target; None where there is none."""

    drop: float | None = None
    cycles: int | None = None


def percent(sqnr: float) -> float:
    """Return the error in percent of the signal, root mean squares of both, for an SQNR in dB."""
    return 100 * 10 ** (-sqnr / 20)


GREEDY = 10
"""Up to so many layers each place in the order is tried with those before it in float: n²/2 runs of
the model, instead of n."""


def order(model: Model, data: Data, settings: Settings, values: Values) -> list[tuple[str, float]]:
    """Return products and convolutions in the order in which leaving them in float helps most,
    with the SQNR of the outputs (dB) when a layer and those before it are in float; of more than
    `GREEDY` layers, when it alone is."""
    rest = [layer.name for layer in _products(model, settings, values)]
    found: list[tuple[str, float]] = []
    while rest:
        before = [name for name, _ in found]
        tried = []
        for name in rest:
            tried.append((_sqnr(model, data, settings, values, [*before, name]), name))
            part_done()
        if len(rest) > GREEDY:
            return [(name, sqnr) for sqnr, name in sorted(tried, reverse=True)]
        sqnr, best = max(tried)
        found.append((best, sqnr))
        rest.remove(best)
    return found


def _products(model: Model, settings: Settings, values: Values) -> list[plans.Layer]:
    depths = None if settings.format == "int8" else depths_of(model.graph, values)
    return [x for x in plans.make(model.graph, (), depths).layers if x.node.op != "Add"]


def _sqnr(
    model: Model, data: Data, settings: Settings, values: Values, leave: Sequence[str]
) -> float:
    if len(leave) == len(_products(model, settings, values)):
        return math.inf
    made = quantise(model, data, settings, values, leave)
    return output_error(model.graph, values, made.values).sqnr


def within(
    model: Model,
    data: Data,
    settings: Settings,
    values: Values,
    ranked: Sequence[tuple[str, float]],
    budget: Budget,
    run: Callable[[Sequence[str]], Conversion],
) -> Conversion:
    """Return a conversion with the first layers of the order in float: as few as the error allows,
    or with a limit on cycles alone as many of them as fit. `run` converts with some left out.

    A budget that cannot be met gives the last conversion that was possible; `met` says so."""
    names = [name for name, _ in ranked]
    count = 0
    if budget.drop is not None:
        while count < len(names) - 1:
            if percent(_sqnr(model, data, settings, values, names[:count])) <= budget.drop:
                break
            count += 1
        return _kept(run(names[:count]), ranked, names[:count])
    made = run([])
    left = [] if budget.cycles is None else _affordable(made, names, budget.cycles)
    while left:  # a neighbour that hands on floats costs more than the difference says
        tried = run(left)
        if not met(tried, budget):
            return _kept(tried, ranked, left)
        left = left[:-1]
    return _kept(made, ranked, left)


def _kept(made: Conversion, ranked: Sequence[tuple[str, float]], left: Sequence[str]) -> Conversion:
    made.order, made.left = list(ranked), list(left)
    return made


def _affordable(made: Conversion, names: Sequence[str], limit: int) -> list[str]:
    """The layers that can go back to float, by the difference of their own cycles, those that help
    most first; one stays quantised."""
    totals = total_cycles(made)
    rows = {row.line.node: row for row in made.rows}
    found: list[str] = []
    for name in names:
        row = rows.get(name)
        if row is None or len(found) == len(names) - 1:
            continue
        after = dict(totals)
        for target in totals:
            own, other = row.float_cycles.get(target), row.line.cycles.get((target, "fast"))
            after[target] += max((own or 0) - (other or 0), 0)
        if all(total <= limit for total in after.values()):
            totals = after
            found.append(name)
    return found


def total_cycles(made: Conversion) -> dict[str, int]:
    """Return the cycles of the fast form on each target."""
    targets = list(dict.fromkeys(target for target, _ in made.outcome.results))
    return {t: sum(row.line.cycles.get((t, "fast")) or 0 for row in made.rows) for t in targets}


def met(made: Conversion, budget: Budget) -> list[str]:
    """Return what of a budget is not met, in words."""
    found = []
    drop = percent(made.output.sqnr)
    if budget.drop is not None and drop > budget.drop:
        found.append(
            f"the error is {drop:.3g} % with {_left(made)} in float, not {budget.drop:g} %"
        )
    if budget.cycles is not None:
        for target, total in total_cycles(made).items():
            if total > budget.cycles:
                kept = _left(made)
                found.append(
                    f"{target} takes {total} cycles with {kept} in float, not {budget.cycles}"
                )
    return found


def _left(made: Conversion) -> str:
    return f"{len(made.left)} layer{'s' if len(made.left) != 1 else ''}"
