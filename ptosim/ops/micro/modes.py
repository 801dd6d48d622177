"""Modes in which stores of UB to global memory combine with what is there.

PTO assembler of August 2026, definitions of the operations: the mode is in the control register,
bits 6 to 8 the type (0 is none: stores replace), bits 9 and 10 the operation. A store takes the
mode that it is issued under. One public program's data confirm the sum of 32-bit integers."""

from __future__ import annotations

import numpy as np

from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import SLOT_MASKS, SLOT_STORES, Core
from ptosim.machine.numbers.lanes import of
from ptosim.machine.storage import view_dtype
from ptosim.ops.base.context import Action, ValueContext
from ptosim.ops.base.functions import value

COUNT_MODE = 1 << 56
_WORD = (1 << 64) - 1
EVERY_LANE = (0, _WORD, _WORD)
"""The masks of the vector unit of A2/A3 at first: whether they count, and the two registers."""

_TYPE_BITS, _OPERATION_BITS = (6, 3), (9, 2)
_TYPES = {"f32": 1, "f16": 2, "s16": 3, "s32": 4, "s8": 5, "bf16": 6, "none": 0}
_OPERATIONS = {"add": 0, "max": 1, "min": 2}
_WORDS = {number: word for word, number in _OPERATIONS.items()}
_ELEMENTS = {1: "f32", 2: "f16", 3: "i16", 4: "i32", 5: "i8", 6: "bf16"}


class StoreMode(NamedTuple):
    """An operation (add, max, min by number) on elements of a type."""

    operation: int
    element: str

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements."""
        return view_dtype(dtype(self.element))

    def combined(self, old: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Return the bytes of each element of `old` combined with that of `new`."""
        with np.errstate(all="ignore"):
            made = of(_WORDS[self.operation], self.dtype)(
                old.view(self.dtype), new.view(self.dtype)
            )
        return made.astype(self.dtype).view(np.uint8)


def mode_of(ctrl: int) -> StoreMode | None:
    """Return the mode that a control register has, None where stores replace."""
    element = _ELEMENTS.get(_field(ctrl, *_TYPE_BITS))
    operation = _field(ctrl, *_OPERATION_BITS)
    return StoreMode(operation, element) if element and operation in _WORDS else None


def _field(ctrl: int, first: int, count: int) -> int:
    return ctrl >> first & ((1 << count) - 1)


def set_control(core: Core, ctrl: int) -> None:
    """Set the control register, and the modes of stores and of masks that it has (bit 56: the first
    mask register of A2/A3 is a number of elements)."""
    slots = core.slots
    core.registers["ctrl"] = ctrl
    slots[SLOT_STORES] = mode_of(ctrl)
    counts = int(bool(ctrl & COUNT_MODE))
    if counts or slots[SLOT_MASKS] is not None:
        slots[SLOT_MASKS] = (counts, *(slots[SLOT_MASKS] or EVERY_LANE)[1:])


@value(*(f"pto.set_atomic_{word}" for word in (*_TYPES, *_OPERATIONS)))
def set_atomic(ctx: ValueContext) -> Action:
    """Set the type or the operation of atomic stores; `none` clears the type alone."""
    word = ctx.op.name.rpartition("_")[2]
    (first, count), bits = (
        (_OPERATION_BITS, _OPERATIONS[word]) if word in _OPERATIONS else (_TYPE_BITS, _TYPES[word])
    )
    mask = ((1 << count) - 1) << first

    def run(core: Core) -> None:
        set_control(core, core.registers["ctrl"] & ~mask | bits << first)

    return run


@value("pto.set_store_atomic_cfg")
def without_effect(ctx: ValueContext) -> Action:
    """Configuration that nothing here goes by."""
    return lambda core: None
