"""The vector unit of A5 out of order: when each instruction of a region is dispatched, when it
starts on which port, and what holds dispatch up.

Instructions are dispatched in program order, some in a cycle, an iteration of a loop at least a
cycle after the one before. One that writes a vector register takes a physical register until its
last reader has begun; one that computes or stores waits in a queue. It starts when its operands can
be used, on the first port that is free, the oldest first; a port has so many instructions in flight
at most. After a memory barrier no access starts before all earlier ones are complete. The sizes are
in `[window]` of `isa/costs/a5.toml` (public pipeline model in pto-isa), the instructions' own
figures are those of every region."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ptosim.ground.isa.costs import CostTable
from ptosim.ground.records import dataclass
from ptosim.timing.laws.instructions import Timed, timed
from ptosim.timing.laws.shapes import VectorStep

BARRIER = "mem_bar"

RECENT = 512
"""Instructions of a port that may still be in flight: more than the queues hold."""

FIRST = 160
"""Iterations of a loop that are executed; the others take what the last ones of these do."""

LAST = 64
"""Of them those that say what a further one takes."""


class Execution(NamedTuple):
    """One execution: number of the instruction, iteration, when it is dispatched, when its operands
    can be used, when it starts and when its result is complete, and its port."""

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


class _Port:
    """A port: which cycles are taken, and what is in flight."""

    def __init__(self, name: str, most: int) -> None:
        self.name = name
        self.most = most
        self.taken: set[int] = set()
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)

    def free_from(self, ready: int, busy: int) -> int:
        """Return the first cycle at which an instruction can start."""
        start = ready
        while any(start + i in self.taken for i in range(busy)) or self._is_full(start):
            start += 1
        return start

    def _is_full(self, start: int) -> bool:
        return sum(a <= start < b for a, b in self._recent) >= self.most

    def take(self, start: int, busy: int, done: int) -> None:
        """Start an instruction."""
        self.taken.update(range(start, start + busy))
        self._recent.append((start, done))


class _Room:
    """A store of limited size: who comes waits until as many have left as there is no room for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.inside = 0
        self.leaving: list[int] = []

    def enter(self, when: int) -> int:
        """Return when there is room, from a cycle on. Whose end is not known yet stays."""
        while self.leaving and self.leaving[0] <= when:
            heappop(self.leaving)
            self.inside -= 1
        while self.inside >= self.size and self.leaving:
            when = max(when, heappop(self.leaving))
            self.inside -= 1
        self.inside += 1
        return when

    def leave(self, when: int) -> None:
        """Somebody inside leaves at a cycle."""
        heappush(self.leaving, when)


