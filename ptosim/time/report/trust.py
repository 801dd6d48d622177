"""Which laws carry the time of programs, how sure they are, and which measurement on a board would
narrow the bar most.

The errors of classes are taken as independent (`error_bar`), so the half width of the bar is the
root of the sum of squares, and what a measured class takes out of it is its square."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import hypot

from ptosim.ground.records import dataclass
from ptosim.time.report.error_bar import BOARD, FITS, LEFT_OUT, RANGE, BarPart, ErrorBar
from ptosim.time.report.figures import Figures

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
