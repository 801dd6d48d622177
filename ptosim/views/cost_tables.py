"""The cost report as text: targets side by side, then tables of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from ptosim.ground.isa.costs import CONFIDENCES, error_of
from ptosim.launch.program import LoadedProgram
from ptosim.time.pipes.records import busy_until
from ptosim.time.pipes.steps import PIPES
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.error_bar import launch_range
from ptosim.time.report.figures import PipeUse, Use
from ptosim.time.report.launch_times import Between, rates_over_time
from ptosim.time.report.totals import CostReport, alike_cores, by_core, of_all
from ptosim.views.table import DOUBT, SHOWN, Part, Table, Text, number, table

# The cost report as pictures in text: a timeline of the pipes, the roofline, and hints.

NARROW, WIDTH = 24, 72
"""Columns of the timeline, at least and at most."""

SHADES = " ░▒▓█"
"""How much of a column's time a pipe is busy: not at all, up to a third, two thirds, less than all,
all."""


def timeline(report: CostReport, suffix: str, room: int) -> Table:
    """Return a row for each pipe of each core, equal cores in one: when it is busy; and how much of
    what L2 and HBM give all cores draw. The table fits into `room` columns."""
    alike = alike_cores(report)
    names = max((len(each.name) for each in alike), default=0)
    width = min(max(room - names - 12, NARROW), WIDTH)  # less the pipe, and what is between
    rows = [
        (each.name, PIPES[pipe], Text(lane(each.of, pipe, report.span, width), "cyan"))
        for each in alike
        for pipe in sorted({step.pipe for step in each.of.steps})
    ][:SHOWN]
    rates = rates_over_time(report, width).items()
    rows += [
        ("all", name, Text("".join(map(_shade, of)), "magenta")) for name, of in rates if any(of)
    ]
    columns = ("core", "pipe", _scale(report, width))
    return table(f"timeline{suffix}", columns, rows, essential=columns)


def _scale(report: CostReport, width: int) -> str:
    end = f"{report.span:,} cycles"
    each = f"0, a column is {report.span / width:,.0f} cycles"
    return f"{each}{end:>{max(width - len(each), 1)}}"


def lane(core: CoreTimer, pipe: int, total: int, width: int = WIDTH) -> str:
    """Return one pipe's busy time over the makespan, a character for each part of it."""
    busy = [0.0] * width
    each = max(total, 1) / width
    for start, end, times in core.stretches(pipe):
        last = end + sum(more * moved for more, moved in times)
        for column in range(int(start / each), min(int((last - 1) / each) + 1, width)):
            low, high = column * each - start, (column + 1) * each - start
            more = busy_until(high, end - start, times) - busy_until(low, end - start, times)
            busy[column] += more
    return "".join(_shade(b / each) for b in busy)


def _shade(share: float) -> str:
    if share <= 0:
        return SHADES[0]
    if share > 0.999:
        return SHADES[-1]
    return SHADES[1 + min(int(share * 3), 2)]


def roofline(report: CostReport, suffix: str) -> Table:
    """Return the units with their ceilings."""
    figures = ("ops/byte", "ridge", "ceiling", "attainable", "achieved")
    columns = ("unit", *(number(n, ",.2f") for n in figures), number("of it", ".0%"), "bound by")
    rows = []
    for roof in report.roofline:
        share = roof.achieved / roof.attainable if roof.attainable else 0.0
        numbers = (roof.intensity, roof.ridge, roof.ceiling, roof.attainable, roof.achieved)
        rows.append((roof.unit, *numbers, share, roof.bound))
    rows += _memory_roofs(report)
    title = f"roofline{suffix}: operations (ops) a cycle; ceilings are its own operations'"
    drop = ["ridge", "of it"]
    return table(title, columns, rows, essential=["unit"], drop=drop)


