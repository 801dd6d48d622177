"""The vector unit of A5 while it executes a region out of order, cycle by cycle.

Instructions are dispatched in program order. One that writes a vector register takes a physical
one until its last reader has begun (until it is written again, if other loops read it); one that
computes or stores waits in a shared queue. When its operands can be used, an instruction that
computes goes to the queue of the port where it could start first; a port starts the oldest of
either kind (special, other) that its last instruction allows, and has so many in flight at most.
Loads and stores start when they can, the oldest first. After a memory barrier no access starts
before all earlier ones are complete. The figures are in `[window]` and `[interval]` of
`isa/costs/a5.toml` (public pipeline model in pto-isa)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import ceil

from ptosim.time.laws.shapes import VectorStep
from ptosim.time.laws.vector_times import BARRIER, Cursor, Pipeline

_REGISTER, _PLACE = 0, 1


class Flight:
    """One execution of an instruction (`number`): its place in program order, its round, when it
    was dispatched, from when on it can start (`ready`, once `waits` operands are known), when it
    starts (-1: not yet) and is complete, whose results it reads, who waits for it, and how many
    readers of its register have not begun (-1: not counted)."""

    __slots__ = (
        "dispatched", "done", "left", "makers", "number", "order", "port", "ready", "round",
        "start", "waiting", "waits",
    )  # fmt: skip

    def __init__(self, number: int, order: int, round_: int, now: int, left: int) -> None:
        self.number = number
        self.order = order
        self.round = round_
        self.dispatched = self.ready = now
        self.waits = 0
        self.start = self.done = -1
        self.makers: list[Flight] = []
        self.waiting: list[Flight] = []
        self.left = left
        self.port = ""


class Port:
    """A port that executes: its last instruction and when that started, what waits for it, and when
    what is in flight is complete."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = -1
        self.started = 0
        self.queue: list[tuple[int, int, Flight]] = []
        self.flying: list[int] = []


