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
from ptosim.engine.watch.access import parse
from ptosim.ground.errors import PtosimError
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import REGISTER, Reached, effects_after, reached_by
from ptosim.machine.effects.ranges import intervals
from ptosim.machine.effects.strided import Strided, Touch, touched_bytes
from ptosim.ops.base.binding import OpFault

CONTENTS = 12
"""Contents of the other bytes under which one byte may matter."""
MOST_BYTES = 4096
"""Of what is read, looked at one by one."""

Place = tuple[int, Any]
"""A memory: its core (-1: global memory) and its name or number."""
Memories = dict[Place, np.ndarray]
Commit = Callable[[], object]


def _slots(binding: Any, core: Core) -> Iterator[Reached]:
    """The slot in global memory that a push fills, which the account leaves to the FIFO."""
    if binding.slot is not None:
        number, low, high = binding.slot()
        yield Reached("slot", core, number, (Strided(low, high - low),))


class _Trial:
    """Executes an operation on other contents of what it reads."""

    def __init__(
        self,
        memories: Memories,
        read: Memories,
        written: Memories,
        commit: Commit,
        entries: Callable[[], bytes],
    ) -> None:
        self.memories, self.commit, self.entries = memories, commit, entries
        self.touched = {
            p: np.flatnonzero(read[p] | written[p])
            for p in memories
            if (read[p] | written[p]).any()
        }
        self.results = {p: np.flatnonzero(written[p]) for p in self.touched}

    def result(self, content: Memories) -> bytes | None:
        """What it writes; None where it does not take such a content."""
        for place, touched in self.touched.items():
            self.memories[place][touched] = content[place][touched]
        try:
            self.commit()
        except (OpFault, PtosimError):
            return None
        results = (self.memories[p][at].tobytes() for p, at in self.results.items())
        return b"".join((*results, self.entries()))

    def idle(self, place: Place, left: list[int], unit: int, content: Memories) -> list[int]:
        """The elements of which no change changes a result, under one content."""
        result = self.result(content)
        if result is None:
            return left
        held = content[place]
        idle = []
        for at in left:
            old = held[at : at + unit].copy()
            changes = (old ^ 255, old ^ 128, old ^ 1, old * 0 + 127, old * 0)
            for new in changes:
                held[at : at + unit] = new
                other = self.result(content)
                if other is None or other != result:
                    break
            else:
                idle.append(at)
            held[at : at + unit] = old
        return idle


