"""Vector regions from within: each innermost loop with what its instructions need of every port,
what bounds an iteration, the longest chain of dependences, and when instructions of the first
iterations would execute on idle ports (as llvm-mca shows blocks of other processors).

The figures are those of the region's cost; the timeline places every instruction as early as its
operands and its port allow, one iteration entering a cycle."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass, field
from ptosim.time.laws.region import Executed, chains, handed_on_by, out_of_order, recurrences
from ptosim.time.laws.shapes import Registers, VectorStep, VectorWork
from ptosim.time.laws.vector_times import Timed, timed
from ptosim.time.pipes.steps import Step

SHOWN_ITERATIONS = 3
PORTS = ("EXU0", "EXU1", "LD/ST0", "LD/ST1")


@dataclass(frozen=True, slots=True)
class Placed:
    """One execution of an instruction: iteration, number in the block, the cycles in which its
    operands are there, it starts, and its result is there, and its port (empty: none)."""

    iteration: int
    number: int
    ready: float
    start: float
    end: float
    port: str


@dataclass(frozen=True, slots=True)
class Line:
    """An instruction of a block: mnemonic, line, executions, latency, cycles on a port, and if it
    is on the longest chain."""

    name: str
    line: int
    times: int
    latency: float
    busy: float
    critical: bool


@dataclass(frozen=True, slots=True)
class Block:
    """A loop of a region (or what is outside of loops): iterations, cycles of an iteration on
    each port, what bounds an iteration and how many cycles that is, the length of the longest
    chain."""

    iterations: int
    pressure: dict[str, float]
    bound: str
    cycles: float
    chain: float
    lines: list[Line]
    timeline: list[Placed]


@dataclass(frozen=True, slots=True)
class RegionUse:
    """A region: its line, executions, cycles of one execution, and its blocks."""

    line: int
    count: int
    cycles: int
    exact: bool
    blocks: list[Block]
    registers: Registers | None = None
    operations: list[LogicalUse] = field(default_factory=list)
    window: Executed | None = None  # the same out of order


@dataclass(frozen=True, slots=True)
class LogicalUse:
    """A logical operation: its name and line, and the instructions that it becomes, with how often
    each is executed."""

    name: str
    line: int
    instructions: dict[str, int]


def logical_uses(work: VectorWork) -> list[LogicalUse]:
    """Return the logical operations of a region, in program order."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    for step in work.steps:
        if step.of:
            counts = found.setdefault((step.line, step.of), {})
            counts[step.name] = counts.get(step.name, 0) + step.times
    return [LogicalUse(of, line, counts) for (line, of), counts in sorted(found.items())]


def region_uses(executed: Iterable[tuple[Step, int, int]], table: CostTable) -> list[RegionUse]:
    """Return the regions among executed steps, one entry for each amount of work."""
    found: dict[tuple[int, VectorWork], list[int]] = {}
    for step, count, _ in executed:
        work = step.cost.region
        if work is not None:
            entry = found.setdefault((step.site.line, work), [0, step.cost.cycles])
            entry[0] += count
    return [
        RegionUse(
            line,
            count,
            cycles,
            work.exact,
            blocks_of(work, table),
            work.registers,
            logical_uses(work),
            out_of_order(work.steps, table),
        )
        for (line, work), (count, cycles) in sorted(found.items(), key=lambda item: item[0][0])
    ]


def blocks_of(work: VectorWork, table: CostTable) -> list[Block]:
    """Return the blocks of a region in the order of the program."""
    order = dict.fromkeys(step.loop for step in work.steps)
    several = table["function.several"]["per_item"]
    return [_block(_local(work.steps, loop), table, several) for loop in order]


def _local(steps: Sequence[VectorStep], loop: int) -> list[VectorStep]:
    """The instructions of one loop, their dependences numbered among themselves."""
    numbers = [i for i, s in enumerate(steps) if s.loop == loop]
    local = {number: i for i, number in enumerate(numbers)}
    return [
        steps[n]._replace(
            sources=tuple(local[s] for s in steps[n].sources if s in local),
            carried=tuple(local[s] for s in steps[n].carried if s in local),
        )
        for n in numbers
    ]


