"""Holds the account of an operation's effects against what its function does to memory.

Each operation of a run is executed several times on the same memory, of which some bytes are
changed: those outside of what the account reads must not matter, each that it reads must be able
to, and nothing may change outside of what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Bound, Inst, Moved
from ptosim.engine.watch.options import parse
from ptosim.ground.errors import PtosimError
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import REGISTER, effects_after
from ptosim.machine.effects.ranges import intervals
from ptosim.machine.effects.strided import Touch, touched_bytes
from ptosim.ops.base.binding import OpFault

CONTENTS = 8
"""Contents of the other bytes under which one byte may matter."""
MOST_BYTES = 4096
"""Of what is read, looked at one by one."""

Place = tuple[int, Any]
"""A memory: its core (-1: global memory) and its name or number."""
Memories = dict[Place, np.ndarray]
Commit = Callable[[], object]


class Perturbed:
    """Takes the place of a run's monitor; `wrong` says what the account of an operation has not,
    `idle` what it has too much: bytes that are said to be read and cannot matter (looked for if
    `is_exact`), or said to be written and stay."""

    is_on = True
    lines = SimpleNamespace(leave_without_values=lambda *_: None)
    """Nobody watches the cache of the scalar unit."""
    met: frozenset[str] = frozenset()
    unsure: Mapping[int, Any] = MappingProxyType({})

    def __init__(self, machine: Machine, ops: frozenset[str], *, is_exact: bool = False) -> None:
        self.machine, self.ops, self.is_exact = machine, ops, is_exact
        self.chosen = parse("none")
        self.wrong: list[str] = []
        self.idle: list[str] = []
        self.seen: set[str] = set()
        self._random = np.random.default_rng(41)

    def bind(self, core: Core, inst: Inst, bound: Bound) -> None:
        """Look at an operation the first time that it takes effect."""
        first = bound.first if isinstance(bound, Moved) else bound
        binding, name = first.binding, inst.operation.name
        if name not in self.ops or bound is not first:
            return
        if binding.done is not None and binding.done() is not None:  # threads: nobody listens
            return
        if binding.sync is not None or binding.signals or binding.awaits or binding.made:
            return
        commit = bound.commit

        def looked() -> None:
            if name not in self.seen:
                self.seen.add(name)
                self._look(name, core, binding, commit)
            commit()

        bound.commit = looked

    def issue(self, core: Core, inst: Inst, bound: Bound) -> None:
        """Nothing is known of queues."""

    def enter_later(self, core: Core, inst: Inst) -> None:
        """Nothing is known of queues."""

    def define(self, *place: Any) -> None:
        """Every byte has a value."""

    def finish(self) -> None:
        """Nothing is left over."""

    def release(self) -> None:
        """Nothing is held."""

    # -- one operation ----------------------------------------------------------------------------

    def _look(self, name: str, core: Core, binding: Any, commit: Callable[[], Any]) -> None:
        memories = {place: self._memory(place) for place in self._places(core)}
        before = {place: memory.copy() for place, memory in memories.items()}
        try:
            commit()
            (effects,) = effects_after(binding)
            added = effects.writes if effects.is_atomic else ()  # to what is there
            reads = self._mask([*effects.reads, *effects.found, *added])
            writes = self._mask([*effects.writes, *(r for r, _ in effects.spoils)])
            none = {place: np.zeros(len(m), bool) for place, m in memories.items()}
            read = {p: reads.get(p, none[p]) for p in memories}
            written = {p: writes.get(p, none[p]) for p in memories}
            after = {place: memory.copy() for place, memory in memories.items()}
            for place in memories:
                extra = (before[place] != after[place]) & ~written[place]
                self._tell(self.wrong, name, "writes more than it says:", place, extra)
            self._outside(name, memories, before, after, read, written, commit)
            if self.is_exact:
                self._inside(name, memories, before, read, written, commit)
        finally:
            for place, memory in memories.items():
                memory[:] = before[place]

    def _outside(
        self,
        name: str,
        memories: Memories,
        before: Memories,
        after: Memories,
        read: Memories,
        written: Memories,
        commit: Commit,
    ) -> None:
        """What it does not read does not matter."""
        changed = {}
        for place, memory in memories.items():
            other = self._random.integers(1, 256, len(memory), np.uint8)
            changed[place] = np.where(read[place], before[place], before[place] ^ other)
            memory[:] = changed[place]
        commit()
        for place, memory in memories.items():
            kept = memory == changed[place]
            wrong = written[place] & (memory != after[place]) & ~kept
            self._tell(self.wrong, name, "depends on more than it reads:", place, wrong)
            stays = written[place] & kept & (after[place] != changed[place])
            self._tell(self.idle, name, "says it writes, but leaves", place, stays)

    def _inside(
        self,
        name: str,
        memories: Memories,
        before: Memories,
        read: Memories,
        written: Memories,
        commit: Commit,
    ) -> None:
        """Each byte that it reads can matter."""
        for place, memory in memories.items():
            left = np.flatnonzero(read[place])[:MOST_BYTES]
            for number in range(CONTENTS):
                left = self._idle(left, number, place, memories, before, read, written, commit)
            mask = np.zeros(len(memory), bool)
            mask[left] = True
            self._tell(self.idle, name, "says it reads, without effect:", place, mask)

    def _idle(
        self,
        left: np.ndarray,
        number: int,
        place: Place,
        memories: Memories,
        before: Memories,
        read: Memories,
        written: Memories,
        commit: Commit,
    ) -> np.ndarray:
        """The bytes of which a change changes no result, under one content."""
        content = {p: self._content(number, before[p], read[p]) for p in memories}
        result = self._result(memories, content, written, commit)
        if result is None:
            return left
        idle = []
        for at in left:
            old = content[place][at]
            for new in (old ^ 255, old ^ 128, old ^ 1):
                content[place][at] = new
                other = self._result(memories, content, written, commit)
                if other is None or other != result:
                    break
            else:
                idle.append(at)
            content[place][at] = old
        return np.array(idle, np.int64)

    def _content(self, number: int, before: np.ndarray, read: np.ndarray) -> np.ndarray:
        made = before.copy()
        if number == 0:
            return made
        count = int(read.sum())
        if number % 2:
            made[read] = self._random.permutation(made[read])
        elif number == 2:
            made[read] = 0
        else:
            made[read] = self._random.integers(0, 256, count, np.uint8)
        return made

    def _result(
        self, memories: Memories, content: Memories, written: Memories, commit: Commit
    ) -> bytes | None:
        for place, memory in memories.items():
            memory[:] = content[place]
        try:
            commit()
        except (OpFault, PtosimError):
            return None
        return b"".join(memory[written[place]].tobytes() for place, memory in memories.items())

    # -- memories ---------------------------------------------------------------------------------

    def _places(self, core: Core) -> Iterator[Place]:
        yield from ((core.index, name) for name in core.spaces)
        yield from ((-1, number) for number in range(len(self.machine.buffers)))

    def _memory(self, place: Place) -> np.ndarray:
        core, where = place
        if core < 0:
            buffer = self.machine.buffers[where]
            return buffer.data[: buffer.size]
        return np.frombuffer(self.machine.cores[core].space(where).data, np.uint8)

    def _mask(self, reached: list[Any]) -> dict[Place, np.ndarray]:
        found: dict[Place, np.ndarray] = {}
        for one in reached:
            if isinstance(one.where, str) and one.where.startswith(REGISTER):
                continue
            place = (-1, one.where) if isinstance(one.where, int) else (one.core.index, one.where)
            size = len(self._memory(place))
            mask = found.setdefault(place, np.zeros(size, bool))
            parts = touched_bytes(one, size) if isinstance(one, Touch) else one.parts
            for low, high in intervals(parts).tolist():
                mask[low:high] = True
        return found

    @staticmethod
    def _tell(told: list[str], name: str, what: str, place: Place, mask: np.ndarray) -> None:
        at = np.flatnonzero(mask)
        if len(at):
            told.append(
                f"{name} {what} {len(at)} bytes of {place[1]} from {at[0]:#x} on, to {at[-1]:#x}"
            )