def _memory_roofs(report: CostReport) -> Iterator[tuple[object, ...]]:
    """The same of what all cores have in common, L2 and HBM: operations of the whole launch, in the
    time of its task without the head, which is not less than what either takes."""
    times, blocks = report.times, report.blocks
    work = report.work * (blocks.count if blocks.is_one_for_all else 1)
    took = times.device.us - times.head_us
    for name, moved, us in (
        ("L2", times.l2_bytes, times.l2_us),
        ("HBM", times.hbm_bytes, times.hbm_us),
    ):
        if moved and us:
            ops = (work / (us * report.mhz), work / (took * report.mhz)) if work else (None, None)
            drawn = f"{moved / took / 1e6:.2f} of {moved / us / 1e6:.2f} TB/s"
            yield name, work / moved, None, None, *ops, us / took, drawn


def hints(report: CostReport, suffix: str) -> Table:
    """Return what may not have to take its time."""
    rows = [
        (hint.kind, hint.line or "", hint.cycles, f"{hint.text}; {hint.cure}")
        for hint in report.hints[:SHOWN]
    ]
    columns = ("what", ">line", number("cycles at most"), "")
    return table(f"hints{suffix}", columns, rows or [("none",)], essential=["what"])


VIEWS = (
    "chain", "summary", "ops", "stages", "lines", "loops", "pipes", "timeline", "path", "roofline",
    "hints", "vector", "trust",
)  # fmt: skip
_OPERATIONS = 4
"""Operations of a law that are named."""
_WORTH = 0.001
"""By how much a bar has to be narrower to say so."""
MOST_LOOPS = 4
"""Loops of which the summary says that they repeat."""
BY = ("stage", "op", "line", "loop", "pipe")
_VIEW_OF_BY = {"stage": "stages", "op": "ops", "line": "lines", "loop": "loops", "pipe": "pipes"}

Maker = Callable[[CostReport, str], Table]
Timed = Sequence[tuple[LoadedProgram, CostReport]]


def renderables(
    timed: Timed,
    views: Sequence[str],
    by: str | None,
    what_if: Mapping[str, float],
    width: int,
    rejected: Mapping[str, str] = MappingProxyType({}),
) -> list[Part]:
    """Return the parts of the report that are asked for, for so many columns; `rejected` has the
    code by which a target refuses the program."""
    parts: list[Part] = []
    if what_if:
        changed = ", ".join(f"{k}={v:g}" for k, v in what_if.items())
        parts.append(Text(f"what if: {changed}", style="bold"))
    parts += [Text(f"figures: {r.table.overlay.title}") for _, r in timed if r.table.overlay]
    wanted = [*views, *([_VIEW_OF_BY[by]] if by else [])]
    reports = [report for _, report in timed]
    if "chain" in wanted:
        from ptosim.time.report.chains import chains
        from ptosim.views import cast_chains

        parts += cast_chains.renderables(chains(reports), width, rejected)
    if "summary" in wanted:
        parts += summary(reports)
    if "ops" in wanted and len(reports) > 1:
        parts.append(_side_by_side(reports))
        wanted.remove("ops")
    for report in reports:
        suffix = f", {report.label}" if len(reports) > 1 else ""
        tables = {**_TABLES, "timeline": partial(timeline, room=width)}
        parts += [
            tables[name](report, suffix) for name in VIEWS if name in wanted and name in tables
        ]
        if "path" in wanted:
            parts += map(Text, _waits(report, suffix))
        if "summary" not in wanted and {"timeline", "path"} & {*wanted}:
            parts += map(Text, _rounds(report, suffix))
        if "trust" in wanted:
            parts += trust([report], suffix)
        if "vector" in wanted or ("ops" in wanted and report.regions):
            parts += _vectors(report, suffix, whole="vector" in wanted)
    return parts


def trust(reports: Sequence[CostReport], suffix: str) -> list[Part]:
    """Return which laws carry the time, and which measurement would narrow the bar most."""
    from ptosim.time.report.error_bar import carriers

    found = carriers((r, r.error_bar) for r in reports)
    columns = ("law", number("cycles"), number("share", ".0%"), "operations", "known from",
               number("off by", ".0%"), number("bar after", ".1%"))  # fmt: skip
    rows = [
        (c.name, c.cycles, c.share, ", ".join(c.operations[:_OPERATIONS]) or "-",
         c.known_from, c.spread, c.after)
        for c in found
    ]  # fmt: skip
    title = f"trust{suffix}: laws on the critical path; measured first what narrows the bar most"
    made = table(title, columns, rows, essential=["law"], drop=["operations", "known from"])
    if not found or found[0].gain < _WORTH:
        return [made]
    first = found[0]
    told = (
        f"the bar is ±{first.width:.1%}; with {first.name} measured on a board ±{first.after:.1%}: "
        "`ptosim calibrate --from TABLE` takes what a profiler wrote"
    )
    return [made, Text(told)]


