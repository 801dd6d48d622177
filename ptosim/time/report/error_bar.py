"""How far a total may be off: an interval, from what is known of its parts.

The total is what its critical path consists of. Parts of one class of operations have one law, so
their errors add up; those of different classes are taken as independent. What a class is off is
what nine of ten published points are off that its fit did not see; without points it follows from
the confidence of its figures (`isa/costs/spread.toml`). Signals between cores have a range of their
own where only that is known, and so has the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot
from typing import TYPE_CHECKING, Any

from ptosim.ground.isa.costs import (
    WHAT_IF,
    CostTable,
    KernelAccuracy,
    accuracy,
    least_points,
    left_out,
    lowest_confidence,
    spreads,
)
from ptosim.ground.records import dataclass
from ptosim.time.report.figures import Figures
from ptosim.time.report.path import leaves, start_of, walk

if TYPE_CHECKING:
    from ptosim.time.laws.cost import Cost

LEFT_OUT = "points left out of the fit"
BOARD = "points of the board"
CONFIDENCE = "confidence"
FITS = "published fits that differ"
RANGE = "range"


@dataclass(frozen=True, slots=True)
class BarPart:
    """A class of operations on the critical path: its cycles, how far they may be off (relative),
    and what that is known from."""

    name: str
    cycles: int
    spread: float
    basis: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """Cycles between which a total is expected, and its parts, dearest first. `published` are rows
    of measured kernels of the same program."""

    low: int
    high: int
    parts: tuple[BarPart, ...]
    published: tuple[KernelAccuracy, ...] = ()

    @property
    def within(self) -> float | None:
        """The largest relative error of this kernel's published rows; None without any."""
        return max((abs(k.error) for k in self.published), default=None)

    @property
    def judged(self) -> float:
        """The part of the critical path that no published point tells how far it is off: it follows
        from the confidence of the figures, by a judgement (`isa/costs/spread.toml`)."""
        every = sum(p.cycles for p in self.parts)
        return sum(p.cycles for p in self.parts if p.basis == CONFIDENCE) / every if every else 0.0

    @property
    def assumed(self) -> float:
        """How far the cycles of the critical path may be off, relative, by figures that are
        assumed and that no published point was held against."""
        every = sum(p.cycles for p in self.parts)
        parts = [p for p in self.parts if (p.basis, p.confidence) == (CONFIDENCE, "assumed")]
        return hypot(*(p.cycles * p.spread for p in parts)) / every if every else 0.0

    @property
    def verdict(self) -> str:
        """What published rows say of this kernel."""
        if self.within is None:
            return "not published"
        count = len(self.published)
        return f"within {self.within:.1%} ({count} published row{'s' * (count > 1)})"

    def to_dict(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "low": self.low,
            "high": self.high,
            "model_error": self.verdict,
            "within": None if self.within is None else round(self.within, 4),
            "judged": round(self.judged, 4),
            "parts": [
                {
                    "class": p.name, "cycles": p.cycles, "spread": round(p.spread, 4),
                    "basis": p.basis, "confidence": p.confidence,
                }
                for p in self.parts
            ],
        }  # fmt: skip


def error_bar(report: Figures) -> ErrorBar:
    """Return the error bar of a launch's cycles."""
    found, hops = _classes(report)
    parts = [_part(report.table, name, each) for name, each in found.items()]
    below = above = hypot(*(p.cycles * p.spread for p in parts)) if parts else 0.0
    row = report.table["machine.cross"]
    fewer = hops * max(row["cycles"] - row.get("low_cycles", row["cycles"]), 0)
    more = hops * max(row.get("high_cycles", row["cycles"]) - row["cycles"], 0)
    if more or fewer:
        spread = more / max(hops * row["cycles"], 1)
        crossing = round(hops * row["cycles"])
        parts.append(BarPart("signals between cores", crossing, spread, RANGE, row.confidence))
    below, above = below + fewer, above + more
    scale = report.cycles / max(report.span, 1)
    low = max(round(report.cycles - below * scale), 0)
    high = round(report.cycles + above * scale)
    parts.sort(key=lambda p: (-p.cycles * p.spread, p.name))
    return ErrorBar(low, high, tuple(parts), _published(report))


@dataclass(slots=True)
class _Class:
    """Cycles of the critical path that a class of operations has, the lowest confidence of its
    figures, cycles of it that rest on figures that were `given` (what-if), and cycles whose
    published fits `differ`, with how many of them that leaves open."""

    cycles: int = 0
    sure: str = ""
    given: int = 0
    differ: int = 0
    open: float = 0.0

    def add(self, cost: Cost, cycles: int) -> None:
        self.cycles += cycles
        if cost.confidence == WHAT_IF:
            self.given += cycles
            return
        self.sure = lowest_confidence(filter(None, (self.sure, cost.confidence)))
        if cost.spread:
            self.differ += cycles
            self.open += cycles * cost.spread


