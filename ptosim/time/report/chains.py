"""Cast chains side by side: the stages of a quantised cast on every target, in the order of the
data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from difflib import SequenceMatcher
from math import floor
from typing import Any

from ptosim.ground.isa.costs import lowest_confidence
from ptosim.ground.isa.overlay import stage_text
from ptosim.ground.records import dataclass, field
from ptosim.time.laws.cost import Cost, Stage
from ptosim.time.report.figures import Figures

CLASSES = ("quant", "sequence")
"""Classes of operations that are chains of casts."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A stage on one target, of one execution: cycles (whole, the stages add up to the operation),
    microseconds, instructions executed and what they process (repeats of 256 bytes on A2/A3,
    iterations of the loop on A5), what they are, and whether the cycles are a share of a loop."""

    cycles: int
    microseconds: float
    count: int
    repeats: int
    executes: str
    shared: bool
    confidence: str


@dataclass(frozen=True, slots=True)
class ChainRow:
    """A stage of a chain: its name, and its cell on each target that has it."""

    stage: str
    cells: Mapping[str, Cell]

    def told(self, target: str, part: str) -> str:
        """Return what the stage waits for (`waits`) or `why` it costs what it does on a target."""
        text = stage_text(self.stage)
        side = text.sides.get(target) if text is not None else None
        return str(getattr(side, part)) if side is not None else ""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of casts: its operation, the form of its operands, its lines, and for each target how
    often it is executed and what one execution costs."""

    op: str
    form: str
    lines: tuple[int, ...]
    rows: Sequence[ChainRow]
    times: Mapping[str, int]
    cycles: Mapping[str, int]
    microseconds: Mapping[str, float]
    targets: Mapping[str, str] = field(default_factory=dict)  # the architecture of each label

    def to_dict(self) -> dict[str, Any]:
        """Return the chain as JSON data."""
        return {
            "op": self.op,
            "form": self.form,
            "lines": list(self.lines),
            "executions": dict(self.times),
            "cycles": dict(self.cycles),
            "microseconds": {k: round(v, 4) for k, v in self.microseconds.items()},
            "stages": [self._row(row) for row in self.rows],
        }

    def _row(self, row: ChainRow) -> dict[str, Any]:
        cells = {}
        for label, cell in row.cells.items():
            told = {part: row.told(self.targets[label], part) for part in ("waits", "why")}
            cells[label] = {**asdict(cell), "microseconds": round(cell.microseconds, 4), **told}
        return {"stage": row.stage, "targets": cells}


@dataclass(frozen=True, slots=True)
class _Found:
    """A chain on one target: lines, executions, cost."""

    lines: tuple[int, ...]
    times: int
    cost: Cost


def chains(reports: Sequence[Figures]) -> list[Chain]:
    """Return the chains of a program on all targets, those of the same operation and form in
    one."""
    by_target = [_chains_of(report) for report in reports]
    keys = dict.fromkeys(key for found in by_target for key in found)
    return [_joined(key, reports, [found.get(key) for found in by_target]) for key in keys]


def _chains_of(report: Figures) -> dict[tuple[str, str, int], _Found]:
    """The chains of a target by operation, form, and a number where costs differ."""
    groups: dict[tuple[str, str], dict[tuple[Stage, ...], list[Any]]] = {}
    for step, count, _ in report.executed:
        if step.cost.class_name in CLASSES and step.cost.stages:
            costs = groups.setdefault((step.site.mnemonic, step.cost.form), {})
            row = costs.setdefault(step.cost.stages, [set(), 0, step.cost])
            row[0].add(step.site.line)
            row[1] += count
    return {
        (*key, number): _Found(tuple(sorted(lines)), times, cost)
        for key, costs in groups.items()
        for number, (lines, times, cost) in enumerate(costs.values())
    }


def _joined(
    key: tuple[str, str, int], reports: Sequence[Figures], found: Sequence[_Found | None]
) -> Chain:
    pairs = [(r, f) for r, f in zip(reports, found, strict=True) if f is not None]
    cells = {r.label: _cells(f.cost, r.mhz) for r, f in pairs}
    names: list[str] = []
    for mine in cells.values():
        names = _merged(names, list(mine))
    return Chain(
        key[0],
        key[1],
        pairs[0][1].lines,
        [
            ChainRow(name.partition(_AFTER)[0], {t: c[name] for t, c in cells.items() if name in c})
            for name in names
        ],
        {r.label: f.times for r, f in pairs},
        {r.label: f.cost.cycles for r, f in pairs},
        {r.label: f.cost.cycles / r.mhz for r, f in pairs},
        {r.label: r.target for r, _ in pairs},
    )


_AFTER = " after "


def _cells(cost: Cost, mhz: float) -> dict[str, Cell]:
    """The cells of a target; passes of the same stage are one, barriers are named by what is before
    them."""
    groups: dict[str, list[Stage]] = {}
    before = ""
    for stage in cost.stages:
        name = stage.name
        if name.endswith("barrier"):
            name += f"{_AFTER}{before}"
        else:
            before = name
        groups.setdefault(name, []).append(stage)
    sums = [sum(s.cycles for s in stages) for stages in groups.values()]
    return {
        name: Cell(
            cycles, cycles / mhz, sum(s.count for s in stages), sum(s.repeats for s in stages),
            stages[0].executes, stages[0].shared, lowest_confidence(s.confidence for s in stages),
        )
        for (name, stages), cycles in zip(groups.items(), _rounded(sums, cost.cycles), strict=True)
    }  # fmt: skip


def _rounded(values: Sequence[float], total: int) -> list[int]:
    """Whole numbers close to values that add up to a total: the largest remainders are rounded
    up."""
    found = [floor(v) for v in values]
    order = sorted(range(len(values)), key=lambda i: found[i] - values[i])
    for number in order[: max(total - sum(found), 0)]:
        found[number] += 1
    return found


def _merged(first: list[str], second: list[str]) -> list[str]:
    """Two orders as one: what both have in common stays, what is between goes in its place (what
    the second one begins with goes first: the frame of a function)."""
    made: list[str] = []
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    for _, a, b, c, d in matcher.get_opcodes():
        pair = (first[a:b], second[c:d]) if a else (second[c:d], first[a:b])
        made += dict.fromkeys(name for names in pair for name in names)
    return list(dict.fromkeys(made))
