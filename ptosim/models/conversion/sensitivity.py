"""Which layers lose most when they are quantised, and which ones stay in float within a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ptosim.ground.progress import part_done
from ptosim.ground.records import dataclass
from ptosim.models.conversion import plan as plans
from ptosim.models.conversion.convert import (
    Measures,
    Trial,
    Values,
    depths_of,
    in_float,
    output_error,
    quantise,
)
from ptosim.models.conversion.source import Data, Model
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
