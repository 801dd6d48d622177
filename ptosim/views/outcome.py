"""What the last line of a report says of a run: how outputs differ, what was found, its time."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.launch.compare import Comparison
from ptosim.time.report.totals import CostReport
from ptosim.views.frames import count_line


def difference(found: Comparison) -> str:
    """Return in words where an output differs, and by what."""
    place = ", ".join(map(str, found.first or ()))
    return (
        f"{found.name} differs in {found.mismatches:,} of {found.count:,} elements, "
        f"first at [{place}] (expected {found.expected}, got {found.got})"
    )


def differences(compared: Sequence[Comparison]) -> str:
    """Return in words how outputs differ: the first one in full; "" if none does."""
    wrong = [c for c in compared if not c.passed]
    if not wrong:
        return ""
    others = list(dict.fromkeys(c.name for c in wrong[1:]))
    more = f"; {', '.join(others)} differ{'s' if len(others) == 1 else ''} too" if others else ""
    return difference(wrong[0]) + more


def found(diagnostics: Sequence[Diagnostic]) -> str:
    """Return in words what was found: the first of the worst in full."""
    first = max(diagnostics, key=lambda d: d.severity)
    place = f" at {first.span}" if first.span is not None else ""
    count = f"{count_line(diagnostics)}, first " if len(diagnostics) > 1 else ""
    return f"{count}{first.code}{place}: {first.message}"


def equal(compared: Sequence[Comparison]) -> str:
    """Return in words which outputs are as expected."""
    if not compared:
        return "ran to its end, nothing was expected of its outputs"
    names = ", ".join(dict.fromkeys(c.name for c in compared))
    how = "; ".join(dict.fromkeys(str(c.tolerance) for c in compared))
    some = f"{sum(c.count for c in compared):,} elements"
    return f"{names} as expected ({some}, {how})"


def time_of(cost: CostReport | None) -> str:
    """Return the cycles of a run, between which it is sure to lie, and its time."""
    if cost is None:
        return ""
    low, high = cost.error_bar.low, cost.error_bar.high
    return f"; {cost.cycles:,} cycles ({low:,} to {high:,}), {cost.microseconds:,.2f} us"
