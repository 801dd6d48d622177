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
from ptosim.time.period.finder import Finder

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