class Perturbed:
    """Takes the place of a run's monitor; `wrong` says what the account of an operation has not,
    `idle` what it has too much: elements (of what `is_exact` bytes) that are said to be read and
    cannot matter, or bytes that are said to be written and stay."""

    is_on = True
    lines = SimpleNamespace(leave_without_values=lambda *_: None)
    """Nobody watches the cache of the scalar unit."""
    met: frozenset[str] = frozenset()
    unsure: Mapping[int, Any] = MappingProxyType({})

    def __init__(
        self, machine: Machine, ops: frozenset[str], *, is_exact: bool = False, most: int = 256
    ) -> None:
        """`most` elements of an operand are looked at, evenly spread, 0: none, for who asks only what
        is wrong; of an exact one all bytes."""
        self.most = most
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
        commit = bound.commit

        def looked() -> None:
            if name not in self.seen:
                self.seen.add(name)
                put_back = self._counted()

                def again() -> None:
                    put_back()
                    commit()

                self._look(name, core, binding, again)
                put_back()
            commit()

        bound.commit = looked

    def _counted(self) -> Callable[[], None]:
        """Return what puts back the counters of signals and FIFOs as they are now."""
        clusters, cores = self.machine.clusters, self.machine.cores
        tables = [
            self.machine.global_counters,
            *(cluster.counters for cluster in clusters),
            *(table for c in cores for table in (c.flags, c.tokens, c.token_lines)),
        ]
        kept = [dict(table) for table in tables], [cluster.fifos.copy() for cluster in clusters]

        def put_back() -> None:
            for table, content in zip(tables, kept[0], strict=True):
                table.clear()
                table.update(content)
            for cluster, fifos in zip(clusters, kept[1], strict=True):
                cluster.fifos.restore(fifos)

        return put_back

    def _entries(self) -> bytes:
        """What is in FIFOs, which no memory of the simulator has."""
        fifos = [cluster.fifos for cluster in self.machine.clusters]
        return b"".join(
            e.tobytes() for f in fifos for s in f.shares.values() for e in s.entries.values()
        )

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
        slots = [*_slots(binding, core)]
        try:
            commit()
            told = effects_after(binding)
            if len(told) != 1:
                return
            (effects,) = told
            added = effects.writes if effects.is_atomic else ()  # to what is there
            reads = self._mask([*effects.reads, *effects.found, *added])
            made = (reached_by(core, "", ref) for core, ref in binding.made if binding.sync)
            more = [r for r in (*made, *slots) if r is not None]
            writes = self._mask([*effects.writes, *(r for r, _ in effects.spoils), *more])
            none = {place: np.zeros(len(m), bool) for place, m in memories.items()}
            read = {p: reads.get(p, none[p]) for p in memories}
            written = {p: writes.get(p, none[p]) for p in memories}
            after = {place: memory.copy() for place, memory in memories.items()}
            entries = self._entries()
            for place in memories:
                extra = (before[place] != after[place]) & ~written[place]
                self._tell(self.wrong, name, "writes more than it says:", place, extra)
            self._outside(name, memories, before, after, read, written, commit)
            if self._entries() != entries:
                self.wrong.append(f"{name} pushes more than it reads")
            if self.most and not binding.op.results:  # else it gives values
                units = {1: reads} if self.is_exact else self._by_units(binding, effects)
                self._inside(name, units, memories, before, read, written, commit)
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
        units: dict[int, Memories],
        memories: Memories,
        before: Memories,
        read: Memories,
        written: Memories,
        commit: Commit,
    ) -> None:
        """Each element that it reads can matter; of what `is_exact` each byte."""
        trial = _Trial(memories, read, written, commit, self._entries)
        contents = [self._content(n, before, read) for n in range(CONTENTS)]
        most = MOST_BYTES if self.is_exact else self.most
        for place in memories:
            for unit, masks in units.items():
                mask = masks.get(place)
                found = np.flatnonzero(mask) // unit * unit if mask is not None else ()
                left = np.unique(found).astype(int).tolist()[:: max(len(found) // unit // most, 1)]
                for content in contents:
                    left = trial.idle(place, left, unit, content) if left else left
                idle = np.zeros(len(memories[place]), bool)
                idle[left] = True
                self._tell(
                    self.idle, name, f"says it reads, without effect (of {unit}):", place, idle
                )

    def _content(self, number: int, before: Memories, read: Memories) -> Memories:
        """Contents of what is read: as it is, every bit the other way round, nothing, mixed, small
        numbers, or any."""
        made = {place: memory.copy() for place, memory in before.items()}
        for place, memory in made.items():
            chosen = memory[read[place]]
            drawn = self._random.integers(0, 256, len(chosen), np.uint8)
            mixed = self._random.permutation(chosen)
            kinds = (chosen, ~chosen, 0, mixed, drawn & 7, drawn)
            memory[read[place]] = kinds[min(number, len(kinds) - 1)]
        return made

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

    def _by_units(self, binding: Any, effects: Any) -> dict[int, Memories]:
        """What an operation reads, by the bytes of an element."""
        found: dict[int, list[Any]] = {}
        for one in effects.reads:
            value = binding.values.get(one.operand)
            bound = binding.op.bound.get(one.operand)
            type_ = getattr(value, "type", None) or getattr(bound, "type", None)
            elem = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
            found.setdefault(max(getattr(elem, "bits", 8) // 8, 1), []).append(one)
        return {unit: self._mask(ones) for unit, ones in found.items()}

    @staticmethod
    def _tell(told: list[str], name: str, what: str, place: Place, mask: np.ndarray) -> None:
        at = np.flatnonzero(mask)
        if len(at):
            told.append(
                f"{name} {what} {len(at)} bytes of {place[1]} from {at[0]:#x} on, to {at[-1]:#x}"
            )
