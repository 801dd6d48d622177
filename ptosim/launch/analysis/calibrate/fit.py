"""Figures refitted to points: only those that the points determine, checked on points kept aside.

Points that read no common figure are fitted apart. Within such a group the relative errors are made
least by Gauss and Newton's method. A figure is determined if the points tell it apart from all the
others (no combination of figures that leaves every prediction as it is contains it) and if what the
points scatter leaves less than `LARGEST_ERROR` of it open. Of figures that the points tell only
together, those that most points read keep their values first, then those of better confidence,
until the rest is determined. Figures that are not determined keep their values, and those that are
get new ones only if points that the fit did not see agree.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean
from typing import Any

import numpy as np

from ptosim.ground.isa.costs import COST_CONFIDENCES, CostRow, CostTable
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.analysis.calibrate.profiler import TRACE, Reading
from ptosim.launch.compare import Choices
from ptosim.launch.program import LoadedProgram
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape
from ptosim.time.pipes.steps import PIPES
from ptosim.time.report.totals import CostReport

Prediction = Callable[[CostTable], float]

HELD_OUT = 3
"""Every third point of an operation is kept aside."""


@dataclass(frozen=True, slots=True)
class Point:
    """A measured figure: `family` joins those of one law, `class_name` those of one class of
    operations; `times` is how often it was measured. Of a whole kernel's time the fit learns
    nothing (`teaches`): it is the sum of everything. `held` says whether it is held out of the fit;
    None: as its place among those of its family decides."""

    family: str
    label: str
    class_name: str
    measured: float
    predict: Prediction
    times: int = 1
    teaches: bool = True
    held: bool | None = None

    def error(self, table: CostTable) -> float:
        """Return the relative error, with sign."""
        return self.predict(table) / self.measured - 1


def operation(shape: OpShape) -> Prediction:
    """Return the prediction of a single operation, not rounded to whole cycles."""
    return lambda table: unrounded(estimate(shape, table))


def unrounded(cost: Cost) -> float:
    """Return the cycles of a cost before they are rounded, where its stages add up to them."""
    total = sum(stage.cycles for stage in cost.stages)
    return total if abs(total - cost.cycles) <= 1 else cost.cycles


def joined(points: Iterable[Point]) -> list[Point]:
    """Return points with one of each label: the median of what was measured several times."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((point.family, point.label), []).append(point)
    found = []
    for _, group in sorted(groups.items()):
        values = sorted(p.measured for p in group)
        middle = len(values) // 2
        median = (values[middle] + values[~middle]) / 2
        found.append(replace(group[0], measured=median, times=sum(p.times for p in group)))
    return found