class Unit:
    """The vector unit: `execute` goes on by a cycle, until it `is_idle`. `last` is when the last
    result is complete, `changed` the last cycle in which something went on, `started` are the
    executions so far, `delays` the cycles by which each reason delayed dispatch or start, summed
    over instructions."""

    def __init__(self, steps: Sequence[VectorStep], cursor: Cursor, pipeline: Pipeline) -> None:
        self.steps = steps
        self.cursor = cursor
        self.pipeline = pipeline
        self.now = self.changed = cursor.allowed
        self.last = self.order = 0
        self.registers = pipeline.registers
        self.places = pipeline.depth
        self.freed: list[tuple[int, int]] = []
        self.made: dict[int, list[Flight]] = {}
        self.ready: dict[str, list[tuple[int, int, Flight]]] = {"": [], "load": [], "store": []}
        self.ports = (Port("EXU0"), Port("EXU1"))
        self.accesses: dict[Flight, None] = {}  # that have not started
        self.complete = 0  # when all others of them are
        self.fence: Flight | None = None
        self.delays: Counter[str] = Counter()
        self.started: list[Flight] = []

    @property
    def is_idle(self) -> bool:
        """True when nothing is left to do."""
        return self.cursor.is_done and not self._is_moving()

    def _is_moving(self) -> bool:
        return any(self.ready.values()) or any(port.queue for port in self.ports)

    def execute(self) -> bool:
        """Go through a cycle; return True if dispatch began a round in it."""
        while self.freed and self.freed[0][0] <= self.now:
            if heappop(self.freed)[1] == _REGISTER:
                self.registers += 1
            else:
                self.places += 1
        began = self._dispatch()
        self._access()
        self._to_ports()
        for port in self.ports:
            self._issue(port)
        self.now += 1
        return began

    def leap(self) -> bool:
        """Go through a cycle as `execute` does; where nothing goes on in it, also through those
        after it that are like it, up to the next in which something can."""
        before = self.delays.copy()
        began = self.execute()
        after = min((t for t in self._events() if t >= self.now), default=self.now) - self.now
        if self.changed < self.now - 1 and after:
            for why, count in (self.delays - before).items():
                self.delays[why] += count * after
            self.now += after
        return began

    def _events(self) -> Iterator[int]:
        """The cycles from which on something can go on that could not before."""
        if not self.cursor.is_done:
            yield self.cursor.allowed
        if self.fence is not None:
            yield self.fence.start
        waiting = (self.freed, *self.ready.values())
        yield from (ceil(queue[0][0]) for queue in waiting if queue)
        for port in self.ports:
            yield from (ceil(done) for done in port.flying[:1])
            for _, _, flight in port.queue:
                yield ceil(self._after(port.started, port.last, flight.number))

    # -- dispatch ----------------------------------------------------------------------------------

    def _dispatch(self) -> bool:
        began, cursor, taken = False, self.cursor, 0
        while taken < self.pipeline.width:
            if cursor.is_done or cursor.allowed > self.now or self._is_full(cursor.number):
                break
            taken += self.pipeline.found[cursor.number].takes_time
            self._take(cursor.number)
            began |= cursor.advance(self.now)
        return began

    def _is_full(self, number: int) -> bool:
        """True if the next instruction finds no room, and something in flight will make some."""
        time = self.pipeline.found[number]
        if time.writes and self.registers <= 0:
            why = "physical registers"
        elif time.queued and self.places <= 0:
            why = "instruction queue"
        elif self.steps[number].name == BARRIER and self._is_fenced():
            why = "memory barriers"
        else:
            return False
        if not self.freed and not self._is_moving():
            return False
        self.delays[why] += 1
        return True

    def _is_fenced(self) -> bool:
        """True while a memory barrier is in flight."""
        fence = self.fence
        return fence is not None and not 0 <= fence.start <= self.now

    def _take(self, number: int) -> None:
        time, step = self.pipeline.found[number], self.steps[number]
        self.order += 1
        self.changed = self.now
        flight = Flight(number, self.order, self.cursor.round, self.now, time.readers)
        flight.ready += self.pipeline.delay
        for maker in self._makers(step):
            self._needs(flight, maker)
        if time.memory and self.fence is not None:
            self._needs(flight, self.fence)
        if step.name == BARRIER:
            self._begin_fence(flight)
        elif time.memory:
            self.accesses[flight] = None
        self._rename(flight)
        self.registers -= time.writes
        self.places -= time.queued
        if not flight.waits:
            self._known(flight)

    def _makers(self, step: VectorStep) -> list[Flight]:
        """The executions whose results an instruction takes: the last one of each, of a value that
        a loop carries the last one before this iteration."""
        found = [self.made[source][-1] for source in step.sources if source in self.made]
        before = self.order - self.cursor.position
        for source in step.carried:
            found += [f for f in self.made.get(source, ()) if f.order < before][-1:]
        return found

    def _needs(self, flight: Flight, maker: Flight) -> None:
        flight.makers.append(maker)
        if maker.start < 0:
            maker.waiting.append(flight)
            flight.waits += 1
        else:
            self._usable(flight, maker)

    def _usable(self, flight: Flight, maker: Flight) -> None:
        distance = self.pipeline.distance(maker.number, flight.number)
        flight.ready = max(flight.ready, maker.start + distance)

    def _begin_fence(self, flight: Flight) -> None:
        """A barrier is over when every access before it is complete."""
        flight.ready = max(flight.ready, self.complete)
        for access in self.accesses:
            self._needs(flight, access)
        self.fence = flight

    def _rename(self, flight: Flight) -> None:
        """The result takes the name of the one before; a register that other loops read too is free
        from then on."""
        made = self.made.setdefault(flight.number, [])
        if made and flight.left < 0 and self.pipeline.found[flight.number].writes:
            self._free(self.now)
        made.append(flight)
        del made[:-2]

    def _free(self, read: int) -> None:
        heappush(self.freed, (read + self.pipeline.release, _REGISTER))

    def _known(self, flight: Flight) -> None:
        """Every operand is known: it waits until it can start; what takes no time is done then."""
        time = self.pipeline.found[flight.number]
        if time.takes_time:
            heappush(self.ready[time.memory], (flight.ready, flight.order, flight))
            return
        self._start(flight, flight.ready)

    # -- issue -------------------------------------------------------------------------------------

    def _start(self, flight: Flight, when: int) -> None:
        time = self.pipeline.found[flight.number]
        self.changed = self.now
        flight.start = when
        flight.done = when + time.latency
        if time.takes_time:
            self._occupied(flight)
        for maker in flight.makers:
            if maker.left > 0:
                maker.left -= 1
                if not maker.left and self.pipeline.found[maker.number].writes:
                    self._free(when)
        flight.makers = []
        if time.writes and not flight.left:
            self._free(flight.done)
        for waiting in flight.waiting:
            self._usable(waiting, flight)
            waiting.waits -= 1
            if not waiting.waits:
                self._known(waiting)
        flight.waiting = []

    def _occupied(self, flight: Flight) -> None:
        """Count what starts: its end, its place in the queue, what it waited for."""
        time = self.pipeline.found[flight.number]
        self.last = max(self.last, flight.done)
        self.started.append(flight)
        if time.queued:
            heappush(self.freed, (flight.start + self.pipeline.leave, _PLACE))
        if time.memory:
            self.complete = max(self.complete, flight.done)
            del self.accesses[flight]
        self.delays["ports"] += flight.start - flight.ready
        self.delays["operands"] += flight.ready - flight.dispatched - self.pipeline.delay

    def _access(self) -> None:
        """Start stores and loads: those that could start first, a store in the place of a load or
        beside them."""
        loads, stores = self.pipeline.loads, self.pipeline.stores
        while loads or stores:
            kind = self._next_access(loads, stores)
            if not kind:
                return
            flight = heappop(self.ready[kind])[2]
            is_store = kind == "store"
            flight.port = f"LD/ST{0 if is_store else self.pipeline.loads - loads}"
            stores -= is_store
            loads -= not (is_store and self.pipeline.beside)
            self._start(flight, self.now)

    def _next_access(self, loads: int, stores: int) -> str:
        """The kind of the access that could start first; nothing if none can."""
        beside = self.pipeline.beside
        found = [
            (self.ready[kind][0][:2], kind)
            for kind, left in (("load", loads), ("store", stores if loads or beside else 0))
            if left and self.ready[kind] and self.ready[kind][0][0] <= self.now
        ]
        return min(found)[1] if found else ""

    def _to_ports(self) -> None:
        """Instructions that are ready go to the port on which they could start first; so many a
        cycle to each."""
        waiting, entered = self.ready[""], [0, 0]
        stays: list[tuple[int, int, Flight]] = []
        room = 2 * self.pipeline.port_width
        while waiting and waiting[0][0] <= self.now and len(stays) < room:
            entry = heappop(waiting)
            at = self._port_for(entry[2].number, entered)
            if at is None:
                stays.append(entry)
                continue
            entered[at] += 1
            self.changed = self.now
            self.ports[at].queue.append(entry)
        for entry in stays:
            heappush(waiting, entry)

    def _port_for(self, number: int, entered: list[int]) -> int | None:
        limit = 1 if self.pipeline.found[number].one_port else 2
        choice = [
            (self._first_start(self.ports[at], number), len(self.ports[at].queue), at)
            for at in range(limit)
            if entered[at] < self.pipeline.port_width
            and len(self.ports[at].queue) < self.pipeline.port_depth
        ]
        return min(choice)[2] if choice else None

    def _first_start(self, port: Port, number: int) -> int:
        """When an instruction could start after all that waits for a port."""
        when, last = port.started, port.last
        room = self.pipeline.in_flight - len(port.queue)
        full = sorted(port.flying)[len(port.flying) - room] if 0 < room <= len(port.flying) else 0
        for _, _, flight in port.queue:
            when = max(self.now, self._after(when, last, flight.number))
            last = flight.number
        return max(self.now, full, self._after(when, last, number))

    def _after(self, when: int, last: int, number: int) -> int:
        return when + self.pipeline.interval(last, number) if last >= 0 else when

    def _issue(self, port: Port) -> None:
        while port.flying and port.flying[0] <= self.now:
            heappop(port.flying)
        if not port.queue or len(port.flying) >= self.pipeline.in_flight:
            return
        heads: dict[bool, tuple[int, int, Flight]] = {}
        for entry in port.queue:
            heads.setdefault(self.pipeline.found[entry[2].number].special, entry)
        for entry in sorted(heads.values()):
            flight = entry[2]
            if self._after(port.started, port.last, flight.number) <= self.now:
                port.queue.remove(entry)
                port.last, port.started = flight.number, self.now
                flight.port = port.name
                self._start(flight, self.now)
                heappush(port.flying, flight.done)
                return
