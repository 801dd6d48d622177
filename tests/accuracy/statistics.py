"""Errors of single operations: in all, by class, by family. All of these are in sample: the fitted
figures saw the points. `tests.accuracy.cross` leaves families and shapes out."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ptosim.ground.isa.costs import CostTable, cost_entries
from tests.accuracy.points import Point, points

NARROW = ("fp8", "fp4", "hif8")


@dataclass(frozen=True)
class Errors:
    """Relative errors without sign."""

    name: str
    count: int
    mean: float
    median: float
    worst: float
    where: str = ""
    values: tuple[float, ...] = ()


def errors(name: str, chosen: Iterable[Point], table: CostTable | None = None) -> Errors:
    """Return the errors of some points."""
    found = [(abs(p.error(table)), p.label) for p in chosen]
    values = [value for value, _ in found]
    worst, where = max(found)
    return Errors(
        name, len(values), statistics.mean(values), statistics.median(values), worst, where,
        tuple(values),
    )  # fmt: skip


def of_target(target: str) -> list[Point]:
    """Return the points of a target."""
    return [p for p in points() if p.target == target]


def families(target: str) -> dict[str, list[Point]]:
    """Return the points of a target by operation and element type."""
    return grouped(of_target(target))


def grouped(chosen: Iterable[Point]) -> dict[str, list[Point]]:
    """Return points by operation and element type."""
    found: dict[str, list[Point]] = {}
    for point in chosen:
        found.setdefault(point.family, []).append(point)
    return dict(sorted(found.items()))


def classes(target: str) -> dict[str, list[Point]]:
    """Return the points by class of operation."""
    found: dict[str, list[Point]] = {}
    for point in of_target(target):
        entry = cost_entries()[point.shape.mnemonic]
        found.setdefault(entry.class_.name, []).append(point)
    return dict(sorted(found.items()))


def narrow(target: str) -> list[Point]:
    """Return the conversions to or from 8 and 4 bits."""
    return [
        p for p in of_target(target) if "TCVT" in p.family and any(w in p.family for w in NARROW)
    ]
