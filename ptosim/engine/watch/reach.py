"""Which bytes of global memory a block reads and writes, while it is executed.

A binding is looked at once; each time it takes effect that is noted. Where sanitizers watch the
run, they are asked as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Bound, Inst, Kind, Moved
from ptosim.engine.core.engine import Engine
from ptosim.engine.watch.lines import LINE
from ptosim.engine.watch.monitor import Monitor
from ptosim.engine.watch.shadow import Shadow
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.records import dataclass, replace
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import (
    Effects,
    acts_on_memory,
    effects_after,
    effects_of,
    effects_of_action,
)
from ptosim.machine.effects.ranges import intervals, union
from ptosim.machine.effects.strided import Strided, Touch, touched_bytes
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.orders import Barrier, Notify, SetFlag, Signals, WaitFlag

MAX_NOTED = 8192
"""Accesses that are kept one by one."""
MAX_KNOWN = 8192
"""Bindings whose account is kept for windows at other places."""

Sets = dict[int, np.ndarray]
"""Sets of bytes (see `effects.intervals`) by the number of the buffer."""


class Dependent(Exception):
    """Blocks depend on each other; says how."""


class Note:
    """What one binding reaches: (buffer, is it written, bytes)."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[tuple[int, bool, tuple[Strided, ...]]]) -> None:
        self.parts = parts

    def moved(self, distance: int) -> Note:
        """Return the same, so many bytes farther on."""
        return Note(
            [
                (n, w, tuple(Strided(p.start + distance, p.run, p.dims) for p in parts))
                for n, w, parts in self.parts
            ]
        )