class _Watched(dict[str, float]):
    """Numbers of a row that tell which of them were read."""

    def __init__(self, values: Mapping[str, float], read: Callable[[str], None]) -> None:
        super().__init__(values)
        self._read = read

    def __getitem__(self, key: str) -> float:
        self._read(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        if key in self:
            self._read(key)
        return super().get(key, default)


def figures_of(point: Point, table: CostTable) -> frozenset[str]:
    """Return the full names of the numbers that a prediction reads, by the rows that own them."""
    found: set[str] = set()
    rows = {name: watched(row, found) for name, row in table.rows.items()}
    point.predict(replace(table, rows=rows))
    return frozenset(table.owner(key) for key in found)


def watched(row: CostRow, found: set[str]) -> CostRow:
    """Return a row that adds the full name of every number that is read."""
    values = _Watched(row.values, lambda number: found.add(f"{row.name}.{number}"))
    return replace(row, values=values)


SAME = 1e-3
"""Relative change of a figure below which the points say the same."""

STEP = 0.05
"""Relative change of a figure by which its influence is measured."""

ROUNDS = 12
LARGEST_ERROR = 0.25
"""Relative standard error of a figure above which it counts as not determined."""

_TOGETHER = "the points tell it only together with others"

_ALONE = 1e-5
"""Share of a figure in a combination that changes nothing, above which it is not told apart."""

NOT_FITTED = ("machine.clock.", "machine.launch.", "machine.read_total.", "machine.write_total.",
              "machine.hbm.", "machine.l2.", "machine.fill.", "machine.task.", "machine.next.",
              "machine.host.", "machine.mix.")  # fmt: skip
"""Figures of the chip and of whole launches, which single operations do not tell."""


@dataclass(frozen=True, slots=True)
class Refit:
    """A figure: what it was, what the points say, its relative standard error, how many points read
    it. `reason` says why it keeps its value."""

    key: str
    was: float
    now: float
    error: float
    points: int
    reason: str = ""


def split(points: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return the points to learn from and those kept aside: every third of an operation, where a
    point does not say so itself."""
    groups: dict[str, list[Point]] = {}
    learned: list[Point] = []
    aside: list[Point] = []
    for point in points:
        if point.held is not None:
            (aside if point.held else learned).append(point)
            continue
        groups.setdefault(point.family.partition(" ")[0], []).append(point)
    for group in groups.values():
        for number, point in enumerate(group):
            keeps = len(group) >= HELD_OUT and number % HELD_OUT == 1 and point.teaches
            (aside if keeps else learned).append(point)
    return learned, aside


def refit(
    table: CostTable, learned: Sequence[Point], aside: Sequence[Point]
) -> tuple[CostTable, list[Refit]]:
    """Return the table with every figure refitted that the points determine, and what was found of
    each figure that they read."""
    found: list[Refit] = []
    read = [(p, figures_of(p, table)) for p in aside]
    for points, keys in _groups(table, [p for p in learned if p.teaches]):
        known = set(keys)
        checks = [(p, figures & known) for p, figures in read if figures & known]
        table, refits = _group(table, points, keys, checks)
        found += refits
    return table, sorted(found, key=lambda r: (bool(r.reason), r.key))


def _groups(table: CostTable, points: Sequence[Point]) -> list[tuple[list[Point], list[str]]]:
    """Points that read common figures, with these."""
    groups: list[tuple[list[Point], set[str]]] = []
    for point in points:
        mine = {k for k in figures_of(point, table) if not k.startswith(NOT_FITTED)}
        mine = {k for k in mine if _value(table, k)}
        members, keys = [point], mine
        rest = []
        for others, theirs in groups:
            if keys & theirs:
                members, keys = others + members, keys | theirs
            else:
                rest.append((others, theirs))
        groups = [*rest, (members, keys)]
    return [(members, sorted(keys)) for members, keys in groups if keys]


def _value(table: CostTable, key: str) -> float:
    row, _, number = key.rpartition(".")
    return table[row][number]


def _group(
    table: CostTable,
    points: list[Point],
    keys: list[str],
    aside: list[tuple[Point, frozenset[str]]],
) -> tuple[CostTable, list[Refit]]:
    slopes = _slopes(table, points, keys)
    moved = [i for i in range(len(keys)) if np.any(slopes[:, i])]
    chosen = [keys[i] for i in _determined(slopes, _last_to_stay(table, slopes, keys, moved))]
    reasons = {keys[i]: _TOGETHER for i in moved if keys[i] not in chosen}
    counts = {keys[i]: int(np.count_nonzero(slopes[:, i])) for i in moved}
    checked = {key for _, figures in aside for key in figures}
    for key in [k for k in chosen if k not in checked]:
        reasons[key] = "too few points: none is left to hold out"
        chosen.remove(key)
    fitted, errors = table, {}
    while chosen:
        fitted, errors = _fitted(table, points, chosen)
        worst = max(chosen, key=lambda k: errors[k])
        if errors[worst] <= LARGEST_ERROR:
            break
        share = f"{errors[worst]:.0%}" if errors[worst] < 1 else "all"
        reasons[worst] = f"the points leave {share} of it open"
        chosen.remove(worst)
    if chosen and not _agrees(table, fitted, points, [p for p, _ in aside]):
        reasons |= dict.fromkeys(
            chosen, "points held out of the fit are no better with a new value"
        )
        fitted, chosen = table, []
    for key in chosen:
        if abs(_value(fitted, key) / _value(table, key) - 1) < SAME:
            fitted = fitted.changed(key, _value(table, key))
            reasons[key] = "the points say the same"
    refits = [
        Refit(key, _value(table, key), _value(fitted, key), errors.get(key, 0.0), counts[key],
              reasons.get(key, ""))
        for key in counts
    ]  # fmt: skip
    return (fitted if chosen else table), refits


def _slopes(table: CostTable, points: Sequence[Point], keys: Sequence[str]) -> np.ndarray:
    """Relative change of each prediction, as a share of what was measured, for a relative change of
    each figure: points x figures."""
    plain = np.array([p.predict(table) for p in points])
    measured = np.array([p.measured for p in points])
    columns = []
    for key in keys:
        value = _value(table, key)
        up, down = (table.changed(key, value * (1 + s)) for s in (STEP, -STEP))
        rise = np.array([p.predict(up) for p in points]) - plain
        fall = plain - np.array([p.predict(down) for p in points])
        columns.append((rise + fall) / (2 * STEP) / measured)
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0))


def _last_to_stay(
    table: CostTable, slopes: np.ndarray, keys: Sequence[str], moved: Sequence[int]
) -> list[int]:
    """Return columns in the order in which their figures would rather be refitted: those that
    fewest points read, and of these the least sure."""

    def rank(column: int) -> tuple[int, int, str]:
        row = table[keys[column].rpartition(".")[0]]
        readers = int(np.count_nonzero(slopes[:, column]))
        return readers, -COST_CONFIDENCES.index(row.confidence), keys[column]

    return sorted(moved, key=rank)


def _determined(slopes: np.ndarray, order: Sequence[int]) -> list[int]:
    """Return columns that are no part of a combination which changes no prediction; where there is
    one, its last column in the order is left out."""
    chosen = list(order)
    while chosen:
        part = slopes[:, chosen]
        _, sizes, rows = np.linalg.svd(part / np.linalg.norm(part, axis=0), full_matrices=True)
        rank = int(np.sum(sizes > sizes[0] * 1e-4))
        if rank == len(chosen):
            break
        loose = np.sum(rows[rank:] ** 2, axis=0)
        del chosen[max(i for i in range(len(chosen)) if loose[i] >= _ALONE)]
    return chosen


def _fitted(
    table: CostTable, points: list[Point], keys: list[str]
) -> tuple[CostTable, dict[str, float]]:
    """Return the table with the figures that make the squares of relative errors least, and their
    relative standard errors."""
    best = _residuals(table, points)
    for _ in range(ROUNDS):
        slopes = _slopes(table, points, keys)
        step, *_ = np.linalg.lstsq(slopes, -best, rcond=1e-10)
        step = np.clip(step, -0.5, 1.0)
        for damping in (1.0, 0.5, 0.25, 0.1):
            tried = table
            for key, change in zip(keys, step, strict=True):
                tried = tried.changed(key, _value(table, key) * (1 + damping * float(change)))
            now = _residuals(tried, points)
            if now @ now < best @ best:
                break
        else:
            break
        gain = best @ best - now @ now
        table, best = tried, now
        if gain <= 1e-12 * len(points):
            break
    return table, _spread(_slopes(table, points, keys), best, keys)


def _residuals(table: CostTable, points: Sequence[Point]) -> np.ndarray:
    return np.array([p.error(table) for p in points])


def _spread(slopes: np.ndarray, rest: np.ndarray, keys: list[str]) -> dict[str, float]:
    """Relative standard error of each figure. Without a point more than figures nothing tells how
    far the points scatter, and no figure is sure."""
    free = len(rest) - len(keys)
    if free <= 0:
        return dict.fromkeys(keys, float("inf"))
    variance = max(float(rest @ rest) / free, 1e-10)
    inverse = np.linalg.pinv(slopes.T @ slopes)
    return {k: float(np.sqrt(variance * max(inverse[i, i], 0.0))) for i, k in enumerate(keys)}


def _agrees(
    before: CostTable, after: CostTable, points: Sequence[Point], aside: Sequence[Point]
) -> bool:
    """True if the new figures are better on what was learned, and not worse on what was not."""

    def size(table: CostTable, chosen: Sequence[Point]) -> float:
        return float(np.abs(_residuals(table, chosen)).sum())

    if size(after, points) >= size(before, points) - 1e-9:
        return False
    return not aside or size(after, aside) <= size(before, aside) + 1e-9


# A kernel of a profiler's table, by the program that it was made of: what each pipe does.

Observed = dict[tuple[str, ...], float]
"""Cycles by what was looked at: a pipe of a kind of core, an operation or a line on it, the
time."""

_MEMORY = 64


@dataclass(slots=True)
class Kernel:
    """A program with its arguments. Blocks are those of the table unless they are given."""

    program: LoadedProgram
    entry: str
    choices: Choices
    _seen: dict[tuple[int, int], tuple[CostTable, Observed]] = field(default_factory=dict)

    @classmethod
    def of(cls, choices: Choices) -> Kernel:
        """Return the kernel of a program that is launched as chosen. Raises what loading raises."""
        program = choices.program()
        return cls(program, program.entry(choices.entry), choices)

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return what rows of this kernel tell: busy cycles of its pipes, or of its operations."""
        if readings[0].form == TRACE:
            return self._of_trace(readings)
        return self._of_rows(readings)

    def _of_rows(self, readings: list[Reading]) -> list[Point]:
        """Rows of one core each (PipeUtilization), or of a launch (op_summary), by their blocks."""
        names = {r.block.split()[0] for r in readings if r.block}
        if names:
            return self._of_launch(readings, len(names), each=True)
        sizes = sorted({r.blocks or 1 for r in readings})
        launches = ([r for r in readings if (r.blocks or 1) == size] for size in sizes)
        return [
            p for size, group in zip(sizes, launches, strict=True)
            for p in self._of_launch(group, size)
        ]  # fmt: skip

    def _of_launch(
        self, readings: list[Reading], blocks: int, *, each: bool = False
    ) -> list[Point]:
        """The pipes of a launch: the mean of its rows, or `each` row, of which every third is held
        out."""
        groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for reading in readings:
            for (kind, pipe), cycles in reading.cycles.items():
                if pipe != "S" and cycles > 0:
                    groups["pipe", kind, pipe].append(cycles)
            if reading.us is not None:
                groups["time",].append(reading.us)
        return self._points(groups, blocks, each=each)

    def _of_trace(self, readings: list[Reading]) -> list[Point]:
        groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for reading in readings:
            ((kind, pipe), cycles), *_ = reading.cycles.items()
            name = reading.kind.lower().removeprefix("pto.")
            key = ("line", kind, pipe, name, str(reading.line))
            groups[key if reading.line is not None else ("op", kind, pipe, name)].append(cycles)
        cores = {m[0] for r in readings if (m := re.search(r"\d+", r.block))}
        return self._points(groups, len(cores) or 1)

    def _points(
        self, groups: dict[tuple[str, ...], list[float]], blocks: int, *, each: bool = False
    ) -> list[Point]:
        known = self.observed(None, blocks)
        found = []
        for key, values in sorted(groups.items()):
            measured = mean(values)
            if not known.get(key) or measured <= 0:
                continue
            label = " ".join(filter(None, (self.entry, *key, f"{blocks} blocks")))
            of, teaches = self._prediction(key, blocks), key[0] != "time"
            family = f"kernel {self.entry}"
            if each and teaches and len(values) >= HELD_OUT:
                found += [
                    Point(family, f"{label}, row {n}", "kernel", value, of, 1, True,
                          n % HELD_OUT == 1)
                    for n, value in enumerate(values)
                ]  # fmt: skip
                continue
            found.append(Point(family, label, "kernel", measured, of, len(values), teaches))
        return found

    def _prediction(self, key: tuple[str, ...], blocks: int) -> Prediction:
        return lambda table: self.observed(table, blocks)[key]

    def observed(self, table: CostTable | None, blocks: int) -> Observed:
        """Return what the kernel does with the figures of a table."""
        key = id(table), blocks
        if key in self._seen:
            return self._seen[key][1]
        blocks = self.choices.block_num or blocks
        report = self.program.cost(
            entry=self.entry,
            args=self.choices.arguments(),
            costs=table,
            block_num=blocks,
            **self.choices.run_options("ranks", "max_instructions"),
        )
        found = _observed(report)
        if len(self._seen) >= _MEMORY:
            self._seen.clear()
        self._seen[key] = report.table, found  # the table is kept, so that its id stays its own
        if table is not None:
            self._seen[key] = table, found
        return found


def _observed(report: CostReport) -> Observed:
    """Mean busy cycles of each pipe over the cores of a kind that have it; the mean of each
    operation, by name and by line."""
    busy: dict[tuple[str, ...], list[float]] = defaultdict(list)
    each: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for core in report.model.cores:
        kind = "aic" if "AIC" in core.name else "aiv" if "AIV" in core.name else ""
        total: dict[int, float] = defaultdict(float)
        for step, start, end in zip(core.steps, core.starts, core.ends, strict=True):
            total[step.pipe] += end - start
            name, pipe = step.site.mnemonic, PIPES[step.pipe]
            for side in {kind, ""}:
                each["op", side, pipe, name].append(end - start)
                each["line", side, pipe, name, str(step.site.line)].append(end - start)
        for pipe, cycles in total.items():
            for side in {kind, ""} if kind else ("aic", "aiv", ""):
                busy["pipe", side, PIPES[pipe]].append(cycles)
    found = {key: mean(values) for key, values in (*busy.items(), *each.items())}
    found["time",] = report.times.device.us  # as a profiler has the duration of a task
    return found
