"""Arrays and records of the scalar unit: values that change where they are set.

A value never changes itself: setting an element makes the slot hold another value, so that a
snapshot of the slots is a copy of all of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operand
from ptosim.ground.ir.types import DType, LocalArrayType, ScalarType, StructType
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Core
from ptosim.machine.pages import POISON, view_dtype
from ptosim.machine.values import Cells
from ptosim.ops.base.binding import OpFault
from ptosim.ops.base.functions import value
from ptosim.ops.base.orders import Action, ValueContext

Place = Callable[[list[Any]], int | Unknown]
"""Which cell an access means, of the slots of a core."""


@value("pto.declare_local_array")
def declare_array(ctx: ValueContext) -> Action:
    """An array whose elements are not set yet."""
    type_ = ctx.result_type
    assert isinstance(type_, LocalArrayType)
    return ctx.constant(Cells.filled(prod(type_.dims)))


@value("pto.declare_struct")
def declare_struct(ctx: ValueContext) -> Action:
    """A record whose fields are not set yet, one cell for each scalar in it."""
    return ctx.constant(Cells.filled(len(_leaves(ctx.result_type))))


def _leaves(type_: Any) -> list[DType]:
    """Element types of the scalars of a record, in order."""
    if isinstance(type_, ScalarType):
        return [type_.dtype]
    return [leaf for field in type_.fields for leaf in _leaves(field)]


@value("pto.local_array_get")
def array_get(ctx: ValueContext) -> Action:
    """An element of an array."""
    return _getter(ctx, "array", _element(ctx), ctx.type("array").elem)


@value("pto.local_array_set")
def array_set(ctx: ValueContext) -> Action:
    """Sets an element of an array."""
    return _setter(ctx, "array", _element(ctx))


@value("pto.struct_get")
def struct_get(ctx: ValueContext) -> Action:
    """A field of a record."""
    at, dtype = _field(ctx)
    return _getter(ctx, "struct", lambda slots: at, dtype)


@value("pto.struct_set")
def struct_set(ctx: ValueContext) -> Action:
    """Sets a field of a record."""
    at, _ = _field(ctx)
    return _setter(ctx, "struct", lambda slots: at)


def _element(ctx: ValueContext) -> Place:
    dims, indices = ctx.type("array").dims, ctx.slots["indices"]

    def place(slots: list[Any]) -> int | Unknown:
        at: Any = 0
        for size, slot in zip(dims, indices, strict=True):
            index = slots[slot]
            if index.__class__ is Unknown:
                return index
            if not 0 <= index < size:
                raise OpFault(
                    "PTO6060",
                    f"'{ctx.op.name}': index {index} is outside the array of "
                    f"{'x'.join(map(str, dims))}",
                    help=f"the index of this dimension is between 0 and {size - 1}",
                )
            at = at * size + index
        return at

    return place


def _field(ctx: ValueContext) -> tuple[int, DType]:
    """The number of the cell at the end of a path, and its type."""
    type_, at = ctx.type("struct"), 0
    for step in ctx.op.bound["path"]:
        assert isinstance(step, Operand)
        assert isinstance(type_, StructType)
        number = int(step.const)  # type: ignore[arg-type]
        at += sum(len(_leaves(field)) for field in type_.fields[:number])
        type_ = type_.fields[number]
    assert isinstance(type_, ScalarType)  # the verifier follows the path
    return at, type_.dtype


def _getter(ctx: ValueContext, name: str, place: Place, dtype: DType) -> Action:
    source, result = ctx.slots[name], ctx.result
    what = "an element" if name == "array" else "a field"

    def run(core: Core) -> None:
        slots = core.slots
        at = place(slots)
        if at.__class__ is Unknown:
            slots[result] = at
            return
        found = slots[source].at(at)
        if found is None:
            ctx.report("PTO7101", f"reads {what} that nothing has set", "set it first")
            found = _unset(core, dtype)
        slots[result] = found

    return run


def _setter(ctx: ValueContext, name: str, place: Place) -> Action:
    target, source = ctx.slots[name], ctx.slots["value"]

    def run(core: Core) -> None:
        slots = core.slots
        at, cells = place(slots), slots[target]
        if at.__class__ is Unknown:
            slots[target] = Cells.filled(cells.length, at)  # any of them may be the one
            return
        slots[target] = cells.changed(at, slots[source])

    return run


def _unset(core: Core, dtype: DType) -> Any:
    """The value of bytes that nothing has written."""
    size = max(dtype.bits // 8, 1)
    fills = {"zero": bytes(size), "random": random.Random(f"{core.seed}|stack").randbytes(size)}
    found = np.frombuffer(fills.get(core.uninit, bytes([POISON]) * size), view_dtype(dtype))[0]
    return float(found) if dtype.is_float else int(found)
