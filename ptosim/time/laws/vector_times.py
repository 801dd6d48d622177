"""What the instructions of a region take out of order: figures of each, and of pairs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.costs import CostTable, vector_entries
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.vector import WARP
from ptosim.time.laws.cost import NO_LAW, Cost, Stage
from ptosim.time.laws.shapes import VectorStep

# What one instruction of a vector region takes: latency, time on a port, which port.
#
# `isa/costs/classes.toml` names the row of each, of `NAME.integer` that of an instruction on
# integers where it has one of its own. Loads and stores go beside the ports that execute; their
# latency is part of the frame of a function. Instructions of other units take no port.


@dataclass(frozen=True, slots=True)
class Timed:
    """An instruction on the pipeline: cycles to its result, cycles on a port, cycles until another
    instruction can use the result, `load`, `store` or nothing, and whether one port only has it."""

    latency: float
    busy: float
    distance: float
    memory: str
    confidence: str
    one_port: bool = False
    on_port: float = 0  # cycles on the one port
    row: str = ""
    unit: frozenset[str] = frozenset()  # what it is out of order: special, early, late


_NO_TIME = Timed(0, 0, 0, "", "documented")


def timed(step: VectorStep, table: CostTable) -> Timed:
    """Return what an instruction takes on a target that has vector regions. Raises IsaDataError for
    one of the vector unit without a row."""
    entries = vector_entries()
    integer = step.integer or step.cast == "integer"
    entry = entries.get(f"{step.name}.integer") if integer else None
    entry = entry or entries.get(step.name)
    op = _row(step.name)
    memory = "load" if "loads" in op.traits else "store" if "stores" in op.traits else ""
    if entry is None and memory:
        row = table[f"function.{memory}"]
        return Timed(row["cycles"], 1, 0, memory, row.confidence)
    if entry is None and op.pipes[0].pipe != "V":
        return _NO_TIME
    if entry is None:
        raise IsaDataError(f"isa/costs/classes.toml: no row of [vector] has {step.name}")
    if entry.row == "nothing":
        return _NO_TIME
    row = table[f"instruction.{entry.row}"]
    if memory:
        return Timed(row["latency"], row["busy"], 0, memory, row.confidence)
    wide = step.bits > 16
    latency = row["latency"] if wide else row.get("latency16", row["latency"])
    busy = row["busy"] if wide else row.get("busy16", row["busy"])
    distance = max(latency - table["function.forward"]["cycles"], 0)
    on_port = busy / 2 if entry.twice else busy
    return Timed(
        latency, busy, distance, "", row.confidence, entry.one_port, on_port, entry.row, entry.unit
    )


def _row(name: str) -> OpDef:
    row = isa().get(name) or isa().get(f"pto.{name}")
    assert row is not None, name
    return row


# -- threads ---------------------------------------------------------------------------------------


class SimtWork(NamedTuple):
    """What a thread of a launch executes: operations by kind, bytes of global memory, and whether
    the text says how often."""

    counts: tuple[tuple[str, int], ...]
    bytes: int
    exact: bool


def launch_cost(work: SimtWork, threads: int, table: CostTable) -> Cost:
    """Return what a launch costs: its frame, and for each warp the slots that its operations
    take."""
    if "simt.launch" not in table.rows:
        return NO_LAW
    warps = -(-threads // WARP)
    frame = table["simt.launch"]
    stages = [Stage("launch", frame["cycles"], 1, frame.confidence)]
    for kind, count in work.counts:
        row = table[f"simt.{kind}"]
        stages.append(Stage(kind, row["cycles"] * count * warps, count * warps, row.confidence))
    if work.bytes:
        row = table["simt.far"]
        cycles = row["cycles"] + work.bytes * threads / row["bytes_per_cycle"]
        stages.append(Stage("global memory", cycles, 1, row.confidence))
    issued = sum(count for _, count in work.counts)
    return Cost("simt", tuple(stages), "assumed", work=issued * threads)


BARRIER = "mem_bar"


@dataclass(frozen=True, slots=True)
class Times:
    """One instruction: cycles to its result, `load`, `store` or nothing, whether it writes a vector
    register, takes a place in the shared queue, has only the first port, and goes to the queue of
    special instructions; how many instructions of its loop read its register, -1 if others do."""

    latency: int
    memory: str
    takes_time: bool
    writes: bool
    queued: bool
    one_port: bool
    special: bool
    readers: int


class Pipeline:
    """The figures of the vector unit for the instructions of a region."""

    def __init__(
        self, steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
    ) -> None:
        self._steps = steps
        self._timed = found
        self._table = table
        self.width = self._figure("dispatch", "width")
        self.delay = self._figure("dispatch", "delay")
        self.registers = self._figure("registers", "count")
        self.release = self._figure("registers", "release")
        self.depth = self._figure("queue", "depth")
        self.leave = self._figure("queue", "release")
        self.port_depth = self._figure("port", "depth")
        self.port_width = self._figure("port", "width")
        self.in_flight = self._figure("in_flight", "count")
        self.loads = self._figure("loads", "ports")
        self.stores = self._figure("stores", "ports")
        self.beside = bool(self._figure("stores", "beside"))
        self.found = [
            _times(time, count) for time, count in zip(found, _readers(steps), strict=True)
        ]
        self.oldest = round(max((t.latency for t in found), default=0)) + self.release
        """Cycles after which it is all the same when something started."""
        self._intervals: dict[tuple[int, int], int] = {}
        self._distances: dict[tuple[int, int], int] = {}

    def _figure(self, row: str, name: str) -> int:
        return int(self._table[f"window.{row}"][name])

    def interval(self, before: int, after: int) -> int:
        """Return the cycles from the start of an instruction to that of another one on its port."""
        key = before, after
        if key not in self._intervals:
            self._intervals[key] = self._interval(before, after)
        return self._intervals[key]

    def _interval(self, before: int, after: int) -> int:
        first, then = self._timed[before], self._timed[after]
        row = self._table.rows.get(f"interval.{first.row} {then.row}")
        if row is not None:
            narrow = self._steps[after].bits <= 16
            return int(row.get("cycles16", row["cycles"]) if narrow else row["cycles"])
        if first.row == then.row:
            return max(round(first.on_port if first.one_port else first.busy), 1)
        return 2 if round(first.latency - then.latency) == 1 else 1

    def distance(self, before: int, after: int) -> int:
        """Return the cycles from the start of an instruction to that of a reader of its result."""
        key = before, after
        if key not in self._distances:
            self._distances[key] = self._distance(before, after)
        return self._distances[key]

    def _distance(self, before: int, after: int) -> int:
        if self._steps[after].name == BARRIER:
            return round(self._timed[before].latency)
        return handed_on(self._timed[before], self._timed[after], self._table)


def handed_on(first: Timed, then: Timed, table: CostTable) -> int:
    """Return the cycles from the start of an instruction to that of one that takes its result: its
    latency but for the last cycles, how many depends on both."""
    if not first.busy:
        return 0
    return max(round(first.latency) - _early(first, then, table), 0)


def _early(first: Timed, then: Timed, table: CostTable) -> int:
    window = {name: table[f"window.{name}"] for name in ("loads", "stores", "forward")}
    if first.memory == "load":
        return int(window["loads"]["early"]) - 2 * (then.memory == "store")
    if then.memory == "store":
        return int(window["stores"]["stored" if "stored" in first.unit else "early"])
    if "early" not in first.unit or "late" in then.unit:
        return int(table["function.forward"]["cycles"])
    return int(window["forward"]["select" if "select" in then.unit else "early"])


def _times(timed: Timed, readers: int) -> Times:
    takes_time = bool(timed.busy)
    return Times(
        round(timed.latency),
        timed.memory,
        takes_time,
        takes_time and timed.memory != "store" and "masks" not in timed.unit,
        takes_time and timed.memory != "load",
        timed.one_port,
        "special" in timed.unit,
        readers,
    )


def _readers(steps: Sequence[VectorStep]) -> list[int]:
    """How many instructions of its loop read what each makes; -1 if one of another loop does, which
    may read it any number of times."""
    readers = [0] * len(steps)
    for step in steps:
        for source in (*step.sources, *step.carried):
            if steps[source].loop != step.loop or step.times != steps[source].times:
                readers[source] = -1
            elif readers[source] >= 0:
                readers[source] += 1
    return readers


# The order in which a vector region's instructions are dispatched: rounds of its outermost loops,
# and the loops inside of a round.
#
# The steps of a region say how often each is executed and in which loop it is; a nest is a loop
# with the loops in it, gone through round by round. A loop of one level is a nest of one part that
# is executed once in a round. Loops of more levels are taken as two: the innermost, and everything
# around it.


class Part(NamedTuple):
    """Instructions (by number) that are neighbours in one loop, and their iterations in a round; of
    less than one iteration, every so many rounds one."""

    numbers: tuple[int, ...]
    iterations: int
    every: int = 1


class Rounds(NamedTuple):
    """A loop with what is in it: rounds, parts of a round, cycles from the start of a round to the
    next at least, cycles before the first, and cycles by which the second is earlier."""

    rounds: int
    parts: tuple[Part, ...]
    distance: float
    entry: int
    overlap: int = 0

    @property
    def is_even(self) -> bool:
        """True if each round executes the same."""
        return all(part.every == 1 for part in self.parts)


def rounds_of(
    steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
) -> Iterator[Rounds]:
    """Yield the nests of a region in program order; instructions that are never executed are left
    out."""
    numbers = [n for n, step in enumerate(steps) if step.times]
    for _, group in groupby(numbers, lambda n: _outermost(steps[n])):
        chosen = list(group)
        loops = [list(part) for _, part in groupby(chosen, lambda n: steps[n].loop)]
        yield _rounds(loops, steps, found, table)


def _outermost(step: VectorStep) -> int:
    return step.outer if step.outer >= 0 else step.loop


def _rounds(
    loops: list[list[int]], steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
) -> Rounds:
    times = [max(steps[n].times for n in part) for part in loops]
    entered = max(steps[n].rows for part in loops for n in part)
    count = entered if len(loops) > 1 or 1 < entered < max(times) else times[0]
    parts = tuple(
        Part(tuple(part), max(each // count, 1), max(count // each, 1))
        for part, each in zip(loops, times, strict=True)
    )
    return Rounds(count, parts, *_starts(count, parts, found, table))


def _starts(
    count: int, parts: Sequence[Part], found: Sequence[Timed], table: CostTable
) -> tuple[float, int, int]:
    """Cycles from the start of a round to the next, before the first, and by which the second is
    earlier. What a row begins with is no iteration of its own."""
    loop, gap, row = (
        int(table[f"function.{name}"]["cycles"]) for name in ("loop", "row_gap", "row_start")
    )
    begins = [part for part in parts if part.iterations > 1 or _has_store(part, found)]
    inner = sum(part.iterations for part in begins if part.every == 1)
    loads, stores = (_accesses(parts, found, kind) for kind in ("load", "store"))
    if inner <= 1:
        second = int(table["window.loops"]["second"]) if loads > 1 else 0
        dispatch = int(table["function.dispatch"]["cycles"])
        early = dispatch if is_simple(parts, found) else 0
        return 1, loop + second + early if count > 1 else 0, 0
    strided = table["function.strided"]["per_access"] * (loads + stores)
    plain = max(gap, inner + row)
    earlier = int(table["window.loops"]["overlap"]) if strided > plain and loads > inner else 0
    return max(plain, strided), loop + int(table["window.loops"]["entry"]), earlier


def is_simple(parts: Sequence[Part], found: Sequence[Timed]) -> bool:
    """True if an iteration has one load at most, and instructions of one cycle."""
    return all(
        sum(found[n].memory == "load" for n in part.numbers) <= 1
        and all(found[n].busy <= 1 for n in part.numbers)
        for part in parts
    )


def _has_store(part: Part, found: Sequence[Timed]) -> bool:
    return any(found[n].memory == "store" for n in part.numbers)


def _accesses(parts: Sequence[Part], found: Sequence[Timed], kind: str) -> int:
    """Loads or stores of a round."""
    return sum(
        part.iterations * round(found[n].busy)
        for part in parts
        for n in part.numbers
        if found[n].memory == kind and part.every == 1
    )


class Cursor:
    """Where dispatch is in a region. `allowed` is the first cycle of the next instruction."""

    def __init__(self, nests: Sequence[Rounds], first: int) -> None:
        self.nests = list(nests)
        self.at = 0
        self.round = self.part = self.iteration = self.position = 0
        self.allowed = self.began = first
        self.due: float = first  # when the round begins at the earliest
        self._enter()

    @property
    def is_done(self) -> bool:
        """True after the last instruction."""
        return self.at >= len(self.nests)

    @property
    def nest(self) -> Rounds:
        """The nest that dispatch is in."""
        return self.nests[self.at]

    @property
    def number(self) -> int:
        """The next instruction."""
        return self.nest.parts[self.part].numbers[self.position]

    def _enter(self) -> None:
        if not self.is_done:
            self.allowed += self.nest.entry
            self.due = self.allowed

    def advance(self, now: int) -> bool:
        """Go to the next instruction; return True if that begins a round."""
        part = self.nest.parts[self.part]
        if not self.position:
            self.began = now
            if not self.part and not self.iteration:
                self.due = now if now > round(self.due) else self.due
        self.position += 1
        if self.position < len(part.numbers):
            return False
        self.position = 0
        self.iteration += 1
        self.allowed = self.began + 1
        if self.iteration < part.iterations:
            return False
        self.iteration = 0
        return self._next_part()

    def _next_part(self) -> bool:
        parts = self.nest.parts
        self.part += 1
        while self.part < len(parts) and self.round % parts[self.part].every:
            self.part += 1
        if self.part < len(parts):
            return False
        self.part = 0
        self.round += 1
        if self.round < self.nest.rounds:
            self.due += self.nest.distance - self.nest.overlap * (self.round == 1)
            self.allowed = max(round(self.due), self.allowed)
        else:
            if self.nest.rounds == 1 and len(parts) == 1:  # no loop that ends
                self.allowed = self.began
            self.at += 1
            self.round = 0
            self._enter()
        return True
