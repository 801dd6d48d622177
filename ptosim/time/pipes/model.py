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

from collections import Counter, deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from math import prod
from typing import Any

import numpy as np

from ptosim.ground.records import replace
from ptosim.time.pipes.steps import BANDWIDTH, MOST_TIME, Flag, Step
from ptosim.time.pipes.timers import CoreTimer, SignalTimes

# Bandwidth that all cores share: transfers placed in the order of their starts.
#
# A pool has a total of bytes a cycle. While the active transfers ask for more than the total, all
# advance by the same factor below 1. So one clock of progress for each pool tells when each of
# them ends: progress runs at the factor, a transfer ends when progress has advanced by its full-
# speed duration. Progress is counted in integer parts of a cycle, so results do not depend on
# rounding of floats.

PARTS = 1 << 20
"""Progress of one cycle at full speed."""
MOST_COMPARED = 1 << 21
"""Transfers of a core that are compared with those of another one."""


class Pool:
    """One direction: total bytes a cycle, and the transfers that are active."""

    __slots__ = ("active", "demand", "progress", "time", "total")

    def __init__(self, total: float) -> None:
        self.total = round(total * PARTS)
        self.demand = 0
        self.progress = 0
        self.time = 0
        self.active: list[tuple[int, int, Any, int, int, int]] = []

    def factor(self) -> int:
        """Progress in a cycle."""
        if self.demand <= self.total:
            return PARTS
        return max(PARTS * self.total // self.demand, 1)

    def advance(self, time: int) -> None:
        """Let progress run up to a time."""
        self.progress += self.factor() * (time - self.time)
        self.time = time

    def next_end(self) -> int | None:
        """Return when the next active transfer ends if nothing else happens."""
        if not self.active:
            return None
        missing = self.active[0][0] - self.progress
        return self.time + -(-missing // self.factor()) if missing > 0 else self.time


class Pools:
    """Every pool, and the transfers that wait for their start."""

    def __init__(self, totals: dict[str, float], copies: int = 1) -> None:
        self.copies = copies  # of every transfer at the same time: blocks that do the same
        self.pools = {name: Pool(total) for name, total in totals.items()}
        self.pending: list[tuple[int, int, Any, int, int]] = []
        self._count = 0

    def wait(self, start: int, core: Any, record: int, issued: int) -> None:
        """Add a transfer that starts at a time."""
        heappush(self.pending, (start, self._count, core, record, issued))
        self._count += 1

    def run(self) -> None:
        """Place transfers until none is left; each end lets its pipe go on, which may add more."""
        while True:
            end, pool = self._next_end()
            if self.pending and (pool is None or self.pending[0][0] < end):
                self._start()
            elif pool is not None:
                self._end(pool, end)
            else:
                return

    def _next_end(self) -> tuple[int, Pool | None]:
        best: tuple[int, Pool | None] = (0, None)
        for pool in self.pools.values():
            end = pool.next_end()
            if end is not None and (best[1] is None or end < best[0]):
                best = (end, pool)
        return best

    def _start(self) -> None:
        start, order, core, record, issued = heappop(self.pending)
        step = core.step(record)
        name, demand = step.shared
        pool = self.pools[name]
        pool.advance(max(start, pool.time))
        scaled = round(demand * PARTS) * self.copies
        pool.demand += scaled
        end = pool.progress + step.busy * PARTS
        heappush(pool.active, (end, order, core, record, issued, scaled))

    def _end(self, pool: Pool, end: int) -> None:
        pool.advance(end)
        _, _, core, record, issued, scaled = heappop(pool.active)
        pool.demand -= scaled
        core.shared_done(record, end, issued)
        core.model.pump()

    # -- state -------------------------------------------------------------------------------------

    def save(self) -> tuple[Any, ...]:
        """Return what waits and what is active, for `restore`."""
        pools = [(p.demand, p.progress, p.time, list(p.active)) for p in self.pools.values()]
        return list(self.pending), self._count, pools

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Go back to a state of this run; transfers that wait have no end yet."""
        pending, self._count, pools = saved
        self.pending = list(pending)
        for pool, (demand, progress, time, active) in zip(self.pools.values(), pools, strict=True):
            pool.demand, pool.progress, pool.time = demand, progress, time
            pool.active = list(active)
        for start, _, core, record, _ in self.pending:
            core.slowed[record] = start


class InStep:
    """The same pools, where cores that have something to transfer all transfer the same at the same
    time. Then the rate of a transfer is fixed when it starts: by how many cores have not yet ended
    their last one. Nothing waits for other cores, so rounds of loops repeat. `ends` are when the
    last transfer of each core ended in each pool, in the same launch followed before; without them
    every core transfers to the end. Whoever uses it looks afterwards whether all this `holds`."""

    def __init__(self, pools: Pools, ends: dict[str, list[int]] | None, cores: int) -> None:
        self.copies = pools.copies
        self.pools = pools.pools
        ends = ends or {name: [MOST_TIME] * cores for name in self.pools}
        self.ends = {name: sorted(Counter(of).items()) for name, of in ends.items()}
        self._slower: dict[tuple[Step, int], Step] = {}

    def slower(self, timer: CoreTimer, step: Step, now: int) -> Step:
        """Return a step with the time that it takes if it starts as soon as its pipe is free."""
        name, demand = step.shared  # type: ignore[misc]
        start = max(timer.free[step.pipe], now)
        active = max(sum(cores for end, cores in self.ends[name] if end > start), 1)
        found = self._slower.get((step.base, active))
        if found is None:
            pool = Pool(0)
            pool.total = self.pools[name].total
            pool.demand = round(demand * PARTS) * self.copies * active
            found = replace(step.base, takes=(), gives=(), then=None)
            found.base, found.ranges, found.reach = found, step.base.ranges, step.base.reach
            found.busy = -(-step.busy * PARTS // pool.factor())
            self._slower[step.base, active] = found
        timer.stall(step.pipe, BANDWIDTH, found.busy - step.busy)
        return found

    def last_ends(self, cores: list[CoreTimer]) -> dict[str, list[int]]:
        """Return when the last transfer of each core ended in each pool; 0 if it has none."""
        ends = {name: [0] * len(cores) for name in self.pools}
        for core in cores:
            for place, times in core.times():
                step = core.steps[place]
                if step.shared is not None:
                    of = ends[step.shared[0]]
                    last = core.starts[place] + step.busy + sum(n * by for n, by in times)
                    of[core.index] = max(of[core.index], last)
        return ends

    def holds(self, cores: list[CoreTimer]) -> bool:
        """True if every core transfers what the one does that transfers longest, at the same times,
        up to its own last transfer, and one pipe of it does."""
        of_core = {core.conduct(): core for core in cores}.values()
        for name in self.pools:
            if len(of_core) == 1:  # however many transfers it has
                steps = (s for core in of_core for s in core.steps)
                if len({s.pipe for s in steps if s.shared and s.shared[0] == name}) > 1:
                    return False
                continue
            columns = [_transfers(core, name) for core in of_core]
            known = [column for column in columns if column is not None]
            longest = max(known, key=len, default=np.empty((0, 2)))
            alike = all(np.array_equal(column, longest[: len(column)]) for column in known)
            if not alike or len(known) < len(columns):
                return False
        return True


def _transfers(core: CoreTimer, name: str) -> np.ndarray | None:
    """Starts and ends of the transfers of a core in a pool, in their order; None if several pipes
    transfer, or they are too many to be compared."""
    found, pipes, count = [], set(), 0
    for place, times in core.times():
        step = core.steps[place]
        if step.shared is None or step.shared[0] != name:
            continue
        count += prod(more + 1 for more, _ in times)
        pipes.add(step.pipe)
        if len(pipes) > 1 or count > MOST_COMPARED:
            return None
        starts = np.full(1, core.starts[place], np.int64)
        for more, by in times:
            starts = np.add.outer(starts, np.arange(more + 1, dtype=np.int64) * by).reshape(-1)
        found.append(np.stack([starts, starts + step.busy], axis=1))
    columns = np.concatenate(found) if found else np.empty((0, 2), np.int64)
    return columns[columns[:, 0].argsort(kind="stable")]


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
        self.in_step: InStep | None = None
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
