"""What operations that order others say to the race detector and to the book of flags."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.access import (
    Agent,
    Clock,
    Clocks,
    Sanitize,
    joined,
    with_count,
)  # fmt: skip
from ptosim.engine.watch.report import FlagKey, Reporter
from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.machine import signals
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.storage import library_events
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import (
    Barrier,
    Fence,
    GetToken,
    Notify,
    ReleaseToken,
    SetFlag,
    Signals,
    Sync,
    WaitFlag,
)

_FLAGS = {"pto.set_flag", "pto.set_flag_dyn"}
"""Between pipes; events between operations of one pipe become barriers."""


class FlagBook:
    """The flags that are set and not yet waited for, with the instructions that set them."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._of: dict[FlagKey, deque[Inst]] = {}
        self.pending: dict[FlagKey, deque[Inst]] = {}  # of flags that were set, the first first
        self._seen: set[tuple[Any, ...]] = set()

    def set_for_itself(self, inst: Inst, key: FlagKey) -> None:
        """A pipe sets a flag for itself."""
        if inst.op is not None and inst.op.name in _FLAGS and self._is_new("itself", inst.pc):
            self._report.self_flag(inst, key)

    def set(self, core: Core, inst: Inst, key: FlagKey) -> None:
        """A flag is set."""
        self.setter(core, inst, key)()

    def setter(self, core: Core, inst: Inst, key: FlagKey) -> Callable[[], None]:
        """Return what notes that an instruction sets a flag."""
        if key[1] == key[2]:
            return lambda: self.set_for_itself(inst, key)
        known, pending = self.pending, self.of(key)

        def note() -> None:
            if pending:
                if self._is_new("twice", key[1:], inst.pc):
                    self._report.set_twice(core, inst, pending[-1], key)
            elif key not in known:
                known[key] = pending
            pending.append(inst)

        return note

    def of(self, key: FlagKey) -> deque[Inst]:
        """Return the instructions that have set a flag and are not waited for, the first first."""
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = deque()
        return found

    def wait(self, core: Core, inst: Inst, key: FlagKey) -> None:
        """A flag is waited for."""
        pending = self.pending.get(key)
        if pending:
            pending.popleft()

    def library(self, core: Core, inst: Inst, keys: list[FlagKey]) -> None:
        """The library sets and waits for flags of its own inside an operation."""
        for key in keys:
            pending = self.pending.get(key)
            if pending and self._is_new("library", key[1:], inst.pc):
                self._report.library_flag(core, inst, pending[-1], key)

    def finish(self) -> None:
        """Report what is set and was never waited for."""
        for key, pending in self.pending.items():
            if pending and self._is_new("left", key[1:], pending[-1].pc):
                self._report.left_set(pending[-1], key, len(pending))

    def begin_again(self) -> None:
        """No flag is set, as at first; each keeps its identity."""
        for pending in self.pending.values():
            pending.clear()
        self.pending.clear()

    def _is_new(self, *key: Any) -> bool:
        if key in self._seen:
            return False
        self._seen.add(key)
        return True


# -- orders ----------------------------------------------------------------------------------------


# What the notifications of signals in memory told: whoever is let go by one knows what it knew.
#
# A wait may be let go by any value that its core has not seen yet, an early one too, so each is
# kept until every core that goes on knows what it told.

Cell = tuple[int, int]
"""The number of a buffer, and the first byte of the signal in it."""


@dataclass(slots=True, eq=False)
class _Told:
    """One notification: who gave it, as how many-th of its operations, and what it told."""

    agent: int
    count: int
    message: Clock


class Notices:
    """The notifications of a run by signal and number, the oldest first."""

    def __init__(self, cores: Iterable[Core], clocks: Clocks) -> None:
        self._scalars = [clocks.scalar(core) for core in cores]
        self._told: dict[Cell, dict[int, _Told]] = {}

    def publish(self, agent: Agent, cell: Cell, entry: int, *, adds: bool) -> None:
        """A signal gets a value; what is added to one tells what the value before told, too."""
        told = self._told.setdefault(cell, {})
        message, before = agent.message(), told.get(entry - 1) if adds else None
        if before is not None:
            message = joined(message, before.message)
        told[entry] = _Told(agent.index, agent.count, message)
        self._forget_known(told)

    def acquire(self, agent: Agent, cell: Cell, entry: int) -> None:
        """A wait is let go by a value of a signal."""
        told = self._told.get(cell, {}).get(entry)
        if told is not None:
            agent.learn(told.message)

    @property
    def is_empty(self) -> bool:
        """True if no notification was given that somebody may wait for."""
        return not any(self._told.values())

    def forget(self) -> None:
        """The cores begin another block."""
        self._told.clear()

    def _forget_known(self, told: dict[int, _Told]) -> None:
        """Drop the oldest as long as all know what they told: whoever knows that an agent has come
        so far has it from a message of that agent, and all that it knew with it."""
        while told:
            oldest = next(iter(told))
            if not self._is_known(told[oldest]):
                return
            del told[oldest]

    def _is_known(self, one: _Told) -> bool:
        """True if all cores that go on know it. One that does not comes first the next time."""
        scalars = self._scalars
        for at, scalar in enumerate(scalars):
            if scalar.clock.get(one.agent, 0) < one.count and not scalar.core.halted:
                scalars[0], scalars[at] = scalar, scalars[0]
                return False
        return True


Effect = Callable[[], object]
What = tuple[Core, Inst, Agent]


