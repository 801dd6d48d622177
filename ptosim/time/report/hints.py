"""What in a launch takes time that it may not have to: short bursts, time in which one pipe works
alone, the price of barriers, start-ups, and a scalar unit that issues too slowly. Cycles are those
of one core, the one that they cost most; equal cores are named together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ptosim.ground.records import dataclass, replace
from ptosim.ground.words import few
from ptosim.time.pipes.steps import PIPE_INDEX, PIPES, S
from ptosim.time.report.figures import Figures
from ptosim.time.report.launch_times import same_address

LEAST = 0.05
"""Share of the makespan below which nothing is said."""

IDLE = 0.35
"""Share of the makespan that the busiest pipe may be idle without a word."""

NAMED = 5
"""Operations that a hint names."""

_STARTS = frozenset(("start", "start and drain"))


@dataclass(frozen=True, slots=True)
class Hint:
    """What takes time, where (a line of the program, 0 for the whole), how many cycles at most, and
    what helps."""

    kind: str
    line: int
    cycles: int
    text: str
    cure: str


def hints(report: Figures) -> list[Hint]:
    """Return the hints, the dearest first."""
    found = [
        *_bursts(report),
        *_serial(report),
        *_waits(report),
        *_starts(report),
        *_together(report),
    ]
    return sorted(found, key=lambda h: (-h.cycles, h.line))


def _of_cores(found: Iterable[tuple[str, Hint]]) -> list[Hint]:
    """Join what several cores have alike: the dearest is told for all, its text begins with the
    place."""
    groups: dict[tuple[str, int, str], list[tuple[str, Hint]]] = {}
    for where, hint in found:
        groups.setdefault((hint.kind, hint.line, hint.cure), []).append((where, hint))
    joined = []
    for group in groups.values():
        where, hint = max(group, key=lambda one: one[1].cycles)
        others = len({name.rpartition(" ")[0] for name, _ in group}) - 1
        if others:
            core, _, rest = where.rpartition(" ")
            where = f"{core} and {others} more cores, {rest}"
        joined.append(replace(hint, text=f"{where} {hint.text}".strip()))
    return joined


def _bursts(report: Figures) -> list[Hint]:
    """Transfers of global memory in bursts shorter than the recommended ones."""
    least = report.table["transfer.short"]["bytes"]
    found = {}
    for step, count, _ in report.executed:
        moved = step.cost.moved
        if moved is None or moved.runs < 2 or moved.run_bytes >= least:
            continue
        cycles = step.cost.busy * count
        known = found.get(step.site.line)
        if cycles < LEAST * report.span or (known is not None and known.cycles >= cycles):
            continue
        text = (
            f"{step.site.mnemonic} moves {count} x {moved.runs} bursts of {moved.run_bytes} bytes; "
            f"bursts of {least:g} bytes and more reach the full bandwidth"
        )
        cure = "move whole rows, or lay the data out so that rows of a tile are one run"
        found[step.site.line] = Hint("short bursts", step.site.line, cycles, text, cure)
    return list(found.values())


def _together(report: Figures) -> list[Hint]:
    """Loads with which all blocks begin at the same address: their requests wait for each other."""
    text = (
        f"{report.blocks.at_once} blocks begin this load at one address at the same time: requests "
        "for one line of memory are served one after the other"
    )
    cure = "let each block begin elsewhere: add its number to the counter, modulo the rounds"
    found = same_address(report).items()
    return [Hint("same address", n, c, text, cure) for n, c in found if c >= LEAST * report.span]


_TWICE = "give loads and stores a second buffer (`ptosim fmt --double-buffer`)"
_PIECES = "cut the work into pieces, so that one is loaded while another is computed"


def _serial(report: Figures) -> list[Hint]:
    """A launch whose busiest pipe is not busy most of the time, since pipes of its core wait for
    each other's data."""
    busiest = max(
        (p for p in report.pipes if p.pipe != PIPES[S]), key=lambda p: p.busy, default=None
    )
    if busiest is None:
        return []
    gain = report.span - busiest.busy
    mine = [p for p in report.pipes if p.core == busiest.core and p.pipe != PIPES[S]]
    waited = max(
        sum(n for why, n in p.stalls.items() if why == "data" or why.startswith("flag"))
        for p in mine
    )
    if len(mine) < 2 or gain < IDLE * report.span or waited < gain / 2:
        return []
    alike = [p for p in report.pipes if (p.pipe, p.busy) == (busiest.pipe, busiest.busy)]
    where = busiest.core if len(alike) < 2 else f"{busiest.core} and {len(alike) - 1} more cores"
    text = (
        f"{where}: pipes wait for each other; the busiest, {busiest.pipe}, works "
        f"{busiest.busy:,} of {report.span:,} cycles"
    )
    again = any(count > 1 for _, count, _ in report.executed)
    return [Hint("serial", 0, gain, text, _TWICE if again else _PIECES)]


