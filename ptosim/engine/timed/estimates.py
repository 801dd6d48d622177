"""Costs of operations with operands, estimated once for all programs and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.engine.timed.operand_shapes import is_micro, shape_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.costs import CostTable
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate

MOST = 20_000
"""Costs that are kept with the figures."""


def estimated(
    table: CostTable,
    op: Operation,
    values: Mapping[str, Any],
    attrs: Mapping[str, Any],
    forms: tuple[Any, ...],
) -> Cost:
    """Return the cost of an operation with operands of such forms. Equal ones have one, but for
    those of the micro level, whose costs depend on what the text says of pointers."""
    if is_micro(op.name):
        return estimate(shape_of(op, table.target, values, attrs), table)
    variant = op.variant.name if op.variant is not None else ""
    parts = tuple(map(_part, values.values(), forms))
    key = (op.name, variant, tuple(values), parts, tuple(attrs.items()))
    try:
        cost = table.known.get(key)
    except TypeError:  # a value that is no key
        return estimate(shape_of(op, table.target, values, attrs), table)
    if cost is None:
        if len(table.known) >= MOST:
            table.known.clear()
        cost = table.known[key] = estimate(shape_of(op, table.target, values, attrs), table)
    return cost


def _part(value: Any, form: Any) -> Any:
    """What a cost may depend on: numbers and words as they are."""
    is_plain = form is None or value.__class__ is tuple
    return value if is_plain else form
