"""Several spellings of one operation: what a spelling says is found under the names of the
operation that it means, so that nothing after the binding handles both."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.isa.rows import Isa
from ptosim.ground.isa.schema import OpDef


def take_meaning(op: Operation, definition: OpDef, isa: Isa) -> None:
    """Give an operation the attributes and the names of operands of the one that its row `means`;
    operands that it has no word for are left out."""
    for name, value in definition.sets.items():
        said = _said(op, value)
        if said is not None:
            op.attributes[name] = said
    meant = isa.get(definition.means) if definition.means is not None else None
    if meant is None or op.variant is None:
        return
    for attr in meant.attrs.values():
        op.attributes.setdefault(attr.name, attr.default)
    for variant in meant.variants:
        for operand in variant.operands:
            op.bound.setdefault(operand.name, None)


def _said(op: Operation, value: Any) -> Any:
    """`@name`: what the text says of an attribute, else the constant of an operand or of a list."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    name = value[1:]
    said = op.attributes.get(name)
    if said is not None:
        return said
    bound = op.bound.get(name)
    if isinstance(bound, list):
        return [operand.const for operand in bound] or None
    return bound.const if isinstance(bound, Operand) else None
