"""A vector region of the micro level: one function of the vector unit of A5.

As for operations on tiles: start, the latency of a chain through its instructions, and for every
further iteration the busiest of two ports that execute, two loads, a load and a store, what one
instruction after the other takes, and what an iteration waits for from the one before."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.isa.costs import CostTable, lowest_confidence
from ptosim.timing.laws.cost import NO_LAW, Cost, Stage
from ptosim.timing.laws.functions import Function, frame_stage
from ptosim.timing.laws.instructions import Timed, timed
from ptosim.timing.laws.shapes import VectorStep, VectorWork
from ptosim.timing.laws.window import out_of_order


def region_cost(work: VectorWork, table: CostTable) -> Cost:
    """Return what a region costs; one on a target without such regions has no law."""
    if "function.start" not in table.rows:
        return NO_LAW
    if table["window.switch"]["value"]:
        return _out_of_order(work, table)
    timing = Function(table)
    found = [timed(step, table) for step in work.steps]
    chain = max(chains(work.steps, found), default=0)
    rounds = max((s.times for s in work.steps), default=0)
    bounds = _bounds(work.steps, found, timing.figure("several", "per_item"))
    sure = ["derived" if work.exact else "assumed", *(t.confidence for t in found)]
    confidence = lowest_confidence(sure)
    name = max(bounds, key=lambda key: bounds[key])
    # Without a loop the instructions themselves go on after the first results.
    further = max(bounds[name] * (1 - 1 / max(rounds, 1)), bounds[name] - chain)
    stages = (
        frame_stage(timing),
        Stage("latency of one iteration", chain, 1, confidence),
        Stage(f"further iterations: {name}", further, rounds, confidence),
    )
    executed = sum(s.times for s, t in zip(work.steps, found, strict=True) if not t.memory)
    return Cost("region", stages, confidence, work=executed * 64, region=work)


def _out_of_order(work: VectorWork, table: CostTable) -> Cost:
    """What a region costs where the issue window is modelled."""
    found = [timed(step, table) for step in work.steps]
    sure = ["derived" if work.exact else "assumed", *(t.confidence for t in found)]
    confidence = lowest_confidence(sure)
    stages = (Stage("out of order", out_of_order(work.steps, table).cycles, 1, confidence),)
    executed = sum(s.times for s, t in zip(work.steps, found, strict=True) if not t.memory)
    return Cost("region", stages, confidence, work=executed * 64, region=work)


def _bounds(
    steps: Sequence[VectorStep], found: Sequence[Timed], several: float
) -> dict[str, float]:
    """Cycles that each resource needs for the whole region."""
    pairs = list(zip(steps, found, strict=True))
    loads = sum(s.times * t.busy for s, t in pairs if t.memory == "load")
    stores = sum(s.times * t.busy for s, t in pairs if t.memory == "store")
    executed = [(s, t) for s, t in pairs if t.busy and not t.memory]
    ports = sum(t.busy * s.times for s, t in executed)
    carried = max((c * steps[i].times for i, c in recurrences(steps, found)), default=0)
    return {
        "execution ports": max(ports / 2, several * sum(s.times for s, _ in executed)),
        "loads and stores": max(loads / 2, (loads + stores) / 2, stores),
        "iterations": max((s.times for s in steps), default=0),
        "results of the iteration before": carried,
    }


def chains(steps: Sequence[VectorStep], found: Sequence[Timed]) -> list[float]:
    """Return when the result of each instruction can be used, from the first operand on."""
    ready: list[float] = []
    for step, time in zip(steps, found, strict=True):
        ready.append(max((ready[s] for s in step.sources), default=0) + time.distance)
    return ready


def recurrences(steps: Sequence[VectorStep], found: Sequence[Timed]) -> list[tuple[int, float]]:
    """Return, for each instruction that takes a result of the iteration before, it and the cycles
    from that operand until the instruction which makes the result has made the next one."""
    result = []
    for number, step in enumerate(steps):
        for maker in step.carried:
            cycles = _between(steps, found, number, maker)
            if cycles is not None:
                result.append((number, cycles))
    return result


def _between(
    steps: Sequence[VectorStep], found: Sequence[Timed], first: int, last: int
) -> float | None:
    """The longest chain from one instruction to another; None if there is none."""
    ready: dict[int, float] = {first: found[first].distance}
    for number in range(first + 1, last + 1):
        after = [ready[s] for s in steps[number].sources if s in ready]
        if after:
            ready[number] = max(after) + found[number].distance
    return ready.get(last)
