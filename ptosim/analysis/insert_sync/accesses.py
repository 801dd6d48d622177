"""What every operation of a program may touch, as far as the text says: pipe, memory, byte range.

Ranges are those of whole storages: an address that is not known covers its whole memory, a window
of global memory its whole argument."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ptosim.engine.core.pipes import pipe_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import MemRefType, PtrType, TileType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.passes.place.planner import Placement
from ptosim.semantics.base.functions import VALUES

EVERYWHERE = (0, 1 << 62)
_SCALAR = {"pto.load_scalar": Role.IN, "pto.store_scalar": Role.OUT}


@dataclass(frozen=True, slots=True)
class Touch:
    """Bytes [low, high) of a memory that an operation on a pipe reads or writes. `memory` is a
    space, `gm:` and the name of an argument, or `gm:?` for global memory of unknown origin."""

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
        self.target = resolved.target
        self.placement = placement

    def of(self, op: Operation) -> list[Touch]:
        """Return what an operation itself touches; nothing for one that only makes a handle."""
        role = _SCALAR.get(op.name)
        if role is not None:
            return [self._pointer(op.bound["ptr"], "S", role)]
        definition = op.definition
        if definition is None or definition.form == "core" or op.name in VALUES:
            return []
        if op.variant is None or definition.family in ("sync", "views"):
            return []
        pipe = pipe_of(op, self.target)
        return [t for name, role, given in _operands(op) for t in self._touches(given, pipe, role)]

    def _touches(self, given: Any, pipe: str, role: Role) -> Iterator[Touch]:
        value = given.value if isinstance(given, Operand) else given
        if not isinstance(value, Value):
            return
        place = self._place(value)
        if place is None:
            return
        memory, low, high = place
        if role is not Role.OUT:
            yield Touch(pipe, memory, low, high, False)
        if role is not Role.IN:
            yield Touch(pipe, memory, low, high, True)

    def _pointer(self, operand: Operand, pipe: str, role: Role) -> Touch:
        place = self._place(operand.value) if operand.value is not None else None
        memory, low, high = place or ("gm:?", *EVERYWHERE)
        return Touch(pipe, memory, low, high, role is not Role.IN)

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
            return (f"gm:{_argument(value)}", *EVERYWHERE)
        return None

    def _sized(self, value: Value, low: int) -> tuple[str, int, int]:
        placed = next(p for p in self.placement.placed if p.addr == low and p.name == value.name)
        return placed.space, low, low + placed.bytes

    def _tile(self, value: Value, type_: TileType) -> tuple[str, int, int]:
        root = value
        while root.owner is not None and root.owner.has("same_storage"):
            source = getattr(root.owner.bound.get("source"), "value", None)
            if source is None:
                break
            root = source
        at = self.placement.values.get(root)
        if at is None and root.owner is not None and root.owner.name == "pto.alloc_tile":
            addr = root.owner.bound.get("addr")
            at = addr.const if isinstance(addr, Operand) else None
        size = root.type.bytes if isinstance(root.type, TileType) else type_.bytes
        if at is None or _is_moved(root):
            return (type_.loc, *EVERYWHERE)
        return type_.loc, at, at + size


def _is_moved(value: Value) -> bool:
    """True for a value that a loop or a branch hands over: its storage is not one."""
    return value.owner is not None and value.owner.name.startswith("scf.")


def _argument(value: Value) -> str:
    """The pointer argument that a view comes from; `?` if that is not clear."""
    seen = 0
    while value.owner is not None and seen < 64 and not value.is_argument:
        bound = value.owner.bound
        source = bound.get("source") or bound.get("ptr")
        following = getattr(source, "value", None)
        if following is None:
            return "?"
        value, seen = following, seen + 1
    return value.name if _is_function_argument(value) else "?"


def _is_function_argument(value: Value) -> bool:
    return value.is_argument and (value.owner is None or value.owner.name == "func.func")


def _operands(op: Operation) -> Iterator[tuple[str, Role, Any]]:
    results = iter(op.results)
    for operand in op.variant.operands:
        bound = op.bound.get(operand.name)
        if bound is None and operand.role is Role.OUT:
            bound = next(results, None)
        for entry in bound if isinstance(bound, list) else (bound,):
            if entry is not None:
                yield operand.name, operand.role, entry
