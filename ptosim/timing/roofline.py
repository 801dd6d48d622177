"""Where a launch stands between arithmetic and memory, with ceilings of its own operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptosim.timing.steps import PIPE_INDEX

if TYPE_CHECKING:
    from ptosim.timing.report import CostReport

_UNITS = {"V": "vector", "M": "cube"}


@dataclass(frozen=True, slots=True)
class Roof:
    """One unit. `ceiling`: operations a cycle if its pipe never waited, for this mix of operations;
    `bandwidth`: bytes of global memory a cycle if those pipes never waited, for these transfers;
    `intensity`: operations a byte; `attainable`: the smaller of ceiling and intensity x bandwidth;
    `achieved`: operations a cycle of the whole launch. `bound` is memory, compute, or waiting if
    less than half of what is attainable is achieved. All cores together."""

    unit: str
    work: int
    bytes: int
    intensity: float
    ceiling: float
    bandwidth: float
    ridge: float
    attainable: float
    achieved: float
    bound: str


def rooflines(report: CostReport) -> list[Roof]:
    """Return the position of every unit that computed something."""
    moved = sum(report.moved().values())
    moving = _rates(report, lambda step: step.cost.moved.bytes if step.cost.moved else 0)
    bandwidth = sum(moving)
    found = []
    for pipe, unit in _UNITS.items():
        number = PIPE_INDEX[pipe]
        rates = _rates(report, lambda step, n=number: step.cost.work if step.pipe == n else 0)
        work = sum(
            step.cost.work * count for step, count, _ in report.executed if step.pipe == number
        )
        if work:
            found.append(_roof(unit, work, moved, sum(rates), bandwidth, max(report.cycles, 1)))
    return found


def _rates(report: CostReport, amount: Any) -> Sequence[float]:
    """For each core what its pipes that do something of the kind could do in a cycle: those of
    global memory work at the same time, so the rates of pipes add up."""
    sums: dict[tuple[int, int], list[float]] = {}
    for step, count, core in report.executed:
        value = amount(step)
        if value:
            total = sums.setdefault((core, step.pipe), [0.0, 0.0])
            total[0] += value * count
            total[1] += step.busy * count
    return [value / max(cycles, 1) for value, cycles in sums.values()]


def _roof(unit: str, work: int, moved: int, ceiling: float, bandwidth: float, cycles: int) -> Roof:
    intensity = work / moved if moved else 0.0
    by_memory = intensity * bandwidth if moved else ceiling
    attainable = min(ceiling, by_memory)
    achieved = work / cycles
    bound = "memory" if by_memory < ceiling else "compute"
    if achieved < attainable / 2:
        bound = f"waiting ({bound} next)"
    ridge = ceiling / bandwidth if bandwidth else 0.0
    return Roof(
        unit, work, moved, round(intensity, 3), round(ceiling, 3), round(bandwidth, 3),
        round(ridge, 3), round(attainable, 3), round(achieved, 3), bound,
    )  # fmt: skip
