"""The least time in which a chip can do what a launch did: cycles below it are no result."""

from __future__ import annotations

import math

from ptosim.ground.isa.costs import GIB
from ptosim.time.report.totals import CostReport


def least_cycles(report: CostReport, written: int = 0) -> int:
    """Return the cycles below which no launch of these bytes and operations is: the bytes read, and
    those written (`written` at least, what the outputs have), over the whole chip's bandwidth, and
    the work of the busiest pipe."""
    moved = report.moved()
    amounts = {"read": moved["read"], "write": max(moved["write"], written)}
    by_memory = max(bytes_ / _a_cycle(report, way) for way, bytes_ in amounts.items())
    by_pipe = max((use.busy for use in report.pipes), default=0)
    return max(math.floor(by_memory), by_pipe)


def _a_cycle(report: CostReport, direction: str) -> float:
    """Bytes that the chip moves in a cycle."""
    rate = report.table[f"machine.{direction}_total"]["gib_per_second"]
    return rate * GIB / (report.mhz * 1e6)


def untimed(report: CostReport) -> str:
    """Return the operations that count no cycles because no law covers them; '' if there are
    none."""
    return ", ".join(f"{name} ({count:,})" for name, count in report.unknown.items())
