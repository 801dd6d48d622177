"""What the maker of an operation of the scalar unit sees. A maker gets the operation with the slots
of its operands and returns the function that executes it on a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core, Machine

Action = Callable[[Core], None]


def taker(sources: Sequence[int]) -> Callable[[list[Any]], Sequence[Any]]:
    """Return what takes the values of slots, in one step of C code: of one slot by a slice, as an
    item alone would come without its sequence."""
    if len(sources) > 1:
        return itemgetter(*sources)
    first = sources[0] if sources else 0
    return itemgetter(slice(first, first + len(sources)))


def computed(function: Callable[..., Any], sources: Sequence[int], target: int) -> Action:
    """Return the action: a slot becomes the function of the values in others."""
    take = taker(sources)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = function(*take(slots))

    return run


def constant(value: object, target: int) -> Action:
    """Return the action: a slot becomes a value."""
    return partial(_put, target, value)


def _put(slot: int, value: object, core: Core) -> None:
    core.slots[slot] = value


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
    popped_as: str | None = None  # elements of a FIFO whose pushes convert

    @property
    def result(self) -> int:
        """Slot of the first result. Raises UsageError where the text gives it another place."""
        if not self.results:
            raise UsageError(f"'{self.op.name}' makes a value, and has none to name it")
        return self.results[0]

    @property
    def result_type(self) -> Type:
        """Type of the first result."""
        _ = self.result
        return self.op.results[0].type

    @property
    def result_tile(self) -> TileType:
        """Type of the first result, which is a tile."""
        type_ = self.result_type
        if not isinstance(type_, TileType):
            raise UsageError(f"'{self.op.name}' makes a tile, and its result is a {type_}")
        return type_

    def computed(self, function: Callable[..., Any], *names: str) -> Action:
        """Return the action: the result is the function of operands."""
        return computed(function, [self.slots[name] for name in names], self.result)

    def constant(self, value: object) -> Action:
        """Return the action: the result is a value."""
        return constant(value, self.result)

    def operand_type(self, name: str) -> Any:
        """Type of an operand."""
        return self.op.bound[name].type
