"""The checker of certificates: instructions of the vector unit.

A register that a load has filled with bytes as they are has a number for each of them, any other
one number: that of its instruction, of what this takes, and of the bytes that it loads. Where an
instruction reaches is what the log of the unit says of it. Each form of an instruction is tried: it
may depend on nothing but the registers that it takes and the bytes that the log names, and write
nothing else; lanes that a constant mask leaves out count for nothing where none of them changes
what it does. Unaligned streams, places that a register names and masks that data decide for a store
are not followed."""

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
from ptosim.tools.certificate_rules import Numbers, Unfollowed, combined, exact, in_order, text_hash

_Runs = list[np.ndarray]
"""Numbers of bytes in UB, of each access."""


class Lanes:
    """What the registers of each core hold; `walker` has the memories."""

    def __init__(self, walker: Any, tried: set[Any]) -> None:
        self.walker, self.program = walker, walker.engine.program
        self._tried, self._answers = tried, dict[Any, bool]()
        self._held: dict[int, dict[int, Numbers]] = {}
        self._logged: dict[int, int] = {}
        self._ends: dict[int, int] = {}

    def begin(self, core: Core, inst: Inst) -> None:
        """A region begins. Raises Unfollowed for one that hands something on."""
        if inst.operation.results:
            raise Unfollowed("it has results")
        self._logged[core.number], self._ends[core.number] = 0, inst.end
        self._held[core.number] = {}

    def of_other(self, core: Core, inst: Inst) -> bool:
        """Follow what is no vector instruction: it may copy registers, and not look at them. True
        for the end of a region."""
        if inst.pc == self._ends.get(core.number):
            del self._ends[core.number], self._held[core.number]
            return True
        held = self._held.get(core.number)
        if not held:
            return False
        form = form_of(inst.run) if inst.kind is Kind.SCALAR else None
        if form is not None and form[0] in ("copy", "start", "next"):
            given = [held.get(slot) for slot in form[-2]]
            for slot, one in zip(form[-1], given, strict=True):
                _put(held, slot, one)
        elif any(slot in held for slot in sources_of(self.program, inst)):
            raise Unfollowed("it looks at what came from a vector register")
        else:
            for slot in targets_of(self.program, inst):
                held.pop(slot, None)
        return False

    def of_vector(self, core: Core, inst: Inst) -> None:
        """Follow a vector instruction that took effect."""
        op, held, slots = inst.operation, self._held.setdefault(core.number, {}), core.slots
        sources, targets = sources_of(self.program, inst), targets_of(self.program, inst)
        loads, stores = op.has("loads"), op.has("stores")
        runs = self._runs(core)
        taken = [slot for slot in sources if slot in held]
        self._refuse(core, inst, taken, runs)
        if not (taken or loads or stores):
            for slot in targets:
                held.pop(slot, None)
            return
        told, parts = self._told(core, inst, loads or stores)
        told += [(len(at), int(at[0]) % 32) for at in runs]
        key = (inst.pc, repr(told), tuple(taken), "vector")
        if key not in self._tried:
            self._tried.add(key)
            self._try(core, inst, taken, runs)
        made = list(self._numbers(core, inst, parts, key))
        memory = self.walker.memory(("vec", core.number))
        if loads:
            for at in runs:
                each = combined(memory.expressions[at], memory.places[at].astype(np.uint64))
                made.append(in_order(text_hash("loaded"), each, 0))
        result = combined(text_hash("vector", *map(repr, told)), *made)
        for number, at in enumerate(runs if stores else ()):
            numbers = np.arange(len(at), dtype=np.uint64)
            memory.expressions[at] = combined(text_hash("stored", number), result, numbers)
            memory.places[at] = 0
        for number, slot in enumerate(targets):
            one: Numbers | None = combined(text_hash("result", number), result)
            if isinstance(slots[slot], Pointer) or (isinstance(slots[slot], int) and not taken):
                one = None
            elif loads and number == 0 and self._copies(core, inst, slot, runs, key):
                at = runs[0]
                one = combined(memory.expressions[at], memory.places[at].astype(np.uint64))
            _put(held, slot, one)
        size = sum(map(len, runs))
        self.walker.note(op, "vector", size if loads else 0, size if stores else 0)

    # -- what an instruction is given -------------------------------------------------------------

    def _runs(self, core: Core) -> _Runs:
        """The bytes that the log has got since the last instruction."""
        ub, before = core.ub, self._logged.get(core.number, 0)
        if ub is None or ub.log is None or len(ub.log) < before:
            raise Unfollowed("the log of the vector unit does not say where it reaches")
        self._logged[core.number] = len(ub.log)
        return [_bytes(ub, entry) for entry in ub.log[before:]]

    def _refuse(self, core: Core, inst: Inst, taken: list[int], runs: _Runs) -> None:
        op, slots = inst.operation, core.slots
        every = (*sources_of(self.program, inst), *targets_of(self.program, inst))
        if op.has("indexed"):
            raise Unfollowed("a register says where it reaches")
        if any(isinstance(slots[slot], Align) for slot in every):
            raise Unfollowed("a stream that is not aligned")
        if (op.has("loads") or op.has("stores")) is not bool(runs):
            raise Unfollowed("the log of the vector unit does not say where it reaches")
        if runs and not all(isinstance(slots[slot], np.ndarray) for slot in taken):
            raise Unfollowed("data say where it reaches")

    def _told(self, core: Core, inst: Inst, reaches: bool) -> tuple[list[Any], list[int]]:
        """All that an instruction is but data, and the slots of the data, in its order."""
        op, held = inst.operation, self._held[core.number]
        told: list[Any] = [
            op.name, getattr(op.variant, "name", ""),
            sorted((k, repr(v)) for k, v in op.attributes.items()),
            sorted((k, repr(v)) for k, v in core.registers.items()),
            sorted(self.walker.engine.profile.switches.items()), [str(v.type) for v in op.results],
        ]  # fmt: skip
        parts, named = list[int](), set[int]()
        for name, operand in _operands(op.bound, ""):
            slot = None if operand.value is None else self.program.slots.get(operand.value)
            named |= {slot} if slot is not None else set()
            if slot in held and slot is not None:
                parts.append(slot)
                told.append((name, str(operand.type), "data"))
            else:
                value = operand.const if slot is None else core.slots[slot]
                told.append((name, str(operand.type), _constant(value, reaches)))
        for slot in sources_of(self.program, inst):
            if slot not in named and slot in held:
                raise Unfollowed("it takes a register that it does not name")
            if slot not in named:
                told.append(("beside", _constant(core.slots[slot], False)))
        return told, parts

    def _numbers(self, core: Core, inst: Inst, parts: list[int], key: Any) -> Iterator[Numbers]:
        for slot in parts:
            one = self._held[core.number][slot]
            if one.ndim:
                one = np.where(self._counted(core, inst, slot, len(one), key), one, np.uint64(0))
                one = in_order(text_hash("register"), one, 0)
            yield one

    def _counted(self, core: Core, inst: Inst, slot: int, size: int, key: Any) -> np.ndarray:
        """The bytes of a register that count: those in the lanes of the one constant mask, or those
        beside it, where no other byte changes anything."""
        held, slots, every = self._held[core.number], core.slots, np.ones(size, bool)
        masks = [
            slots[s] for s in sources_of(self.program, inst)
            if s not in held and isinstance(slots[s], (Mask, LogicalMask))
        ]  # fmt: skip
        if len(masks) != 1:
            return every
        width = slots[slot].dtype.itemsize
        on = masks[0].on if isinstance(masks[0], LogicalMask) else getattr(masks[0], f"on{width}")
        on = np.repeat(on, width)
        if on.shape != every.shape or on.all():
            return every
        for lanes in (on, ~on):
            answer = (*key, slot, lanes is on)
            if answer not in self._answers:
                self._answers[answer] = not self._depends(core, inst, slot, ~lanes)
            if self._answers[answer]:
                return lanes
        return every

    # -- other contents ---------------------------------------------------------------------------

    def _depends(self, core: Core, inst: Inst, slot: int, where: np.ndarray) -> bool:
        """True if some bytes of a register change what an instruction does."""
        rng, value = np.random.default_rng(inst.pc), core.slots[slot]
        others = [
            s for s in sources_of(self.program, inst) if isinstance(core.slots[s], np.ndarray)
        ]
        for fill in range(8):
            given = {s: _drawn(rng, core.slots[s], fill) for s in others if fill}
            drawn: Any = given.get(slot, value)
            begun = drawn.reshape(-1).view(np.uint8)
            left = []
            for other in (0, 0xFF, 0x7F, rng.integers(0, 256, len(where), np.uint8)):
                content = np.where(where, other, begun).astype(np.uint8)
                given[slot] = content.view(value.dtype).reshape(value.shape)
                left.append(self._left(core, inst, given))
            if any(each != left[0] for each in left):
                return True
        return False

    def _copies(self, core: Core, inst: Inst, slot: int, runs: _Runs, key: Any) -> bool:
        """True for a load whose register is the bytes of its one access, whatever they are."""
        value = core.slots[slot]
        if len(runs) != 1 or not isinstance(value, np.ndarray) or value.nbytes != len(runs[0]):
            return False
        answer = (*key, "copies")
        if answer not in self._answers:
            rng, at = np.random.default_rng(inst.pc), runs[0]
            drawn = [rng.integers(0, 256, len(core.ub.data), np.uint8) for _ in range(3)]
            where = targets_of(self.program, inst).index(slot)
            self._answers[answer] = all(
                self._left(core, inst, {}, ub)[0][where] == ub[at].tobytes() for ub in drawn
            )
        return self._answers[answer]

    def _try(self, core: Core, inst: Inst, taken: list[int], runs: _Runs) -> None:
        """Draw registers, then UB beside the accesses, then special registers anew."""
        rng, ub = np.random.default_rng(inst.pc), np.frombuffer(core.ub.data, np.uint8)
        stores = inst.operation.has("stores")
        at = np.concatenate(runs) if runs else np.zeros(0, np.int64)
        beside = np.ones(len(ub), bool)
        beside[at] = False
        for fill in range(5):
            given = {s: _drawn(rng, core.slots[s], fill) for s in taken
                     if isinstance(core.slots[s], np.ndarray)}  # fmt: skip
            begun = np.where(beside, ub, rng.integers(0, 256, len(ub), np.uint8)) if fill else ub
            noise = np.where(beside, rng.integers(0, 256, len(ub), np.uint8), begun)
            left = [self._left(core, inst, given, each) for each in (begun, noise)]
            for (_, found, log), each in zip(left, (begun, noise), strict=True):
                if [a.tolist() for a in log] != [a.tolist() for a in runs]:
                    raise Unfollowed("data say where it reaches")
                changed = np.frombuffer(found, np.uint8) != each
                if changed[beside].any() or (changed.any() and not stores):
                    raise Unfollowed("it writes bytes that its log does not name")
            one, other = (np.frombuffer(found, np.uint8)[at] for _, found, _ in left)
            if left[0][0] != left[1][0] or not np.array_equal(one, other):
                raise Unfollowed("it depends on bytes that its log does not name")
        kept = dict(core.registers)
        changed_ones = {name: value ^ 0x155 for name, value in kept.items()}
        try:
            core.registers.update(changed_ones)
            after: dict[str, Any] = {}
            self._left(core, inst, {}, None, after)
        finally:
            core.registers.clear()
            core.registers.update(kept)
        if after != changed_ones:
            raise Unfollowed("it sets a special register")

    def _left(
        self, core: Core, inst: Inst, given: dict[int, Any], ub: np.ndarray | None = None,
        registers: dict[str, Any] | None = None,
    ) -> tuple[list[Any], bytes, _Runs]:  # fmt: skip
        """What an instruction leaves in its results and in UB, and where it reaches, with other
        values in slots and in UB; afterwards all is as before."""
        window, slots = core.ub, core.slots
        targets = targets_of(self.program, inst)
        kept = {slot: slots[slot] for slot in (*targets, *given)}
        assert window is not None
        assert window.log is not None
        data, entries, parts = bytes(window.data), len(window.log), len(window.parts)
        special = dict(core.registers)
        for slot, value in given.items():
            slots[slot] = value
        try:
            if ub is not None:
                window.data[:] = ub.tobytes()
            inst.run(core)
            log = [_bytes(window, entry) for entry in window.log[entries:]]
            return [_content(slots[slot]) for slot in targets], bytes(window.data), log
        finally:
            if registers is not None:
                registers.update(core.registers)
            for slot, value in kept.items():
                slots[slot] = value
            window.data[:] = data
            del window.log[entries:], window.parts[parts:]
            core.registers.clear()
            core.registers.update(special)


