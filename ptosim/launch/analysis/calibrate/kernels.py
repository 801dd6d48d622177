"""A kernel of a profiler's table, by the program that it was made of: what each pipe does."""

from __future__ import annotations

import re
from collections import defaultdict
from statistics import mean

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass, field
from ptosim.launch.analysis.calibrate.fit import HELD_OUT, Point, Prediction
from ptosim.launch.analysis.calibrate.profiler import TRACE, Reading
from ptosim.launch.choices import Choices
from ptosim.launch.program import LoadedProgram
from ptosim.time.pipes.steps import PIPES
from ptosim.time.report.totals import CostReport

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
