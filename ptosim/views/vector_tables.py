"""Vector regions as text: the instructions of each loop, pressure on the ports, a timeline."""

from __future__ import annotations

from ptosim.time.laws.region import Executed
from ptosim.time.report.timeline import Block, Placed, RegionUse
from ptosim.time.report.totals import CostReport
from ptosim.views.table import SHOWN, Part, Table, Text, table

WIDTH = 72
"""Cycles of a timeline that are shown."""


def regions(report: CostReport, suffix: str) -> list[Part]:
    """Return the parts for all regions of a report."""
    if not report.regions:
        return [Text(f"no vector region was executed{suffix}")]
    return [part for use in report.regions for part in _region(use, suffix)]


def _region(use: RegionUse, suffix: str) -> list[Part]:
    unsure = "" if use.exact else "; how often its loops run depends on data"
    parts: list[Part] = [
        Text(
            f"vector region at line {use.line}{suffix}: {use.count}x {use.cycles:,} cycles{unsure}",
            style="bold",
        )
    ]
    for block in use.blocks:
        parts += [_lines(block), Text(_summary(block)), Text(timeline(block))]
    if use.window is not None:
        parts += _window(use.window)
    return parts


def _window(window: Executed) -> list[Part]:
    """The region out of order: when the instructions of the first iterations are dispatched, ready,
    started and complete, and what they waited for."""
    waits = "; ".join(f"{why} {n:,}" for why, n in window.delays.items() if n) or "nothing"
    columns = ("instruction", ">iteration", ">dispatched", ">ready", ">start", ">complete", "port")
    rows = [
        (window.names[e.number], e.iteration, e.dispatched, e.ready, e.start, e.done, e.port)
        for e in window.executions[:SHOWN]
    ]
    title = f"out of order: {window.cycles:,.0f} cycles"
    waited = Text(f"cycles that instructions waited, summed: {waits}\n")
    return [table(title, columns, rows), waited]


def logical(report: CostReport, suffix: str) -> list[Part]:
    """Return, for each region of logical vectors, the instructions of each operation and the
    registers that are needed at once; nothing for a program without such regions."""
    parts: list[Part] = []
    for use in report.regions:
        if use.registers is None:
            continue
        rows = [
            (op.name, op.line, ", ".join(f"{n} {c:,}" for n, c in op.instructions.items()))
            for op in use.operations
        ]
        title = f"logical operations of the region at line {use.line}{suffix}: instructions"
        parts.append(table(title, ("operation", ">line", "physical instructions"), rows))
        found = use.registers
        spills = f"; {found.spilled} values are spilled" if found.spilled else ""
        parts.append(Text(
            f"registers at once: {found.vectors} of {found.vector_limit} vectors, {found.masks} of "
            f"{found.mask_limit} predicates{spills} (derived)\n"
        ))  # fmt: skip
    return parts


def _summary(block: Block) -> str:
    pressure = "  ".join(f"{port} {cycles:g}" for port, cycles in block.pressure.items())
    return (
        f"cycles of an iteration on each port: {pressure}\n"
        f"an iteration takes {block.cycles:g} cycles, bound by: {block.bound}; "
        f"longest chain {block.chain:g} cycles (marked *)\n"
    )


def _lines(block: Block) -> Table:
    title = "instructions outside of loops"
    if block.iterations > 1:
        title = f"loop of {block.iterations:,} iterations"
    columns = ("", ">line", "instruction", ">executed", ">latency", ">port")
    rows = [
        (f"{number}{'*' if line.critical else ' '}", line.line, line.name, f"{line.times:,}",
         f"{line.latency:g}", f"{line.busy:g}")
        for number, line in enumerate(block.lines)
    ]  # fmt: skip
    return table(title, columns, rows)


def timeline(block: Block) -> str:
    """Return a line for each execution: `=` operands are there but the port is not, `e` executes,
    `E` the result is there."""
    executed = [p for p in block.timeline if p.port]
    if not executed:
        return ""
    last = min(int(max(p.end for p in executed)), WIDTH)
    ruler = "".join(str(c % 10) for c in range(last + 1))
    rows = [f"{'[iteration,number]':<20}{ruler}"]
    rows += [_row(p, block.lines[p.number].name, last) for p in executed]
    return "\n".join(rows) + "\n"


def _row(placed: Placed, name: str, last: int) -> str:
    start, end = int(placed.start), int(placed.end)
    cells = ["."] * (last + 1)
    for cycle in range(int(placed.ready), min(end, last + 1)):
        cells[cycle] = "=" if cycle < start else "e"
    if end <= last:
        cells[end] = "E"
    for cycle in range(end + 1, last + 1):
        cells[cycle] = " "
    mark = f"[{placed.iteration},{placed.number}]"
    return f"{mark:<20}{''.join(cells).rstrip()}  {name} {placed.port}"
