"""What can be compared: a measured number of cycles, and how the cost laws predict it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ptosim.ground.isa.costs import CostRow, CostTable
from ptosim.ground.records import dataclass, replace
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape

Prediction = Callable[[CostTable], float]

HELD_OUT = 3
"""Every third point of an operation is kept aside."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measured figure: `family` joins those of one law, `class_name` those of one class of
    operations; `times` is how often it was measured. Of a whole kernel's time the fit learns
    nothing (`teaches`): it is the sum of everything. `held` says whether it is held out of the fit;
    None: as its place among those of its family decides."""

    family: str
    label: str
    class_name: str
    measured: float
    predict: Prediction
    times: int = 1
    teaches: bool = True
    held: bool | None = None

    def error(self, table: CostTable) -> float:
        """Return the relative error, with sign."""
        return self.predict(table) / self.measured - 1


def operation(shape: OpShape) -> Prediction:
    """Return the prediction of a single operation, not rounded to whole cycles."""
    return lambda table: unrounded(estimate(shape, table))


def unrounded(cost: Cost) -> float:
    """Return the cycles of a cost before they are rounded, where its stages add up to them."""
    total = sum(stage.cycles for stage in cost.stages)
    return total if abs(total - cost.cycles) <= 1 else cost.cycles


def joined(points: Iterable[Point]) -> list[Point]:
    """Return points with one of each label: the median of what was measured several times."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.family, point.label), []).append(point)
    found = []
    for _, group in sorted(groups.items()):
        values = sorted(p.measured for p in group)
        middle = len(values) // 2
        median = (values[middle] + values[~middle]) / 2
        found.append(replace(group[0], measured=median, times=sum(p.times for p in group)))
    return found


class _Watched(dict[str, float]):
    """Numbers of a row that tell which of them were read."""

    def __init__(self, values: Mapping[str, float], read: Callable[[str], None]) -> None:
        super().__init__(values)
        self._read = read

    def __getitem__(self, key: str) -> float:
        self._read(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        if key in self:
            self._read(key)
        return super().get(key, default)


def figures_of(point: Point, table: CostTable) -> frozenset[str]:
    """Return the full names of the numbers that a prediction reads, by the rows that own them."""
    found: set[str] = set()
    rows = {name: _watched(row, found) for name, row in table.rows.items()}
    point.predict(replace(table, rows=rows))
    return frozenset(table.owner(key) for key in found)


def _watched(row: CostRow, found: set[str]) -> CostRow:
    values = _Watched(row.values, lambda number: found.add(f"{row.name}.{number}"))
    return replace(row, values=values)
