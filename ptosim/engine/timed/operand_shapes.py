"""What of the operands of an execution a cost depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.costs import CostTable, cost_entries
from ptosim.ground.isa.schema import Role
from ptosim.machine.effects.row import READ, roles
from ptosim.machine.gm import ViewSpec
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.time.laws.cost import Cost
from ptosim.time.laws.estimate import estimate
from ptosim.time.laws.shapes import OpShape, PointerShape, TileShape, ViewShape

_FORMS: dict[Any, Any] = {}


def form_of(value: Any) -> Any:
    """Return what of an operand's value a cost depends on, as a key."""
    kind = value.__class__
    if kind is TileRef:
        form = _FORMS.get(value)
        if form is None:
            if len(_FORMS) > 100_000:
                _FORMS.clear()
            form = _FORMS[value] = (value.type, value.v_row, value.v_col)
        return form
    if kind is GmView:
        return value.spec
    if kind is Pointer:
        return value.memory
    return tuple(map(form_of, value)) if kind is tuple and value else None


def is_micro(name: str) -> bool:
    """True for an instruction whose cost depends on its numbers."""
    entry = cost_entries().get(name.removeprefix("pto."))
    return entry is not None and entry.class_.name.startswith("micro_")


def forms_of(inst: Inst, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the cost of an instruction depends on, as a key: numbers only at the micro
    level."""
    given = values.values()
    if inst.op is not None and is_micro(inst.op.name):
        return tuple(v if isinstance(v, int) or _are_numbers(v) else form_of(v) for v in given)
    return tuple(map(form_of, given))


def _are_numbers(value: Any) -> bool:
    return value.__class__ is tuple and all(isinstance(v, int) for v in value)


def _pointer(op: Operation, name: str, value: Any) -> PointerShape | None:
    """The memory and the element type of an operand that is a pointer. The host's buffer of an
    argument that points into a memory on chip is taken for that memory."""
    type_ = getattr(op.bound.get(name), "type", None)
    elem = getattr(type_, "elem", None)
    if elem is None or not isinstance(value, Pointer):
        return None
    said = getattr(type_, "space", None) or "gm"
    return PointerShape(value.memory if isinstance(value.memory, str) else said, elem)


def shape_of(
    op: Operation, target: str, values: Mapping[str, Any], attrs: Mapping[str, Any]
) -> OpShape:
    """Return the shapes of an operation's operands."""
    args = {name: arg_of(value) for name, value in values.items()}
    if is_micro(op.name):
        args |= {n: p for n, v in values.items() if (p := _pointer(op, n, v)) is not None}
    named = roles(op)
    ins = tuple(n for n, r in named if r in READ)
    outs = tuple(n for n, r in named if r in (Role.OUT, Role.INOUT))
    return OpShape(op.name.removeprefix("pto."), target, args, attrs, ins, outs)


def arg_of(value: Any) -> Any:
    """Return the shape of an operand's value; other values as they are."""
    if isinstance(value, TileRef):
        return TileShape(value.type, value.v_row, value.v_col)
    if isinstance(value, GmView):
        spec = value.spec
        return ViewShape(spec.sizes, spec.strides, spec.dtype)
    if value.__class__ is tuple:
        return tuple(map(arg_of, value))
    return value


def fixed_part(inst: Inst, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return a key of operands that fixes the cost and the bytes of the core's own memories, or
    None if some of them are no tiles, views or numbers. Tiles are their own keys; of windows of
    global memory the place is left out."""
    if inst.op is None or is_micro(inst.op.name):
        return None
    key = []
    for value in values.values():
        if isinstance(value, tuple):
            if not isinstance(value, GmView):
                return None
            value = value.spec
        key.append(value if value.__class__ in _FIXED else None)
    return tuple(key)


_FIXED = (TileRef, ViewSpec)


# -- operations without a law ----------------------------------------------------------------------


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
