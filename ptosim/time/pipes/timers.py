"""The pipes of one core in time: in-order queues, events that carry times, the scalar unit.

An operation starts when its pipe is free, it has been issued, and what it waits for has been given;
it gives its own events when it is done. All times are integer cycles."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable
from typing import Any, cast

from ptosim.time.pipes.records import NO_CAUSE, Records, foreign
from ptosim.time.pipes.steps import BANDWIDTH, PIPES, Flag, Model, S, Step


class CoreTimer(Records):
    """The pipes of one core.

    `free[p]` is when pipe p takes its next operation, `done[p]` when everything before is done.
    Records of executed operations are columns: step, start, and the record that determined the
    start. An operation ends when its step says, except for those of `slowed`.
    """

    __slots__ = (
        "backlog", "blocked", "by_data", "clock", "done", "done_record", "free", "free_record",
        "gate", "gate_record", "index", "model", "name", "queues", "scalar_cycles", "stalled",
    )  # fmt: skip

    def __init__(self, model: Model, index: int, name: str) -> None:
        super().__init__()
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
        number = len(self.steps) + self.skipped
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
            if not step.shared:
                self.run(step, now)
            elif self.model.in_step is None:
                self._share(step, now)
                return False
            else:
                self.run(self.model.in_step.slower(self, step, now), now)
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
            self.free_record[pipe] = record if core == self.index else foreign(core, record)

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
            carry = 0 if flag.key is None else step.carry  # what data order stays in the core
            self.model.give(flag, when + carry, self.index, record)

    def _share(self, step: Step, now: int) -> None:
        """Hand a transfer to the heap; its pipe holds until it is placed."""
        pipe = step.pipe
        start = max(self.free[pipe], now)
        self.causes.append(self.free_record[pipe] if self.free[pipe] >= now else self.gate_record)
        self.stall(pipe, "scalar unit", now - self.free[pipe])
        self._record(step, start, start)
        record = self.free_record[pipe]
        self.slowed[record] = start
        self.model.pools.wait(start, self, record, now)

    def shared_done(self, record: int, end: int, now: int) -> None:
        """A shared transfer ends: its pipe goes on. Its step, with the events of this execution, is
        the head of the queue; the record has the one that executions have in common."""
        pipe = self.step(record).pipe
        queue = self.queues[pipe]
        assert queue
        step, _ = queue.popleft()
        self.stall(pipe, BANDWIDTH, end - self.start(record) - step.busy)
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

    def conduct(self) -> Hashable:
        """Return what the core executes, and when: equal for cores that do the same."""
        sites = tuple((s.site.pc, s.pipe, s.cost.cycles) for s in self.steps)
        again = tuple(
            (r.first, r.count, r.starts.tobytes()) for o in self.repeats for r in o.tree()
        )
        return hash(sites), self.starts.tobytes(), self.ends.tobytes(), again

    def do_as(self, other: CoreTimer) -> None:
        """Have done, at the same times, what another core did that waited for no third one."""
        self.become(other)
        apart = 1 << 32  # jumps belong to the cores that repeat together
        self.repeats = [repeat.apart(apart * (self.index + 1)) for repeat in other.repeats]
        same = (c if c != other.index else self.index for c in other.wait_sources[::2])
        self.wait_sources[::2] = array("q", same)
        self.slowed = dict(other.slowed)
        self.clock, self.gate_record = other.clock, other.gate_record
        for mine, its in zip(self._times, other._times, strict=True):
            mine[:] = its
        self.stalled = {reason: list(each) for reason, each in other.stalled.items()}

    @property
    def _times(self) -> tuple[list[int], ...]:
        return self.free, self.done, self.free_record, self.done_record

    @property
    def is_stuck(self) -> bool:
        """True if something waits for an event that nobody gave."""
        return bool(self.blocked or self.gate is not None)


# When the signals in memory got their values: events that are given once, and may be taken by
# anyone at any time afterwards.
#
# A core that looks at a signal for the first time may be let go by its first value, so the time of
# each is kept until the end of the run. An event takes more than a thousand bytes; so once it is
# given, only its time, core and record are kept, as columns (`SignalRecords`) in which periods are
# folded as in those of a core.

Signal = tuple[int, int]
"""The number of a buffer, and the first byte of the signal in it."""

REASON = "signal"

MANY = 16
"""Values of a signal after which those that were given become columns: checkpoints of a debugger
have all events that are left."""


class SignalRecords(Records):
    """The values of a signal, from the first notification on, as far as they are columns: `steps`
    are the cores (their pipes) that gave them, `starts` when, `causes` the records that did."""

    __slots__ = ("index",)

    def __init__(self, signal: Signal) -> None:
        super().__init__()
        self.index = signal

    def add(self, when: int, timer: CoreTimer, record: int) -> None:
        """Append the next value."""
        self.steps.append(cast("Step", timer))
        self.starts.append(when)
        self.causes.append(record)

    def of(self, entry: int) -> tuple[int, int, int]:
        """Return when which core gave a value, and the record that did; the first is 1."""
        timer: Any = self.step(entry - 1)
        return self.start(entry - 1), timer.index, self.cause(entry - 1)


class SignalTimes:
    """The signals of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.given: dict[Signal, SignalRecords] = {}

    def flag(self, signal: Signal, entry: int) -> Flag:
        """Return the event that a signal has got a value, by its number from 1 on."""
        given = self.given.get(signal)
        if given is None:
            given = self.given[signal] = SignalRecords(signal)
        if entry - given.count > MANY and not entry % MANY:
            self._keep(given)
        if entry <= given.count:
            made = Flag(None, REASON, keeps=True)
            made.times.append(given.of(entry))
            return made
        return self.model.flag(_key(signal, entry), REASON, keeps=True)

    def _keep(self, given: SignalRecords) -> None:
        """Make columns of the values that were given, up to the first one that was not."""
        model = self.model
        while True:
            key = _key(given.index, given.count + 1)
            flag = model.flags.get(key)
            if flag is None or flag.waiters or not flag.times:
                return
            when, core, record = flag.times[0]
            if when.__class__ is not int:  # it moves: the period of a loop is tried
                return
            given.add(when, model.cores[core], record)
            del model.flags[key]

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> dict[Signal, int]:
        """Return how many values of each signal are columns, for `restore`."""
        return {signal: given.count for signal, given in self.given.items()}

    def forget(self) -> None:
        """Drop all events: those of the state that is gone to are put back by `put`."""
        flags = self.model.flags
        for key in [key for key, flag in flags.items() if flag.reason == REASON]:
            del flags[key]

    def put(self, flag: Flag) -> None:
        """Take an event of a saved state back; no other is ever dropped."""
        if flag.reason == REASON and flag.key is not None:
            self.model.flags[flag.key] = flag


def _key(signal: Signal, entry: int) -> tuple[Any, ...]:
    return ("signal", *signal, entry)