class GlobalReach:
    """Watches a run in the place of its monitor, which it passes everything on to."""

    def __init__(
        self, engine: Engine, machine: Machine, target: str, monitor: Monitor | None
    ) -> None:
        self.monitor = monitor
        self._program, self._machine, self._target = engine.program, machine, target
        self._noted: set[Note] = set()
        self._sets: dict[tuple[int, bool], list[np.ndarray]] = {}
        self._known: dict[Bound, Note] = {}
        self.to_forget: set[int] = set()
        """Instructions whose bindings hold more of the block than operands: they are bound anew for
        the next one."""
        self._slots: set[tuple[int, int, int]] = set()
        for buffer in machine.buffers:
            buffer.watch = self._slot_of(buffer.number)
        for core in machine.cores:
            core.simt.watched = True
        for inst in list(engine.insts):
            op = inst.op
            if inst.kind is Kind.ACTION and op is not None and acts_on_memory(op, target):
                engine.insts[inst.pc] = replace(inst, run=self._action(op, inst.run))

    # -- what the engine calls --------------------------------------------------------------------

    def bind(self, core: Core, inst: Inst, bound: Bound) -> None:
        """Note the effect of a new binding each time that it happens. Raises Dependent for signals
        between blocks."""
        first = bound.first if isinstance(bound, Moved) else bound
        if self.monitor is not None:
            self.monitor.bind(core, inst, bound)
        binding = first.binding
        if _holds_state(binding):
            self.to_forget.add(inst.pc)
        if isinstance(binding.sync, (Notify, Signals)):
            raise Dependent(f"'{inst.operation.name}' is for signals between blocks")
        commit = bound.commit
        if binding.done is not None:
            bound.commit = self._afterwards(binding, commit)
            return
        note = self._known.get(first)
        if note is None:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            note = self._known[first] = self._of(effects_of(binding))
        if not note.parts:
            return
        if isinstance(bound, Moved):
            note = note.moved(bound.distance)

        def noted() -> None:
            self._add(note)
            commit()

        bound.commit = noted

    def issue(self, core: Core, inst: Inst, bound: Bound) -> None:
        """Pass on."""
        if self.monitor is not None:
            self.monitor.issue(core, inst, bound)

    def enter_later(self, core: Core, inst: Inst) -> None:
        """Pass on."""
        if self.monitor is not None:
            self.monitor.enter_later(core, inst)

    def release(self) -> None:
        """Pass on."""
        self._noted.clear()
        self._known.clear()
        if self.monitor is not None:
            self.monitor.release()

    # -- what is reached --------------------------------------------------------------------------

    def _afterwards(self, binding: Any, commit: Callable[[], object]) -> Callable[[], None]:
        """The effect of an operation that says what it reached when it is done."""

        def noted() -> None:
            commit()
            for effects in effects_after(binding):
                self._add(self._of(effects))

        return noted

    def _action(self, op: Operation, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """An operation of the scalar unit on an element of memory."""
        slots = self._program.slots
        operands = {
            name: (slots.get(operand.value) if operand.value is not None else None, operand.const)
            for name, operand in op.bound.items()
            if isinstance(operand, Operand)
        }

        def noted(core: Core) -> None:
            held = core.slots
            values = {n: const if s is None else held[s] for n, (s, const) in operands.items()}
            effects = effects_of_action(core, op, values, self._target)
            note = self._of(effects)
            self._add(_of_lines(note) if op.has("writes_memory") else note)
            run(core)

        return noted

    def _of(self, effects: Effects) -> Note:
        """The part of an account that is about global memory."""
        spoiled = [reached for reached, _ in effects.spoils]
        return Note(
            [
                *self._global([*effects.reads, *effects.found], is_written=False),
                *self._global([*effects.writes, *spoiled], is_written=True),
            ]
        )

    def _global(
        self, reached: Iterable[Any], *, is_written: bool
    ) -> Iterable[tuple[int, bool, tuple[Strided, ...]]]:
        for one in reached:
            if not isinstance(one.where, int):
                continue
            if isinstance(one, Touch):
                parts = touched_bytes(one, self._machine.buffers[one.where].size)
            else:
                parts = tuple(one.parts)
            yield one.where, is_written, parts

    def _slot_of(self, number: int) -> Callable[[int, int], None]:
        """Note slots of FIFOs, which both ends use: as written."""
        return lambda start, stop: self._slots.add((number, start, stop))

    def _add(self, note: Note) -> None:
        self._noted.add(note)
        if len(self._noted) >= MAX_NOTED:
            self._fold()

    def _fold(self) -> None:
        """Put what was noted one by one together."""
        parts: dict[tuple[int, bool], list[Strided]] = {}
        for number, start, stop in self._slots:
            parts.setdefault((number, True), []).append(Strided(start, stop - start))
        self._slots.clear()
        for note in self._noted:
            for number, is_written, some in note.parts:
                parts.setdefault((number, is_written), []).extend(some)
        self._noted.clear()
        for key, some in parts.items():
            before = self._sets.get(key, [])
            self._sets[key] = [union([*before, intervals(some)])]

    def taken(self) -> tuple[Sets, Sets]:
        """Return what was read and what was written since the last call."""
        self._fold()
        found: tuple[Sets, Sets] = {}, {}
        for (number, is_written), sets in self._sets.items():
            found[is_written][number] = union(sets)
        self._sets.clear()
        return found


def _of_lines(note: Note) -> Note:
    """What a scalar store reaches: its line of the cache is written back as a whole."""

    def whole(part: Strided) -> Strided:
        start = part.start // LINE * LINE
        return Strided(start, -(-part.end // LINE) * LINE - start)

    return Note([(n, w, tuple(map(whole, parts))) for n, w, parts in note.parts])


def _holds_state(binding: Binding) -> bool:
    """True for ends of FIFOs, and events between cores, which have the block in their names."""
    if isinstance(binding.sync, (SetFlag, WaitFlag, Barrier)):
        return False
    return bool(
        binding.sync is not None or binding.signals or binding.awaits or binding.made
        or binding.at_issue is not None or binding.guard is not None
    )  # fmt: skip


# What a run did to global memory as a whole: which bytes it found as they were before it, and which
# it wrote.

Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class GlobalUse:
    """Bytes of a buffer: those whose content from before the run was read, those that were written,
    those of them that were read after that, and those that were added to at last."""

    reads: Intervals
    writes: Intervals
    settled: Intervals = ()
    added: Intervals = ()


def global_uses(monitor: Monitor) -> dict[int, GlobalUse]:
    """Return what was done to each buffer that was touched, by its number."""
    return {
        number: _use(shadow)
        for number, shadow in ((key[1], s) for key, s in monitor.shadows.items())
        if isinstance(number, int)
    }


def _use(shadow: Shadow) -> GlobalUse:
    reads: list[tuple[int, int]] = []
    writes: list[tuple[int, int]] = []
    settled: list[tuple[int, int]] = []
    added: list[tuple[int, int]] = []
    for base, region in shadow.regions():
        read = np.array([a.takes_content for a in region.atoms])
        written = np.array([a.write[2] is not None for a in region.atoms])
        after = written & np.array([bool(a.reads) for a in region.atoms])
        adds = np.array([bool(a.write[2] and a.write[2].is_atomic) for a in region.atoms])
        kinds = (reads, read), (writes, written), (settled, after), (added, adds & ~after)
        for found, chosen in kinds:
            found += _intervals(base, region, chosen)
    return GlobalUse(tuple(reads), tuple(writes), tuple(settled), tuple(added))


def _intervals(base: int, region: Shadow, chosen: np.ndarray) -> list[tuple[int, int]]:
    if not chosen.any():
        return []
    mask = np.zeros(len(region.labels) + 2, np.int8)
    mask[1:-1] = chosen[region.labels]
    pairs = (np.flatnonzero(np.diff(mask)) * region.unit).reshape(-1, 2)
    return [(base + int(low), base + min(int(high), region.bytes)) for low, high in pairs]
