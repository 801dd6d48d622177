"""What the maker of an operation of the scalar unit sees. A maker gets the operation with the slots
of its operands and returns the function that executes it on a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core, Machine

Action = Callable[[Core], None]


@dataclass(slots=True)
class ValueContext:
    """An operation of the scalar unit: slots of its operands and results, and the machine."""

    op: Operation
    machine: Machine
    slots: dict[str, Any]  # operand name -> slot, tuple of slots, or None
    results: tuple[int, ...]
    layout: str | None
    address: int | None  # where the planner put the result
    report: Callable[..., None]
    attrs: Mapping[str, Any]
    profile: Profile

    @property
    def result(self) -> int:
        """Slot of the first result."""
        return self.results[0]

    @property
    def result_type(self) -> Type:
        """Type of the first result."""
        return self.op.results[0].type

    @property
    def result_tile(self) -> TileType:
        """Type of the first result, which is a tile."""
        type_ = self.result_type
        assert isinstance(type_, TileType)
        return type_

    def operand_type(self, name: str) -> Any:
        """Type of an operand."""
        return self.op.bound[name].type
