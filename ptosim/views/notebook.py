"""Results as a notebook shows them: a verdict, the tables that matter, the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from html import escape

from ptosim.ground.diagnostics.findings import Findings
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.launch.analysis.memory_map import MemoryMap
from ptosim.launch.chain.runner import ChainResult
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_tables
from ptosim.views.charts.page import fragment, html_table, paragraph
from ptosim.views.diagnostics.render import count_line
from ptosim.views.header import header_fields, header_line
from ptosim.views.map_html import space_section
from ptosim.views.memory_charts import step_clock
from ptosim.views.report.page import frames, html
from ptosim.views.report.pictures import roofline, series_of, timeline
from ptosim.views.run_report import values

LINES = 12
"""Lines of a program that are shown."""


def html_of(shown: object) -> str:
    """Return an object as HTML for a notebook."""
    return fragment(*_parts(shown))


def _shape(shape: Sequence[int | None] | None) -> str:
    return "x".join("?" if size is None else str(size) for size in shape or ())


@singledispatch
def _parts(shown: object) -> list[str]:
    return [paragraph(repr(shown))]


@_parts.register
def _(shown: Diagnostic) -> list[str]:
    return frames([shown])


@_parts.register
def _(shown: Findings) -> list[str]:
    return [paragraph(count_line(shown)), *frames(shown)]


@_parts.register
def _(shown: Result) -> list[str]:
    parts = [paragraph(repr(shown)), html(values(shown, ()))]
    parts += [f"<pre>{escape(''.join(shown.prints))}</pre>"] if shown.prints else []
    parts += frames(shown.findings)
    return [*parts, *(_parts(shown.cost) if shown.cost is not None else ())]


@_parts.register
def _(shown: CostReport) -> list[str]:
    return [
        html([*cost_tables.summary([shown]), cost_tables.operations([shown])]),
        timeline(shown, "", series_of([shown])),
        roofline(shown),
        html([cost_tables.hints(shown, "")] if shown.hints else []),
    ]


@_parts.register
def _(shown: LoadedProgram) -> list[str]:
    front = shown.front
    heads = [header_line(header_fields(shown, shown.profile, ", ".join(shown.entries)))]
    tables = [
        html_table(
            ("argument", "kind", "type", "shape"),
            [(a.name, a.kind, a.dtype, _shape(a.shape)) for a in
             shown.signature(entry)],
            title=f"@{entry}",
        )
        for entry in shown.entries
    ]  # fmt: skip
    text = front.source.text.strip().splitlines()
    more = [f"… {len(text) - LINES} more lines"] if len(text) > LINES else []
    code = escape("\n".join([*text[:LINES], *more]))
    return [*map(paragraph, heads), *tables, f"<pre>{code}</pre>", *frames(list(front.sink))]


@_parts.register
def _(shown: MemoryMap) -> list[str]:
    return [paragraph(repr(shown)), *(space_section(s, step_clock(s.steps)) for s in shown.spaces)]


@_parts.register
def _(shown: ChainResult) -> list[str]:
    columns = ("stage", ">launches", ">cycles", ">us")
    rows = [
        (s.name, s.launches, f"{s.cycles:,}", f"{s.microseconds:,.2f}")
        if s.cycles is not None and s.microseconds is not None
        else (s.name, s.launches, "", "")
        for s in shown.stages
    ]
    return [paragraph(repr(shown)), html_table(columns, rows), *frames(shown.findings)]