class Ordering:
    """The clocks and flags of a run, and what events do to them."""

    def __init__(
        self, machine: Machine, clocks: Clocks, flags: FlagBook, chosen: Sanitize, target: str
    ) -> None:
        self.machine = machine
        self.clocks = clocks
        self.notices = Notices(machine.cores, clocks)
        self.flags = flags
        self.chosen = chosen
        self.target = target
        self.synchronised: set[Operation | None] = set()
        """Functions into which the assembler inserts flags."""
        self.is_on = True  # off while a debugger executes again what was watched already

    def flagged(
        self,
        what: What,
        flag: SetFlag | WaitFlag,
        commit: Effect,
        times: list[int],
    ) -> Callable[[], None]:
        """The effect of a flag between two pipes, which programs set and wait for all the time.
        `times` counts the executions of each instruction."""
        make = self._setting if isinstance(flag, SetFlag) else self._waiting
        return make(what, flag, commit, times)

    def _setting(
        self, what: What, flag: SetFlag | WaitFlag, commit: Effect, times: list[int]
    ) -> Callable[[], None]:
        core, inst, agent = what
        begin, pc, scalar, index = self.clocks.begin, inst.pc, agent.scalar, agent.index
        is_between = flag.source != flag.target
        key = (core.index, flag.source, flag.target, flag.event)
        messages = self.clocks.under_way(key)
        note = self.flags.setter(core, inst, key) if self.chosen.flags else None

        def watched() -> None:
            if self.is_on:
                if agent.pending or agent.seen is not scalar.clock:
                    begin(agent)
                else:  # it knows already what the scalar unit knows
                    agent.count += 1
                times[pc] += 1
                if is_between:
                    messages.append(with_count(agent.clock, index, agent.count))
                if note is not None:
                    note()
            commit()

        return watched

    def _waiting(
        self, what: What, flag: SetFlag | WaitFlag, commit: Effect, times: list[int]
    ) -> Callable[[], None]:
        core, inst, agent = what
        begin, pc, scalar = self.clocks.begin, inst.pc, agent.scalar
        is_between = flag.source != flag.target
        key = (core.index, flag.source, flag.target, flag.event)
        messages, pending = self.clocks.under_way(key), self.flags.of(key)

        def watched() -> None:
            if self.is_on:
                if agent.pending or agent.seen is not scalar.clock:
                    begin(agent)
                else:
                    agent.count += 1
                times[pc] += 1
                if is_between:
                    if messages:
                        agent.clock = joined(agent.clock, messages.popleft())
                    if pending:
                        pending.popleft()
            commit()

        return watched

    def synchronise(self, core: Core, inst: Inst, agent: Agent, binding: Binding) -> None:
        clocks = self.clocks
        sync = binding.sync
        if isinstance(sync, (SetFlag, WaitFlag)):
            self._flag(core, inst, agent, sync)  # of the scalar unit
        elif isinstance(sync, Barrier):
            if sync.pipe == "ALL":
                clocks.barrier(core)
            else:
                clocks.settle(clocks.agent(core, sync.pipe))
        elif sync is not None:
            self._token(core, agent, sync)
        if binding.signals and not binding.awaits:
            self._before_signal(core, inst, agent)
            for key in binding.signals:
                clocks.give(agent, key)
        for key in binding.awaits:
            clocks.take(agent, key)

    def _before_signal(self, core: Core, inst: Inst, agent: Agent) -> None:
        """In a function that the assembler synchronises a signal to other cores tells what every
        pipe has done."""
        if inst.op is None or inst.op.function not in self.synchronised:
            return
        for pipe in self.clocks.pipes:
            agent.learn(self.clocks.agent(core, pipe).message())

    def _token(self, core: Core, agent: Agent, sync: Sync) -> None:
        """What can be taken more often than it was given: buffer tokens, signals in memory; and
        fences."""
        if isinstance(sync, GetToken):
            self.clocks.acquire(agent, ("token", core.index, sync.number))
        elif isinstance(sync, ReleaseToken):
            self.clocks.release(agent, ("token", core.index, sync.number))
        elif isinstance(sync, Signals):
            self._seen_signals(core, agent, sync)
        elif isinstance(sync, Notify):
            self.clocks.settled(core, sync.pipes)
            for cell in sync.cells:
                entry = signals.latest(self.machine, sync.number, cell)
                self.notices.publish(agent, (sync.number, cell), entry + 1, adds=sync.adds)
        elif isinstance(sync, Fence):
            self.clocks.settled(core, sync.pipes)

    def _seen_signals(self, core: Core, agent: Agent, sync: Signals) -> None:
        """Who is let go by a signal knows what the notification of that value knew, no later one.
        A question that is answered with no says nothing."""
        values = [signals.value_of(self.machine, sync.number, cell) for cell in sync.cells]
        if all(value is None or sync.comparison(value, sync.value) for value in values):
            for cell, entry in signals.seen(self.machine, core, sync):
                self.notices.acquire(agent, (sync.number, cell), entry)

    def _flag(self, core: Core, inst: Inst, agent: Agent, flag: SetFlag | WaitFlag) -> None:
        key = (core.index, flag.source, flag.target, flag.event)
        is_between = flag.source != flag.target
        if isinstance(flag, SetFlag):
            if is_between:
                self.clocks.give(agent, key)
            if self.chosen.flags:
                self.flags.set(core, inst, key)
        elif is_between:
            self.clocks.take(agent, key)
            if self.chosen.flags:
                self.flags.wait(core, inst, key)

    def library_events(self, core: Core, inst: Inst) -> Callable[[], None] | None:
        """The library's code for some operations sets and waits for events of its own."""
        pairs = library_events(inst.op, self.target) if inst.op is not None else ()
        if not pairs or not self.chosen.flags:
            return None
        keys = [(core.index, source, end, number) for source, end, number in pairs]
        return lambda: self.flags.library(core, inst, keys)
