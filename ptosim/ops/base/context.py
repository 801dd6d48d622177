"""What the maker of an operation sees at decoding: the slots of its operands and results, and
everything that its text fixes. A maker returns the function that executes the operation on a core.

`Context` is what all levels have. The scalar unit, registers (`micro`), logical vectors (`vmi`) and
threads (`simt`) add how their values are carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.types import DType, ScalarType, TileType, Type
from ptosim.ground.isa.dates import Profile
from ptosim.ground.isa.schema import enums
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


def several(function: Callable[..., Any], sources: Sequence[int], targets: Sequence[int]) -> Action:
    """Return the action: slots become the results of the function of the values in others."""
    take = taker(sources)

    def run(core: Core) -> None:
        slots = core.slots
        for target, result in zip(targets, function(*take(slots)), strict=True):
            slots[target] = result

    return run


def not_reported(code: str, message: str, *help: str) -> None:
    """Report nothing: for an operation whose findings somebody else makes."""


@dataclass(slots=True, eq=False)
class Context:
    """An operation at decoding. `slots` are those of its operands by the names of the row: one,
    several, or None where it is left out."""

    op: Operation
    slots: dict[str, Any]
    results: tuple[int, ...]
    profile: Profile
    report: Callable[..., None] = not_reported

    def __getitem__(self, name: str) -> int:
        return self.slots[name]

    def has(self, name: str) -> bool:
        """True if an optional operand or result is there."""
        return self.slots.get(name) is not None

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes of the text."""
        return self.op.attributes

    def attr(self, name: str, default: Any = None) -> Any:
        """Return an attribute that may be left out."""
        value = self.op.attributes.get(name)
        return default if value is None else value

    def switch(self, name: str) -> str:
        """Return the value of a semantic switch."""
        return self.profile.switches[name]

    def const(self, name: str) -> Any:
        """Return the value of an operand if the text fixes it, else None."""
        operand = self.op.bound.get(name)
        return operand.const if isinstance(operand, Operand) else None

    def word(self, name: str) -> str:
        """Return the word that an operand is, in its canonical spelling; of an attribute its
        value."""
        operand = self.op.bound.get(name)
        if operand is None:
            return self.op.attributes[name]
        value = operand.const
        text = value.member if isinstance(value, Enum) else str(value)
        assert self.op.variant is not None
        row = next(d for d in self.op.variant.operands if d.name == name)
        return next(filter(None, (enums()[e].member(text) for e in row.enums)), text)

    def type(self, name: str) -> Any:
        """Return the type of an operand or result."""
        operand = self.op.bound.get(name)
        if operand is not None:
            return operand.type
        made = self.op.result_values.get(name)
        if made is None:
            raise UnsupportedError([finding("PTO8002", f"'{self.op.name}' has no `{name}`")])
        return made.type

    def elem(self, name: str) -> DType:
        """Return the type of the numbers of a scalar, or of the elements of anything else."""
        type_ = self.type(name)
        return type_.dtype if isinstance(type_, ScalarType) else type_.elem

    # -- of one result ----------------------------------------------------------------------------

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


@dataclass(slots=True, eq=False)
class ValueContext(Context):
    """An operation of the scalar unit, which gives a handle (view, tile, pointer) or a number."""

    machine: Machine = None  # type: ignore[assignment]  # always given
    layout: str | None = None
    address: int | None = None  # where the planner put the result
    popped_as: str | None = None  # elements of a FIFO whose pushes convert

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