def _vectors(report: CostReport, suffix: str, *, whole: bool) -> list[Part]:
    from ptosim.views.vector_tables import logical, regions

    return [*logical(report, suffix), *(regions(report, suffix) if whole else ())]


def confidence(word: str) -> Text:
    """Return the confidence of a figure as a cell; the weakest has a sign."""
    return Text(f"{DOUBT} {word}", "yellow") if word == CONFIDENCES[-1] else Text(word)


def summary(reports: Sequence[CostReport]) -> list[Part]:
    """Return the totals, a column for each target, and what they leave out."""
    rows: list[tuple[str, Callable[[CostReport], object]]] = [
        ("cycles", lambda r: f"{r.cycles:,}"),
        ("error bar", lambda r: f"{r.error_bar.low:,} to {r.error_bar.high:,}"),
        ("time", time),
        ("launch, on top", launch),
        ("busiest pipe", lambda r: f"{r.bound} ({_share_of_bound(r):.0%})" if r.bound else "none"),
        ("lowest confidence", lambda r: confidence(r.confidence)),
        ("model error", lambda r: r.error_bar.verdict),
        ("of its operations", _error),
        ("error bar judged", lambda r: f"for {r.error_bar.judged:.0%} of the path"),
    ]
    columns = ["", *(f">{r.label}" for r in reports)]
    cells = [(label, *(text(r) for r in reports)) for label, text in rows]
    return [table("cost", columns, cells, essential=[""]), *remarks(reports)]


def remarks(reports: Sequence[CostReport]) -> list[Part]:
    """Return what the totals leave out, and what they are of."""
    parts: list[Part] = []
    if any(report.on_values for report in reports):
        parts.append(Text("data decide its path: timed on the values that its arguments have"))
    parts += [Text(_blocks(r)) for r in reports if r.blocks.count > 1]
    for report in reports:
        parts += map(Text, _rounds(report, f" on {report.label}" if len(reports) > 1 else ""))
        parts += unknown(report)
    return parts


def unknown(report: CostReport) -> list[Part]:
    """Return which operations are not in the total."""
    if not report.unknown:
        return []
    names = ", ".join(f"{n} ({count}x)" for n, count in report.unknown.items())
    return [Text(f"PTO6502: no cost law on {report.label}, not in the total: {names}")]


def time(report: CostReport) -> str:
    """Return the cycles as time; more where the bytes of the launch take longer than its cores."""
    us, least = report.microseconds, report.least_microseconds
    if least > us:
        return f"{least:,.2f} us (its cores {us:,.2f})"
    return f"{us:,.2f} us at {report.mhz:g} MHz"


def between(of: Between) -> str:
    """Return a time of a launch with its bar."""
    return f"{of.us:,.1f} us ({of.low:,.1f} to {of.high:,.1f})"


def limit(report: CostReport) -> str:
    """Return what takes longest in a launch, and the busiest pipe where that is in a core."""
    times = report.times
    busiest = re.sub(r"^block 0 |(?<=\d )block 0 (?:core )?", "", report.bound)
    return f"{times.limit}, {busiest}" if busiest else times.limit


def of_bound(report: CostReport) -> str:
    """Return how near a launch is to the least time that its bytes and operations need."""
    times = report.times
    least = max(times.bounds, key=lambda name: times.bounds[name], default="")
    if not times.bound_us:
        return "nothing to move"
    return f"{times.of_bound:.0%} ({times.bound_us:,.1f} us, {least})"


def launch(report: CostReport) -> str:
    """Return what a launch takes beside its cycles."""
    low, high = launch_range(report.table, report.blocks.at_once)
    between = f" ({low:.1f} to {high:.1f})" if low < high else ""
    return f"{report.launch_microseconds:.1f} us{between}"


