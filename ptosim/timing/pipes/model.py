"""When pipes execute: in-order queues, events that carry times, the scalar unit, shared bandwidth.

Every core has a scalar unit that issues in program order and pipes that execute their queues in
order. An operation starts when its pipe is free, it has been issued, and what it waits for has been
given; it gives its own events when it is done. Events carry the time at which they were given, so
an operation is placed in time as soon as everything before it is; a pipe whose head waits for an
event that nobody has given yet holds its queue. All times are integer cycles.

Transfers that could compete for global memory are placed in the order of their starts by one heap
when the streams of all cores are known (`settle`); while more transfers are active than the total
bandwidth serves, all of them slow down by the same factor.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ptosim.timing.pipes.shared import Pools
from ptosim.timing.pipes.steps import PIPES, Flag, S, Step

NO_CAUSE = -1
"""The cause of an operation that starts when the scalar unit issues it."""


class CoreTimer:
    """The pipes of one core.

    `free[p]` is when pipe p takes its next operation, `done[p]` when everything before is done.
    Records of executed operations are columns: step, start, and the record that determined the
    start. An operation ends when its step says, except for those of `slowed`.
    """

    __slots__ = (
        "backlog", "blocked", "by_data", "causes", "clock", "done", "done_record", "free",
        "free_record",
        "gate", "gate_record", "index", "model", "name", "queues", "scalar_cycles", "slowed",
        "stalled", "starts", "steps", "wait_sources", "waits",
    )  # fmt: skip

    def __init__(self, model: TimingModel, index: int, name: str) -> None:
        count = len(PIPES)
        self.model = model
        self.scalar_cycles = model.scalar_cycles
        self.index = index
        self.name = name
        self.by_data = False  # data order what it executes; waits for them are among the causes
        self.clock = 0
        self.free, self.done = [0] * count, [0] * count
        self.free_record, self.done_record = [NO_CAUSE] * count, [NO_CAUSE] * count
        self.queues: list[deque[tuple[Step, int]] | None] = [None] * count
        self.blocked = 0  # pipes that hold their queue
        self.gate: tuple[Step, int] | None = None  # where the scalar unit itself waits
        self.gate_record = NO_CAUSE  # what the scalar unit waited for last
        self.backlog: deque[tuple[Step, int]] = deque()
        self.stalled: dict[str, list[int]] = {}  # by reason, the cycles of each pipe
        self.steps: list[Step] = []
        self.starts = array("q")
        self.slowed: dict[int, int] = {}  # ends of transfers that share bandwidth, by record
        self.causes = array("q")
        self.waits = array("q")  # pairs: position in `steps` when the wait ended, pipe
        self.wait_sources = array("q")  # the core and the record that gave the event

    # -- records -----------------------------------------------------------------------------------

    def end(self, record: int) -> int:
        """Return when the pipe of an operation took the next one."""
        end = self.slowed.get(record)
        return self.starts[record] + self.steps[record].busy if end is None else end

    @property
    def ends(self) -> array[int]:
        """When the pipe of each operation took the next one."""
        ends = array("q", [a + s.busy for s, a in zip(self.steps, self.starts, strict=True)])
        for record, end in self.slowed.items():
            ends[record] = end
        return ends

    @property
    def dones(self) -> array[int]:
        """When the result of each operation was there."""
        return array("q", [e + s.latency for s, e in zip(self.steps, self.ends, strict=True)])

    # -- issue -------------------------------------------------------------------------------------

    def issue(self, step: Step, scalars: int) -> None:
        """Take the next operation of the program, after so many operations of the scalar unit."""
        if self.gate is not None:
            self.backlog.append((step, scalars))
            return
        now = self.clock + scalars * self.scalar_cycles
        self.clock = now + step.issue
        if step.pipe == S:
            self._scalar(step, now)
            return
        queue = self.queues[step.pipe]
        if queue is not None:
            queue.append((step, now))
        elif step.is_plain:
            self.run(step, now)
        else:
            if not self._enter(step, now):
                self.queues[step.pipe] = deque([(step, now)])
                self.blocked += 1
            if step.then is not None:
                self.issue(step.then, 0)
            if self.model.ready:
                self.model.pump()

    def run_behind(
        self, step: Step, scalars: int, given: tuple[int, int], *, drains: bool
    ) -> tuple[int, int]:
        """Issue an operation after another one (when it is done, its record) that may be on
        another pipe; return the same of this one and all before it on its pipe, as a flag would
        say. Only where the pipe holds no queue."""
        now = self.clock + scalars * self.scalar_cycles
        self.clock = now + step.issue
        pipe = step.pipe
        if drains:
            self._drain_pipe(pipe)
        free = self.free[pipe]
        when, record = given
        if when > free and when > now:
            self.stall(pipe, "scalar unit", now - free)
            self.stall(pipe, "data", when - (now if now > free else free))
            self.free[pipe] = when
            self.free_record[pipe] = record
        self.run(step, now)
        return self.done[pipe], self.done_record[pipe]

    def run(self, step: Step, now: int) -> None:
        """Place an operation that waits for nothing but its pipe."""
        pipe = step.pipe
        start = self.free[pipe]
        cause = self.free_record[pipe]
        if now > start:
            self.stall(pipe, "scalar unit", now - start)
            start, cause = now, self.gate_record
        self.causes.append(cause)
        self._record(step, start, start + step.busy)

    def _record(self, step: Step, start: int, end: int) -> None:
        """Append the record of an operation whose cause has been appended."""
        pipe = step.pipe
        number = len(self.steps)
        self.steps.append(step.base)
        self.starts.append(start)
        self.free[pipe] = end
        self.free_record[pipe] = number
        done = end + step.latency
        if done >= self.done[pipe]:
            self.done[pipe] = done
            self.done_record[pipe] = number

    def stall(self, pipe: int, reason: str, cycles: int) -> None:
        """Count cycles that a pipe waits."""
        if cycles > 0:
            self.stalls_for(reason)[pipe] += cycles

    def stalls_for(self, reason: str) -> list[int]:
        """Return the cycles that each pipe waited for a reason; they can be added to."""
        return self.stalled.setdefault(reason, [0] * len(self.free))

    @property
    def stalls(self) -> dict[tuple[int, str], int]:
        """Cycles that pipes waited, by pipe and reason."""
        return {
            (pipe, reason): cycles
            for reason, each in self.stalled.items()
            for pipe, cycles in enumerate(each)
            if cycles
        }

    # -- operations that wait or give --------------------------------------------------------------

    def _enter(self, step: Step, now: int) -> bool:
        """Place an operation with events; False if one that it waits for has not been given."""
        if step.takes and not self._given(step):
            return False
        if step.drains:
            self._drain_pipe(step.pipe)
        for flag in step.takes:
            self.take(step, flag, now)
        if step.is_work:
            if step.shared:
                self._share(step, now)
                return False
            self.run(step, now)
        self._give(step, now)
        return True

    def _given(self, step: Step) -> bool:
        """True if everything that a step waits for has been given, to it first of all who wait;
        otherwise it is put on the list of the first event that has not."""
        me = (self, step.pipe)
        for flag in step.takes:
            if not flag.times or (flag.waiters and not flag.keeps and flag.waiters[0] != me):
                if me not in flag.waiters:
                    flag.waiters.append(me)
                return False
        for flag in step.takes:
            if flag.waiters and me in flag.waiters:
                flag.waiters.remove(me)
        return True

    def take(self, step: Step, flag: Flag, now: int) -> None:
        """Wait on a pipe for an event whose time is known."""
        when, core, record = flag.times[0] if flag.keeps else flag.times.popleft()
        pipe = step.pipe
        self.waits.append(len(self.steps))
        self.waits.append(pipe)
        self.wait_sources.append(core)
        self.wait_sources.append(record)
        free = max(self.free[pipe], now)
        if when > free:
            if now > self.free[pipe]:
                self.stall(pipe, "scalar unit", now - self.free[pipe])
            self.stall(pipe, flag.reason, when - free)
            self.free[pipe] = when
            self.free_record[pipe] = record if core == self.index else _foreign(core, record)

    def _drain_pipe(self, pipe: int) -> None:
        """A barrier: what follows starts after everything before is done."""
        done = self.done[pipe]
        if done > self.free[pipe]:
            self.stall(pipe, "barrier", done - self.free[pipe])
            self.free[pipe] = done
            self.free_record[pipe] = self.done_record[pipe]

    def _give(self, step: Step, now: int) -> None:
        pipe = step.pipe
        when, record = self.done[pipe], self.done_record[pipe]
        # A pipe that waited gives no earlier than its wait ended.
        if self.free[pipe] > when:
            when, record = self.free[pipe], self.free_record[pipe]
        if now > when:
            when, record = now, NO_CAUSE
        for flag in step.gives:
            self.model.give(flag, when + step.carry, self.index, record)

    def _share(self, step: Step, now: int) -> None:
        """Hand a transfer to the heap; its pipe holds until it is placed."""
        pipe = step.pipe
        start = max(self.free[pipe], now)
        self.causes.append(self.free_record[pipe] if self.free[pipe] >= now else self.gate_record)
        self.stall(pipe, "scalar unit", now - self.free[pipe])
        self._record(step, start, start)
        self.slowed[len(self.steps) - 1] = start
        self.model.pools.wait(start, self, len(self.steps) - 1, now)

    def shared_done(self, record: int, end: int, now: int) -> None:
        """A shared transfer ends: its pipe goes on. Its step, with the events of this execution, is
        the head of the queue; the record has the one that executions have in common."""
        pipe = self.steps[record].pipe
        queue = self.queues[pipe]
        assert queue
        step, _ = queue.popleft()
        self.stall(pipe, "shared bandwidth", end - self.starts[record] - step.busy)
        self.slowed[record] = end
        self.free[pipe] = end
        done = end + step.latency
        if done >= self.done[pipe]:
            self.done[pipe] = done
            self.done_record[pipe] = record
        self._give(step, now)
        self.resume(pipe)

    def resume(self, pipe: int) -> None:
        """Go on with a pipe that held its queue."""
        queue = self.queues[pipe]
        if queue is None:
            return
        while queue:
            step, now = queue[0]
            if step.is_plain:
                self.run(step, now)
            elif not self._enter(step, now):
                return
            queue.popleft()
        self.queues[pipe] = None
        self.blocked -= 1
        if self.gate is not None:
            self._open()

    # -- the scalar unit ---------------------------------------------------------------------------

    def _scalar(self, step: Step, now: int) -> None:
        """An operation of the scalar unit itself, or one that it waits at."""
        if not self._pass(step, now):
            self.gate = (step, now)
        if step.then is not None:
            self.issue(step.then, 0)
        if self.model.ready:
            self.model.pump()

    def _pass(self, step: Step, now: int) -> bool:
        if step.drains and self.blocked:
            return False
        if step.takes and not self._given(step):
            return False
        self.free[S] = max(self.free[S], now)
        if step.drains:
            self._drain_core()
        for flag in step.takes:
            self.take(step, flag, now)
        if step.is_work:
            self.causes.append(self.free_record[S])
            self._record(step, self.free[S], self.free[S] + step.busy)
        self._give(step, now)
        if self.free[S] > self.clock:
            self.clock = self.free[S]
            self.gate_record = self.free_record[S]
        return True

    def _drain_core(self) -> None:
        """The scalar unit waits until every pipe is done."""
        last = max(range(len(PIPES)), key=self.done.__getitem__)
        if self.done[last] > self.free[S]:
            self.stall(S, "barrier", self.done[last] - self.free[S])
            self.free[S] = self.done[last]
            self.free_record[S] = self.done_record[last]

    def _open(self) -> None:
        """Try the gate of the scalar unit again; after it issue goes on with what came
        meanwhile."""
        if self.gate is None:
            return
        step, now = self.gate
        if not self._pass(step, now):
            return
        self.gate = None
        backlog = self.backlog
        while backlog and self.gate is None:
            self.issue(*backlog.popleft())

    def woken(self, pipe: int) -> None:
        """An event that a pipe waits for was given."""
        if pipe == S:
            self._open()
        else:
            self.resume(pipe)

    @property
    def is_stuck(self) -> bool:
        """True if something waits for an event that nobody gave."""
        return bool(self.blocked or self.gate is not None)


def _foreign(core: int, record: int) -> int:
    """A record of another core as a cause: negative numbers below NO_CAUSE."""
    return -2 - (record << 16 | core) if record >= 0 else NO_CAUSE


def cause_of(code: int, core: int) -> tuple[int, int] | None:
    """Return (core, record) of a cause; None for the scalar unit."""
    if code == NO_CAUSE:
        return None
    if code >= 0:
        return core, code
    packed = -2 - code
    return packed & 0xFFFF, packed >> 16


class TimingModel:
    """All cores of a launch, their events, and the bandwidth that they share.

    `retired` may be set to a function of (core, step, cycle): `drain_retired` calls it for
    everything placed since the last call, in the order in which it is done.
    """

    def __init__(
        self, names: list[str], scalar_cycles: int = 1, totals: dict[str, float] | None = None
    ) -> None:
        self.scalar_cycles = scalar_cycles
        self.cores = [CoreTimer(self, index, name) for index, name in enumerate(names)]
        self.flags: dict[Any, Flag] = {}
        self.pools = Pools(totals or {})
        self.shares = bool(totals)
        self.retired: Callable[[int, Step, int], None] | None = None
        self.ready: deque[Flag] = deque()
        self._pumping = False
        self._told = [0] * len(self.cores)

    def flag(
        self, key: Any, reason: str, credits: int = 0, group: int = 1, *, keeps: bool = False
    ) -> Flag:
        """Return the event of a key; a new one has `credits` given at time 0."""
        flag = self.flags.get(key)
        if flag is None:
            made = Flag(key, reason, keeps=keeps, group=group, credits=credits)
            flag = self.flags[key] = made
        return flag

    def give(self, flag: Flag, when: int, core: int, record: int) -> None:
        """An event is given; whoever waits longest for it goes on (all, if it keeps)."""
        if flag.group > 1:
            flag.held.append((when, core, record))
            if len(flag.held) < flag.group:
                return
            flag.times.extend([max(flag.held)] * flag.group)
            flag.held.clear()
        else:
            flag.times.append((when, core, record))
        if flag.waiters:
            self.ready.append(flag)

    def pump(self) -> None:
        """Let everything go on that events have made ready."""
        if self._pumping:
            return
        self._pumping = True
        ready = self.ready
        while ready:
            flag = ready.popleft()
            waiters = flag.waiters
            if flag.keeps:  # whoever waits for something else as well holds up nobody
                for timer, pipe in tuple(waiters):
                    timer.woken(pipe)
                continue
            while waiters and flag.times:
                before = len(waiters)
                timer, pipe = waiters[0]
                timer.woken(pipe)
                if len(waiters) >= before:
                    break
        self._pumping = False

    def settle(self) -> None:
        """Place every transfer that competes for bandwidth."""
        self.pools.run()

    @property
    def makespan(self) -> int:
        """Cycle at which the last operation is done."""
        return max((max(*core.done, core.clock) for core in self.cores), default=0)

    def drain_retired(self) -> None:
        """Tell what was placed since the last call, in order of completion."""
        if self.retired is None:
            return
        fresh = []
        for core in self.cores:
            numbers = range(self._told[core.index], len(core.steps))
            fresh += [(core.end(n) + core.steps[n].latency, core.index, n) for n in numbers]
            self._told[core.index] = len(core.steps)
        for cycle, index, number in sorted(fresh):
            self.retired(index, self.cores[index].steps[number], cycle)

    def stuck(self) -> Iterator[CoreTimer]:
        """Yield the cores that wait for an event that nobody gave."""
        return (core for core in self.cores if core.is_stuck)
