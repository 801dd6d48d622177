"""Pictures of a launch that was timed: its timeline, its critical path, its roofline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ptosim.time.pipes.steps import PIPES
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.equal_cores import Alike, alike_cores
from ptosim.time.report.roofline import Roof
from ptosim.time.report.totals import CostReport
from ptosim.time.report.trace import Busy, busy_spans
from ptosim.views.charts.axis import Axis, around
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.lanes import Lane, Lanes, Span
from ptosim.views.charts.marks import OTHERS, SERIES, Line, Mark, Point, Points

CORES = 16
"""Cores with a timeline of their own; of more the rest is counted."""


def time_axis(report: CostReport) -> Axis:
    """Return the axis of a launch's cycles; of several waves, of one."""
    return Axis("time", 0, max(report.span, 1), "cycles")


def series_of(reports: Sequence[CostReport]) -> dict[str, int]:
    """Return the colour of each operation, the same on all targets: the dearest have their own."""
    cycles: Counter[str] = Counter()
    for report in reports:
        cycles.update({use.name: round(use.cycles) for use in report.ops})
    names = sorted(cycles, key=lambda name: (-cycles[name], name))
    return {name: min(number, OTHERS) for number, name in enumerate(names)}


def timeline(report: CostReport, group: str, series: Mapping[str, int]) -> Lanes:
    """Return lanes for the pipes of each core, equal cores in one, and for the critical path;
    `series` are the colours of operations."""
    alike = alike_cores(report)
    rows = [_path(report, series)]
    for each in alike[:CORES]:
        rows += _core(each, series)
    left = sum(each.count for each in alike[CORES:])
    note = f"and {left} more cores, which are in the trace (--trace)" if left else ""
    used = {use.name: series.get(use.name, OTHERS) for use in report.ops}
    keys = sorted(((name, n) for name, n in used.items() if n < SERIES), key=lambda key: key[1])
    if OTHERS in used.values():
        keys.append(("other operations", OTHERS))
    title = f"timeline, {report.label}"
    return Lanes(title, time_axis(report), rows, keys=keys, group=group, note=note)


def _path(report: CostReport, series: Mapping[str, int]) -> Lane:
    spans = [
        Span(
            part.start, part.end,
            f"{part.op} · line {part.line} · {part.core} {part.pipe}"
            if part.line else f"{part.op} {part.pipe}",
            series.get(part.op, OTHERS),
        )
        for part in report.path
        if part.end > part.start
    ]  # fmt: skip
    return Lane("critical path", spans, "the chain of operations that the total consists of")


def _core(each: Alike[CoreTimer], series: Mapping[str, int]) -> list[Lane]:
    by_pipe: dict[int, list[Span]] = {}
    for busy in busy_spans(each.of):
        by_pipe.setdefault(busy.step.pipe, []).append(_span(busy, series))
    named = f"{each.name} ({each.count} cores alike)" if each.count > 1 else each.name
    return [
        Lane(named, None),
        *(
            Lane(PIPES[pipe], by_pipe[pipe], f"{each.name} {PIPES[pipe]}")
            for pipe in sorted(by_pipe)
        ),
    ]


def _span(busy: Busy, series: Mapping[str, int]) -> Span:
    site = busy.step.site
    text = f"{site.mnemonic} · line {site.line}" if site.line else site.mnemonic
    if busy.times > 1:
        text = f"{busy.times:,} x {text}"
    return Span(busy.start, busy.end, text, series.get(site.mnemonic, OTHERS))


def roofline(report: CostReport) -> list[Chart]:
    """Return the ceilings of each unit over operations a byte, and where the launch is; none if
    nothing was computed, or nothing moved."""
    roofs = [roof for roof in report.roofline if roof.intensity and roof.bandwidth]
    if not roofs:
        return []
    marks: list[Mark] = []
    places = [p for roof in roofs for p in (roof.intensity, roof.ridge)]
    x = Axis("intensity", min(places) / 4, max(places) * 4, "operations a byte", log=True)
    for number, roof in enumerate(roofs):
        marks += _roof(roof, number, x)
    heights = [p.y for mark in marks if isinstance(mark, Points) for p in mark.points]
    heights += [roof.ceiling for roof in roofs]
    y = around(heights, "rate", "operations a cycle", log=True)
    return [Chart(f"roofline, {report.label}", x, y, marks, height=260)]


def _roof(roof: Roof, number: int, x: Axis) -> list[Mark]:
    ends = sorted({x.low, x.high, min(max(roof.ridge, x.low), x.high)})
    line = [(at, min(roof.ceiling, at * roof.bandwidth)) for at in ends]
    share = roof.achieved / roof.attainable if roof.attainable else 0.0
    told = (
        f"{roof.unit}: {roof.achieved:,.2f} of {roof.attainable:,.2f} attainable operations a "
        f"cycle ({share:.0%}), {roof.bound}"
    )
    point = Point(roof.intensity, roof.achieved, told, roof.unit)
    return [
        Line(f"roof of the {roof.unit} unit: {roof.ceiling:,.2f} operations a cycle", line, number),
        Points(told, [point], number),
    ]