def _blocks(report: CostReport) -> str:
    """How the blocks share the chip, and which of them were timed."""
    b = report.blocks
    waves = "1 wave" if b.waves == 1 else f"{b.waves:,} waves"
    said = f"{report.label}: {b.count:,} blocks, {b.at_once} at a time: {waves}"
    if b.is_one_for_all:
        return f"{said}; they do the same: one was timed, and the tables are of one"
    return f"{said}; each was timed" + (f": {b.differ}" if b.differ else "")


def _rounds(report: CostReport, where: str) -> Iterator[str]:
    """Say which rounds of loops were not executed because they repeat, and which were though they
    are many."""
    for r in report.repeats[:MOST_LOOPS]:
        each = f"each {r.rounds}" if r.rounds > 1 else "each"
        yield (
            f"loop at line {r.line}{where}: rounds {r.first:,} to {r.last:,} repeat, "
            f"{each} takes {r.cycles:,} cycles"
        )
    if len(report.repeats) > MOST_LOOPS:
        yield f"and {len(report.repeats) - MOST_LOOPS:,} more stretches of loops{where}"
    for line, why in report.in_full.items():
        loop = f"loop at line {line}" if line else "loops"
        yield f"PTO7560: {loop}{where}: every round was executed: {why}"


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
        return "not published"
    return f"{weighted / known:.1%} (of {known / total:.0%} of the cycles)"


def brief(report: CostReport) -> list[Part]:
    """Return the totals and the tables that follow the values of a run."""
    return [*summary([report]), _TABLES["ops"](report, ""), pipes(report, "")]


def _share_of_bound(report: CostReport) -> float:
    return max((p.share for p in report.pipes), default=0.0)


def operations(reports: Sequence[CostReport]) -> Table:
    """Return what each kind of operation costs, on one target or side by side."""
    return _side_by_side(reports) if len(reports) > 1 else _TABLES["ops"](reports[0], "")


def _side_by_side(reports: Sequence[CostReport]) -> Table:
    """Operations of all targets in one table; the last column compares first and last."""
    targets = [r.label for r in reports]
    columns = ("operation", ">count", *(f">{t} cycles" for t in targets),
               *(f">{t} us" for t in targets), ">ratio of us")  # fmt: skip
    by_name = [{u.name: u for u in r.ops} for r in reports]
    rows = []
    for name in dict.fromkeys(n for uses in by_name for n in uses):
        uses = [u.get(name) for u in by_name]
        times = [u.cycles / r.mhz if u else 0 for u, r in zip(uses, reports, strict=True)]
        counts = dict.fromkeys(str(u.count) if u else "-" for u in uses)
        cycles = (f"{u.cycles:,}" if u else "-" for u in uses)
        ratio = f"{times[0] / times[-1]:.2f}" if times[-1] else ""
        rows.append((name, "/".join(counts), *cycles, *(f"{t:.2f}" for t in times), ratio))
    drop = [f"{t} us" for t in targets]
    title = "by operation, if nothing overlapped"
    return table(title, columns, rows, essential=["operation"], drop=drop, shown=SHOWN)


USE_COLUMNS = ("pipe", ">count", ">cycles", ">share", "figures")
USE_DROP = ("share", "count", "pipe")
"""Columns of `USE_COLUMNS` that give way, the first one first."""


def use_row(use: Use) -> tuple[str, ...]:
    """Return the name of what was executed and the cells of `USE_COLUMNS`."""
    numbers = (f"{use.count:,}", f"{use.cycles:,}", f"{use.share:.1%}")
    return (use.name, use.pipe, *numbers, use.confidence)


def _uses(what: str, by: str, uses: Callable[[CostReport], Sequence[Use]]) -> Maker:
    """The table of what was executed, joined `by` something."""

    def make(report: CostReport, suffix: str) -> Table:
        title = f"by {by}, if nothing overlapped{suffix}"
        rows = [(*use_row(use)[:-1], confidence(use.confidence)) for use in uses(report)]
        essential = [what, "figures"]
        return table(
            title, (what, *USE_COLUMNS), rows, essential=essential, drop=USE_DROP, shown=SHOWN
        )

    return make


