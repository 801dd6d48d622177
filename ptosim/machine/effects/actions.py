"""What operations that the scalar unit executes itself do to memory and registers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.machine.core import Core
from ptosim.machine.effects.account import Effects, Reached, register
from ptosim.machine.effects.row import registers
from ptosim.machine.effects.strided import Strided
from ptosim.machine.tile import TileRef
from ptosim.machine.values import Pointer


def acts_on_memory(op: Operation, target: str) -> bool:
    """True if an operation of the scalar unit reads or writes memory, or a register that another
    pipe uses."""
    return op.has("reads_memory") or op.has("writes_memory") or any(registers(op, target))


def effects_of_action(core: Core, op: Operation, values: Mapping[str, Any], target: str) -> Effects:
    """Return what an operation does with these operands; nothing of an element whose place is not
    known."""
    found = Effects()
    read, written = registers(op, target)
    found.reads += [register(core, name) for name in read]
    found.writes += [register(core, name) for name in written]
    element = _element(core, op, values)
    if element is not None and op.has("reads_memory"):
        found.reads.append(element)
    if element is not None and op.has("writes_memory"):
        found.writes.append(element)
    return found


def _element(core: Core, op: Operation, values: Mapping[str, Any]) -> Reached | None:
    """The element at an offset of a pointer, or of a tile in the order of memory."""
    offset = values.get("offset")
    for name, base in values.items():
        if isinstance(base, Pointer):
            (where, start), elem = base, op.bound[name].type.elem
        elif isinstance(base, TileRef):
            where, start, elem = base.type.loc, base.addr, base.type.dtype
        else:
            continue
        if not isinstance(offset, int) or not isinstance(start, int) or where is None:
            return None
        part = Strided(start + offset * elem.bits // 8, max(elem.bits // 8, 1))
        return Reached(name, core, where, (part,))
    return None