def _bytes(window: Any, entry: int) -> np.ndarray:
    if entry < 0:
        _, starts, size = window.parts[-1 - entry]
        return (np.asarray(starts, np.int64)[:, None] + np.arange(size)).reshape(-1)
    return np.arange(entry & 0xFFFFF, (entry & 0xFFFFF) + (entry >> 20 & 0xFFF))


def _drawn(rng: np.random.Generator, value: np.ndarray, fill: int) -> np.ndarray:
    some = rng.integers(0, 256, value.nbytes, np.uint8)
    content = (value.reshape(-1).view(np.uint8), some, some & 0x3F, some | 0xC0, some * 0)[fill % 5]
    return np.ascontiguousarray(content).view(value.dtype).reshape(value.shape)


def _content(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, LogicalMask):
        return value.on.tobytes()
    if isinstance(value, Mask):
        return value.bits
    return tuple(map(_content, value)) if isinstance(value, tuple) else repr(value)


def _put(held: dict[int, Numbers], slot: int, one: Numbers | None) -> None:
    if one is None:
        held.pop(slot, None)
    else:
        held[slot] = one


def _operands(bound: Any, name: str) -> Iterator[tuple[str, Operand]]:
    """The operands of an operation by their names, in order."""
    if isinstance(bound, Operand):
        yield name, bound
    elif isinstance(bound, Clause):
        yield from _operands(bound.operands, name)
    elif isinstance(bound, (list, tuple)):
        for number, each in enumerate(bound):
            yield from _operands(each, f"{name}.{number}")
    elif hasattr(bound, "items"):
        for key, each in bound.items():
            yield from _operands(each, f"{name}.{key}")


def _constant(value: Any, reaches: bool) -> Any:
    """A value that no memory decides, to its last bit; a place is told by the bytes there."""
    if isinstance(value, (Pointer, GmView)) or (reaches and isinstance(value, int)):
        return "place"
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes().hex()
    if isinstance(value, Mask):
        return value.bits
    if isinstance(value, LogicalMask):
        return value.on.tobytes().hex()
    return exact(value)