_WAITS = {
    "barrier": (
        "waits {cycles} cycles at barriers",
        "independent operations need none between them, and between two pipes a flag is enough",
    ),
    "scalar unit": (
        "waits {cycles} cycles until the scalar unit issues",
        "larger tiles, fewer scalar operations in the innermost loop",
    ),
}


def _waits(report: Figures) -> list[Hint]:
    """What pipes wait for at barriers, and for the scalar unit. (That unit itself waits at a
    barrier after the last operation, which costs nothing.)"""
    found = []
    for use in report.pipes:
        for reason, (text, cure) in _WAITS.items():
            cycles = use.stalls.get(reason, 0)
            if use.pipe != PIPES[S] and cycles >= LEAST * report.span:
                hint = Hint(reason, 0, cycles, text.format(cycles=f"{cycles:,}"), cure)
                found.append((f"{use.core} {use.pipe}", hint))
    return _of_cores(found)


def _starts(report: Figures) -> list[Hint]:
    """Operations that are mostly start-up, of the core that they cost most."""
    cores: dict[int, dict[str, list[float]]] = {}
    lines: dict[str, int] = {}
    for step, count, core in report.executed:
        started = sum(s.cycles for s in step.cost.stages if s.name in _STARTS)
        if started > step.cost.cycles / 2:
            name = step.site.mnemonic
            lines[name] = min(lines.get(name, step.site.line), step.site.line)
            row = cores.setdefault(core, {}).setdefault(name, [0, 0, 0])
            row[0] += started * count
            row[1] += step.cost.cycles * count
            row[2] += count
    dearest = max(cores.values(), key=lambda c: sum(r[0] for r in c.values()), default={})
    cycles = round(sum(row[0] for row in dearest.values()))
    if not dearest or cycles < LEAST * report.span:
        return []
    names = sorted(dearest, key=lambda n: -dearest[n][0])
    text = (
        f"{cycles:,} of {sum(row[1] for row in dearest.values()):,} cycles of "
        f"{few(names, NAMED)} are start-up, in "
        f"{sum(row[2] for row in dearest.values()):,} operations"
    )
    return [Hint("start-up", lines[names[0]], cycles, text, "work on larger tiles")]


# Where a launch is between arithmetic and memory, with ceilings of its own operations.

_UNITS = {"V": "vector", "M": "cube"}


@dataclass(frozen=True, slots=True)
class Roof:
    """One unit. `ceiling`: operations a cycle if its pipe never waited, for this mix of operations;
    `bandwidth`: bytes of global memory a cycle if the busiest of those pipes never waited, for
    these transfers (pipes that read and write work at the same time, none takes over from another);
    `intensity`: operations a byte; `attainable`: the smaller of ceiling and intensity x bandwidth;
    `achieved`: operations a cycle of the whole launch. `bound` is memory, compute, or waiting if
    less than half of what is attainable is achieved. All cores together."""

    unit: str
    work: int
    bytes: int
    intensity: float
    ceiling: float
    bandwidth: float
    ridge: float
    attainable: float
    achieved: float
    bound: str


def rooflines(report: Figures) -> list[Roof]:
    """Return the position of every unit that computed something."""
    moved = sum(m.bytes * count for m, count in report.movements())  # of the blocks that were timed
    moving = _rates(report, lambda step: step.cost.moved.bytes if step.cost.moved else 0)
    bandwidth = sum(moving)
    found = []
    for pipe, unit in _UNITS.items():
        number = PIPE_INDEX[pipe]
        rates = _rates(report, lambda step, n=number: step.cost.work if step.pipe == n else 0)
        work = sum(
            step.cost.work * count for step, count, _ in report.executed if step.pipe == number
        )
        if work:
            found.append(_roof(unit, work, moved, sum(rates), bandwidth, max(report.span, 1)))
    return found


def _rates(report: Figures, amount: Any) -> Sequence[float]:
    """For each core what it could do of the kind in a cycle if the busiest of its pipes that do it
    never waited."""
    sums: dict[int, dict[int, list[float]]] = {}
    for step, count, core in report.executed:
        value = amount(step)
        if value:
            total = sums.setdefault(core, {}).setdefault(step.pipe, [0.0, 0.0])
            total[0] += value * count
            total[1] += step.busy * count
    found = []
    for pipes in sums.values():
        cycles = max(busy for _, busy in pipes.values())
        found.append(sum(value for value, _ in pipes.values()) / max(cycles, 1))
    return found


def _roof(unit: str, work: int, moved: int, ceiling: float, bandwidth: float, cycles: int) -> Roof:
    intensity = work / moved if moved else 0.0
    by_memory = intensity * bandwidth if moved else ceiling
    attainable = min(ceiling, by_memory)
    achieved = work / cycles
    bound = "memory" if by_memory < ceiling else "compute"
    if achieved < attainable / 2:
        bound = f"waiting ({bound} next)"
    ridge = ceiling / bandwidth if bandwidth else 0.0
    return Roof(
        unit, work, moved, round(intensity, 3), round(ceiling, 3), round(bandwidth, 3),
        round(ridge, 3), round(attainable, 3), round(achieved, 3), bound,
    )  # fmt: skip
