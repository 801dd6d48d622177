"""Which layers lose most when they are quantised, and which ones stay in float within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass, replace
from ptosim.models.conversion import plan as plans
from ptosim.models.conversion.convert import (
    Measures,
    Trial,
    Values,
    attempt,
    depths_of,
    every_value,
    in_float,
    output_error,
    quantise,
)
from ptosim.models.conversion.source import Data, Model, with_blocks
from ptosim.models.conversion.speed import Cost, costs, never_slower, total_of
from ptosim.models.conversion.types import Settings
from ptosim.models.onnx_model import GraphNode
from ptosim.models.onnx_run import Step


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits: error of the outputs in percent of their root mean square, or their SQNR in dB, and
    cycles of the fast form on each target; None where there is none."""

    drop: float | None = None
    cycles: int | None = None
    least: float | None = None

    @property
    def decibels(self) -> float | None:
        """The SQNR that is asked for."""
        dropped = None if self.drop is None else -20 * math.log10(self.drop / 100)
        found = [v for v in (dropped, self.least) if v is not None]
        return max(found, default=None)


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
    made = quantise(model, data, settings, values, leave, is_quick=True)
    return output_error(model.graph, values, made.values).sqnr


def within(
    model: Model,
    data: Data,
    settings: Settings,
    values: Values,
    ranked: Sequence[tuple[str, float]],
    budget: Budget,
    run: Callable[[Sequence[str]], Trial],
    measures: Measures,
) -> Trial:
    """Return a trial with the first layers of the order in float: as few as the error allows, or
    with a limit on cycles alone as many of them as fit. `run` tries with some left out.

    A budget that cannot be met gives the last trial that was possible; `met` says so."""
    names = [name for name, _ in ranked]
    count = 0
    if budget.decibels is not None:
        while count < len(names) - 1:
            if _sqnr(model, data, settings, values, names[:count]) >= budget.decibels:
                break
            count += 1
        return run(names[:count])
    made = run([])
    left = [] if budget.cycles is None else _affordable(made, names, budget.cycles, measures)
    while left:  # a neighbour that hands on floats costs more than the difference says
        tried = run(left)
        if not met(tried, budget):
            return tried
        left = left[:-1]
    return made


def _affordable(made: Trial, names: Sequence[str], limit: int, measures: Measures) -> list[str]:
    """The layers that can go back to float, by the difference of their own cycles, those that help
    most first; one stays quantised."""
    totals = total_cycles(made)
    steps = made.quantised.fusion.steps(made.quantised.graph)
    layers = {_name(step): (at, step) for at, step in enumerate(steps)}
    found: list[str] = []
    for name in names:
        if name not in layers or len(found) == len(names) - 1:
            continue
        at, step = layers[name]
        after = dict(totals)
        for target in totals:
            own, other = in_float(step, measures.real[target]), made.cycles[target][at]
            after[target] += max((own or 0) - (other or 0), 0)
        if all(total <= limit for total in after.values()):
            totals = after
            found.append(name)
    return found


def _name(step: Step) -> str:
    return step.name if isinstance(step, GraphNode) else step.core.name


def total_cycles(made: Trial) -> dict[str, int]:
    """Return the cycles of the fast form on each target."""
    return {target: sum(c or 0 for c in own) for target, own in made.cycles.items()}


def met(made: Trial, budget: Budget) -> list[str]:
    """Return what of a budget is not met, in words."""
    found = []
    count = len(made.left)
    kept = f"{count} layer{'s' if count != 1 else ''} in float"
    drop = percent(made.output.sqnr)
    if budget.drop is not None and drop > budget.drop:
        found.append(f"the error is {drop:.3g} % with {kept}, not {budget.drop:g} %")
    if budget.least is not None and made.output.sqnr < budget.least:
        found.append(
            f"the outputs have {made.output.sqnr:.2f} dB with {kept}, not {budget.least:g} dB"
        )
    if budget.cycles is not None:
        found += [
            f"{target} takes {total} cycles with {kept}, not {budget.cycles}"
            for target, total in total_cycles(made).items() if total > budget.cycles
        ]  # fmt: skip
    return found


