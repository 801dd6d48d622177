"""Where a launch is between arithmetic and memory, with ceilings of its own operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.records import dataclass
from ptosim.time.pipes.steps import PIPE_INDEX
from ptosim.time.report.figures import Figures

_UNITS = {"V": "vector", "M": "cube"}


@dataclass(frozen=True, slots=True)
class Roof:
    """One unit. `ceiling`: operations a cycle if its pipe never waited, for this mix of operations;
    `bandwidth`: bytes of global memory a cycle if the busiest of those pipes never waited, for
    these transfers (pipes that read and write work at the same time, none takes over from another);
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


def rooflines(report: Figures) -> list[Roof]:
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
            found.append(_roof(unit, work, moved, sum(rates), bandwidth, max(report.span, 1)))
    return found


def _rates(report: Figures, amount: Any) -> Sequence[float]:
    """For each core what it could do of the kind in a cycle if the busiest of its pipes that do it
    never waited."""
    sums: dict[int, dict[int, list[float]]] = {}
    for step, count, core in report.executed:
        value = amount(step)
        if value:
            total = sums.setdefault(core, {}).setdefault(step.pipe, [0.0, 0.0])
            total[0] += value * count
            total[1] += step.busy * count
    found = []
    for pipes in sums.values():
        cycles = max(busy for _, busy in pipes.values())
        found.append(sum(value for value, _ in pipes.values()) / max(cycles, 1))
    return found


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
