"""What a program costs on one screen: all targets in one table (totals, what limits them, pipes,
the dearest stages), the hints that gain most, and what a changed figure makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap

from ptosim.time.report.chains import chains
from ptosim.time.report.hints import Hint
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_tables
from ptosim.views.table import Part, Table, Text, number, table

STAGES, HINTS, CHANGED = 3, 3, 8
"""Rows of stages and hints; stages of which a changed figure is shown."""
_LEAST = 0.04
"""Share below which a pipe is no row."""


def screen(reports: Sequence[CostReport], width: int) -> list[Part]:
    """Return the report in so many columns: of 80 in some 30 lines, for any number of targets."""
    rows = [(f"{pipe} at work", *cells) for pipe, cells in _pipes(reports)]
    rows += [(name, *cells) for name, cells in _stages(reports)]
    parts: list[Part] = [facts(reports, rows)]
    parts += cost_tables.remarks(reports)
    parts += [Text(line) for line in _hints(reports, width)]
    more = "chain, " if chains(reports) else ""
    views = f"more: --view {more}ops, stages, lines, pipes, timeline, path, roofline, trust"
    return [*parts, Text(views)]


_FACTS: Mapping[str, Callable[[CostReport], object]] = {
    "cycles": lambda r: f"{r.cycles:,}",
    "error bar": lambda r: f"{r.error_bar.low:,} to {r.error_bar.high:,}",
    "time": cost_tables.time,
    "as a task": lambda r: cost_tables.between(r.times.device),
    "launches in a row": lambda r: cost_tables.between(r.times.back_to_back),
    "eager call": lambda r: cost_tables.between(r.times.wall),
    "limited by": cost_tables.limit,
    "of the bound": cost_tables.of_bound,
    "lowest confidence": lambda r: cost_tables.confidence(r.confidence),
}


def facts(
    reports: Sequence[CostReport],
    more: Sequence[Sequence[object]] = (),
    names: Sequence[str] = (),
) -> Table:
    """Return what a launch takes and what limits it, a column for each target (with these `names`),
    and `more` rows."""
    columns = ["", *(f">{name}" for name in names or [r.label for r in reports])]
    rows = [(name, *(text(r) for r in reports)) for name, text in _FACTS.items()]
    return table("cost", columns, [*rows, *more], essential=[""])


def _pipes(reports: Sequence[CostReport]) -> Iterator[tuple[str, list[str]]]:
    """Each pipe with its share of the time on each target: that of the core where it is largest."""
    shares: dict[str, dict[int, float]] = {}
    for at, report in enumerate(reports):
        for use in report.pipes:
            of_pipe = shares.setdefault(use.pipe, {})
            of_pipe[at] = max(of_pipe.get(at, 0.0), use.share)
    for pipe, found in sorted(shares.items(), key=lambda each: -max(each[1].values())):
        if max(found.values()) >= _LEAST:
            yield pipe, [f"{found[at]:.0%}" if at in found else "-" for at in range(len(reports))]


def _stages(reports: Sequence[CostReport]) -> Iterator[tuple[str, list[str]]]:
    """The stages with the largest share on some target."""
    cells: dict[tuple[str, str], dict[int, tuple[float, float]]] = {}
    for at, report in enumerate(reports):
        for use in report.stages:
            known = cells.setdefault((use.op, use.stage), {})
            cycles, share = known.get(at, (0.0, 0.0))
            known[at] = (cycles + use.cycles, share + use.share)
    dearest = sorted(cells.items(), key=lambda each: -max(s for _, s in each[1].values()))
    for (op, stage), found in dearest[:STAGES]:
        told = (found.get(at) for at in range(len(reports)))
        yield f"{op}: {stage}", [f"{c[0]:,.0f} ({c[1]:.0%})" if c else "-" for c in told]


def _hints(reports: Sequence[CostReport], width: int) -> list[str]:
    """The hints that gain most, each once with what it gains at most on each target."""
    groups: dict[tuple[str, int, str], list[tuple[float, str, Hint]]] = {}
    for report in reports:
        for hint in report.hints:
            gain = (hint.cycles / max(report.span, 1), report.label, hint)
            groups.setdefault((hint.kind, hint.line, hint.cure), []).append(gain)
    found = sorted(groups.values(), key=lambda gains: -max(share for share, _, _ in gains))
    lines = ["hints"] if found else []
    for gains in found[:HINTS]:
        told = ", ".join(f"{label} {h.cycles:,} ({share:.0%})" for share, label, h in gains)
        _, _, hint = max(gains, key=lambda gain: gain[0])
        where = f"line {hint.line}, " if hint.line else ""
        text = f"- {where}cycles at most: {told}: {hint.text}; {hint.cure}"
        lines += wrap(text, width, subsequent_indent="  ", break_long_words=False)
    if len(found) > HINTS:
        lines.append(f"  {len(found) - HINTS} more: --view hints")
    return lines


# -- what if ---------------------------------------------------------------------------------------


def compared(base: CostReport, new: CostReport, suffix: str) -> Part:
    """Return base, new and difference: of the whole, and of the stages that change most."""
    columns = ("", number("base", ",.0f"), number("new", ",.0f"), number("difference", "+,.0f"),
               number("%", "+,.1%"))  # fmt: skip
    rows = [_change("cycles", base.cycles, new.cycles)]
    for word in ("low", "high"):
        bars = (getattr(r.error_bar, word) for r in (base, new))
        rows.append(_change(f"error bar, {word}", *bars))
    for name, of in (("us", lambda r: r.least_microseconds), ("us as a task", _as_a_task)):
        times = (of(base), of(new))
        rows.append((name, *(f"{t:,.2f}" for t in times), f"{times[1] - times[0]:+,.2f}",
                     times[1] / times[0] - 1 if times[0] else None))  # fmt: skip
    before, after = _by_stage(base), _by_stage(new)
    names = sorted(
        {*before, *after}, key=lambda n: (-abs(after.get(n, 0.0) - before.get(n, 0.0)), n)
    )
    changed = [n for n in names if before.get(n, 0.0) != after.get(n, 0.0)]
    rows += [_change(n, before.get(n, 0.0), after.get(n, 0.0)) for n in changed[:CHANGED]]
    return table(f"what if{suffix}", columns, rows, essential=["", "new", "difference"])


def _as_a_task(report: CostReport) -> float:
    return report.times.device.us


def _by_stage(report: CostReport) -> dict[str, float]:
    found: dict[str, float] = {}
    for use in report.stages:
        name = f"{use.op}: {use.stage}"
        found[name] = found.get(name, 0.0) + use.cycles
    return found


def _change(name: str, base: float, new: float) -> tuple[object, ...]:
    return name, base, new, new - base, (new - base) / base if base else None
