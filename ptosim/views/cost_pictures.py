"""The cost report as pictures in text: a timeline of the pipes, the roofline, and hints."""

from __future__ import annotations

from ptosim.time.pipes.steps import PIPES
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.alike import alike_cores
from ptosim.time.report.totals import CostReport
from ptosim.views.table import SHOWN, Table, table
from ptosim.views.text import Text

NARROW, WIDTH = 24, 72
"""Columns of the timeline, at least and at most."""

SHADES = " ░▒▓█"
"""How much of a column's time a pipe is busy: not at all, up to a third, two thirds, less than all,
all."""


def timeline(report: CostReport, suffix: str, room: int) -> Table:
    """Return a row for each pipe of each core, equal cores in one: when it is busy. The table fits
    into `room` columns."""
    alike = alike_cores(report)
    names = max((len(each.name) for each in alike), default=0)
    width = min(max(room - names - 12, NARROW), WIDTH)  # less the pipe, and what is between
    rows = [
        (each.name, PIPES[pipe], Text(lane(each.of, pipe, report.span, width), "cyan"))
        for each in alike
        for pipe in sorted({step.pipe for step in each.of.steps})
    ]
    columns = ("core", "pipe", _scale(report, width))
    return table(f"timeline{suffix}", columns, rows, essential=columns, shown=SHOWN)


def _scale(report: CostReport, width: int) -> str:
    end = f"{report.span:,} cycles"
    each = f"0, a column is {report.span / width:,.0f} cycles"
    return f"{each}{end:>{max(width - len(each), 1)}}"


def lane(core: CoreTimer, pipe: int, total: int, width: int = WIDTH) -> str:
    """Return one pipe's busy time over the makespan, a character for each part of it."""
    busy = [0.0] * width
    each = max(total, 1) / width
    for start, end, more, moved in core.stretches(pipe):
        last = end + more * moved
        for column in range(int(start / each), min(int((last - 1) / each) + 1, width)):
            low, high = column * each, (column + 1) * each
            if more:
                again = (start, end - start, more, moved)
                busy[column] += _busy(high, *again) - _busy(low, *again)
            else:
                busy[column] += max(min(end, high) - max(start, low), 0)
    return "".join(_shade(b / each) for b in busy)


def _busy(until: float, start: int, length: int, more: int, moved: int) -> float:
    """The cycles until then that a pipe was busy with something that repeats."""
    if until <= start:
        return 0.0
    number = min(int((until - start) // moved), more) if moved else more
    return number * length + min(until - start - number * moved, length)


def _shade(share: float) -> str:
    if share <= 0:
        return SHADES[0]
    if share > 0.999:
        return SHADES[-1]
    return SHADES[1 + min(int(share * 3), 2)]


def roofline(report: CostReport, suffix: str) -> Table:
    """Return the units with their ceilings."""
    columns = ("unit", ">ops/byte", ">ridge", ">ceiling", ">attainable", ">achieved",
               ">of it", "bound by")  # fmt: skip
    rows = []
    for roof in report.roofline:
        share = roof.achieved / roof.attainable if roof.attainable else 0.0
        numbers = (roof.intensity, roof.ridge, roof.ceiling, roof.attainable, roof.achieved)
        rows.append((roof.unit, *(f"{n:,.2f}" for n in numbers), f"{share:.0%}", roof.bound))
    title = f"roofline{suffix}: operations (ops) a cycle; ceilings are its own operations'"
    drop = ["ridge", "of it"]
    return table(title, columns, rows, essential=["unit"], drop=drop)


def hints(report: CostReport, suffix: str) -> Table:
    """Return what may not have to take its time."""
    rows = [
        (hint.kind, hint.line or "", f"{hint.cycles:,}", f"{hint.text}; {hint.cure}")
        for hint in report.hints[:SHOWN]
    ]
    return table(f"hints{suffix}", ("what", ">line", ">cycles at most", ""), rows or [("none",)],
                 essential=["what"])  # fmt: skip