def _stages(report: CostReport, suffix: str) -> Table:
    shares = (number("count"), number("cycles", ",.0f"), number("share", ".1%"))
    columns = ("operation", "stage", *shares, "figures")
    rows = []
    previous = ""
    for r in report.stages:
        name, previous = r.op if r.op != previous else "", r.op
        rows.append(
            (name, r.stage, r.count, r.cycles, r.share, confidence(r.confidence))
        )  # fmt: skip
    return table(
        f"by stage{suffix}", columns, rows, essential=["operation", "figures"],
        drop=["share", "count"], shown=2 * SHOWN,
    )  # fmt: skip


PIPE_DROP = ("operations", "waits for (cycles)")
"""Columns of `PIPE_COLUMNS` that give way."""
PIPE_COLUMNS = ("core", "pipe", ">operations", ">busy", ">of all", "waits for (cycles)")


def pipe_row(use: PipeUse) -> tuple[str, ...]:
    """Return the cells of `PIPE_COLUMNS`; what a pipe waited for longest comes first."""
    stalls = sorted(use.stalls.items(), key=lambda s: -s[1])
    waits = ", ".join(f"{reason} {cycles:,}" for reason, cycles in stalls)
    numbers = (f"{use.operations:,}", f"{use.busy:,}", f"{use.share:.1%}")
    return (use.core, use.pipe, *numbers, waits)


def pipes(report: CostReport, suffix: str) -> Table:
    """Return the pipes of each core, equal cores in one row: cycles at work, and what they wait
    for."""
    alike = by_core(report.pipes, lambda use: use.core, _without_core)
    rows = [(of_all(report, name), *pipe_row(use)[1:]) for name, use in alike]
    return table(
        f"pipes{suffix}", PIPE_COLUMNS, rows, essential=["core", "pipe"], drop=PIPE_DROP,
        shown=SHOWN,
    )  # fmt: skip


def _without_core(use: PipeUse) -> tuple[object, ...]:
    return use.pipe, use.operations, use.busy, tuple(sorted(use.stalls.items()))


def _sharing(report: CostReport) -> int:
    """How many cores transfer at a time."""
    cores = len({core for step, _, core in report.executed if step.cost.moved is not None})
    blocks = report.blocks
    return cores * blocks.at_once // (1 if blocks.is_one_for_all else max(blocks.count, 1))


def path(report: CostReport, suffix: str) -> Table:
    """The critical path, joined by instruction, dearest first."""
    shares = (number("times"), number("cycles"), number("share", ".1%"))
    found, total = report.path_shares, max(report.span, 1)
    rows = [(r.op, r.line or "", r.pipe, r.count, r.cycles, r.cycles / total) for r in found]
    if any(r.shared for r in found):  # of what all cores share
        shares = (*shares, number("of it waits"))
        rows = [(*row, r.shared or "") for row, r in zip(rows, found, strict=True)]
    columns = ("operation", ">line", "pipe", *shares)
    title = f"critical path{suffix}: what the total consists of"
    return table(
        title, columns, rows, essential=["operation"], drop=["times", "share"], shown=SHOWN
    )


def _waits(report: CostReport, suffix: str) -> Iterator[str]:
    """Say how long the path waits for what all cores share, and the launch after it."""
    times, by = report.times, f"(shared by {_sharing(report)} cores)"
    of_path = sum(r.shared for r in report.path_shares)
    if of_path:
        yield f"waits for HBM {by}{suffix}: {of_path:,} of {report.span:,} cycles of the path"
    us, name, moved = max(
        (times.hbm_us, "HBM", times.hbm_bytes), (times.l2_us, "L2", times.l2_bytes)
    )
    more = times.device.us - times.head_us - times.core_us
    if us > times.core_us and more > 0:
        yield (
            f"waits for {name} {by}{suffix}: {more:,.1f} us more than the cores take: "
            f"{moved / 1e6:,.1f} MB at {moved / us / 1e6:.2f} TB/s"
        )


_TABLES: dict[str, Maker] = {
    "ops": _uses("operation", "operation", lambda r: r.ops),
    "stages": _stages,
    "lines": _uses("line", "line", lambda r: r.lines),
    "loops": _uses("loop", "innermost loop", lambda r: r.loops),
    "pipes": pipes,
    "path": path,
    "roofline": roofline,
    "hints": hints,
}