def _classes(report: Figures) -> tuple[dict[str, _Class], int]:
    """The classes of the critical path, and how often it goes from one core to another."""
    found: dict[str, _Class] = {}
    hops, after, first = 0, None, report.span
    for again in walk(report.model):
        for (core, record, start, end), times in leaves(again, 1):
            cost = core.step(record).cost
            name = cost.class_name if cost.known else "no law"
            found.setdefault(name, _Class()).add(cost, (end - start) * times)
            hops += times * (after is not None and after is not core)
            after = core
        first = start_of(again)
    if first > 0:
        found["scalar unit"] = _Class(first, "assumed")
    return found, hops


def _part(table: CostTable, name: str, each: _Class) -> BarPart:
    """A class: its points say how far it is off; without any its confidence does of what was not
    given, and the fits of what has two of them."""
    sure = each.sure or WHAT_IF
    board = _of_board(table, name)
    if board is not None:
        return BarPart(name, each.cycles, *board, sure)
    points = _of_points(table, name)
    spread, basis = points or (spreads()[sure], CONFIDENCE)
    rest = each.cycles - each.differ - (0 if points else each.given)
    if each.cycles and rest != each.cycles:
        spread = (rest * spread + each.open) / each.cycles
    if 2 * each.differ > each.cycles:
        basis = FITS
    return BarPart(name, each.cycles, spread, basis, sure)


def _of_board(table: CostTable, name: str) -> tuple[float, str] | None:
    """What the points say that a board's own figures were held against."""
    for error in table.overlay.errors if table.overlay is not None else ():
        if error.class_name == name:
            return error.worst, BOARD
    return None


def _of_points(table: CostTable, name: str) -> tuple[float, str] | None:
    row = left_out(table.target, name)
    known = row is not None and row.points >= least_points()
    return (row.nine_of_ten, LEFT_OUT) if row is not None and known else None


def _published(report: Figures) -> tuple[KernelAccuracy, ...]:
    """Rows of measured kernels that were made of this program, on this architecture."""
    names = {report.entry, *(_stem(step.site.file) for step, _, _ in report.executed)}
    return tuple(
        k for k in accuracy()[1] if k.target == report.target and k.program in names and k.program
    )


def _stem(file: str) -> str:
    return file.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".pto")


def launch_range(table: CostTable, blocks: int) -> tuple[float, float]:
    """Return between which microseconds the launch of so many blocks is: public figures of a board
    give a start and more for each block than published kernels leave."""
    row = table["machine.launch"]
    us = row["us"] + row.get("us_per_block") * blocks
    start = row.get("low_cycles") / table.mhz
    return min(start or us, us), max(start + row.get("per_block") * blocks / table.mhz, us)


# Which laws carry the time of programs, how sure they are, and which measurement on a board would
# narrow the bar most.
#
# The errors of classes are taken as independent (`error_bar`), so the half width of the bar is the
# root of the sum of squares, and what a measured class takes out of it is its square.

MEASURED = 0.02
"""Relative error that a law is left with after a measurement: that of single operations that were
profiled (`ptosim help accuracy`)."""


_SHORT = {LEFT_OUT: "points", BOARD: "board", RANGE: "range", FITS: "two fits"}


@dataclass(frozen=True, slots=True)
class Carrier:
    """A class of operations on the critical path: the operations of it, its cycles and their share,
    how far they may be off (relative) and what that is known from. `width` is the half width of the
    whole bar, relative, as it is; `after` what it would be if this class were measured."""

    name: str
    operations: tuple[str, ...]
    cycles: int
    share: float
    spread: float
    basis: str
    confidence: str
    width: float
    after: float

    @property
    def known_from(self) -> str:
        """In a word or two: the confidence of the figures, or what they were held against."""
        return _SHORT.get(self.basis, self.confidence)

    @property
    def gain(self) -> float:
        """By how much the bar would be narrower."""
        return self.width - self.after


def carriers(judged: Iterable[tuple[Figures, ErrorBar]]) -> list[Carrier]:
    """Return the laws that carry the time of launches together, each given with its bar: those
    whose measurement narrows the bar most first."""
    parts: dict[str, list[BarPart]] = {}
    named: dict[str, dict[str, None]] = {}
    for report, bar in judged:
        for part in bar.parts:
            parts.setdefault(part.name, []).append(part)
        for step, _, _ in report.executed:
            named.setdefault(step.cost.class_name, {})[step.site.mnemonic] = None
    off = {name: sum(p.cycles * p.spread for p in each) for name, each in parts.items()}
    total = max(sum(p.cycles for each in parts.values() for p in each), 1)
    found = [
        _carrier(name, each, off, total, tuple(named.get(name, ()))) for name, each in parts.items()
    ]
    return sorted(found, key=lambda c: (-c.gain, -c.cycles, c.name))


def _carrier(
    name: str, parts: Sequence[BarPart], off: dict[str, float], total: int, ops: tuple[str, ...]
) -> Carrier:
    cycles = sum(p.cycles for p in parts)
    spread = off[name] / cycles if cycles else 0.0
    worst = max(parts, key=lambda p: p.cycles * p.spread)
    is_measured = worst.basis == BOARD
    left = off[name] if is_measured else min(off[name], cycles * MEASURED)
    after = hypot(left, *(n for other, n in off.items() if other != name))
    return Carrier(
        name, ops, cycles, cycles / total, spread, worst.basis, worst.confidence,
        hypot(*off.values()) / total, after / total,
    )  # fmt: skip
