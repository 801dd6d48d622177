"""Cast chains side by side: a row for each stage of either target, in a table, as a picture of
bars, and on a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ptosim.time.report.chains import Cell, Chain, ChainRow
from ptosim.views.report import Part as SectionPart
from ptosim.views.table import Part, Table, Text, table

if TYPE_CHECKING:
    from ptosim.views.charts.lanes import Span

SHOWN = 3
"""Chains that are shown whole; of more the rest is counted."""

SHARE = "*"
"""Marks cycles that are a share of a pipelined loop."""

_NOTE = f"{SHARE} a share of one pipelined loop, whose stages go on at the same time"
_COUNTS = (
    "instr: instructions executed; of: repeats of 256 bytes that they process (a2a3), iterations "
    "of the loop (a5)"
)
_BAR, _PART = "█", "▏▎▍▌▋▊▉"


def renderables(chains: Sequence[Chain], room: int, rejected: Mapping[str, str]) -> list[Part]:
    """Return the tables and pictures of chains, for so many columns; `rejected` has the code by
    which a target refuses the program."""
    parts: list[Part] = []
    for chain in chains[:SHOWN]:
        parts += [
            Text(title(chain), style="bold"),
            _stages(chain, between="\n"),
            *_remarks(chain, rejected),
            _picture(chain, room),
            _stage_table(chain),
        ]
    if len(chains) > SHOWN:
        parts.append(Text(f"… and {len(chains) - SHOWN} more cast chains (--format json has all)"))
    return parts


def title(chain: Chain) -> str:
    """Return what heads a chain: operation, form, lines, executions."""
    lines = ", ".join(map(str, chain.lines[:4])) + (", …" if len(chain.lines) > 4 else "")
    numbers = "/".join(dict.fromkeys(f"{n:,}" for n in chain.times.values()))
    times = "" if numbers == "1" else f", executed {numbers} times"
    where = f"line {lines}" if len(chain.lines) == 1 else f"lines {lines}"
    of = f" of {chain.form}" if chain.form else ""
    return f"cast chain: {chain.op}{of}, {where}{times}"


def _stages(chain: Chain, *, between: str) -> Table:
    columns = ["stage"]
    for target in chain.cycles:
        columns += [f">{target}{between}cycles", ">us", ">instr", ">of"]
    rows: list[list[object]] = []
    for row in chain.rows:
        cells = [row.cells.get(target) for target in chain.cycles]
        rows.append([row.stage, *(text for cell in cells for text in _texts(cell))])
    total: list[object] = ["in all"]
    for target, cycles in chain.cycles.items():
        total += [f"{cycles:,} ", f"{chain.microseconds[target]:.3f}", "", ""]
    return table("", columns, [*rows, total], tight=True, marked=(len(rows),))


def _texts(cell: Cell | None) -> tuple[str, str, str, str]:
    if cell is None:
        return ("- ", "", "", "")
    mark = SHARE if cell.shared else " "
    repeats = f"{cell.repeats:,}" if cell.repeats else ""
    return (f"{cell.cycles:,}{mark}", f"{cell.microseconds:.3f}", f"{cell.count:,}", repeats)


def _remarks(chain: Chain, rejected: Mapping[str, str]) -> list[Part]:
    shared = any(cell.shared for row in chain.rows for cell in row.cells.values())
    parts: list[Part] = [Text(_COUNTS)]
    if shared:
        parts.append(Text(_NOTE))
    parts += [Text(f"{target} has no such chain: {code}") for target, code in rejected.items()]
    return parts


def _picture(chain: Chain, room: int) -> Part:
    """Bars of time, one scale for all targets; barriers take a cycle each, too little to see."""
    shown = [row for row in chain.rows if row.stage != "barrier"]
    names = max((len(row.stage) for row in shown), default=0)
    each = max((room - names - 4) // max(len(chain.cycles), 1) - 9, 8)
    longest = max((c.microseconds for row in shown for c in row.cells.values()), default=0)
    rows = [
        [row.stage, *(_bar(row.cells.get(t), n, longest, each) for t, n in chain.cycles.items())]
        for row in shown
    ]
    columns = [f"a column is {longest / each:.4f} us", *chain.cycles]
    return table("", columns, rows, tight=True)


def _bar(cell: Cell | None, total: int, longest: float, room: int) -> Text:
    if cell is None:
        return Text("")
    eighths = round(cell.microseconds / longest * room * 8) if longest else 0
    whole, rest = divmod(eighths, 8)
    text = _BAR * whole + (_PART[rest - 1] if rest else "")
    share = f"{cell.cycles / total:.0%}" if total else ""
    return Text(f"{text or _PART[0]} {share}", "cyan")


def _stage_table(chain: Chain) -> Part:
    """What each stage executes and waits for, and why it costs what it does."""
    rows: list[tuple[str, str, str]] = []
    for row in chain.rows:
        for target, cell in row.cells.items():
            told = _sentence(row, chain.targets[target], cell)
            if told and (row.stage, target, told) not in rows:
                rows.append((row.stage, target, told))
    shown: list[tuple[str, str, str]] = []
    before = ""
    for stage, target, told in rows:
        shown.append(("" if stage == before else stage, target, told))
        before = stage
    return table("", ("stage", "on", "executes; waits for; why"), shown, essential=("stage", "on"))


def _sentence(row: ChainRow, target: str, cell: Cell) -> str:
    waits = row.told(target, "waits")
    parts = [cell.executes, f"waits for {waits}" if waits else "", row.told(target, "why")]
    return "; ".join(part for part in parts if part)


# -- the page --------------------------------------------------------------------------------------


def figures(chain: Chain, rejected: Mapping[str, str]) -> tuple[str, Sequence[SectionPart]]:
    """Return the section of a page: its title; a timeline and the tables with its reasons."""
    from ptosim.views.charts.lanes import Lane, Lanes
    from ptosim.views.charts.marks import Axis

    longest = max(chain.microseconds.values(), default=0)
    axis = Axis("microseconds of one execution", 0, max(longest, 1e-6), "us")
    rows = [Lane(target, _spans(chain, target), target) for target in chain.cycles]
    names = list(dict.fromkeys(row.stage for row in chain.rows if row.stage != "barrier"))
    keys = [(name, at) for at, name in enumerate(names)]
    refused = [Text(f"{t} has no such chain: {code}", "dim") for t, code in rejected.items()]
    reasons = dict.fromkeys(
        (row.stage, target, cell.executes, row.told(arch, "waits"), row.told(arch, "why"))
        for row in chain.rows
        for target, cell in row.cells.items()
        for arch in [chain.targets[target]]
    )
    return title(chain), [
        Lanes("stages one after the other", axis, rows, keys=keys, note=_NOTE),
        _stages(chain, between=" "),
        Text(_COUNTS, "dim"),
        *refused,
        table("", ("stage", "on", "executes", "waits for", "why"), reasons),
    ]


def _spans(chain: Chain, target: str) -> list[Span]:
    from ptosim.views.charts.lanes import Span

    names = list(dict.fromkeys(row.stage for row in chain.rows if row.stage != "barrier"))
    spans, at = [], 0.0
    for row in chain.rows:
        cell = row.cells.get(target)
        if cell is not None:
            told = f"{row.stage}: {cell.cycles:,} cycles, {cell.microseconds:.3f} us"
            series = names.index(row.stage) if row.stage in names else len(names)
            spans.append(Span(at, at + cell.microseconds, told, series))
            at += cell.microseconds
    return spans
