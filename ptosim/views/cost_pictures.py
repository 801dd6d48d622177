"""Pictures of a launch that was timed: its timeline, its critical path, its roofline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.source import Source
from ptosim.time.pipes.steps import PIPES, Step
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.hints import Roof
from ptosim.time.report.launch_times import rates_over_time
from ptosim.time.report.spans import Busy, LineUse, busy_spans, line_uses
from ptosim.time.report.totals import Alike, CostReport, alike_cores
from ptosim.views.charts.chart import Chart
from ptosim.views.charts.lanes import Lane, Lanes, Span
from ptosim.views.charts.listing import Beside, Listing, Remark
from ptosim.views.charts.marks import OTHERS, SERIES, Axis, Line, Mark, Point, Points, around

CORES = 16
"""Cores with a timeline of their own; of more the rest is counted."""


def time_axis(reports: Sequence[CostReport]) -> Axis:
    """Return one axis of cycles for launches beside each other; of several waves, of one."""
    return Axis("time", 0, max([1, *(r.span for r in reports)]), "cycles")


def series_of(reports: Sequence[CostReport]) -> dict[str, int]:
    """Return the colour of each operation, the same on all targets: the dearest of each pipe have
    their own, then the dearest of all."""
    cycles: Counter[str] = Counter()
    first: dict[str, tuple[int, str]] = {}
    for report in reports:
        for use in report.ops:
            cycles[use.name] += round(use.cycles)
        for step, count, _ in report.executed:
            name, pipe = step.site.mnemonic, PIPES[step.pipe]
            first[pipe] = max(first.get(pipe, (0, "")), (step.busy * count, name))
    leading = {name for _, name in first.values()}
    names = sorted(cycles, key=lambda name: (name not in leading, -cycles[name], name))
    return {name: min(number, OTHERS) for number, name in enumerate(names)}


def timeline(
    report: CostReport,
    group: str,
    series: Mapping[str, int],
    axis: Axis | None = None,
    program: str = "",
) -> Lanes:
    """Return lanes for the pipes of each core, equal cores in one, and for the critical path;
    `series` are the colours of operations; spans are those of lines of the listing of a
    `program`."""
    alike = alike_cores(report)
    made = _Timeline(report, series)
    rows = [_path(report, series), *made.rows(alike[:CORES])]
    left = sum(each.count for each in alike[CORES:])
    note = f"and {left} more cores, which are in the trace (--trace)" if left else ""
    used = {use.name: series.get(use.name, OTHERS) for use in report.ops}
    keys = sorted(((name, n) for name, n in used.items() if n < SERIES), key=lambda key: key[1])
    if OTHERS in used.values():
        keys.append(("other operations", OTHERS))
    return Lanes(
        f"timeline, {report.label}", axis or time_axis([report]), rows, keys=keys, group=group,
        note=note, program=program, details=made.details,
    )  # fmt: skip


def _path(report: CostReport, series: Mapping[str, int]) -> Lane:
    spans = [
        Span(
            part.start, part.end,
            f"{part.op} · line {part.line} · {part.core} {part.pipe}"
            if part.line else f"{part.op} {part.pipe}",
            series.get(part.op, OTHERS), part.line,
        )
        for part in report.path
        if part.end > part.start
    ]  # fmt: skip
    return Lane("critical path", spans, "the chain of operations that the total consists of")


class _Timeline:
    """The lanes of cores. `details` are told of spans: operands, bytes, stages of what they
    execute."""

    def __init__(self, report: CostReport, series: Mapping[str, int]) -> None:
        self.report, self.series = report, series
        self.details: list[list[str]] = []
        self._of: dict[int, int] = {}  # details by the identity of their costs
        self._kept: list[object] = []
        self._places: dict[tuple[int, int], tuple[int, int]] = {}

    def rows(self, alike: Sequence[Alike[CoreTimer]]) -> list[Lane]:
        """Return the lanes; the first one after the critical path, which is lane 0."""
        lanes: list[tuple[Alike[CoreTimer], int, list[Busy]]] = []
        for each in alike:
            by_pipe: dict[int, list[Busy]] = {}
            for busy in busy_spans(each.of):
                at = by_pipe.setdefault(busy.step.pipe, [])
                at.append(busy)
            lanes += [(each, pipe, by_pipe[pipe]) for pipe in sorted(by_pipe)]
        for lane, (each, _, found) in enumerate(lanes, 1):
            for at, busy in enumerate(found):
                self._places[each.of.index, busy.record] = lane, at
        rows: list[Lane] = []
        before = None
        for each, pipe, found in lanes:
            if each is not before:
                more = f" ({each.count} cores alike)" if each.count > 1 else ""
                rows.append(Lane(f"{each.name}{more}", None))
                before = each
            told = f"{each.name} {PIPES[pipe]}"
            rows.append(Lane(PIPES[pipe], list(map(self._span, found)), told))
        return rows

    def _span(self, busy: Busy) -> Span:
        site = busy.step.site
        text = f"{site.mnemonic} · line {site.line}" if site.line else site.mnemonic
        if busy.times > 1:
            text = f"{busy.times:,} x {text}"
        after = self._places.get(busy.after) if busy.after is not None else None
        colour = self.series.get(site.mnemonic, OTHERS)
        return Span(busy.start, busy.end, text, colour, site.line, self._detail(busy.step), after)

    def _detail(self, step: Step) -> int:
        number = self._of.get(id(step))
        if number is None:
            told = _tooltip(step)
            if told not in self.details:
                self.details.append(told)
            number = self._of[id(step)] = self.details.index(told)
            self._kept.append(step)  # so that no other one has its identity
        return number


def _tooltip(step: Step) -> list[str]:
    """What is told of an operation: its text, its cost, each stage of it."""
    site, cost = step.site, step.cost
    later = f", its result {cost.latency:,} after the pipe is free" if cost.latency else ""
    found = [site.text, f"{cost.cycles:,} cycles{later}; figures {cost.confidence}"]
    if cost.moved is not None:
        m = cost.moved
        found.append(f"{m.direction}s {m.bytes:,} bytes in {m.runs:,} bursts of {m.run_bytes:,}")
    return found + [
        f"{s.name}: {s.cycles:,.0f} cycles" + (f", {s.count:,} x" if s.count > 1 else "")
        for s in cost.stages
    ]


def listing(
    source: Source,
    reports: Sequence[CostReport],
    findings: Sequence[Diagnostic],
    program: str,
    names: Sequence[str] = (),
) -> Listing:
    """Return a program's text with what each line costs on each target (with these `names`), and
    findings below their lines."""
    title = PurePath(source.label).name
    if len(names) == 1:
        title = f"{names[0]}: {title}"
    names = names or [report.label for report in reports]
    uses = [line_uses(report) for report in reports]
    lines = sorted({n for found in uses for n in found if n})
    remarks: dict[int, list[Remark]] = {}
    for one in sorted(findings, key=lambda d: -d.severity):
        if one.span is not None and one.span.source.name == source.name:
            text = f"{one.severity.word} {one.code}: {one.message}"
            remarks.setdefault(one.span.line, []).append(Remark(one.severity.word, text))
    figures = {
        line: [
            beside
            for report, found in zip(reports, uses, strict=True)
            for beside in _beside(report, found.get(line))
        ]
        for line in lines
    }
    return Listing(
        title, source.text.rstrip("\n").split("\n"), program,
        [(name, len(_COLUMNS)) for name in names], _COLUMNS * len(reports), figures,
        remarks, frozenset(at for at in range(len(_COLUMNS) * len(reports)) if at % len(_COLUMNS)),
        _NOTE if reports else "",
    )  # fmt: skip


_COLUMNS = ("path", "busy", "waits")
_NOTE = (
    "cycles. path: what the total consists of (the critical path); busy: how long a line has its "
    "pipes; waits: how long these stand still before it. A click on a line shows its spans, one on "
    "a span its line"
)


def _beside(report: CostReport, use: LineUse | None) -> list[Beside]:
    if use is None:
        return [Beside("")] * len(_COLUMNS)
    waits = ", ".join(
        f"{cycles:,} for {f'line {line} ({pipe})' if line else 'the scalar unit'}"
        for (line, pipe), cycles in use.waited.most_common(3)
    )
    share = use.on_path / max(report.span, 1)
    return [
        Beside(f"{use.on_path:,}" if use.on_path else "", share, f"{share:.1%} of the total"),
        Beside(f"{use.busy:,}", None, f"executed {use.count:,} times"),
        Beside(f"{use.waits:,}" if use.waits else "", None, f"waits {waits}" if waits else ""),
    ]


PARTS = 120
"""Parts of the time of which a chart has the rates."""


def rates(report: CostReport, axis: Axis | None = None) -> list[Chart]:
    """Return how much of what L2 and HBM give all cores draw, over time; none if nothing is
    moved."""
    found = {name: drawn for name, drawn in rates_over_time(report, PARTS).items() if any(drawn)}
    if not found:
        return []
    each = report.span / PARTS
    marks = [
        Line(
            f"{name}: {100 * sum(drawn) / PARTS:.0f} % in the mean",
            [(at * each, 100 * rate) for at, rate in enumerate([*drawn, drawn[-1]])],
            number, stepped=True,
        )
        for number, (name, drawn) in enumerate(found.items())
    ]  # fmt: skip
    most = 100 * max(1.0, *(rate for drawn in found.values() for rate in drawn))
    title = f"what all cores draw of L2 and HBM, {report.label}"
    note = "above 100: they ask for more than there is, and wait" if most > 100 else ""
    y = Axis("rate", 0, most, "% of its rate")
    return [Chart(title, axis or time_axis([report]), y, marks, height=150, note=note)]


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
