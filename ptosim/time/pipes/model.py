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

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from ptosim.time.pipes.shared import Pools
from ptosim.time.pipes.signals import SignalTimes
from ptosim.time.pipes.steps import Flag, Step
from ptosim.time.pipes.timers import CoreTimer


class TimingModel:
    """All cores of a launch, their events, and the bandwidth that they share.

    `retired` may be set to a function of (core, step, cycle): `drain_retired` calls it for
    everything placed since the last call, in the order in which it is done.
    """

    def __init__(
        self,
        names: list[str],
        scalar_cycles: int = 1,
        totals: dict[str, float] | None = None,
        copies: int = 1,
    ) -> None:
        self.scalar_cycles = scalar_cycles
        self.cores = [CoreTimer(self, index, name) for index, name in enumerate(names)]
        self.flags: dict[Any, Flag] = {}
        self.signals = SignalTimes(self)
        self.pools = Pools(totals or {}, copies)
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
