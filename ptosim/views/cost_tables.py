"""The cost report as text: targets side by side, then tables of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ptosim.ground.isa.costs import error_of
from ptosim.run.program import Program
from ptosim.timing.report.totals import CostReport, Use
from ptosim.views.vector_tables import regions

VIEWS = (
    "summary", "ops", "stages", "lines", "loops", "pipes", "timeline", "path", "roofline", "hints",
    "vector",
)  # fmt: skip
DEFAULT_VIEWS = ("summary", "ops", "stages", "pipes", "timeline", "path", "roofline", "hints")
BY = ("stage", "op", "line", "loop", "pipe")
SHOWN = 24
"""Lines of a table that are shown; what is left out is counted."""

_VIEW_OF_BY = {"stage": "stages", "op": "ops", "line": "lines", "loop": "loops", "pipe": "pipes"}

Timed = Sequence[tuple[Program, CostReport]]


def renderables(
    timed: Timed, views: Sequence[str], by: str | None, what_if: Mapping[str, float]
) -> list[Any]:
    """Return the parts of the report that are asked for."""
    from ptosim.views.run_report import header, header_line

    parts: list[Any] = [
        Text(header_line(header(program, report.entry)), style="bold") for program, report in timed
    ]
    if what_if:
        changed = ", ".join(f"{k}={v:g}" for k, v in what_if.items())
        parts.append(Text(f"what if: {changed}", style="bold"))
    wanted = [*views, *([_VIEW_OF_BY[by]] if by else [])]
    reports = [report for _, report in timed]
    if "summary" in wanted:
        parts += summary(reports)
    if "ops" in wanted and len(reports) > 1:
        parts.append(_side_by_side(reports))
        wanted.remove("ops")
    for report in reports:
        suffix = f", {report.label}" if len(reports) > 1 else ""
        tables = {**_TABLES, **_pictures()}
        parts += [
            tables[name](report, suffix) for name in VIEWS if name in wanted and name in tables
        ]
        if "vector" in wanted:
            parts += regions(report, suffix)
    return parts


def summary(reports: Sequence[CostReport]) -> list[Any]:
    """Return the totals, a column for each target, and what they leave out."""
    made = table("cost", [("", "left"), *((r.label, "right") for r in reports)])
    rows: list[tuple[str, Callable[[CostReport], str]]] = [
        ("cycles", lambda r: f"{r.cycles:,}"),
        ("time", lambda r: f"{r.microseconds:,.2f} us at {r.mhz:g} MHz"),
        ("launch, on top", lambda r: f"{r.launch_microseconds:g} us"),
        ("busiest pipe", lambda r: f"{r.bound} ({_share_of_bound(r):.0%})" if r.bound else "none"),
        ("weakest figure", lambda r: r.confidence),
        ("error of the laws", _error),
    ]
    for label, text in rows:
        made.add_row(label, *(text(r) for r in reports))
    parts: list[Any] = [made]
    for report in reports:
        if report.unknown:
            names = ", ".join(f"{n} ({count}x)" for n, count in report.unknown.items())
            parts.append(Text(f"PTO6502: no cost law on {report.label}, not in the total: {names}"))
    return parts


def _error(report: CostReport) -> str:
    """The mean error of the classes of operations that were executed, weighted by their cycles."""
    known = total = weighted = 0.0
    for use in report.ops:
        total += use.cycles
        error = error_of(report.target, use.class_name)
        if error is not None:
            known += use.cycles
            weighted += use.cycles * error.mean
    if known < 0.005 * total or not known:
        return "nothing published"
    return f"{weighted / known:.1%} (of {known / total:.0%} of the cycles)"


def brief(report: CostReport) -> list[Any]:
    """Return the totals and the tables that stand behind the values of a run."""
    return [*summary([report]), _ops(report, ""), _pipes(report, "")]


def _share_of_bound(report: CostReport) -> float:
    return max((p.share for p in report.pipes), default=0.0)


def _side_by_side(reports: Sequence[CostReport]) -> Table:
    """Operations of all targets in one table; the last column compares first and last."""
    columns = [("operation", "left"), ("count", "right")]
    columns += [(f"{r.label} cycles", "right") for r in reports]
    columns += [(f"{r.label} us", "right") for r in reports]
    columns.append(("ratio of us", "right"))
    made = table("by operation, if nothing overlapped", columns)
    by_name = [{u.name: u for u in r.ops} for r in reports]
    names = list(dict.fromkeys(n for uses in by_name for n in uses))
    for name in names[:SHOWN]:
        uses = [u.get(name) for u in by_name]
        times = [u.cycles / r.mhz if u else 0 for u, r in zip(uses, reports, strict=True)]
        ratio = f"{times[0] / times[-1]:.2f}" if times[-1] else ""
        made.add_row(
            name,
            "/".join(dict.fromkeys(str(u.count) if u else "-" for u in uses)),
            *(f"{u.cycles:,}" if u else "-" for u in uses),
            *(f"{t:.2f}" for t in times),
            ratio,
        )
    _rest(made, names)
    return made


def _uses(title: str, what: str, rows: Sequence[Use]) -> Table:
    columns = (
        (what, "left"), ("pipe", "left"), ("count", "right"), ("cycles", "right"),
        ("share", "right"), ("figures", "left"),
    )  # fmt: skip
    made = table(title, columns)
    for use in rows[:SHOWN]:
        share = f"{use.share:.1%}"
        count = f"{use.count:,}"
        made.add_row(use.name, use.pipe, count, f"{use.cycles:,}", share, use.confidence)
    _rest(made, rows)
    return made


def _rest(made: Table, rows: Sequence[Any], shown: int = SHOWN) -> None:
    if len(rows) > shown:
        made.add_row(f"… and {len(rows) - shown} more")


def _ops(report: CostReport, suffix: str) -> Table:
    return _uses(f"by operation, if nothing overlapped{suffix}", "operation", report.ops)


def _lines(report: CostReport, suffix: str) -> Table:
    return _uses(f"by line, if nothing overlapped{suffix}", "line", report.lines)


def _loops(report: CostReport, suffix: str) -> Table:
    return _uses(f"by innermost loop, if nothing overlapped{suffix}", "loop", report.loops)


def _stages(report: CostReport, suffix: str) -> Table:
    columns = (
        ("operation", "left"), ("stage", "left"), ("count", "right"), ("cycles", "right"),
        ("share", "right"), ("figures", "left"),
    )  # fmt: skip
    made = table(f"by stage{suffix}", columns)
    previous = ""
    for row in report.stages[: 2 * SHOWN]:
        name = row.op if row.op != previous else ""
        previous = row.op
        made.add_row(
            name, row.stage, f"{row.count:,}", f"{row.cycles:,.0f}", f"{row.share:.1%}",
            row.confidence,
        )  # fmt: skip
    _rest(made, report.stages, 2 * SHOWN)
    return made


def _pipes(report: CostReport, suffix: str) -> Table:
    columns = (
        ("core", "left"), ("pipe", "left"), ("operations", "right"), ("busy", "right"),
        ("of all", "right"), ("waits for (cycles)", "left"),
    )  # fmt: skip
    made = table(f"pipes{suffix}", columns)
    for use in report.pipes[:SHOWN]:
        stalls = sorted(use.stalls.items(), key=lambda s: -s[1])
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in stalls)
        made.add_row(
            use.core, use.pipe, f"{use.operations:,}", f"{use.busy:,}", f"{use.share:.1%}", reasons
        )
    _rest(made, report.pipes)
    return made


def _path(report: CostReport, suffix: str) -> Table:
    """The critical path, joined by instruction, dearest first."""
    columns = (
        ("operation", "left"), ("line", "right"), ("pipe", "left"), ("times", "right"),
        ("cycles", "right"), ("share", "right"),
    )  # fmt: skip
    made = table(f"critical path{suffix}: what the total consists of", columns)
    rows = report.path_shares
    for row in rows[:SHOWN]:
        share = f"{row.cycles / max(report.cycles, 1):.1%}"
        line = str(row.line or "")
        made.add_row(row.op, line, row.pipe, f"{row.count:,}", f"{row.cycles:,}", share)
    _rest(made, rows)
    return made


_TABLES: dict[str, Callable[[CostReport, str], Table]] = {
    "ops": _ops,
    "stages": _stages,
    "lines": _lines,
    "loops": _loops,
    "pipes": _pipes,
    "path": _path,
}


def _pictures() -> dict[str, Callable[[CostReport, str], Any]]:
    from ptosim.views import cost_pictures

    return {
        "timeline": cost_pictures.timeline,
        "roofline": cost_pictures.roofline,
        "hints": cost_pictures.hints,
    }


def table(title: str, columns: Sequence[tuple[str, str]]) -> Table:
    """Return an empty table; a column is its name and its justification."""
    made = Table(
        title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False
    )
    for name, justify in columns:
        made.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    return made
