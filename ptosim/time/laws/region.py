"""A vector region of the micro level: one function of the vector unit of A5.

As for operations on tiles (`functions`): start, the latency of a chain through its instructions,
and for every further iteration the busiest of two ports that execute, loads and stores (those of
rows, iterations of a loop around it, begin a distance apart and go strided), and what an iteration
waits for from the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import ceil

from ptosim.ground.isa.costs import CostTable, lowest_confidence
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.machine.affine import Finder
from ptosim.time.laws.casts import conversion_cycles
from ptosim.time.laws.cost import NO_LAW, Cost, Stage
from ptosim.time.laws.functions import Function, Nest, frame_stage
from ptosim.time.laws.shapes import VectorStep, VectorWork
from ptosim.time.laws.vector_times import (
    Cursor,
    Pipeline,
    Timed,
    handed_on,
    is_simple,
    rounds_of,
    timed,
)
from ptosim.time.laws.vector_unit import Flight, Unit

# A region of vector instructions out of order: how long it takes, when its instructions are
# dispatched and start, and what held them up.
#
# A loop repeats itself after some rounds: when everything in flight is as it was some rounds
# before, relative to the time, whole periods are left out; the result is that of executing all. The
# same holds for the iterations of a long loop inside of a round.

SHOWN = 4
"""Rounds of each loop whose executions are kept."""

MOST_SHOWN = 1 << 17
"""Executions that are kept, of however long loops."""

LONG = 1024
"""Iterations of a loop inside of a round after which a period of iterations is looked for too. In a
shorter one the periods are those of the rounds."""

LOOKS = 4096
"""Instructions after which the limits of the run are looked at."""

PATIENCE = 32
"""Cycles in which nothing goes on, after which those to come are left out: a latency may be of any
length, and to look for the next event takes longer than a cycle."""

SEARCHED = 1024
"""States of a loop among which a period is looked for; one without a period is executed whole."""


class Execution(NamedTuple):
    """One execution: number of the instruction, round of its loop, when it is dispatched, when its
    operands can be used, when it starts and when its result is complete, and its port."""

    number: int
    iteration: int
    dispatched: int
    ready: int
    start: int
    done: int
    port: str


@dataclass(frozen=True, slots=True)
class Executed:
    """A region out of order: cycles from its start to its end, its instructions, the first
    executions, and for each reason the cycles by which it delayed dispatch or start, summed over
    instructions."""

    cycles: float
    names: tuple[str, ...]
    executions: tuple[Execution, ...]
    delays: dict[str, int]


def out_of_order(steps: Sequence[VectorStep], table: CostTable) -> Executed:
    """Return how the instructions of a region execute out of order."""
    found = [timed(step, table) for step in steps]
    nests = list(rounds_of(steps, found, table))
    simple = all(is_simple(nest.parts, found) for nest in nests)
    dispatch = 0 if simple else table["function.dispatch"]["cycles"]
    cursor = Cursor(nests, int(table["window.dispatch"]["first"] + dispatch))
    unit = Unit(steps, cursor, Pipeline(steps, found, table))
    repeats = _Repeats(unit)
    kept: list[Flight] = []
    looked = 0
    while not unit.is_idle:
        if unit.now - unit.changed > PATIENCE:
            current().look()
            began = unit.leap()
        else:
            began = unit.execute()
        if began:
            repeats.skip()
        elif cursor.iteration > LONG:
            repeats.skip_inside()
        if unit.order - looked >= LOOKS:
            looked = unit.order
            current().count(looked, "a vector region")
        if unit.started:
            if len(kept) < MOST_SHOWN:
                kept += [f for f in unit.started if f.round < SHOWN]
            unit.started.clear()
    executions = tuple(
        Execution(f.number, f.round, f.dispatched, f.ready, f.start, f.done, f.port)
        for f in sorted(kept, key=lambda f: f.order)
    )
    end = max(unit.last, unit.now if not executions else 0) + repeats.skipped
    delays = dict(unit.delays + repeats.delays)
    names = tuple(step.name for step in steps)
    return Executed(end + table["function.drain"]["cycles"], names, executions, delays)


class _Repeats:
    """Finds that the unit is as it was some rounds before, and leaves whole periods out."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.skipped = 0
        self.delays: Counter[str] = Counter()
        self.outlines: set[object] = set()
        self.rounds = _Loop((-1,))
        self.iterations = _Loop((-1,))

    def skip(self) -> None:
        """At the beginning of a round: skip as many periods as the loop has left."""
        cursor = self.unit.cursor
        if self.rounds.place != (cursor.at,):
            is_over = cursor.is_done or not cursor.nest.is_even
            self.rounds, self.outlines = _Loop((cursor.at,), is_over), set()
        if self.rounds.is_over or cursor.nest.rounds - cursor.round < 2:
            return
        outline = _outline(self.unit)  # the whole state only of rounds that look alike
        if outline not in self.outlines:
            self.outlines.add(outline)
            return
        left = cursor.nest.rounds - 1 - cursor.round
        rounds = self._left_out(self.rounds, cursor.round, left, state_of(self.unit))
        cursor.nests[cursor.at] = cursor.nest._replace(rounds=cursor.nest.rounds - rounds)

    def skip_inside(self) -> None:
        """In a round, at the beginning of an iteration of a long loop: skip as many periods of
        iterations as it has left. The time goes on from where it is, so that the beginning of the
        round becomes as much earlier."""
        cursor = self.unit.cursor
        place = cursor.at, cursor.round, cursor.part
        if self.iterations.place != place:
            self.iterations = _Loop(place)
        if self.iterations.is_over or self.iterations.last == cursor.iteration:
            return
        key = cursor.position, state_of(self.unit)
        left = cursor.nest.parts[cursor.part].iterations - 1 - cursor.iteration
        before = self.skipped
        cursor.iteration += self._left_out(self.iterations, cursor.iteration, left, key)
        cursor.due -= self.skipped - before

    def _left_out(self, loop: _Loop, number: int, left: int, key: object) -> int:
        """Return the rounds of a loop that are left out, at one of a number with so many after
        it."""
        loop.last = number
        now = self.unit.now + self.skipped, self.unit.delays + self.delays
        found = loop.finder.look(key, (number, *now))
        loop.is_over = bool(found) or len(loop.finder.states) > SEARCHED
        if not found:
            return 0
        first, cycles, delays = loop.finder.apart(found, 2)[0]
        periods = max(left // (number - first), 0)
        self.skipped += periods * (now[0] - cycles)
        for why, count in (now[1] - delays).items():
            self.delays[why] += periods * count
        return periods * (number - first)


@dataclass(slots=True, eq=False)
class _Loop:
    """A loop in which a period is looked for: where it is, whether none is looked for any more, its
    last round that was looked at, and the states so far: the number of a round, the cycle, and the
    delays."""

    place: tuple[int, ...]
    is_over: bool = False
    last: int = -1
    finder: Finder[tuple[int, int, Counter[str]]] = field(default_factory=lambda: Finder())


def _outline(unit: Unit) -> object:
    sizes = tuple(len(queue) for queue in unit.ready.values())
    ports = tuple((len(p.queue), len(p.flying), p.last) for p in unit.ports)
    return sizes, ports, unit.registers, unit.places, len(unit.freed)


def state_of(unit: Unit) -> object:
    """Return everything that what the unit does from now on depends on, relative to the time."""
    now, old = unit.now, unit.pipeline.oldest
    numbers: dict[Flight, int] = {}
    flights: list[Flight] = []

    def name(flight: Flight) -> int:
        if flight not in numbers:
            numbers[flight] = len(flights)
            flights.append(flight)
        return numbers[flight]

    def entries(queue: list[tuple[int, int, Flight]]) -> tuple[tuple[int, int], ...]:
        return tuple((ready - now, name(flight)) for ready, _, flight in sorted(queue))

    queues = tuple(entries(q) for q in unit.ready.values())
    ports = tuple(
        (p.last, max(p.started - now, -old), tuple(sorted(c - now for c in p.flying)),
         tuple((e[0] - now, name(e[2])) for e in p.queue))
        for p in unit.ports
    )  # fmt: skip
    made = tuple((number, *map(name, made)) for number, made in unit.made.items())
    others = (
        -1 if unit.fence is None else name(unit.fence),
        tuple(map(name, unit.accesses)),
        tuple(sorted((max(when - now, 0), kind) for when, kind in unit.freed)),
        unit.registers, unit.places, max(unit.complete - now, 0), max(unit.cursor.allowed - now, 0),
        round(max(unit.cursor.due - now, -old), 6),
    )  # fmt: skip
    return queues, ports, made, others, tuple(_flight(f, unit, name) for f in flights)


def _flight(flight: Flight, unit: Unit, name: Callable[[Flight], int]) -> tuple[object, ...]:
    """An execution, and who waits for it: those are named after the others."""
    now = unit.now
    start = max(flight.start - now, -unit.pipeline.oldest) if flight.start >= 0 else None
    since = flight.dispatched - now if flight.start < 0 else 0
    return (
        flight.number, start, since, max(flight.ready - now, 0), flight.waits, flight.left,
        tuple(map(name, flight.waiting)), tuple(map(name, flight.makers)),
    )  # fmt: skip


def region_cost(work: VectorWork, table: CostTable) -> Cost:
    """Return what a region costs; one on a target without such regions has no law. A region that
    only converts, between formats whose loops were profiled, takes what those take."""
    if "function.start" not in table.rows:
        return NO_LAW
    found = [timed(step, table) for step in work.steps]
    sure = ["derived" if work.exact else "assumed", *(t.confidence for t in found)]
    confidence = lowest_confidence(sure)
    executed = sum(s.times for s, t in zip(work.steps, found, strict=True) if not t.memory)
    loops = _loops(work.steps, found)
    if not loops and _only_cast(list(zip(work.steps, found, strict=True))):
        loops = [_loop(list(zip(work.steps, found, strict=True)))]
    if table["window.switch"]["value"] and not (len(loops) == 1 and loops[0].cast):
        cycles = out_of_order(work.steps, table).cycles
        stages = (Stage("out of order", cycles, 1, confidence),)
    else:
        stages = _in_order(work, found, loops, table, confidence)
    return Cost("region", stages, confidence, work=executed * 64, region=work)


def _in_order(
    work: VectorWork,
    found: Sequence[Timed],
    loops: Sequence[Loop],
    table: CostTable,
    confidence: str,
) -> tuple[Stage, ...]:
    """The first iteration, and what the busiest resource adds for the others."""
    timing = Function(table)
    chain = max(chains(work.steps, found, table), default=0)
    bounds = _bounds(work.steps, found, loops, timing)
    if len(loops) == 1 and loops[0].cast:
        bounds = {f"conversions ({loops[0].cast})": _conversions(loops[0], timing) - chain}
    name = max(bounds, key=lambda key: bounds[key])
    # Without a loop the instructions themselves go on after the first results.
    further = max(bounds[name], _all_at_once(work.steps, found, timing) - chain)
    frame = timing.edges(simple=len(loops) == 1 and loops[0].is_simple)
    return (
        Stage("start and drain", frame, 1, frame_stage(timing).confidence),
        Stage("latency of one iteration", chain, 1, confidence),
        Stage(f"further iterations: {name}", further, loops[0].total if loops else 1, confidence),
    )


class Loop(NamedTuple):
    """A loop, with the loops in it: its nest, and what an iteration of the innermost has: loads,
    stores, instructions that execute and the cycles that they take ports."""

    nest: Nest
    loads: float
    stores: float
    instructions: float
    busy: float
    cast: str = ""  # the class of its conversions, if it has nothing else and that has a law

    @property
    def total(self) -> int:
        """Iterations in all."""
        return self.nest.total

    @property
    def is_simple(self) -> bool:
        """True if an iteration has one load and instructions of one cycle."""
        return self.loads <= 1 and self.busy <= self.instructions


def _loops(steps: Sequence[VectorStep], found: Sequence[Timed]) -> list[Loop]:
    """The outermost loops of a region that execute something, in their order."""
    groups: dict[int, list[tuple[VectorStep, Timed]]] = {}
    for step, time in zip(steps, found, strict=True):
        if step.loop >= 0 and step.times:
            groups.setdefault(step.outer if step.outer >= 0 else step.loop, []).append((step, time))
    return [_loop(group) for group in groups.values()]


def _loop(group: Sequence[tuple[VectorStep, Timed]]) -> Loop:
    innermost: dict[int, int] = {}
    for step, _ in group:
        innermost[step.loop] = max(innermost.get(step.loop, 0), step.times)
    outer = group[0][0].outer
    stores = any(s.loop == outer and t.memory == "store" for s, t in group)
    if len(innermost) > 1 and not stores:  # what a row begins with is no iteration of its own
        innermost.pop(outer, None)
    count = sum(innermost.values())
    rows = max(step.rows for step, _ in group)
    run = any(step.run for step, _ in group)
    nest = Nest(count, 1, not run and count > 1)
    if 1 < rows < count:
        nest = Nest(count / rows, rows, True)

    def each(of: Callable[[VectorStep, Timed], float]) -> float:
        return sum(of(s, t) for s, t in group) / count

    return Loop(
        nest,
        each(lambda s, t: s.times * t.busy if t.memory == "load" else 0),
        each(lambda s, t: s.times * t.busy if t.memory == "store" else 0),
        each(lambda s, t: s.times if t.busy and not t.memory else 0),
        each(lambda s, t: s.times * t.busy if not t.memory else 0),
        _only_cast(group),
    )


_PROFILED = ("widen16", "widen8", "widen4", "narrow8")
_BESIDE_CASTS = frozenset(("vcvt", "vcmp", "vcmps", "vsel"))
"""What loops of conversions have, beside predicates: they keep NaN by comparing and selecting."""


def _only_cast(group: Sequence[tuple[VectorStep, Timed]]) -> str:
    """The class of the conversions of a loop that only loads, converts and stores, if loops of its
    class were profiled."""
    kinds = {s.cast for s, _ in group if s.name == "vcvt"}
    computing = {s.name for s, t in group if not t.memory and t.busy and s.name[0] != "p"}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return kind if kind in _PROFILED and computing <= _BESIDE_CASTS else ""


def _conversions(loop: Loop, timing: Function) -> float:
    """Cycles of a loop of conversions, beside the frame; narrower rows take two registers at
    once."""
    nest, line = loop.nest, not loop.nest.strided
    merges = loop.cast == "narrow8" and not line
    if merges and nest.rows > 1:
        inner = ceil(nest.inner / 2)
        nest = Nest(inner, nest.rows, True) if inner > 1 else Nest(nest.rows, 1, True)
    return conversion_cycles(timing, loop.cast, nest, line=line, merges=merges)


def _bounds(
    steps: Sequence[VectorStep], found: Sequence[Timed], loops: Sequence[Loop], timing: Function
) -> dict[str, float]:
    """Cycles that each resource adds for all iterations of all loops but the first one."""
    loop = timing.figure("loop")
    rounds = max((s.times for s in steps), default=1)
    carried = max(
        (c * steps[i].times for i, c in recurrences(steps, found, timing.table)), default=0
    )
    many = [one for one in loops if one.total > 1]
    return {
        "execution ports": sum(
            timing.port_cycles(one.busy, one.instructions, one.total) + loop for one in many
        ),
        "loads and stores": sum(
            timing.access_cycles(one.loads, one.stores, one.nest) for one in many
        ),
        "results of the iteration before": carried * (1 - 1 / max(rounds, 1)),
    }


def _all_at_once(steps: Sequence[VectorStep], found: Sequence[Timed], timing: Function) -> float:
    """Cycles that ports, and loads and stores, need for all that a region executes."""
    pairs = list(zip(steps, found, strict=True))
    loads = sum(s.times * t.busy for s, t in pairs if t.memory == "load")
    stores = sum(s.times * t.busy for s, t in pairs if t.memory == "store")
    executed = [(s, t) for s, t in pairs if t.busy and not t.memory]
    ports = sum(t.busy * s.times for s, t in executed)
    several = timing.figure("several", "per_item") * sum(s.times for s, _ in executed)
    return max(ports / 2, several, (loads + stores) / 2, stores)


def chains(steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable) -> list[float]:
    """Return when the result of each instruction can be used, from the first operand on."""
    begins: list[float] = []
    for number, step in enumerate(steps):
        after = (begins[s] + handed_on_by(found[s], found[number], table) for s in step.sources)
        begins.append(max(after, default=0))
    return [begin + time.distance for begin, time in zip(begins, found, strict=True)]


def handed_on_by(first: Timed, then: Timed, table: CostTable) -> float:
    """Return the cycles from the start of an instruction to that of one that takes its result; the
    way from and to memory is in the frame of a function."""
    return first.distance if first.memory or then.memory else handed_on(first, then, table)


def recurrences(
    steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable
) -> list[tuple[int, float]]:
    """Return, for each instruction that takes a result of the iteration before, it and the cycles
    from that operand until the instruction which makes the result has made the next one."""
    result = []
    for number, step in enumerate(steps):
        for maker in step.carried:
            cycles = _between(steps, found, table, (number, maker))
            if cycles is not None:
                result.append((number, cycles + handed_on_by(found[maker], found[number], table)))
    return result


def _between(
    steps: Sequence[VectorStep], found: Sequence[Timed], table: CostTable, ends: tuple[int, int]
) -> float | None:
    """The longest chain from the start of one instruction to that of another; None if there is
    none."""
    first, last = ends
    begins: dict[int, float] = {first: 0}
    for number in range(first + 1, last + 1):
        after = [
            begins[s] + handed_on_by(found[s], found[number], table)
            for s in steps[number].sources
            if s in begins
        ]
        if after:
            begins[number] = max(after)
    return begins.get(last)