class _Unit:
    """The vector unit while a region executes."""

    def __init__(self, steps: Sequence[VectorStep], table: CostTable) -> None:
        self.table = table
        self.steps = steps
        self.found = [timed(step, table) for step in steps]
        figure = self._figure
        self.width = figure("dispatch", "width")
        self.registers = _Room(figure("registers", "count"))
        self.queue = _Room(figure("queue", "depth"))
        most = figure("in_flight", "count")
        self.exu = [_Port(f"EXU{i}", most) for i in range(2)]
        self.loads = [_Port(f"LD/ST{i}", 1 << 20) for i in range(figure("loads", "ports"))]
        self.stores = self.loads[: figure("stores", "ports")]
        self.readers = self._readers()
        self.usable: dict[tuple[int, int], int] = {}
        self.held: dict[tuple[int, int], list[int]] = {}  # readers left, last start: of a register
        self.delays: Counter[str] = Counter()
        self.clock, self.count = figure("dispatch", "first"), 0
        self.memory = self.fence = 0
        self.last = 0

    def _figure(self, row: str, name: str) -> int:
        return int(self.table[f"window.{row}"][name])

    def _readers(self) -> list[int]:
        count: Counter[int] = Counter()
        for step in self.steps:
            count.update((*step.sources, *step.carried))
        return [count[number] for number in range(len(self.steps))]

    # -- dispatch ----------------------------------------------------------------------------------

    def next_iteration(self, entered: int) -> int:
        """An iteration begins a cycle after the one before began at the earliest."""
        if self.clock <= entered:
            self.clock, self.count = entered + 1, 0
        return self.clock

    def execute(self, number: int, iteration: int) -> Execution | None:
        """Dispatch the next instruction and place it; None for one that takes no time."""
        step, time = self.steps[number], self.found[number]
        if step.name == BARRIER:
            self.fence = self.memory
            return None
        if not time.busy:
            self._pass(number, iteration)
            return None
        dispatched = self._dispatch(time)
        operands = self._operands(step, iteration)
        if time.memory == "store":
            operands += self._figure("stores", "hand_over")
        ready = max(dispatched + self._figure("dispatch", "delay"), operands)
        if time.memory:
            ready = max(ready, self.fence)
        execution = self._place(number, iteration, dispatched, ready)
        self._release(step, iteration, execution.start)
        self.last = max(self.last, execution.done)
        return execution

    def _pass(self, number: int, iteration: int) -> None:
        """An instruction without time hands its operands on."""
        step = self.steps[number]
        self.usable[number, iteration] = self._operands(step, iteration)
        self._release(step, iteration, self.clock)

    def _dispatch(self, time: Timed) -> int:
        if self.count >= self.width:
            self.clock, self.count = self.clock + 1, 0
        when = self.clock
        if time.memory != "store":
            when = self._wait(self.registers, when, "physical registers")
        if time.memory != "load":
            when = self._wait(self.queue, when, "instruction queue")
        if when > self.clock:
            self.clock, self.count = when, 0
        self.count += 1
        return when

    def _wait(self, room: _Room, when: int, why: str) -> int:
        until = room.enter(when)
        self.delays[why] += until - when
        return until

    # -- issue -------------------------------------------------------------------------------------

    def _operands(self, step: VectorStep, iteration: int) -> int:
        made = [self._made(source, iteration) for source in step.sources]
        made += [self.usable.get((source, iteration - 1), 0) for source in step.carried]
        return max(made, default=0)

    def _made(self, source: int, iteration: int) -> int:
        """When a result can be used: that of this iteration, of another loop its last one."""
        known = self.usable.get((source, iteration))
        return self.usable.get((source, -1), 0) if known is None else known

    def _place(self, number: int, iteration: int, dispatched: int, ready: int) -> Execution:
        time = self.found[number]
        busy = max(round(time.on_port if time.one_port else time.busy), 1)
        ports = {"load": self.loads, "store": self.stores}.get(time.memory, self.exu)
        if time.one_port:
            ports = ports[:1]
        start, _, port = min((p.free_from(ready, busy), -at, p) for at, p in enumerate(ports))
        self.delays["ports"] += start - ready
        self.delays["operands"] += max(ready - dispatched - self._figure("dispatch", "delay"), 0)
        done = start + round(time.latency)
        port.take(start, busy, done)
        self._finished(number, iteration, start, done)
        return Execution(number, iteration, dispatched, ready, start, done, port.name)

    def _finished(self, number: int, iteration: int, start: int, done: int) -> None:
        """Say when the result can be used, when the place in the queue is free, and the register
        of a result that nobody reads."""
        time = self.found[number]
        usable = start + (self._figure("loads", "usable") if time.memory else round(time.distance))
        self.usable[number, iteration] = self.usable[number, -1] = usable
        self.usable.pop((number, iteration - 2), None)
        if time.memory:
            self.memory = max(self.memory, done)
        if time.memory != "load":
            self.queue.leave(start + self._figure("queue", "release"))
        if time.memory != "store":
            self.held[number, iteration] = [self.readers[number], done]
            if not self.readers[number]:
                self._free((number, iteration), done)

    def _release(self, step: VectorStep, iteration: int, start: int) -> None:
        """A register is free some cycles after its last reader has begun."""
        read = [(source, iteration) for source in step.sources]
        read += [(source, iteration - 1) for source in step.carried]
        for register in read:
            held = self.held.get(register)
            if held is None:
                continue
            held[0] -= 1
            held[1] = max(held[1], start + self._figure("registers", "release"))
            if not held[0]:
                self._free(register, held[1])

    def _free(self, register: tuple[int, int], when: int) -> None:
        self.registers.leave(when)
        del self.held[register]


def out_of_order(steps: Sequence[VectorStep], table: CostTable) -> Executed:
    """Return how the instructions of a region execute out of order."""
    unit = _Unit(steps, table)
    executions: list[Execution] = []
    further = 0.0
    for numbers, rounds in _loops(steps):
        ends: list[int] = []
        entered = unit.clock - 1
        for iteration in range(min(rounds, FIRST)):
            entered = unit.next_iteration(entered)
            for number in numbers:
                execution = unit.execute(number, iteration)
                if execution is not None and iteration < 4:
                    executions.append(execution)
            ends.append(unit.last)
        if rounds > FIRST:
            further += (rounds - FIRST) * (ends[-1] - ends[-1 - LAST]) / LAST
    end = unit.last + further + table["function.drain"]["cycles"]
    names = tuple(step.name for step in steps)
    return Executed(end, names, tuple(executions), dict(unit.delays))


def _loops(steps: Sequence[VectorStep]) -> Iterator[tuple[list[int], int]]:
    """Yield neighbours that are in one loop, and the iterations of it."""
    numbers: list[int] = []
    for number, step in enumerate(steps):
        if numbers and steps[numbers[-1]].loop != step.loop:
            yield numbers, max(steps[n].times for n in numbers)
            numbers = []
        numbers.append(number)
    if numbers:
        yield numbers, max(steps[n].times for n in numbers)