def _block(steps: list[VectorStep], table: CostTable, several: float) -> Block:
    found = [timed(step, table) for step in steps]
    iterations = max((s.times for s in steps), default=0)
    shares = [s.times / max(iterations, 1) for s in steps]
    pressure = _pressure(found, shares)
    executed = sum(share for t, share in zip(found, shares, strict=True) if t.busy and not t.memory)
    bounds = {
        "execution ports": max(pressure["EXU0"], pressure["EXU1"]),
        "one instruction after the other": several * executed,
        "loads and stores": pressure["LD/ST0"],
        "entry of an iteration": 1.0,
        "results of the iteration before": max(
            (c for _, c in recurrences(steps, found, table)), default=0
        ),
    }
    bound = max(bounds, key=lambda name: bounds[name])
    critical = _longest(steps, found, table)
    lines = [
        Line(s.name, s.line, s.times, t.latency, t.busy, i in critical)
        for i, (s, t) in enumerate(zip(steps, found, strict=True))
    ]
    chain = max(chains(steps, found, table), default=0)
    shown = _placed(steps, found, table, min(iterations, SHOWN_ITERATIONS))
    return Block(iterations, pressure, bound, round(bounds[bound], 2), chain, lines, shown)


def _pressure(found: Sequence[Timed], shares: Sequence[float]) -> dict[str, float]:
    """Cycles on each port in an iteration: what only one port has is there, the rest where there is
    room. Two loads go in a cycle, or a load and a store."""
    pairs = [(t, share) for t, share in zip(found, shares, strict=True) if not t.memory]
    fixed = sum(t.on_port * share for t, share in pairs if t.one_port)
    free = sum(t.busy * share for t, share in pairs if not t.one_port)
    first = max(fixed, (fixed + free) / 2)
    accesses = {
        kind: sum(t.busy * s for t, s in zip(found, shares, strict=True) if t.memory == kind)
        for kind in ("load", "store")
    }
    both = max(sum(accesses.values()) / 2, accesses["store"])
    figures = (first, fixed + free - first, both, sum(accesses.values()) - both)
    return {port: round(max(f, 0), 2) for port, f in zip(PORTS, figures, strict=True)}


def _longest(steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable) -> set[int]:
    """The instructions on the longest chain."""
    ready = chains(steps, found, table)
    if not ready:
        return set()
    number = max(range(len(ready)), key=lambda i: ready[i])
    chain = {number}
    while steps[number].sources:
        number = max(steps[number].sources, key=lambda i: ready[i])
        chain.add(number)
    return chain


class _Ports:
    """Which cycles of each port are taken."""

    def __init__(self) -> None:
        self.taken: dict[str, set[int]] = {port: set() for port in PORTS}

    def place(self, time: Timed, ready: float) -> tuple[int, str]:
        """Take the first cycles on a port that an instruction can have."""
        if time.memory:
            ports = PORTS[2:] if time.memory == "load" else PORTS[2:3]
        else:
            ports = PORTS[:1] if time.one_port else PORTS[:2]
        busy = max(round(time.on_port if time.one_port else time.busy), 1)
        start = int(-(-ready // 1))
        while True:
            for port in ports:
                cycles = range(start, start + busy)
                if self.taken[port].isdisjoint(cycles):
                    self.taken[port].update(cycles)
                    return start, port
            start += 1


def _placed(
    steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable, iterations: int
) -> list[Placed]:
    """The first iterations on idle ports."""
    ports = _Ports()
    begun: dict[tuple[int, int], float] = {}
    placed = []

    def usable(iteration: int, source: int, number: int) -> float:
        first, then = found[source], found[number]
        distance = first.latency if first.memory else handed_on_by(first, then, table)
        return begun[iteration, source] + distance

    for iteration in range(iterations):
        for number, (step, time) in enumerate(zip(steps, found, strict=True)):
            after = [usable(iteration, s, number) for s in step.sources]
            after += [usable(iteration - 1, s, number) for s in step.carried if iteration]
            ready = max([float(iteration), *after])
            start, port = (ready, "") if not time.busy else ports.place(time, ready)
            begun[iteration, number] = start
            end = start + time.latency
            placed.append(Placed(iteration, number, ready, start, end, port))
    return placed
