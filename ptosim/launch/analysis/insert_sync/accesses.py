"""What every operation of a program may touch, as far as the text says: pipe, memory, byte range.

Ranges are those of whole storages: an address that is not known covers its whole memory, a window
of global memory its whole argument."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType, PtrType, TileType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import dataclass
from ptosim.language.place.planner import Placement
from ptosim.language.place.sides import CUBE, pipe_of, votes
from ptosim.language.verify.verbs import HELPER
from ptosim.machine.effects.account import REGISTER, SPECIAL_REGISTER_BYTES
from ptosim.machine.effects.actions import acts_on_memory
from ptosim.machine.effects.operands import named_values
from ptosim.machine.effects.row import destroyed_sources, is_inert, registers
from ptosim.machine.effects.storage import argument_of, is_handed_over, part_of_allocation, root_of

EVERYWHERE = (0, 1 << 62)


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes [low, high) of a memory that an operation on a pipe reads or writes. `memory` is a
    space, `gm:` and the name of an argument, `gm:?` for global memory of unknown origin, or a
    register that several pipes use."""

    pipe: str
    memory: str
    low: int
    high: int
    writes: bool

    def meets(self, other: Touch) -> bool:
        """True if both may touch a byte and one of them writes."""
        if not (self.writes or other.writes) or not _same_memory(self.memory, other.memory):
            return False
        return self.low < other.high and other.low < self.high


def _same_memory(one: str, two: str) -> bool:
    if one == two:
        return True
    return one.startswith("gm:") and two.startswith("gm:") and "gm:?" in (one, two)


class Accesses:
    """Touches of operations, with the places of their storages."""

    def __init__(self, resolved: ResolvedModule, placement: Placement) -> None:
        self.resolved = resolved
        self.target = resolved.target
        self.placement = placement

    def of(self, op: Operation, *, in_region: bool = False) -> list[Touch]:
        """Return what an operation itself touches; nothing for one that only makes a handle. What
        is `in_region`, in a vector region, is done by the vector unit."""
        helper = self.helper(op)
        if helper is not None:
            return self._of_helper(op, helper)
        definition = op.definition
        if definition is None or definition.form == "core" or op.variant is None:
            return []
        is_action = acts_on_memory(op, self.target)
        if not is_action and (definition.family == "sync" or op.has("handle")):
            return []
        pipe = "V" if in_region else pipe_of(op, self.target)
        destroyed = destroyed_sources(op, self.target)
        touched = [
            (Role.INOUT if n in destroyed else r, v)
            for n, r, v in named_values(op)
            if not is_inert(op, n)
        ]
        found = [t for role, v in touched for t in self._touches(op, v, pipe, role)]
        for names, writes in zip(registers(op, self.target), (False, True), strict=True):
            found += [Touch(pipe, REGISTER + n, 0, SPECIAL_REGISTER_BYTES, writes) for n in names]
        return found

    def helper(self, op: Operation) -> Function | None:
        """Return the helper that an operation calls: it is as one operation on tiles."""
        name = op.bound.get("callee", "") if op.has("call") else ""
        callee = self.resolved.functions.get(name)
        return callee if callee is not None and HELPER in callee.op.attrs else None

    def _of_helper(self, op: Operation, helper: Function) -> list[Touch]:
        pipe = "M" if CUBE in votes(helper.body, self.target) else "V"
        places = [p for v in op.operand_values() if (p := self._place(v)) is not None]
        return [Touch(pipe, *place, writes) for place in places for writes in (False, True)]

    def _touches(self, op: Operation, value: Value, pipe: str, role: Role) -> Iterator[Touch]:
        place = self._place(value)
        if place is None:
            return
        if role is Role.IN and op.has("writes_memory"):  # through a pointer
            role = Role.OUT
        if role is not Role.OUT:
            yield Touch(pipe, *place, False)
        if role is not Role.IN:
            yield Touch(pipe, *place, True)

    def _place(self, value: Value) -> tuple[str, int, int] | None:
        """The bytes of a value's storage; None if it is no memory."""
        type_ = value.type
        if isinstance(type_, TileType):
            return self._tile(value, type_)
        if isinstance(type_, MemRefType) and type_.space not in (None, "gm"):
            low = self.placement.values.get(value)
            return (type_.space, *EVERYWHERE) if low is None else self._sized(value, low)
        if isinstance(type_, PtrType) and type_.space != "gm":
            return (type_.space, *EVERYWHERE)
        if isinstance(type_, (ViewType, PtrType, MemRefType)):
            return (f"gm:{argument_of(value)}", *EVERYWHERE)
        return None

    def _sized(self, value: Value, low: int) -> tuple[str, int, int]:
        placed = next(p for p in self.placement.placed if p.addr == low and p.name == value.name)
        return placed.space, low, low + placed.bytes

    def _tile(self, value: Value, type_: TileType) -> tuple[str, int, int]:
        root = root_of(value)
        at = self.placement.values.get(root)
        if at is None and root.owner is not None and root.owner.has("makes_storage"):
            addr = root.owner.bound.get("addr")
            at = addr.const if isinstance(addr, Operand) else None
        if at is None or is_handed_over(root):
            return (type_.loc, *EVERYWHERE)
        part = part_of_allocation(value)
        _, low, high = part if part is not None else (root, 0, type_.bytes)
        return type_.loc, at + low, at + high
