"""A region of vector instructions out of order: how long it takes, when its instructions are
dispatched and start, and what held them up.

A loop repeats itself after some rounds: when everything in flight is as it was some rounds before,
relative to the time, whole periods are left out; the result is that of executing all. The same
holds for the iterations of a long loop inside of a round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple, dataclass, field
from ptosim.time.laws.instructions import timed
from ptosim.time.laws.shapes import VectorStep
from ptosim.time.laws.vector_rounds import Cursor, is_simple, rounds_of
from ptosim.time.laws.vector_times import Pipeline
from ptosim.time.laws.vector_unit import Flight, Unit

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
        self.nest = -1
        self.is_over = False
        self.outlines: set[object] = set()
        self.seen: dict[object, tuple[int, int, Counter[str]]] = {}
        self.inside = _Inside()

    def skip(self) -> None:
        """At the beginning of a round: skip as many periods as the loop has left."""
        cursor = self.unit.cursor
        if cursor.at != self.nest:
            self.nest, self.seen, self.outlines = cursor.at, {}, set()
            self.is_over = cursor.is_done or not cursor.nest.is_even
        if self.is_over or cursor.nest.rounds - cursor.round < 2:
            return
        outline = _outline(self.unit)  # the whole state only of rounds that look alike
        if outline not in self.outlines:
            self.outlines.add(outline)
            return
        state, now = state_of(self.unit), self._now()
        before = self.seen.setdefault(state, (cursor.round, *now))
        if before[0] < cursor.round:
            rounds = cursor.round - before[0]
            periods = (cursor.nest.rounds - 1 - cursor.round) // rounds
            left = cursor.nest.rounds - periods * rounds
            cursor.nests[cursor.at] = cursor.nest._replace(rounds=left)
            self._leave_out(periods, now[0] - before[1], now[1] - before[2])
            self.is_over = True
        self.is_over |= len(self.seen) > SEARCHED

    def skip_inside(self) -> None:
        """In a round, at the beginning of an iteration of a long loop: skip as many periods of
        iterations as it has left. The time goes on from where it is, so that the beginning of the
        round becomes as much earlier."""
        cursor = self.unit.cursor
        inside = self.inside.of((cursor.at, cursor.round, cursor.part))
        if inside.is_over or inside.last == cursor.iteration:
            return
        inside.last = cursor.iteration
        state, now = (cursor.position, state_of(self.unit)), self._now()
        before = inside.seen.setdefault(state, (cursor.iteration, *now))
        if before[0] < cursor.iteration:
            iterations, cycles = cursor.iteration - before[0], now[0] - before[1]
            left = cursor.nest.parts[cursor.part].iterations - 1 - cursor.iteration
            periods = max(left // iterations, 0)
            cursor.iteration += periods * iterations
            cursor.due -= periods * cycles
            self._leave_out(periods, cycles, now[1] - before[2])
            inside.is_over = True
        inside.is_over |= len(inside.seen) > SEARCHED

    def _now(self) -> tuple[int, Counter[str]]:
        """The cycle and the delays so far, with those of what was left out."""
        return self.unit.now + self.skipped, self.unit.delays + self.delays

    def _leave_out(self, periods: int, cycles: int, delays: Counter[str]) -> None:
        self.skipped += periods * cycles
        for why, count in delays.items():
            self.delays[why] += periods * count


@dataclass(slots=True, eq=False)
class _Inside:
    """What is known of a loop inside of a round: which one it is, its last iteration that was
    looked at, its states so far, and whether no period is looked for any more."""

    place: tuple[int, int, int] = (-1, -1, -1)
    last: int = -1
    seen: dict[object, tuple[int, int, Counter[str]]] = field(default_factory=dict)
    is_over: bool = False

    def of(self, place: tuple[int, int, int]) -> _Inside:
        """Return this for the loop that dispatch is in: as at first when it is another one."""
        if self.place != place:
            self.place, self.last, self.seen, self.is_over = place, -1, {}, False
        return self


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
