"""The page itself, section by section."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.version import __version__
from ptosim.views import cost_tables
from ptosim.views.charts.page import items, page, paragraph, section
from ptosim.views.diagnostics.render import count_line, render
from ptosim.views.memory_charts import Clock, level, tile_lanes
from ptosim.views.report.contents import Contents, Timed
from ptosim.views.report.pictures import roofline, series_of, time_axis, timeline
from ptosim.views.signs import DOUBT, FAIL, PASS
from ptosim.views.table import Part, Table, table

FRAME = 96
"""Columns of a frame of code; a narrow page scrolls it."""


def report_page(contents: Contents) -> str:
    """Return the whole page."""
    series = series_of([t.cost for t in contents.timed])
    parts = [
        section("Verdict", *verdict(contents)),
        section("Findings", *frames(contents.findings)),
        section("Values", *_values(contents)),
        section("Time", *_time(contents)),
        *contents.sections,
        *(section(f"Timeline, {t.cost.label}", *_when(t, series)) for t in contents.timed),
        section("Stages", *_stages(contents)),
        section("Roofline", *_roofs(contents)),
        *(_memory(t) for t in contents.timed),
        section("Hints", *_hints(contents)),
        section("Accuracy", *_accuracy(contents)),
        section("How this page was made", *_made(contents)),
    ]
    return page(contents.title, parts, head="; ".join(contents.heads), scripts=bool(contents.timed))


def html(parts: Iterable[Part]) -> str:
    """Return tables and lines as HTML; empty lines are left out."""
    return "".join(
        part.to_html() if isinstance(part, Table) else paragraph(part.plain.strip())
        for part in parts
        if isinstance(part, Table) or part.plain.strip()
    )


# -- verdict and findings --------------------------------------------------------------------------


def verdict(contents: Contents) -> list[str]:
    """Return the lines that one decides by, each with its sign."""
    lines = [
        paragraph(f"{FAIL} {target} rejects the program: {problem}", "bad")
        for target, problem in contents.rejected.items()
    ]
    if contents.stopped is not None:
        lines.append(paragraph(f"{FAIL} the run stopped: {contents.stopped}", "bad"))
    lines += _ran(contents)
    worst = max((d.severity for d in contents.findings), default=None)
    if worst is not None:
        kind = {"error": "bad", "warning": "doubt"}.get(worst.word, "note")
        sign = {"bad": FAIL, "doubt": DOUBT}.get(kind, "·")
        lines.append(paragraph(f"{sign} {count_line(contents.findings)}", kind))
    elif not contents.rejected and contents.stopped is None:
        lines.append(paragraph(f"{PASS} no findings", "good"))
    return [*lines, *(paragraph(_cycles(t)) for t in contents.timed)]


def _ran(contents: Contents) -> list[str]:
    if contents.ran is None:
        return []
    compared = contents.ran.comparisons
    wrong = [c.name for c in compared if not c.passed]
    if wrong:
        names = ", ".join(wrong)
        return [paragraph(f"{FAIL} {names}: not what is expected", "bad")]
    if compared:
        number = f"{len(compared)} output{'s' if len(compared) > 1 else ''}"
        return [paragraph(f"{PASS} {number} as expected", "good")]
    return [paragraph("the run came to its end; nothing was expected of its outputs")]


def _cycles(timed: Timed) -> str:
    cost = timed.cost
    busiest = f", busiest {cost.bound}" if cost.bound else ""
    sign = f"{DOUBT} " if cost.confidence == "assumed" else ""
    return (
        f"{cost.label}: {cost.cycles:,} cycles, {cost.microseconds:,.2f} us at {cost.mhz:g} MHz"
        f"{busiest}; figures at least {sign}{cost.confidence}"
    )


def frames(findings: Sequence[Diagnostic]) -> list[str]:
    """Return findings as frames of code, the worst first."""
    return [
        f'<pre class="{d.severity.word}">{escape(render(d, width=FRAME, verbose=True))}</pre>'
        for d in sorted(findings, key=lambda d: -d.severity)
    ]


# -- values and time -------------------------------------------------------------------------------


def _values(contents: Contents) -> list[str]:
    return [html(contents.ran.tables)] if contents.ran is not None else []


def _time(contents: Contents) -> list[str]:
    reports = [t.cost for t in contents.timed]
    if not reports:
        return []
    each = [cost_tables.operations(reports)]
    each += [cost_tables.pipes(t.cost, _suffix(contents, t)) for t in contents.timed]
    return [html([*cost_tables.summary(reports), *each])]


def _suffix(contents: Contents, timed: Timed) -> str:
    return f", {timed.cost.label}" if len(contents.timed) > 1 else ""


def _stages(contents: Contents) -> list[str]:
    """One table of the stages of all targets."""
    reports = [t.cost for t in contents.timed]
    if not reports:
        return []
    rows: dict[tuple[str, str], list[object]] = {}
    for number, report in enumerate(reports):
        for use in report.stages:
            empty: list[object] = ["-"] * (2 * len(reports))
            row = rows.setdefault((use.op, use.stage), empty)
            row[2 * number : 2 * number + 2] = [f"{use.cycles:,.0f}", use.confidence]
    columns = ["operation", "stage"]
    for report in reports:
        columns += [f">{report.label} cycles", f"{report.label} figures"]
    names = list(dict.fromkeys(op for op, _ in rows))  # the stages of an operation together
    cells = sorted(rows.items(), key=lambda row: names.index(row[0][0]))
    made = table(
        "cycles of each stage, if nothing overlapped", columns, [(*k, *v) for k, v in cells],
        drop=[f"{r.label} figures" for r in reports],
    )  # fmt: skip
    return [html([made])]


def _when(timed: Timed, series: Mapping[str, int]) -> list[str]:
    return [timeline(timed.cost, _group(timed), series), html([cost_tables.path(timed.cost, "")])]


def _group(timed: Timed) -> str:
    return f"cycles-{timed.cost.label}"


def _roofs(contents: Contents) -> list[str]:
    drawn = [roofline(t.cost) for t in contents.timed]
    pictures = "".join(drawn)
    if len([d for d in drawn if d]) > 1:
        pictures = f'<div class="pair">{pictures}</div>'
    return [pictures] if pictures else []


def _memory(timed: Timed) -> str:
    if timed.memory is None:
        return ""
    clock = Clock(time_axis(timed.cost), lambda step: float(step - 1))
    parts: list[str] = []
    for space in timed.memory.spaces:
        parts += [paragraph(f"{FAIL} {line}", "bad") for line in space.advice()]
        parts += [level(space, clock), tile_lanes(space, clock, _group(timed))]
    return section(f"Memory, {timed.cost.label}", *parts)


# -- hints, accuracy, colophon ---------------------------------------------------------------------


def _hints(contents: Contents) -> list[str]:
    tables = [
        cost_tables.hints(t.cost, _suffix(contents, t)) for t in contents.timed if t.cost.hints
    ]
    return [html(tables)] if tables else []


def _accuracy(contents: Contents) -> list[str]:
    rows = [
        (t.cost.label, name, *_errors(error))
        for t in contents.timed
        for name, error in t.cost.accuracy.items()
    ]
    if not rows:
        return []
    columns = ("target", "class of operations", ">points", ">mean error", ">worst")
    note = "errors of single operations against published points; `ptosim help accuracy`"
    return [html([table("", columns, rows, drop=["points"])]), paragraph(note, "note")]


def _errors(error: dict[str, float] | None) -> Sequence[str]:
    if error is None:
        return ("", "not published", "")
    return (f"{error['points']}", f"{error['mean']:.1%}", f"{error['worst']:.1%}")


def _made(contents: Contents) -> list[str]:
    lines = [f"ptosim {__version__}", *contents.heads]
    return [f"<pre>{escape(contents.command)}</pre>", items(lines)]