# -- types, and plans beside one another -----------------------------------------------------------


@dataclass(slots=True)
class Candidate:
    """A model in one type: its values, the order of its layers, the plan that was chosen with the
    layers that the budget leaves in float, and every plan that was measured."""

    model: Model
    data: Data
    settings: Settings
    values: Values
    ranked: list[tuple[str, float]]
    measures: Measures
    chosen: Trial
    left: list[str]
    tried: list[Trial]


def candidate(
    model: Model,
    data: Data,
    settings: Settings,
    targets: Sequence[str],
    budget: Budget,
    *,
    keeps_slow: bool,
    is_compared: bool = False,
) -> Candidate:
    """Return a model in the type of its settings with the plan that a budget asks for;
    `keeps_slow`: layers too that are slower than in float, `is_compared`: plans in between are
    measured as well. Raises ProgramError (PTO7646) for a model of which nothing is quantised."""
    values = every_value(model.graph, data.feeds)
    ranked = order(model, data, settings, values)
    measures, tried = Measures(), []

    def run(leave: Sequence[str]) -> Trial:
        tried.append(attempt(model, data, settings, targets, values, leave, measures))
        return tried[-1]

    chosen = within(model, data, settings, values, ranked, budget, run, measures)
    left = list(chosen.left)
    if not keeps_slow:
        chosen = never_slower(chosen, run, measures)
    names = [name for name, _ in ranked]
    if is_compared:
        done = [set(t.left) for t in tried]
        for count in sorted({0, len(names) // 4, len(names) // 2, 3 * len(names) // 4}):
            if set(names[:count]) not in done and count < max(len(names), 1):
                run(names[:count])
    return Candidate(model, data, settings, values, ranked, measures, chosen, left, tried)


@dataclass(frozen=True, slots=True)
class Point:
    """One plan: its type, how many layers are in float, SQNR of the outputs, cycles by target."""

    kind: str
    left: int
    sqnr: float
    cycles: tuple[int, ...]
    is_chosen: bool = False


def line(candidates: Sequence[Candidate], chosen: Candidate) -> list[Point]:
    """Return the plans that no other one beats in error and in cycles on each target, the cheapest
    first; the chosen one is among them in any case."""
    points = [
        Point(c.settings.format, len(t.left), t.output.sqnr, tuple(total_cycles(t).values()),
              t is chosen.chosen)
        for c in candidates
        for t in c.tried
    ]  # fmt: skip
    kept = [p for p in points if p.is_chosen or not any(_beats(q, p) for q in points)]
    unique = {
        (p.kind, p.left, p.sqnr, p.cycles): p for p in sorted(kept, key=lambda p: p.is_chosen)
    }
    return sorted(unique.values(), key=lambda p: (sum(p.cycles), -p.sqnr))


def _beats(one: Point, other: Point) -> bool:
    pairs = [(-one.sqnr, -other.sqnr), *zip(one.cycles, other.cycles, strict=True)]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def best(candidates: Sequence[Candidate], budget: Budget) -> Candidate:
    """Return the type whose plan meets the budget with the fewest cycles of all targets; without
    one that does, the one of the least error."""
    fits = [c for c in candidates if not met(c.chosen, budget)]
    if fits:
        return min(fits, key=lambda c: (total_of(c.chosen), -c.chosen.output.sqnr))
    return max(candidates, key=lambda c: c.chosen.output.sqnr)


# -- a type for each layer -------------------------------------------------------------------------

MIXED, FLOAT = "mixed", "float"
_TRIES = 6
"""Layers whose type is changed one by one, those that gain most."""


def mixed(
    candidates: Sequence[Candidate],
    targets: Sequence[str],
    budget: Budget,
    *,
    keeps_slow: bool = False,
) -> Candidate | None:
    """Return a plan with a type for each layer that is faster than each plan of one type that meets
    the budget; None if there is none. Each layer has the type that costs it the fewest cycles, all
    at once or, where that is not better, one after the other. The model is that of int8, of whose
    products the others' are made. `keeps_slow`: none goes to float for that."""
    start = best(candidates, budget)
    whole = next((c for c in candidates if c.settings.format == "int8"), None)
    least = -math.inf if budget.decibels is None else budget.decibels
    if whole is None or start.chosen.output.sqnr < least:
        return None
    prices = _prices(candidates)
    quantised = {layer.name for layer in start.chosen.quantised.plan.layers}
    now = {n: start.settings.format if n in quantised else FLOAT for n in prices}
    gains = []
    for name, own in prices.items():
        if now[name] in own:
            kinds = [k for k in own if k != FLOAT or now[name] == FLOAT or not keeps_slow]
            kind = min(kinds, key=lambda kind: _total(own[kind]))
            gains.append((_total(own[kind]) - _total(own[now[name]]), name, kind))
    wanted = {name: kind for gain, name, kind in sorted(gains) if gain < 0}
    trials: list[Candidate] = []
    limit = total_of(start.chosen)
    for change in [wanted, *({n: k} for n, k in list(wanted.items())[:_TRIES])]:
        if not change or (len(wanted) == 1 and trials):
            break
        if set((now | change).values()) == {FLOAT}:
            continue  # something stays quantised
        made = _of_types(whole, now | change, prices, targets)
        trials.append(made)
        if not met(made.chosen, budget) and total_of(made.chosen) < limit:
            limit, now = total_of(made.chosen), now | change
            if change is wanted:
                break
    found = [c for c in trials if total_of(c.chosen) == limit and not met(c.chosen, budget)]
    if not found:
        return None
    found[0].tried = [c.chosen for c in trials]
    return found[0]


def _total(costs_: Sequence[Cost]) -> float:
    """The cycles of a layer on all targets."""
    return sum(c.quantised for c in costs_)


def _prices(candidates: Sequence[Candidate]) -> dict[str, dict[str, list[Cost]]]:
    """What each layer costs by type, as the first plan that has it counts it."""
    found: dict[str, dict[str, list[Cost]]] = {}
    for c in candidates:
        for trial in c.tried:
            own: dict[str, list[Cost]] = {}
            for cost in costs(trial.quantised, trial.cycles, c.measures.real):
                own.setdefault(cost.layer, []).append(cost)
            for name, each in own.items():
                known = found.setdefault(name, {})
                known.setdefault(c.settings.format, each)
                known.setdefault(FLOAT, [replace(x, quantised=x.real) for x in each])
    return found


def _of_types(
    whole: Candidate,
    types: Mapping[str, str],
    prices: Mapping[str, Mapping[str, list[Cost]]],
    targets: Sequence[str],
) -> Candidate:
    """A plan with a type for each layer."""
    kinds = {n: k for n, k in types.items() if k != FLOAT}
    left = [n for n, k in types.items() if k == FLOAT]
    model = with_blocks(whole.model, [n for n, k in kinds.items() if k != "int8"])
    values = every_value(model.graph, whole.data.feeds)
    words = set(kinds.values())
    settings = replace(
        whole.settings, format=MIXED if len(words) > 1 else words.pop(),
        layers=tuple(sorted(kinds.items())),
    )  # fmt: skip
    measures = Measures(known=whole.measures.known)
    trial = attempt(model, whole.data, settings, targets, values, left, measures)
    trial.slow = [
        cost
        for name in left
        for cost in min((v for k, v in prices[name].items() if k != FLOAT), key=_total)
    ]
    return Candidate(
        model, whole.data, settings, values, whole.ranked, measures, trial, [], [trial]
    )  # fmt: skip
