"""A page on the quantising steps of a program or a model: table, and what elements differ for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ptosim.ground.records import dataclass
from ptosim.views.charts.axis import Axis
from ptosim.views.charts.lanes import Lane, Span, lanes
from ptosim.views.charts.page import html_table, items, page, section


@dataclass(frozen=True, slots=True)
class Row:
    """A step against one system: its elements, and how many differ by cause."""

    step: str
    system: str
    elements: int
    causes: Mapping[str, int]


def audit_page(
    title: str,
    told: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[object]],
    rows: Sequence[Row],
) -> str:
    """Return an HTML page; `columns` and `cells` are those of the table."""
    parts = [
        section("Steps", items(told)),
        section("Differences", html_table(columns, cells) if cells else ""),
        section("Causes", _causes(rows)),
    ]
    return page(title, parts, head="every figure is of the values that the steps were given")


def _causes(rows: Sequence[Row]) -> str:
    """A bar for each step and system: the share of its elements that differ, by cause."""
    shown = [row for row in rows if any(row.causes.values())]
    if not shown:
        return ""
    names = [c for c in shown[0].causes if any(row.causes[c] for row in shown)]
    lines: list[Lane] = []
    top = 0.0
    for step in dict.fromkeys(row.step for row in shown):
        lines.append(Lane(step, None))
        for row in (r for r in shown if r.step == step):
            spans = _spans(row, names)
            top = max(top, spans[-1].end)
            lines.append(Lane(row.system, spans))
    keys = [(name, number) for number, name in enumerate(names)]
    return lanes(
        "elements that differ", Axis("share of the elements", 0, top, "%"), lines, keys=keys
    )


def _spans(row: Row, names: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    at = 0.0
    for series, name in enumerate(names):
        count = row.causes[name]
        if count:
            size = 100 * count / row.elements
            spans.append(Span(at, at + size, f"{name}: {count:,} of {row.elements:,}", series))
            at += size
    return spans
