"""What in a launch takes time that it may not have to: short bursts, time in which one pipe works
alone, the price of barriers, start-ups, and a scalar unit that issues too slowly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptosim.timing.steps import PIPES, S

if TYPE_CHECKING:
    from ptosim.timing.report import CostReport

LEAST = 0.05
"""Share of the makespan below which nothing is said."""

IDLE = 0.35
"""Share of the makespan that the busiest pipe may be idle without a word."""

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


def hints(report: CostReport) -> list[Hint]:
    """Return the hints, the dearest first."""
    found = [*_bursts(report), *_alone(report), *_waits(report), *_starts(report)]
    return sorted(found, key=lambda h: (-h.cycles, h.line))


def _bursts(report: CostReport) -> list[Hint]:
    """Transfers of global memory in bursts shorter than the recommended ones."""
    least = report.table["transfer.short"]["bytes"]
    found = []
    for step, count, _ in report.executed:
        moved = step.cost.moved
        if moved is None or moved.runs < 2 or moved.run_bytes >= least:
            continue
        cycles = step.cost.busy * count
        if cycles < LEAST * report.cycles:
            continue
        text = (
            f"{step.site.mnemonic} moves {count} x {moved.runs} bursts of {moved.run_bytes} bytes; "
            f"bursts of {least:g} bytes and more reach the full bandwidth"
        )
        cure = "move whole rows, or lay the data out so that rows of a tile are one run"
        found.append(Hint("short bursts", step.site.line, cycles, text, cure))
    return found


def _alone(report: CostReport) -> list[Hint]:
    """Cores whose pipes wait for each other's data, so that none is busy most of the time."""
    found = []
    for core in report.model.cores:
        busy = {pipe: cycles for pipe, cycles in _by_pipe(core).items() if pipe != S}
        if len(busy) < 2:
            continue
        pipe = max(busy, key=lambda p: busy[p])
        gain = report.cycles - busy[pipe]
        waited = sum(
            n for (p, why), n in core.stalls.items()
            if p == pipe and (why == "data" or why.startswith("flag"))
        )  # fmt: skip
        if gain < IDLE * report.cycles or waited < gain / 2:
            continue
        text = (
            f"{core.name}: its pipes wait for each other; the busiest, {PIPES[pipe]}, works "
            f"{busy[pipe]:,} of {report.cycles:,} cycles"
        )
        cure = "give loads and stores a second buffer (try --what-if buffers=1)"
        found.append(Hint("serial", 0, gain, text, cure))
    return found


def _by_pipe(core: object) -> dict[int, int]:
    sums: dict[int, int] = {}
    for step, start, end in zip(core.steps, core.starts, core.ends, strict=True):  # type: ignore[attr-defined]
        sums[step.pipe] = sums.get(step.pipe, 0) + end - start
    return sums


_WAITS = {
    "barrier": (
        "barriers make {pipe} wait",
        "a flag between two pipes waits for less than a barrier; independent operations need none",
    ),
    "scalar unit": (
        "{pipe} waits for the scalar unit to issue",
        "larger tiles, fewer scalar operations in the innermost loop",
    ),
}


def _waits(report: CostReport) -> list[Hint]:
    found = []
    for core in report.model.cores:
        for (pipe, reason), cycles in sorted(core.stalls.items()):
            known = _WAITS.get(reason)
            if known is None or cycles < LEAST * report.cycles:
                continue
            text, cure = known
            text = f"{core.name}: {text.format(pipe=PIPES[pipe])} for {cycles:,} cycles"
            found.append(Hint(reason, 0, cycles, text, cure))
    return found


def _starts(report: CostReport) -> list[Hint]:
    """Operations that are mostly start-up, joined by their name."""
    groups: dict[str, list[tuple[int, int, float, int]]] = {}
    for step, count, _ in report.executed:
        started = sum(s.cycles for s in step.cost.stages if s.name in _STARTS)
        if started > step.cost.cycles / 2:
            row = (step.site.line, count, started * count, step.cost.cycles * count)
            groups.setdefault(step.site.mnemonic, []).append(row)
    found = []
    for name, rows in groups.items():
        cycles = round(sum(row[2] for row in rows))
        if cycles < LEAST * report.cycles:
            continue
        count = sum(row[1] for row in rows)
        text = (
            f"{name}: {cycles:,} of {sum(row[3] for row in rows):,} cycles are start-up, {count} "
            "times"
        )
        line = min(row[0] for row in rows)
        found.append(Hint("start-up", line, cycles, text, "work on larger tiles"))
    return found
