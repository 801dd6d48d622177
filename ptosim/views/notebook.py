"""Results as a notebook shows them: a verdict, the tables that matter, the pictures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

from ptosim.ground.diagnostics.model import Diagnostic, Findings
from ptosim.launch.analysis.memory_map import MemoryMap
from ptosim.launch.chain.runner import ChainResult
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Result
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_tables
from ptosim.views.cost_pictures import rates, roofline, series_of, timeline
from ptosim.views.frames import count_line
from ptosim.views.header import header_fields, header_line
from ptosim.views.memory_map import space_section
from ptosim.views.render import fragment
from ptosim.views.report import Frames, Part, Section, Verbatim
from ptosim.views.run_report import values
from ptosim.views.table import Text, number, table

LINES = 12
"""Lines of a program that are shown."""


def html_of(shown: object) -> str:
    """Return an object as HTML for a notebook."""
    return fragment(_sections(shown))


def _shape(shape: Sequence[int | None] | None) -> str:
    return "x".join("?" if size is None else str(size) for size in shape or ())


def _sections(shown: object) -> list[Section]:
    if isinstance(shown, MemoryMap):
        pictures = [space_section(space, space.steps) for space in shown.spaces]
        return [Section("", [Text(repr(shown))]), *pictures]
    return [Section("", _parts(shown))]


@singledispatch
def _parts(shown: object) -> list[Part]:
    return [Text(repr(shown))]


@_parts.register
def _(shown: Diagnostic) -> list[Part]:
    return [Frames([shown])]


@_parts.register
def _(shown: Findings) -> list[Part]:
    return [Text(count_line(shown)), Frames(shown)]


@_parts.register
def _(shown: Result) -> list[Part]:
    prints = [Verbatim("".join(shown.prints))] if shown.prints else []
    cost = _parts(shown.cost) if shown.cost is not None else ()
    return [Text(repr(shown)), *values(shown, ()), *prints, Frames(shown.findings), *cost]


@_parts.register
def _(shown: CostReport) -> list[Part]:
    return [
        *cost_tables.summary([shown]),
        cost_tables.operations([shown]),
        timeline(shown, "", series_of([shown])),
        *rates(shown),
        *roofline(shown),
        *([cost_tables.hints(shown, "")] if shown.hints else ()),
    ]


@_parts.register
def _(shown: LoadedProgram) -> list[Part]:
    front = shown.front
    head = header_line(header_fields(shown, shown.profile, ", ".join(shown.entries)))
    tables = [
        table(
            f"@{entry}",
            ("argument", "kind", "type", "shape"),
            [(a.name, a.kind, a.dtype, _shape(a.shape)) for a in shown.signature(entry)],
        )
        for entry in shown.entries
    ]
    text = front.source.text.strip().splitlines()
    more = [f"… {len(text) - LINES} more lines"] if len(text) > LINES else []
    code = Verbatim("\n".join([*text[:LINES], *more]))
    return [Text(head), *tables, code, Frames(list(front.sink))]


@_parts.register
def _(shown: ChainResult) -> list[Part]:
    columns = ("stage", number("launches"), number("cycles"), number("us", ",.2f"))
    rows = [(s.name, s.launches, s.cycles, s.microseconds) for s in shown.stages]
    return [Text(repr(shown)), table("", columns, rows), Frames(shown.findings)]
