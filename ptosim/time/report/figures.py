"""The figures of a launch: its cycles, and who has which share of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ptosim.ground.isa.costs import CostTable, error_of, lowest_confidence
from ptosim.ground.isa.targets import machine
from ptosim.ground.progress import Shown
from ptosim.ground.records import dataclass
from ptosim.time.chip import Blocks
from ptosim.time.laws.cost import Cost, Movement
from ptosim.time.pipes.model import TimingModel
from ptosim.time.pipes.records import NO_LOOP, Repeat
from ptosim.time.pipes.steps import PIPES, Step
from ptosim.time.pipes.timers import CoreTimer
from ptosim.time.report.path import PathPart, PathShare, critical_path, path_shares

if TYPE_CHECKING:
    from ptosim.time.report.timeline import RegionUse

# What a launch touches of global memory, as numbers: the account that L2 and HBM are asked for.


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of a launch, all blocks together, each line of memory counted once (`read`, `written`);
    and what comes from HBM if L2 is empty at the start, as far as lines are touched again after
    more than L2 keeps (`fetched`, `returned`). Of `unsure` bytes the place depends on data: each of
    their transfers counts as if nobody else touched it. `together` are the
    lines of the program whose loads all blocks of a wave begin at one address, `adding` those that
    add to memory, each with how many blocks begin at one. `passed` bytes go by L2, which holds none
    of the lines `aside` that only they touch; lines of `both` are read and written. All
    may be as many as `open` bytes less: windows with holes of which not all are listed."""

    read: int
    written: int
    fetched: int
    returned: int
    unsure: int = 0
    together: frozenset[int] = frozenset()
    adding: tuple[tuple[int, int], ...] = ()
    passed: int = 0
    aside: int = 0
    both: int = 0
    open: int = 0

    @property
    def held(self) -> int:
        """Bytes of the lines that L2 may hold."""
        return self.unique - self.aside - self.both

    @property
    def every_transfer(self) -> bool:
        """True where some transfers count one by one."""
        return self.unsure > 0

    @property
    def unique(self) -> int:
        """Bytes of all lines that are touched; read and written ones count twice."""
        return self.read + self.written


# Rounds of loops that are like those before them, so that one period of them was executed.

