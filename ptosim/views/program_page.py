"""The sections of a page on a program: verdict, findings, values, time, memory, accuracy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import Diagnostic, ProgramError
from ptosim.ground.records import NamedTuple, dataclass, field, replace
from ptosim.ground.source import Source
from ptosim.launch.compare import Comparison
from ptosim.launch.program import LoadedProgram
from ptosim.time.report.chains import chains as chains_of
from ptosim.time.report.totals import CostReport
from ptosim.views import cast_chains, cost_screen, cost_tables
from ptosim.views.cost_pictures import listing, rates, roofline, series_of, time_axis, timeline
from ptosim.views.frames import count_line
from ptosim.views.memory_map import Clock, level, tile_lanes
from ptosim.views.report import Figure, Frames, Lines, Pair, Part, Section, Verbatim
from ptosim.views.table import DOUBT, FAIL, PASS, Column, Table, Text, number, table

if TYPE_CHECKING:
    from ptosim.launch.analysis.memory_map import MemoryMap

# What is known of a program: whoever makes a page fills it in; what is missing is left out.


@dataclass(slots=True)
class Timed:
    """A program that was timed on a target, and its arguments; those of them that nobody gave."""

    program: LoadedProgram
    cost: CostReport
    args: Mapping[str, Any] = field(default_factory=dict)
    chosen: Mapping[str, int] = field(default_factory=dict)
    _memory: list[MemoryMap | None] = field(default_factory=list)

    @property
    def memory(self) -> MemoryMap | None:
        """Its memory over cycles; None without tiles. It is followed for that once."""
        if not self._memory:
            from ptosim.launch.analysis.memory_map import in_cycles, memory_map

            steps = memory_map(self.program.front, self.program.profile, self.cost.entry, self.args)
            self._memory.append(in_cycles(steps, self.cost) if steps.spaces else None)
        return self._memory[0]


@dataclass(slots=True)
class Known:
    """What is known of a program: findings, values of a run and how they compare, its times, who
    rejects it, and what stopped it."""

    findings: list[Diagnostic] = field(default_factory=list)
    values: Sequence[Part] = ()
    compared: Sequence[Comparison] | None = None
    timed: list[Timed] = field(default_factory=list)
    rejected: dict[str, ProgramError] = field(default_factory=dict)
    stopped: ProgramError | None = None

    @property
    def reports(self) -> list[CostReport]:
        """What it costs on each target."""
        return [t.cost for t in self.timed]

    @property
    def codes(self) -> dict[str, str]:
        """The code of the first finding of each target that rejects the program."""
        return {target: found.diagnostics[0].code for target, found in self.rejected.items()}


def checked(files: Sequence[tuple[Source, str, Sequence[Diagnostic]]]) -> list[Section]:
    """Return what a check says of each file (once for each target that was asked for): its line,
    the text with findings below their lines, and each finding with its frame."""
    sources = list(dict.fromkeys(source for source, _, _ in files))
    parts: list[Section] = []
    for at, source in enumerate(sources):
        own = [one for one in files if one[0] == source]
        found = [*{str((d.code, d.message, d.span)): d for one in own for d in one[2]}.values()]
        lines: list[Part] = [Text(line) for one in own for line in one[1].splitlines()]
        worst = max((d.severity for d in found), default=None)
        sign, style = _sign(worst.word) if worst is not None else (PASS, "green")
        told = count_line(found) if found else "no findings"
        lines.append(Text(f"{sign} {told}", style))
        if any(d.span is not None for d in found):
            lines.append(listing(source, (), found, f"{PROGRAM}-{at}"))
        frames = [Frames(found)] if found else []
        if len(sources) == 1:
            return [Section("Verdict", lines), Section("Findings", frames)]
        parts.append(Section(source.label, [*lines, *frames]))
    return parts


def _sign(word: str) -> tuple[str, str]:
    """The sign and the colour of a severity."""
    style = {"error": "red", "warning": "yellow"}.get(word, "dim")
    return {"red": FAIL, "yellow": DOUBT}.get(style, "·"), style


def sections(
    known: Known, heads: Sequence[str], command: str, *, chains: bool = False
) -> list[Section]:
    """Return the sections; with `chains` there is one for each cast chain. What one decides by
    comes first, tables that are looked up are folded."""
    found = chains_of(known.reports) if chains else []
    each = known.timed
    return [
        Section("Verdict", lambda _: verdict(known)),
        Section("Hints", lambda _: _hints(known)),
        Section("Program", lambda _: program(known)),
        Section("Findings", lambda _: [Frames(known.findings)] if known.findings else []),
        Section("Values", known.values),
        *(Section(*cast_chains.figures(chain, known.codes)) for chain in found),
        *(Section(f"Memory, {t.cost.label}", lambda _, t=t: _memory(known, t)) for t in each),
        Section("Roofline", lambda _: _roofs(known)),
        Section("Operations", lambda _: _operations(known), folded=True),
        Section("Pipes", lambda _: _pipes(known), folded=True),
        Section("Critical path", lambda _: _paths(known), folded=True),
        Section("Stages", lambda _: _stages(known), folded=True),
        Section("Accuracy", lambda _: _accuracy(known), folded=True),
        Section(
            "How this page was made",
            [Verbatim(command), Lines([f"ptosim {__version__}", *dict.fromkeys(heads)])],
            folded=True,
        ),
    ]


# -- verdict ---------------------------------------------------------------------------------------


def verdict(known: Known) -> Iterator[Part]:
    """Yield the lines that one decides by, each with its sign, and what limits the time."""
    for target, problem in known.rejected.items():
        yield Text(f"{FAIL} {target} rejects the program: {problem}", "red")
    if known.stopped is not None:
        yield Text(f"{FAIL} the run stopped: {known.stopped}", "red")
    if known.compared is not None:
        yield _compared(known.compared)
    worst = max((d.severity for d in known.findings), default=None)
    if worst is not None:
        sign, style = _sign(worst.word)
        yield Text(f"{sign} {count_line(known.findings)}", style)
    elif not known.rejected and known.stopped is None:
        yield Text(f"{PASS} no findings", "green")
    yield from (Text(_cycles(cost)) for cost in known.reports)
    if known.reports:
        yield cost_screen.facts(known.reports)
        yield from cost_tables.remarks(known.reports)


def _compared(comparisons: Sequence[Comparison]) -> Text:
    wrong = [c.name for c in comparisons if not c.passed]
    if wrong:
        return Text(f"{FAIL} {', '.join(wrong)}: not what is expected", "red")
    if comparisons:
        some = f"{len(comparisons)} output{'s' if len(comparisons) > 1 else ''}"
        return Text(f"{PASS} {some} as expected", "green")
    return Text("the run came to its end; nothing was expected of its outputs")


def _cycles(cost: CostReport) -> str:
    busiest = f", busiest {cost.bound}" if cost.bound else ""
    sign = f"{DOUBT} " if cost.confidence == "assumed" else ""
    return (
        f"{cost.label}: {cost.cycles:,} cycles, {cost_tables.time(cost)}"
        f"{busiest}; figures at least {sign}{cost.confidence}"
    )


# -- time ------------------------------------------------------------------------------------------


def _operations(known: Known) -> list[Part]:
    return [cost_tables.operations(known.reports)] if known.reports else []


def _pipes(known: Known) -> list[Part]:
    return [cost_tables.pipes(cost, _suffix(known, cost)) for cost in known.reports]


def _paths(known: Known) -> list[Part]:
    return [cost_tables.path(cost, _suffix(known, cost)) for cost in known.reports]


def _suffix(known: Known, cost: CostReport) -> str:
    return f", {cost.label}" if len(known.timed) > 1 else ""


def _stages(known: Known) -> list[Part]:
    """One table of the stages of all targets."""
    reports = known.reports
    if not reports:
        return []
    rows: dict[tuple[str, str], list[object]] = {}
    for at, report in enumerate(reports):
        for use in report.stages:
            empty: list[object] = ["-"] * (2 * len(reports))
            row = rows.setdefault((use.op, use.stage), empty)
            row[2 * at : 2 * at + 2] = [use.cycles, use.confidence]
    columns: list[str | Column] = ["operation", "stage"]
    for report in reports:
        columns += [number(f"{report.label} cycles", ",.0f"), f"{report.label} figures"]
    names = list(dict.fromkeys(op for op, _ in rows))  # the stages of an operation together
    cells = sorted(rows.items(), key=lambda row: names.index(row[0][0]))
    made = table(
        "cycles of each stage, if nothing overlapped", columns, [(*k, *v) for k, v in cells],
        drop=[f"{r.label} figures" for r in reports],
    )  # fmt: skip
    return [made]


PROGRAM, GROUP = "program", "cycles"
"""Names of the listing, and of the figures that show the same part of time."""


def program(known: Known, name: str = PROGRAM) -> list[Part]:
    """Return the text with what each line costs and the timelines of all targets, on one scale;
    figures of another `name` move by themselves."""
    reports = known.reports
    source = next(
        (t.program.front.source for t in known.timed),
        next((d.span.source for d in known.findings if d.span is not None), None),
    )
    if source is None:
        return []
    series, axis = series_of(reports), time_axis(reports)
    group = GROUP if name == PROGRAM else name
    return [
        listing(source, reports, known.findings, name),
        *(
            part
            for report in reports
            for part in (timeline(report, group, series, axis, name), *rates(report, axis))
        ),
    ]


def _roofs(known: Known) -> list[Part]:
    drawn: list[Figure] = [picture for cost in known.reports for picture in roofline(cost)]
    return [Pair(drawn)] if len(drawn) > 1 else [*drawn]


def _memory(known: Known, timed: Timed) -> list[Part]:
    if timed.memory is None:
        return []
    clock = Clock(time_axis(known.reports), lambda step: float(step - 1))
    parts: list[Part] = []
    for space in timed.memory.spaces:
        parts += [Text(f"{FAIL} {line}", "red") for line in space.advice()]
        parts += [level(space, clock), tile_lanes(space, clock, GROUP, PROGRAM)]
    return parts


# -- two programs beside each other ----------------------------------------------------------------


class Beside(NamedTuple):
    """One of several programs (or targets) that are looked at together: what it is called, its
    program, its time, its findings."""

    name: str
    program: LoadedProgram
    cost: CostReport
    findings: Sequence[Diagnostic] = ()


def beside(shown: Sequence[Beside]) -> list[Section]:
    """Return what they take in one table, their texts beside each other, each with what its lines
    cost, and their timelines on one scale, which move together. Of one text there is one."""
    reports = [one.cost for one in shown]
    series, axis = series_of(reports), time_axis(reports)
    texts = list(dict.fromkeys(one.program.front.source.text for one in shown))
    parts: list[Figure | Text] = []
    for at, text in enumerate(texts):
        own = [one for one in shown if one.program.front.source.text == text]
        findings = {str((d.code, d.message, d.span)): d for one in own for d in one.findings}
        source = own[0].program.front.source
        names = [one.name for one in own]
        made = listing(
            source, [o.cost for o in own], [*findings.values()], f"{PROGRAM}-{at}", names
        )
        parts.append(made)
    lanes = [
        replace(
            timeline(
                one.cost, GROUP, series, axis,
                f"{PROGRAM}-{texts.index(one.program.front.source.text)}",
            ),
            title=f"timeline of {one.name}",
        )
        for one in shown
    ]  # fmt: skip
    return [
        Section("Time", [cost_screen.facts(reports, (), [one.name for one in shown])]),
        Section("Programs", [Pair(parts) if len(parts) > 1 else parts[0], *lanes]),
    ]


# -- hints and accuracy ----------------------------------------------------------------------------


def _hints(known: Known) -> list[Table]:
    return [cost_tables.hints(c, _suffix(known, c)) for c in known.reports if c.hints]


def _accuracy(known: Known) -> list[Part]:
    rows = [
        (cost.label, name, *_errors(error))
        for cost in known.reports
        for name, error in cost.accuracy.items()
    ]
    if not rows:
        return []
    percent = (number("mean error", ".1%"), number("worst", ".1%"))
    columns = ("target", "class of operations", number("points", "d"), *percent)
    note = "errors of single operations against published points; `ptosim help accuracy`"
    return [
        *cost_tables.summary(known.reports)[:1],
        table("", columns, rows, drop=["points"]),
        Text(note, "dim"),
    ]


def _errors(error: Mapping[str, Any] | None) -> Sequence[object]:
    if error is None:
        return (None, "not published", None)
    return (error["points"], error["mean"], error["worst"])
