"""Slots: every value of a program has a place in the list that a core computes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ptosim.engine.core.bound import DecodedFunction, Inst, Kind
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.ir.core import Clause, Operand, Operation, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import FIRST_SLOT, Machine
from ptosim.ops.micro.hazards import RegionPlace
from ptosim.ops.scalar.tensors import constant_array


class Stream(Protocol):
    """The instructions of a program while it is decoded, as those see them that decode control
    flow and launches."""

    resolved: ResolvedModule
    machine: Machine
    profile: Profile
    insts: list[Inst]
    slots: Slots
    functions: dict[str, DecodedFunction]
    current: DecodedFunction
    launches: Any  # what decodes a launch of threads
    in_vector_region: bool
    places: dict[Operation, RegionPlace]
    regions: dict[Operation, dict[Operation, RegionPlace]]

    def emit(self, kind: Kind, op: Operation | None, run: Any = None, **details: Any) -> Inst:
        """Add an instruction at the end."""
        ...

    def ops(self, ops: Any) -> None:
        """Decode operations, one after the other."""
        ...

    def refuse(self, finding: Diagnostic, *, has_no_time: bool = False) -> None:
        """Report what is not executed."""
        ...


class Slots:
    """The slots of a program, and what they hold before it runs."""

    def __init__(self) -> None:
        self.initial: list[Any] = [None] * FIRST_SLOT
        self.of: dict[Value, int] = {}
        self._consts: dict[tuple[type, str], int] = {}

    def new(self, value: Any) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def value(self, value: Value) -> int:
        """Return the slot of a value; one whose content the text fixes is filled already."""
        slot = self.of.get(value)
        if slot is None:
            slot = self.of[value] = self.new(constant_array(value.const, value.type))
        return slot

    def operand(self, operand: Operand) -> int:
        """Return the slot of an operand; a literal gets one of its own."""
        if operand.value is not None:
            return self.value(operand.value)
        const = operand.const
        key = (type(const), repr(const))  # 0.0 and -0.0 are equal, and are not one constant
        if key not in self._consts:
            self._consts[key] = self.new(const)
        return self._consts[key]

    def bound(self, bound: Any) -> Any:
        if isinstance(bound, Operand):
            return self.operand(bound)
        if isinstance(bound, list):
            return tuple(self.bound(b) for b in bound)
        return None

    def clause(self, name: str, bound: Any) -> Iterator[tuple[str, Any]]:
        """Operands of a clause as `clause.operand`; of one that can be repeated, a tuple for
        each."""
        if isinstance(bound, Clause):
            for inner, operand in bound.operands.items():
                if operand is not None:
                    yield f"{name}.{inner}", self.operand(operand)
        elif isinstance(bound, list) and bound and isinstance(bound[0], Clause):
            for inner in bound[0].operands:
                yield f"{name}.{inner}", tuple(self.bound(c[inner]) for c in bound)
