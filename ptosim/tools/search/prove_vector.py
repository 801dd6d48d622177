"""The rules of the proof for instructions of the vector unit: each register is one expression.

A register that no memory has filled is a constant, told by its content. Any other is made of the
instruction and of the registers, and the bytes of UB, that it takes. Which bytes a load or a store
reaches is what the unit's log says; that must not depend on data: under a mask, or at a place, that
was computed of data no proof is given."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.engine.core.runners import form_of
from ptosim.engine.paths.flow import sources_of, targets_of
from ptosim.ground.ir.core import Clause, Operand
from ptosim.machine.core import Core
from ptosim.machine.logical import LogicalMask
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import Align, Mask
from ptosim.tools.search.prove_memory import HashedMemory, Unprovable, along, joined, salt

_SIZE, _FIRST = 0xFFF, 0xFFFFF


class Registers:
    """What the slots of every core hold that came from memory: an expression each."""

    def __init__(self, program: Any, memory: HashedMemory, switches: dict[str, str]) -> None:
        self.program, self.memory = program, memory
        self.switches = sorted(switches.items())
        self._held: dict[int, dict[int, np.uint64]] = {}
        self._logged: dict[int, int] = {}
        self._special: dict[int, dict[str, int]] = {}
        self._slots: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}

    def begin(self, core: Core) -> None:
        """A region begins: its log is empty."""
        self._logged[core.index] = 0

    def of_scalar(self, core: Core, inst: Inst) -> None:
        """Follow a scalar instruction, a branch or an operation that is no vector instruction."""
        held = self._held.get(core.index)
        if not held:
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
        if derived and before is not None and before != core.registers:
            raise Unprovable("sets a register by what data say")
        self._special[core.index] = dict(core.registers)
        if is_access and any(not _is_data(core.slots[s]) for s in derived):
            raise Unprovable("data say where it reaches")

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
        self, core: Core, inst: Inst, held: dict[int, np.uint64],
        runs: list[tuple[np.ndarray, int]], is_load: bool,
    ) -> Any:  # fmt: skip
        op = inst.operation
        is_access = is_load or op.has("stores")
        told: list[Any] = [
            op.name,
            getattr(op.variant, "name", ""),
            sorted((k, repr(v)) for k, v in op.attributes.items()),
            sorted(core.registers.items()),
        ]
        told += [self.switches, [str(v.type) for v in op.results]]
        parts = []
        for name, operand in _operands(op.bound):
            slot = None if operand.value is None else self.program.slots.get(operand.value)
            if slot in held:
                parts.append(held[slot])
                told.append((name, str(operand.type), "data"))
            else:
                value = operand.const if slot is None else core.slots[slot]
                told.append((name, str(operand.type), _constant(value, is_access)))
        for starts, size in runs if is_access else ():
            told.append((len(starts), size, int(starts[0]) % 32))
        if is_load:
            hashes = self.memory.of(self.memory.space(core, "vec")).hashes
            parts += [along(salt("loaded"), hashes[_bytes(*run)], 0) for run in runs]
        with np.errstate(over="ignore"):
            return joined(salt(*told), *parts)

    def _store(self, core: Core, made: Any, runs: list[tuple[np.ndarray, int]]) -> None:
        memory = self.memory.of(self.memory.space(core, "vec"))
        for number, (starts, size) in enumerate(runs):
            at = _bytes(starts, size)
            memory.put(
                at, joined(salt("stored", number), made, np.arange(len(at), dtype=np.uint64))
            )


def _put(held: dict[int, np.uint64], slot: int, made: Any) -> None:
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


def _constant(value: Any, is_access: bool) -> Any:
    """Tell a value that no memory decides. Where it is in memory is told by the bytes."""
    if isinstance(value, (Pointer, GmView)) or (is_access and isinstance(value, int)):
        return "place"
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, Mask):
        return value.bits
    if isinstance(value, LogicalMask):
        return value.on.tobytes()
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, tuple):
        return tuple(_constant(v, is_access) for v in value)
    if value is None or isinstance(value, (int, str, bytes, np.generic)):
        return repr(value)
    raise Unprovable(f"a {type(value).__name__} is not followed")
