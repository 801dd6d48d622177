"""Operations whose library code goes through several pipes, or through another than their row's:
each step is an access of its pipe, and the orders that the code keeps itself are kept."""

from __future__ import annotations

from ptosim.engine.watch.access import Access
from ptosim.engine.watch.clocks import READS, SCALAR, Agent
from ptosim.engine.watch.marks import Marks
from ptosim.engine.watch.shadow import Footprint
from ptosim.ground.isa.passes import Passes
from ptosim.ground.records import NamedTuple

Writes = tuple[tuple[Footprint, int | None], ...]


class _Part(NamedTuple):
    agent: Agent
    reads: tuple[Footprint, ...]
    writes: Writes
    after: tuple[Agent, ...]


class Staged:
    """The check of one binding of such an operation."""

    def __init__(
        self, marks: Marks, agent: Agent, access: Access, passes: Passes, times: list[int]
    ) -> None:
        """`times` counts the executions of each instruction by the core."""
        self._marks, self._agent, self._access, self._times = marks, agent, access, times
        clocks, core = marks.clocks, access.core
        self._before = [clocks.agent(core, pipe) for pipe in passes.before]
        self._parts: list[_Part] = []
        named_reads = frozenset[str]().union(*(s.reads for s in passes.steps))
        named_writes = frozenset[str]().union(*(s.writes for s in passes.steps))
        for number, step in enumerate(passes.steps):
            rest = not number
            reads = tuple(
                p
                for p in (*access.reads, *access.found)
                if p.name in step.reads or (rest and p.name not in named_reads)
            )
            writes = tuple(
                pair
                for pair in access.all_writes
                if pair[0].name in step.writes or (rest and pair[0].name not in named_writes)
            )
            after = tuple(clocks.agent(core, pipe) for pipe in step.after)
            self._parts.append(_Part(clocks.agent(core, step.pipe), reads, writes, after))

    def check(self) -> None:
        """Check and note the steps one after the other."""
        clocks, agent = self._marks.clocks, self._agent
        clocks.begin(agent)
        pc = self._access.inst.pc
        self._times[pc] += 1
        for part in self._parts:
            if part.agent is not agent:
                if part.agent.pipe != SCALAR:
                    part.agent.learn(agent.scalar.clock if agent.seen is None else agent.seen)
                part.agent.count += 1
            for other in part.after:
                part.agent.learn(other.message())
            self._note(part, self._times[pc])
        last = self._parts[-1].agent
        for other in self._before:
            other.learn(last.message())

    def _note(self, part: _Part, time: int) -> None:
        agent = part.agent
        entry = (agent.index, agent.count, self._access, time)
        is_scalar = agent.pipe == SCALAR
        reader = self._marks.clocks.agent(self._access.core, READS) if is_scalar else agent
        self._marks.note(entry, agent, part.reads, part.writes, reader.index)
        if is_scalar:
            self._marks.done_reading(agent, reader)
