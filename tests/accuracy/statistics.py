"""Errors of single operations: by family, in all, and for families left out of the fit."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from ptosim.isa.costs import CostTable, cost_entries, cost_table
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


def errors(name: str, chosen: Iterable[Point], table: CostTable | None = None) -> Errors:
    """Return the errors of some points."""
    found = [(abs(p.error(table)), p.label) for p in chosen]
    values = [value for value, _ in found]
    worst, where = max(found)
    return Errors(
        name, len(values), statistics.mean(values), statistics.median(values), worst, where
    )


def of_target(target: str) -> list[Point]:
    """Return the points of a target."""
    return [p for p in points() if p.target == target]


def families(target: str) -> dict[str, list[Point]]:
    """Return the points by operation and element type."""
    found: dict[str, list[Point]] = {}
    for point in of_target(target):
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


# -- cross-validation ---------------------------------------------------------------------------------

SHARED = ("function.row_start.cycles", "function.loop.cycles", "function.strided.per_access")
"""Fitted numbers that every function of A5 shares."""

FACTORS = (0.8, 0.9, 0.95, 0.98, 1.02, 1.05, 1.1, 1.25)


def left_out(family: str, chosen: list[Point]) -> Errors | None:
    """Return the errors of a family of A5 with the fitted numbers fitted anew without it; None if
    some number is told by this family alone."""
    table = cost_table("a5")
    rows = sorted(_cast_rows(chosen))
    others = [p for p in of_target("a5") if p.family != family]
    teaching = [p for p in others if _cast_rows([p]) & set(rows)] if rows else others
    if not teaching or "precise" in family or family == "TSEL fp32":
        return None
    keys = [f"{row}.{k}" for row in rows for k in table[row].values] if rows else list(SHARED)
    return errors(family, chosen, fitted(table, keys, teaching))


def fitted(table: CostTable, keys: list[str], chosen: list[Point]) -> CostTable:
    """Return a table whose numbers give the least mean error on some points: from 1.3 times the
    shipped numbers on, one after the other."""
    for key in keys:
        table = table.changed(key, _value(table, key) * 1.3)
    best = errors("", chosen, table).mean
    for _ in range(6):
        before = best
        for key in keys:
            for factor in FACTORS:
                tried = table.changed(key, _value(table, key) * factor)
                error = errors("", chosen, tried).mean
                if error < best:
                    best, table = error, tried
        if before - best < 1e-4:
            break
    return table


def _value(table: CostTable, key: str) -> float:
    name, _, number = key.rpartition(".")
    return table[name][number]


def _cast_rows(chosen: list[Point]) -> set[str]:
    from ptosim.timing.laws.convert import cast_class

    found = set()
    for point in chosen:
        if point.shape.mnemonic == "tcvt":
            src, dst = point.shape.tile("src"), point.shape.tile("dst")
            found.add(f"cast.{cast_class(src, dst)}")  # type: ignore[arg-type]
    return found
