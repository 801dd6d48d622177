"""Effects in another order than that of the text: one of the many that flags, barriers, tokens and
signals leave open.

A schedule is a number. 0 is the order of the text; 1 has the cores from the last to the first; each
of the next ones lets one kind of pipe come last, so that whatever need not wait for it does not;
from `FIRST_RANDOM` on pipes and scalar units of all cores have priorities at random, which change
with every turn or a few times (Burckhardt et al., A Randomized Scheduler with Probabilistic
Guarantees of Finding Bugs, 2010). Of the pipes and scalar units that can go on the first one does,
by one instruction. Where the assembler inserts flags a core keeps the order of the text."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterable
from random import Random
from typing import Any

from ptosim.engine.core.bound import Bound, Inst, Kind
from ptosim.engine.core.pace import deadlock, queued
from ptosim.engine.core.runners import Host
from ptosim.machine.core import Core
from ptosim.ops.base.orders import WITHIN_CORE

LATE = ("MTE2", "MTE3", "V", "M", "MTE1", "FIX")
"""Pipes that come last in the schedules from 2 on."""
CORES_BACKWARDS = 1
FIRST_RANDOM = 2 + len(LATE)
_ROUGHLY = 40
"""Turns between two changes of the priorities, on average."""
_SCALAR = "S"

Agent = tuple[int, str]
"""A pipe of a core, or its scalar unit."""


def number_of(pipe: str, *, same_core: bool) -> int | None:
    """Return the schedule in which what `pipe` does first in the order of the text comes last: for
    two accesses of one core, or of a core and a later one. None if there is none."""
    if not same_core:
        return CORES_BACKWARDS
    return 2 + LATE.index(pipe) if pipe in LATE else None


def numbers(count: int, pipes: Iterable[str], cores: int) -> list[int]:
    """Return the first schedules that may differ from each other for a program of these pipes."""
    used = set(pipes)
    found = [CORES_BACKWARDS] if cores > 1 else []
    found += [2 + at for at, pipe in enumerate(LATE) if pipe in used]
    found += range(FIRST_RANDOM, FIRST_RANDOM + max(count - len(found), 0))
    return found[:count]


class Scheduled:
    """Effects in the order of a schedule. `ordered` are the names of functions that keep the
    order of the text."""

    def __init__(self, number: int, ordered: Collection[str]) -> None:
        self._number = number
        self._ordered = ordered
        self._random = Random(number) if number >= FIRST_RANDOM else None
        self._rank: dict[Agent, Any] = {}
        self._able: list[tuple[Any, Agent]] = []  # with agents that turn out not to be
        self._listed: set[Agent] = set()

    def run(self, engine: Host) -> None:
        """Execute every core to its end. Raises Trap where the program cannot go on."""
        self._cores = {core.index: core for core in engine.machine.cores}
        self._names = {f.op: f.name for f in engine.resolved.functions.values()}
        for core in engine.machine.cores:
            self._may_go_on((core.index, _SCALAR))
        while self._advance(engine):
            pass

    # -- priorities -------------------------------------------------------------------------------

    def _rank_of(self, agent: Agent) -> Any:
        """The place of an agent: the lowest that can goes on."""
        found = self._rank.get(agent)
        if found is None:
            found = self._rank[agent] = self._first_rank(agent)
        return found

    def _first_rank(self, agent: Agent) -> Any:
        index, pipe = agent
        if self._random is not None:
            return (0, self._random.random(), index, pipe)
        is_late = 1 < self._number < FIRST_RANDOM and pipe == LATE[self._number - 2]
        at = -index if self._number == CORES_BACKWARDS else index
        return (is_late, at, pipe == _SCALAR, pipe)

    def _change(self, agent: Agent) -> None:
        """In every second schedule whoever had a turn gets another priority; in the others now and
        then it comes after all others."""
        if self._random is None:
            return
        group, place, *rest = self._rank_of(agent)
        if self._number % 2:
            self._rank[agent] = (group, self._random.random(), *rest)
        elif self._random.randrange(_ROUGHLY) == 0:
            self._rank[agent] = (group + 1, place, *rest)

    def _may_go_on(self, agent: Agent) -> None:
        if agent not in self._listed:
            self._listed.add(agent)
            heapq.heappush(self._able, (self._rank_of(agent), agent))

    # -- turns ------------------------------------------------------------------------------------

    def _advance(self, engine: Host) -> bool:
        """One instruction of the first scalar unit or pipe that can go on."""
        while self._able:
            _, agent = heapq.heappop(self._able)
            self._listed.discard(agent)
            core = self._cores[agent[0]]
            if not self._is_able(engine, agent):
                continue
            if agent[1] == _SCALAR:
                self._step(engine, core)
            else:
                self._take_effect(engine, core, agent[1])
            self._change(agent)
            return True
        return self._finish(engine)

    def _is_able(self, engine: Host, agent: Agent) -> bool:
        core = self._cores[agent[0]]
        if agent[1] == _SCALAR:
            return self._can_step(engine, core)
        return self._can_take_effect(core, agent[1])

    def _can_step(self, engine: Host, core: Core) -> bool:
        if core.halted or core.pc < 0:
            return False
        if core.stalled is not None:
            return bool(core.stalled[1].guard())
        is_ordered = engine.in_order or self._keeps_text(engine.insts[core.pc])
        depth = 1 if is_ordered else engine.machine.definition.queue_depth
        return all(len(q) < depth for q in core.queues.values())

    def _keeps_text(self, inst: Inst) -> bool:
        home = inst.op.function if inst.op is not None and self._ordered else None
        return home is not None and self._names.get(home) in self._ordered

    def _step(self, engine: Host, core: Core) -> None:
        if engine.executed >= engine.meter.due:
            engine.look(core)
        if core.stalled is not None:
            engine.go_on(core)
            self._wake(core, everybody=True)
            return
        inst = engine.insts[core.pc]
        if inst.kind is Kind.REGION:  # a region is work of its pipe
            core.queues.setdefault(inst.pipe, deque())
        engine.step(core)
        self._wake(core, everybody=False)

    def _can_take_effect(self, core: Core, pipe: str) -> bool:
        queue = core.queues.get(pipe)
        if not queue:
            return False
        guard = queue[0][1].guard
        return guard is None or bool(guard())

    def _take_effect(self, engine: Host, core: Core, pipe: str) -> None:
        queue = core.queues[pipe]
        inst, bound = queue.popleft()
        if not queue:
            del core.queues[pipe]
        engine.effect(core, inst, bound)
        binding = getattr(bound, "binding", None)
        sync = binding.sync if binding is not None else None
        others = sync is not None and not isinstance(sync, WITHIN_CORE)
        others |= bool(binding is not None and (binding.signals or binding.awaits or binding.polls))
        self._wake(core, everybody=others)

    def _wake(self, core: Core, *, everybody: bool) -> None:
        """Whoever waits may find that it need not any more."""
        for one in self._cores.values() if everybody else (core,):
            self._may_go_on((one.index, _SCALAR))
            for pipe in one.queues:
                self._may_go_on((one.index, pipe))

    def _finish(self, engine: Host) -> bool:
        cores = engine.machine.cores
        for core in cores:
            if core.stalled is None and not core.queues and core.pc < 0:
                core.halted = True
        if all(core.halted for core in cores):
            return False
        for core in cores:
            self._wake(core, everybody=False)
        if any(self._is_able(engine, agent) for _, agent in self._able):
            return True
        for core in cores:
            if core.stalled is not None and core.stalled[1].binding.polls:
                engine.go_on(core)
                self._wake(core, everybody=True)
                return True
        raise deadlock(engine.machine, engine.resolved.module.source, engine.sink)

    # -- what the engine asks ---------------------------------------------------------------------

    def issue(self, engine: Host, core: Core, inst: Inst, bound: Bound) -> bool:
        """Queue an operation on its pipe; the scalar unit's own take effect at once."""
        if not queued(engine, core, inst, bound):
            return False
        if inst.pipe != _SCALAR:
            self._may_go_on((core.index, inst.pipe))
        return True

    def progress(self, engine: Host) -> None:
        """An event came: whoever waits may find that it need not any more."""
        for core in self._cores.values():
            self._wake(core, everybody=False)