WARM, COLD = "warm", "cold"
"""What L2 holds at the start of a launch: what fits of it, or nothing."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """A loop: its line, the first and the last of its rounds that repeat, how many rounds one
    period has and how many cycles it takes, and on how many cores."""

    line: int
    first: int
    last: int
    rounds: int
    cycles: int
    cores: int


def repeated(cores: Sequence[CoreTimer]) -> list[Repeated]:
    """Return what repeats on these cores, in the order in which it was found. Neighbouring
    stretches of one loop with equal periods are one, and equal ones are named once."""
    jumps: dict[int, list[Repeat]] = {}
    for core in cores:
        for repeat in (each for outer in core.repeats for each in outer.tree()):
            if repeat.jump > NO_LOOP:
                jumps.setdefault(repeat.jump, []).append(repeat)
    found: dict[Repeated, None] = {}
    for repeats in jumps.values():
        one = repeats[0]
        cycles = max(max(r.starts) for r in repeats)
        row = Repeated(one.line, one.first_round, one.last_round, one.rounds, cycles, len(repeats))
        found[row] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class PipeUse:
    """A pipe of a core: cycles at work, cycles of each reason to wait, share of the makespan."""

    core: str
    pipe: str
    operations: int
    busy: int
    stalls: dict[str, int]
    share: float


@dataclass(frozen=True, slots=True)
class Use:
    """What operations with something in common cost: executions, cycles if nothing overlapped,
    their share of all such cycles, the lowest confidence among their figures."""

    name: str
    pipe: str
    count: int
    cycles: float
    share: float
    confidence: str
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class StageUse:
    """A stage of an operation, as `Use`."""

    op: str
    stage: str
    count: int
    cycles: float
    share: float
    confidence: str


class Figures(Shown):
    """Cycles of a launch and their parts; everything is computed when it is asked for."""

    def __init__(
        self,
        model: TimingModel,
        table: CostTable,
        entry: str,
        blocks: Blocks | None = None,
        last_wave: int | None = None,
    ) -> None:
        self.model = model
        self.table = table
        self.entry = entry
        self.blocks = blocks or Blocks()
        self.span = model.makespan  # cycles of what was timed: all tables are of that
        self.cycles = self.span
        if self.blocks.is_one_for_all:
            rest = self.span if last_wave is None else last_wave
            self.cycles = self.span * (self.blocks.waves - 1) + rest
        self.start = WARM
        self.touches: Callable[[Figures], Footprint] | None = None
        self.alone: Callable[[], int] | None = None
        """Times the launch once more, with as much bandwidth as each core asks for: its cycles."""
        self.on_values = False  # data decide the path: it was run on those that were given
        self.in_full: dict[int, str] = {}
        """Lines of long loops whose rounds were executed one by one (0: all), and why."""

    @property
    def target(self) -> str:
        """The architecture that the figures belong to."""
        return self.table.target

    @property
    def chip(self) -> str:
        """The chip that the figures belong to."""
        return self.table.chip

    @property
    def label(self) -> str:
        """How tables head a column of this report."""
        return self.table.label

    @property
    def mhz(self) -> float:
        """The clock that turns cycles into time."""
        return self.table.mhz

    @property
    def microseconds(self) -> float:
        """The makespan as time."""
        return self.cycles / self.mhz

    @cached_property
    def unshared(self) -> float | None:
        """The part of the cycles that is left if nobody waits for what all share; None where that
        is not known."""
        return self.alone() / max(self.cycles, 1) if self.alone is not None else None

    @property
    def launch_microseconds(self) -> float:
        """What a launch costs on top of the makespan: a start, and a part for each block of the
        first wave."""
        row = self.table["machine.launch"]
        return row["us"] + row.get("us_per_block") * self.blocks.at_once

    @property
    def cube_cores(self) -> int:
        """Cube cores of the chip."""
        return machine(self.chip).cores[0]

    @cached_property
    def footprint(self) -> Footprint:
        """What the launch touches of global memory; without a text each transfer counts."""
        if self.touches is not None:
            return self.touches(self)
        moved = self.moved()
        return Footprint(*moved.values(), *moved.values(), unsure=sum(moved.values()))

    @cached_property
    def executed(self) -> list[tuple[Step, int, int]]:
        """Every distinct step with its executions and the core that executed it."""
        return [
            (step, count, core.index)
            for core in self.model.cores
            for step, count in core.executed().items()
        ]

    # -- tables -----------------------------------------------------------------------------------

    @cached_property
    def pipes(self) -> list[PipeUse]:
        """Every pipe that executed something or waited."""
        found = []
        total = max(self.span, 1)
        for core in self.model.cores:
            count, busy = core.work()
            for pipe, name in enumerate(PIPES):
                stalls = {r: n for (p, r), n in core.stalls.items() if p == pipe}
                if count[pipe]:
                    share = busy[pipe] / total
                    use = PipeUse(core.name, name, count[pipe], busy[pipe], stalls, share)
                    found.append(use)
        return found

    def uses(self, key: Callable[[Step], str]) -> list[Use]:
        """Return what operations cost, joined by a key, dearest first."""
        groups: dict[str, list[tuple[Step, int]]] = {}
        for step, count, _ in self.executed:
            groups.setdefault(key(step), []).append((step, count))
        total = sum(s.cost.cycles * n for s, n, _ in self.executed) or 1
        uses = [_use(name, group, total) for name, group in groups.items()]
        return sorted(uses, key=lambda u: (-u.cycles, u.name))

    @cached_property
    def ops(self) -> list[Use]:
        """What each kind of operation costs."""
        return self.uses(lambda step: step.site.mnemonic)

    @cached_property
    def lines(self) -> list[Use]:
        """What each line of the program costs."""
        return self.uses(lambda step: f"{step.site.line}: {step.site.mnemonic}")

    @cached_property
    def loops(self) -> list[Use]:
        """What the operations of each innermost loop cost."""
        return self.uses(lambda s: s.site.loop.label if s.site.loop is not None else "no loop")

    @cached_property
    def stages(self) -> list[StageUse]:
        """What each stage of each kind of operation costs; those of a kind are together."""
        rows: dict[tuple[str, str], list[Any]] = {}
        for step, count, _ in self.executed:
            for stage in step.cost.stages:
                row = rows.setdefault((step.site.mnemonic, stage.name), [0, 0.0, []])
                row[0] += stage.count * count
                row[1] += stage.cycles * count
                row[2].append(stage.confidence)
        total = sum(row[1] for row in rows.values()) or 1
        kinds = list(dict.fromkeys(op for op, _ in rows))
        together = sorted(rows.items(), key=lambda item: kinds.index(item[0][0]))
        return [
            StageUse(op, stage, count, round(cycles, 1), cycles / total, lowest_confidence(sure))
            for (op, stage), (count, cycles, sure) in together
        ]

    @cached_property
    def repeats(self) -> list[Repeated]:
        """The rounds of loops that are like those before them."""
        return repeated(self.model.cores)

    @cached_property
    def bound(self) -> str:
        """The pipe that is busiest, as core and pipe; empty if nothing was executed."""
        busiest = max(self.pipes, key=lambda p: p.busy, default=None)
        return f"{busiest.core} {busiest.pipe}" if busiest is not None else ""

    @cached_property
    def confidence(self) -> str:
        """The lowest confidence among the figures of everything executed."""
        costs = {id(step.cost): step.cost for step, _, _ in self.executed}
        return lowest_confidence(c.confidence for c in costs.values())

    @cached_property
    def unknown(self) -> dict[str, int]:
        """Executions of operations that no law covers; they count no cycles."""
        found: Counter[str] = Counter()
        for step, count, _ in self.executed:
            if not step.cost.known:
                found[step.site.mnemonic] += count
        return dict(found)

    @property
    def accuracy(self) -> dict[str, Any]:
        """The mean, median and worst error of the laws for each class of operations executed; None
        where nothing was published."""
        found: dict[str, Any] = {}
        for name in sorted({s.cost.class_name for s, _, _ in self.executed}):
            error = error_of(self.target, name)
            found[name] = asdict(error) if error is not None else None
        return found

    @cached_property
    def path(self) -> list[PathPart]:
        """The critical path, from the first operation to the last."""
        return critical_path(self.model)

    @property
    def path_shares(self) -> list[PathShare]:
        """The critical path joined by instruction, dearest first."""
        return path_shares(self.model)

    @cached_property
    def regions(self) -> list[RegionUse]:
        """Every vector region with its loops, instruction by instruction."""
        if all(step.cost.region is None for step, _, _ in self.executed):
            return []  # a program of tiles does without what tells of registers
        from ptosim.time.report.timeline import region_uses

        return region_uses(self.executed, self.table)

    def moved(self) -> dict[str, int]:
        """Return the bytes of global memory read and written, of all blocks."""
        total = {"read": 0, "write": 0}
        times = self.blocks.count if self.blocks.is_one_for_all else 1
        for movement, count in self.movements():
            total[movement.direction] += movement.bytes * count * times
        return total

    @property
    def added(self) -> int:
        """Bytes that are added to what is in global memory, of all blocks: L2 reads and writes
        them."""
        times = self.blocks.count if self.blocks.is_one_for_all else 1
        return sum(moved.bytes * count * times for moved, count in self.movements() if moved.adds)

    def movements(self) -> Iterable[tuple[Movement, int]]:
        """Yield every distinct transfer of global memory with its executions."""
        for step, count, _ in self.executed:
            if step.cost.moved is not None:
                yield step.cost.moved, count

    @property
    def work(self) -> int:
        """Arithmetic operations executed."""
        return sum(step.cost.work * count for step, count, _ in self.executed)


def _use(name: str, group: list[tuple[Step, int]], total: float) -> Use:
    cycles = sum(step.cost.cycles * count for step, count in group)
    costs: dict[int, Cost] = {id(step.cost): step.cost for step, _ in group}
    classes = sorted({c.class_name for c in costs.values()})
    return Use(
        name,
        "/".join(sorted({PIPES[step.pipe] for step, _ in group})),
        sum(count for _, count in group),
        cycles,
        cycles / total,
        lowest_confidence(c.confidence for c in costs.values()),
        "/".join(classes),
    )
