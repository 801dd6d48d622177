"""The rules of the proof for instructions of the vector unit: each register is one expression.

A register that no memory has filled is a constant, told by its content. Any other is made of the
instruction and of the registers, and the bytes of UB, that it takes. Which bytes a load or a store
reaches is what the unit's log says; that must not depend on data: under a mask, or at a place, that
was computed of data no proof is given.

What a load has put into a register as it is, is known byte by byte. So lanes that a constant mask
leaves out take no part, as bytes that were never written after the end of a row. That a load does
this, and that an instruction looks at no other lanes, is tried on other contents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import sources_of, targets_of
from ptosim.ground.ir.core import Clause, Operand
from ptosim.machine.core import Core
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import Align, LogicalMask, Mask
from ptosim.tools.search.prove_memory import HashedMemory, Hashes, Unprovable, along, joined, salt
from ptosim.tools.search.prove_ops import exact, settings

_SIZE, _FIRST = 0xFFF, 0xFFFFF


class Registers:
    """What the slots of every core hold that came from memory: an expression each."""

    def __init__(self, program: Any, memory: HashedMemory, switches: dict[str, str]) -> None:
        self.program, self.memory = program, memory
        self.switches = sorted(switches.items())
        self._held: dict[int, dict[int, Hashes]] = {}
        self._logged: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._special: dict[int, dict[str, int]] = {}
        self._slots: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._tried: dict[Any, bool] = {}

    @property
    def is_filled(self) -> bool:
        """True if a register came from memory."""
        return any(self._held.values())

    def begin(self, core: Core, inst: Inst) -> None:
        """A region begins: its log is empty. What it does not hand on is forgotten at its end."""
        self._logged[core.index] = 0
        self._ends[core.index] = -1 if inst.operation.results else inst.end

    def of_scalar(self, core: Core, inst: Inst) -> None:
        """Follow a scalar instruction, a branch or an operation that is no vector instruction."""
        held = self._held.get(core.index)
        if not held:
            return
        if inst.pc == self._ends.get(core.index):
            held.clear()
            return
        sources, targets = self._flow(inst)
        taken = [held[s] for s in sources if s in held]
        if inst.kind is not Kind.SCALAR:
            if taken:
                raise Unprovable("takes a number that came from a vector register")
            return
        form = form_of(inst.run)
        if form is not None and form[0] in ("copy", "start", "next"):
            given = [held.get(s) for s in form[-2]]
            for slot, one in zip(form[-1], given, strict=True):
                _put(held, slot, one)
        elif taken:
            raise Unprovable("computes with a number that came from a vector register")
        else:
            for slot in targets:
                held.pop(slot, None)

    def _flow(self, inst: Inst) -> tuple[tuple[int, ...], tuple[int, ...]]:
        found = self._slots.get(inst.pc)
        if found is None:
            found = sources_of(self.program, inst), targets_of(self.program, inst)
            self._slots[inst.pc] = found
        return found

    def of_vector(self, core: Core, inst: Inst) -> None:
        """Follow an instruction of the vector unit."""
        op = inst.operation
        held = self._held.setdefault(core.index, {})
        sources, targets = self._flow(inst)
        derived = [s for s in sources if s in held]
        runs = self._accesses(core)
        if op.has("indexed"):
            raise Unprovable("a register says where it reaches")
        self._refuse_places(core, inst, derived, runs)
        is_load = op.has("loads")
        if not derived and not is_load and not op.has("stores"):
            for slot in targets:
                held.pop(slot, None)
            return
        made = self._made(core, inst, held, runs, is_load)
        if op.has("stores"):
            self._store(core, made, runs)
        for number, slot in enumerate(targets):
            value = core.slots[slot]
            one = joined(salt("result", number), made)
            if isinstance(value, Align) and is_load:
                one = self._block(core, value, bool(runs))
            elif is_load and number == 0 and self._is_as_in_memory(core, inst, slot, runs):
                hashes = self.memory.of(self.memory.space(core, "vec")).hashes
                one = hashes[_bytes(*runs[0])]
            is_place = isinstance(value, Pointer) or (isinstance(value, int) and not derived)
            _put(held, slot, None if is_place else one)

    def _block(self, core: Core, align: Align, is_next: bool) -> Any:
        """The block of 32 bytes that a stream of loads keeps: the first one, or the next."""
        end = align.end or 0
        start = end // 32 * 32 if is_next else end - 32
        hashes = self.memory.of(self.memory.space(core, "vec")).hashes
        return along(salt("block"), hashes[start : start + 32], 0)

    def _refuse_places(
        self, core: Core, inst: Inst, derived: list[int], runs: list[tuple[np.ndarray, int]]
    ) -> None:
        op = inst.operation
        is_access = op.has("loads") or op.has("stores")
        if runs and not is_access:
            raise Unprovable("reaches memory, and its row does not say how")
        targets = self._flow(inst)[1]
        if (
            op.has("loads")
            and not runs
            and not any(isinstance(core.slots[s], Align) for s in targets)
        ):
            raise Unprovable("loads what its log does not say")
        before = self._special.get(core.index)
        changes = before is not None and before != core.registers
        if derived and (changes or (not is_access and self._sets_register(core, inst))):
            raise Unprovable("sets a register by what data say")
        self._special[core.index] = dict(core.registers)
        if is_access and any(not _is_data(core.slots[s]) for s in derived):
            raise Unprovable("data say where it reaches")

    def _sets_register(self, core: Core, inst: Inst) -> bool:
        """True if an instruction sets a special register, to what it is already or not."""
        key = inst.pc, "registers"
        if key not in self._tried:
            kept, left = dict(core.registers), dict[str, Any]()
            other = {name: value ^ 0x155 for name, value in kept.items()}
            core.registers.update(other)
            self._outcome(core, inst, {}, left)
            core.registers.update(kept)
            self._tried[key] = left != other
        return self._tried[key]

    def _accesses(self, core: Core) -> list[tuple[np.ndarray, int]]:
        """The runs that the log has got since the last instruction: first bytes, and a size."""
        ub, before = core.ub, self._logged.get(core.index, 0)
        if ub is None or ub.log is None:
            raise Unprovable("the vector unit keeps no log")
        if len(ub.log) < before:
            raise Unprovable("reaches too many places to follow")
        self._logged[core.index] = len(ub.log)
        found = []
        for entry in ub.log[before:]:
            if entry < 0:
                _, starts, size = ub.parts[-1 - entry]
                found.append((np.asarray(starts, np.int64), int(size)))
            else:
                found.append((np.array([entry & _FIRST], np.int64), entry >> 20 & _SIZE))
        return found

    def _made(
        self, core: Core, inst: Inst, held: dict[int, Hashes],
        runs: list[tuple[np.ndarray, int]], is_load: bool,
    ) -> Any:  # fmt: skip
        op = inst.operation
        is_access, places = is_load or op.has("stores"), self._has_places(core, inst)
        told: list[Any] = [
            op.name,
            getattr(op.variant, "name", ""),
            sorted((k, repr(v)) for k, v in op.attributes.items()),
            settings(core, self.memory),
        ]
        told += [self.switches, [str(v.type) for v in op.results]]
        parts = []
        for name, operand in _operands(op.bound):
            slot = None if operand.value is None else self.program.slots.get(operand.value)
            if slot in held:
                assert slot is not None
                one = held[slot]
                if one.ndim:
                    lanes = self._lanes_taken(core, inst, slot, len(one))
                    one = along(salt("register"), np.where(lanes, one, np.uint64(0)), 0)
                parts.append(one)
                told.append((name, str(operand.type), "data"))
            else:
                value = operand.const if slot is None else core.slots[slot]
                told.append((name, str(operand.type), _constant(value, places)))
        for starts, size in runs if is_access else ():
            told.append((len(starts), size, int(starts[0]) % 32))
        if is_load:
            hashes = self.memory.of(self.memory.space(core, "vec")).hashes
            parts += [along(salt("loaded"), hashes[_bytes(*run)], 0) for run in runs]
        with np.errstate(over="ignore"):
            return joined(salt(*told), *parts)

    def _has_places(self, core: Core, inst: Inst) -> bool:
        """True if the whole numbers that an instruction takes say where in memory it reaches, which
        its bytes tell, and nothing else. A store to a stream takes so many elements."""
        op = inst.operation
        is_stream = any(isinstance(core.slots[s], Align) for s in self._flow(inst)[0])
        return op.has("loads") or (op.has("stores") and not is_stream)

    # -- lanes ------------------------------------------------------------------------------------

    def _form(self, core: Core, inst: Inst) -> tuple[Any, ...]:
        """An instruction with all that it is given but data: what is tried holds for this form."""
        held, places = self._held[core.index], self._has_places(core, inst)
        given = (_constant(core.slots[s], places) for s in self._flow(inst)[0] if s not in held)
        return inst.pc, tuple(given), tuple(sorted(core.registers.items()))

    def _is_as_in_memory(
        self, core: Core, inst: Inst, slot: int, runs: list[tuple[np.ndarray, int]]
    ) -> bool:
        """True for a load whose register is the bytes that it reads, whatever they are."""
        value = core.slots[slot]
        if len(runs) != 1 or not isinstance(value, np.ndarray):
            return False
        at = _bytes(*runs[0])
        key = *self._form(core, inst), len(at), int(at[0]) % 32
        if key not in self._tried:
            self._tried[key] = value.nbytes == len(at) and self._is_copied(core, inst, slot, at)
        return self._tried[key]

    def _is_copied(self, core: Core, inst: Inst, slot: int, at: np.ndarray) -> bool:
        memory = np.frombuffer(core.ub.data, np.uint8)
        kept, random = memory.copy(), np.random.default_rng(inst.pc)
        try:
            for _ in range(2):
                memory[:] = random.integers(0, 256, len(memory), np.uint8)
                found, _ = self._outcome(core, inst, {})
                if found[self._flow(inst)[1].index(slot)] != memory[at].tobytes():
                    return False
            return True
        finally:
            memory[:] = kept

    def _lanes_taken(self, core: Core, inst: Inst, slot: int, size: int) -> np.ndarray:
        """The bytes of a register that an instruction looks at: those of the lanes that its mask
        has, or has not (a selection); all where it has no mask, or its mask is data."""
        masks = [core.slots[s] for s in self._flow(inst)[0]
                 if isinstance(core.slots[s], (Mask, LogicalMask))
                 and s not in self._held[core.index]]  # fmt: skip
        value, every = core.slots[slot], np.ones(size, bool)
        if len(masks) != 1 or not isinstance(value, np.ndarray):
            return every
        width = value.dtype.itemsize
        on = masks[0].on if isinstance(masks[0], LogicalMask) else getattr(
            masks[0], f"on{width}", every
        )  # fmt: skip
        on = np.repeat(on, width)
        if on.shape != every.shape or on.all():
            return every
        form = slot, *self._form(core, inst)
        for lanes in (on, ~on):
            key = *form, bool(lanes is on)
            if key not in self._tried:
                self._tried[key] = self._looks_at(core, inst, slot, lanes)
            if self._tried[key]:
                return lanes
        return every

    def _looks_at(self, core: Core, inst: Inst, slot: int, lanes: np.ndarray) -> bool:
        """True if what an instruction does is the same whatever the other bytes of a register, on
        some contents of this one and of the others that it takes."""
        value, random = core.slots[slot], np.random.default_rng(inst.pc)
        beside = [s for s in self._flow(inst)[0] if isinstance(core.slots[s], np.ndarray)]
        for fill in range(6):
            left, others = [], dict[int, Any]()
            for each in beside if fill > 1 else ():
                content = random.integers(0, 256, core.slots[each].nbytes, np.uint8)
                others[each] = (content & 0x3F).view(core.slots[each].dtype)
            some = random.integers(0, 256, len(lanes), np.uint8)
            begun = (value.view(np.uint8), some, some & 0x3F)[fill % 3]
            for other in (0, 0xFF, random.integers(0, 256, len(lanes), np.uint8)):
                content = np.where(lanes, begun, other).astype(np.uint8)
                changed = {**others, slot: content.view(value.dtype)}
                left.append(self._outcome(core, inst, changed))
            if any(one != left[0] for one in left):
                return False
        return True

    def _outcome(
        self, core: Core, inst: Inst, changed: dict[int, Any],
        left: dict[str, Any] | None = None,
    ) -> tuple[list[Any], bytes]:  # fmt: skip
        """What an instruction leaves with other values in some slots: in its results, in UB and, in
        `left`, in registers. The core is afterwards as it was."""
        ub, slots, targets = core.ub, core.slots, self._flow(inst)[1]
        assert ub.log is not None
        kept = {s: slots[s] for s in (*targets, *changed)}
        data, entries, parts = bytes(ub.data), len(ub.log), len(ub.parts)
        registers = dict(core.registers)
        for slot, value in changed.items():
            slots[slot] = value
        try:
            inst.run(core)
            return [_content(slots[t]) for t in targets], bytes(ub.data)
        finally:
            if left is not None:
                left.update(core.registers)
            for slot, value in kept.items():
                slots[slot] = value
            ub.data[:] = data
            del ub.log[entries:], ub.parts[parts:]
            core.registers.clear()
            core.registers.update(registers)

    def _store(self, core: Core, made: Any, runs: list[tuple[np.ndarray, int]]) -> None:
        memory = self.memory.of(self.memory.space(core, "vec"))
        for number, (starts, size) in enumerate(runs):
            at = _bytes(starts, size)
            memory.put(
                at, joined(salt("stored", number), made, np.arange(len(at), dtype=np.uint64))
            )


def _content(value: Any) -> Any:
    if isinstance(value, LogicalMask):
        return value.on.tobytes()
    if isinstance(value, tuple):
        return tuple(map(_content, value))
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _put(held: dict[int, Hashes], slot: int, made: Any) -> None:
    if made is None:
        held.pop(slot, None)
    else:
        held[slot] = made


def _bytes(starts: np.ndarray, size: int) -> np.ndarray:
    return (starts[:, None] + np.arange(size)).reshape(-1)


def _is_data(value: Any) -> bool:
    """True for a register of lanes or of a stream: what is stored, not where."""
    return isinstance(value, (np.ndarray, Align))


def _operands(bound: Any) -> Iterator[tuple[str, Operand]]:
    """The operands of an operation with their names, in order."""
    todo = [(str(k), v) for k, v in bound.items()]
    while todo:
        name, each = todo.pop(0)
        if isinstance(each, Operand):
            yield name, each
        elif isinstance(each, Clause):
            todo[:0] = [(f"{name}.{k}", v) for k, v in each.operands.items()]
        elif isinstance(each, (list, tuple)):
            todo[:0] = [(f"{name}.{k}", v) for k, v in enumerate(each)]


def _constant(value: Any, has_places: bool) -> Any:
    """Tell a value that no memory decides. Where it is in memory is told by the bytes."""
    if isinstance(value, (Pointer, GmView)) or (has_places and isinstance(value, int)):
        return "place"
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, Mask):
        return value.bits
    if isinstance(value, LogicalMask):
        return value.on.tobytes()
    if isinstance(value, (float, np.floating)):
        return exact(value)
    if isinstance(value, tuple):
        return tuple(_constant(v, has_places) for v in value)
    if value is None or isinstance(value, (int, str, bytes, np.generic)):
        return repr(value)
    raise Unprovable(f"a {type(value).__name__} is not followed")
