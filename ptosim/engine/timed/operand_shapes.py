"""What of the operands of an execution a cost depends on, and the bytes that they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from ptosim.engine.core.records import Inst
from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.costs import cost_entries
from ptosim.ground.isa.schema import Role
from ptosim.machine.gm import ViewSpec
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.timing.laws.shapes import OpShape, PointerShape, TileShape, ViewShape
from ptosim.timing.pipes.order import Range, Ranges

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
    """The memory and the element type of an operand that is a pointer."""
    bound = op.bound.get(name)
    elem = getattr(getattr(bound, "type", None), "elem", None)
    if elem is None or not isinstance(value, Pointer):
        return None
    return PointerShape(value.memory if isinstance(value.memory, str) else "gm", elem)


def shape_of(
    op: Operation, target: str, values: Mapping[str, Any], attrs: Mapping[str, Any]
) -> OpShape:
    """Return the shapes of an operation's operands."""
    args = {name: arg_of(value) for name, value in values.items()}
    if is_micro(op.name):
        args |= {n: p for n, v in values.items() if (p := _pointer(op, n, v)) is not None}
    named = roles(op)
    ins = tuple(n for n, r in named if r in (Role.IN, Role.INOUT))
    outs = tuple(n for n, r in named if r in (Role.OUT, Role.INOUT))
    return OpShape(op.name.removeprefix("pto."), target, args, attrs, ins, outs)


@lru_cache(maxsize=4096)
def roles(op: Operation) -> tuple[tuple[str, Role], ...]:
    """Return what an operation does with each of its operands."""
    operands = op.variant.operands if op.variant is not None else ()
    return tuple((o.name, o.role) for o in operands)


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


def ranges_of(op: Operation, values: Mapping[str, Any]) -> Ranges:
    """Return the bytes that an operation reads and those that it writes."""
    reads: list[Range] = []
    writes: list[Range] = []
    for name, role in roles(op):
        value = values.get(name)
        ranges = _reached(name, value, values) if isinstance(value, Pointer) else _bytes_of(value)
        if role in (Role.IN, Role.INOUT):
            reads += ranges
        if role is not Role.IN:
            writes += ranges
    return tuple(reads), tuple(writes)


END = 1 << 32
"""After the last byte of any memory of a core."""


def _reached(name: str, pointer: Pointer, values: Mapping[str, Any]) -> list[Range]:
    """Return the bytes that an instruction of the micro level reaches from a pointer: its bursts
    and loops if they say so in bytes, else everything from there on."""
    place, start = pointer
    if place is None:
        return []
    reach = values.get("length", END)
    bursts = (values.get("nburst.count"), values.get(f"nburst.{name}_stride", END))
    loops = zip(values.get("loop.count", ()), values.get(f"loop.{name}_stride", ()), strict=False)
    for count, stride in (bursts, *loops):
        if not isinstance(count, int) or not isinstance(stride, int) or stride < 0:
            return [(place, start, END)]
        reach += (count - 1) * stride
    if not isinstance(reach, int):
        return [(place, start, END)]
    return [(place, start, start + reach)] if reach > 0 else []


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


def far_ranges(op: Operation, values: Mapping[str, Any]) -> Ranges:
    """Return the bytes of global memory that an operation reads and those that it writes."""
    reads: list[Range] = []
    writes: list[Range] = []
    for name, role in roles(op):
        value = values.get(name)
        if isinstance(value, tuple):
            if role in (Role.IN, Role.INOUT):
                reads += _bytes_of(value)
            if role is not Role.IN:
                writes += _bytes_of(value)
    return tuple(reads), tuple(writes)


def near_ranges(ranges: Ranges) -> Ranges:
    """Return those of the core's own memories; the very same object if that is all."""
    reads, writes = ranges
    for place in (*reads, *writes):
        if place[0].__class__ is not str:
            return _near(reads), _near(writes)
    return ranges


def _near(places: tuple[Range, ...]) -> tuple[Range, ...]:
    return tuple(place for place in places if place[0].__class__ is str)


def _bytes_of(value: Any) -> list[Range]:
    """Return the bytes of an operand's value, or of each of a list."""
    if isinstance(value, TileRef):
        return [(value.type.loc, value.addr, value.addr + value.type.bytes)]
    if isinstance(value, GmView):
        return [(value.memory, *value.span())]
    return (
        [range_ for item in value for range_ in _bytes_of(item)] if value.__class__ is tuple else []
    )
