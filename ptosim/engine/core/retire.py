"""Effects when pipes retire: every operation takes effect at the end of a rough duration, not when
it is issued.

Pipes work at their own pace, so a program with a missing flag computes what a board would compute:
old bytes where a load was not waited for, new ones where a buffer was refilled too early. A program
whose accesses are all ordered gives the same bytes as in program order. Where synchronisation is
automatic they are: a core then issues nothing before what it issued last has retired. Durations are
assumed (they only have to make loads slow and vector work fast); cycles are the timing model's
business."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Mapping
from typing import Any

from ptosim.engine.core.bound import Bound
from ptosim.engine.core.host import Host
from ptosim.engine.core.pace import deadlock, queued
from ptosim.engine.core.records import Inst, Kind
from ptosim.ground.isa.targets import Pace
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef
from ptosim.ops.base.orders import WITHIN_CORE


class Retirement:
    """Effects happen when pipes retire what was issued to them."""

    def run(self, engine: Host) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on."""
        self._order = itertools.count()
        self._now = {core.index: 0 for core in engine.machine.cores}
        self._ends: list[tuple[int, int, Core, str]] = []
        self._busy: set[tuple[int, str]] = set()
        # Cores with a queue whose head waits for another core, and whose scalar unit does.
        self._waiting: set[int] = set()
        self._stalled: set[int] = set()
        self._acting = 0  # the core whose effect is the last one
        self._able = [(0, core.index) for core in engine.machine.cores]  # with stale entries
        while self._advance(engine):
            pass

    def _advance(self, engine: Host) -> bool:
        """One instruction of the scalar unit that is least far, or one retirement, whichever
        comes first."""
        core = self._ready_core(engine)
        if self._ends and (core is None or self._ends[0][0] <= self._now[core.index]):
            self._retire(engine)
            return True
        if core is None:
            return self._finish(engine)
        if engine.executed >= engine.meter.due:
            engine.look(core)
        self._now[core.index] += 1
        self._acting = core.index
        inst = engine.step(core)
        self._goes_on(core)
        if inst is None or inst.kind not in (Kind.SCALAR, Kind.BRANCH):
            self._wake(engine)
        return True

    def _ready_core(self, engine: Host) -> Core | None:
        """The core that is least far of those that can go on. One that cannot is looked at again
        when something of its own retires, or, where it waits for others, after each effect: to look
        at all of them each time would take the square of the number of blocks."""
        while self._able:
            now, index = self._able[0]
            core = engine.machine.cores[index]
            if now == self._now[index] and self._can_go_on(engine, core):
                return core
            heapq.heappop(self._able)
            if core.stalled is not None and _needs_others(core.stalled[1]):
                self._stalled.add(index)
        return None

    def _can_go_on(self, engine: Host, core: Core) -> bool:
        if core.halted or core.pc < 0:
            return False
        if core.stalled is not None and not core.stalled[1].guard():
            return False
        depth = 1 if engine.in_order else engine.machine.definition.queue_depth
        return all(len(q) < depth for q in core.queues.values())

    def _goes_on(self, core: Core) -> None:
        heapq.heappush(self._able, (self._now[core.index], core.index))

    def _wake(self, engine: Host) -> None:
        """After an effect: the scalar units that need not wait any more."""
        for core in [engine.machine.cores[index] for index in self._stalled]:
            if core.stalled is None or core.stalled[1].guard():
                self._stalled.discard(core.index)
                self._goes_on(core)

    def _finish(self, engine: Host) -> bool:
        cores = engine.machine.cores
        for core in cores:
            if core.stalled is None and not core.queues:
                core.halted = True
        if all(core.halted for core in cores):
            return False
        for core in cores:
            if core.stalled is not None and core.stalled[1].binding.polls:
                self._acting = core.index
                engine.go_on(core)
                self._goes_on(core)
                self._wake(engine)
                return True
        raise deadlock(engine.machine, engine.resolved.module.source, engine.sink)

    # -- pipes ------------------------------------------------------------------------------------

    def issue(self, engine: Host, core: Core, inst: Inst, bound: Bound) -> bool:
        """Queue an operation on its pipe; the scalar unit's own take effect at once."""
        if not queued(engine, core, inst, bound):
            return False
        if inst.pipe != "S":
            self._start(core, inst.pipe)
        return True

    def progress(self, engine: Host) -> None:
        """An event came: whatever waits at the head of a pipe may begin."""
        waiting, self._waiting = sorted({*self._waiting, self._acting}), set()
        for core in [engine.machine.cores[index] for index in waiting]:
            for pipe in list(core.queues):
                self._start(core, pipe)

    def _start(self, core: Core, pipe: str) -> None:
        queue = core.queues.get(pipe)
        if not queue or (core.index, pipe) in self._busy:
            return
        inst, bound = queue[0]
        if bound.guard is not None and not bound.guard():
            if _needs_others(bound):
                self._waiting.add(core.index)
            return
        self._busy.add((core.index, pipe))
        end = self._now[core.index] + _duration(core.machine_def.retire, inst.pipe, bound)
        heapq.heappush(self._ends, (end, next(self._order), core, pipe))

    def _retire(self, engine: Host) -> None:
        """The operation that ends next takes effect, and its pipe goes on."""
        end, _, core, pipe = heapq.heappop(self._ends)
        self._busy.discard((core.index, pipe))
        self._now[core.index] = max(self._now[core.index], end)
        self._acting = core.index
        queue = core.queues[pipe]
        inst, bound = queue[0]
        if bound.guard is None or bound.guard():
            queue.popleft()
            if not queue:
                del core.queues[pipe]
            engine.effect(core, inst, bound)
            self.progress(engine)
        elif _needs_others(bound):  # another pipe was first
            self._waiting.add(core.index)
        self._goes_on(core)
        self._wake(engine)


def _needs_others(bound: Bound) -> bool:
    """False for what waits for its own core alone."""
    binding = bound.binding
    return bool(binding.awaits) or not isinstance(binding.sync, WITHIN_CORE)


def _duration(paces: Mapping[str, Pace], pipe: str, bound: Any) -> int:
    binding = getattr(bound, "binding", None)
    if binding is None or binding.sync is not None:
        return 1
    tiles = [v for v in binding.values.values() if isinstance(v, TileRef)]
    largest = max((t.type.dtype.bytes_for(t.v_row * t.v_col) for t in tiles), default=0)
    pace = paces.get(pipe) or paces["other"]
    return pace.latency + largest // pace.rate
