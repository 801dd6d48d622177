"""What the text alone says of a logical mask."""

from __future__ import annotations

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import VirtualMaskType


def is_all_true(value: Value | None) -> bool:
    """True for the masks that lowering takes for all true: `pset`, and `create_mask` of a constant
    that covers every lane."""
    op = value.owner if value is not None and not value.is_argument else None
    if value is None or op is None or not isinstance(value.type, VirtualMaskType):
        return False
    if op.name == "pto.vmi.pset":
        return True
    if op.name != "pto.vmi.create_mask":
        return False
    count = _constant(op)
    return count is not None and count >= value.type.lanes


def _constant(op: Operation) -> int | None:
    operands = [o for o in op.bound.values() if isinstance(o, Operand)]
    found = operands[0].const if operands else None
    return found if isinstance(found, int) else None
