"""Bandwidth that all cores share: transfers placed in the order of their starts.

A pool has a total of bytes a cycle. While the active transfers ask for more than the total, all
advance by the same factor below 1. So one clock of progress for each pool tells when each of them
ends: progress runs at the factor, a transfer ends when progress has advanced by its full-speed
duration. Progress is counted in integer parts of a cycle, so results do not depend on rounding of
floats.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

PARTS = 1 << 20
"""Progress of one cycle at full speed."""


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
