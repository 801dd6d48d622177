"""How much of its arguments a program needs, as far as its text and the given scalars say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.attributes import attribute_of
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, ScalarType, ViewType
from ptosim.ground.records import dataclass, replace
from ptosim.machine.gm import five_dims, view_spec
from ptosim.semantics.scalar import numbers

MAX_DEPTH = 64
"""Operations that an extent is followed through."""


@dataclass(frozen=True, slots=True)
class Needed:
    """How much of a pointer argument a program's views reach: elements, and the shape where all
    views with constant shape and strides agree on one and are contiguous. `is_whole` is True where
    nothing else uses the pointer, so that it needs no more."""

    elements: int
    shape: tuple[int, ...]
    is_whole: bool = True
    in_order: bool = False  # a view has that shape, row after row


def needed_elements(function: Function, scalars: Mapping[str, Any]) -> dict[str, Needed]:
    """Return what the views whose shape and strides the text and the `scalars` that are given fix
    reach of each pointer argument. Pointers without such a view are missing, those that nothing
    uses need nothing."""
    needed: dict[str, Needed] = {}
    pointers = {value: value.name for value in function.args if isinstance(value.type, PtrType)}
    elsewhere: set[str] = set()
    needed |= {name: Needed(0, (0,)) for value, name in pointers.items() if not value.uses}
    for op in function.ops:
        used = {pointers[value] for value in op.operand_values() if value in pointers}
        if not used:
            continue
        name, reach = _viewed(op, pointers), None
        if name is not None:
            reach = _slots(op, function) or _reach(op, scalars)
        if name is not None and reach is not None:
            needed[name] = _larger(needed.get(name), reach)
        else:
            elsewhere |= used
    return {n: replace(reach, is_whole=n not in elsewhere) for n, reach in needed.items()}


def _slots(op: Operation, function: Function) -> Needed | None:
    """What a view of the first slot of a FIFO in global memory stands for: all its slots."""
    made = op.results[0] if op.results else None
    for other in function.ops:
        row = other.definition
        if row is None or row.fifo != "open" or made not in other.operand_values():
            continue
        attrs = {name: attribute_of(other, name) for name in ("slot_size", "slot_num", "dir_mask")}
        size, mask = attrs["slot_size"], attrs["dir_mask"]
        count = attrs["slot_num"] or (4 if mask == 3 else 8)
        elem = getattr(made.type, "elem", None) if made is not None else None
        if isinstance(size, int) and isinstance(count, int) and elem is not None:
            elements = size * count * 8 // elem.bits
            return Needed(elements, (elements,))
    return None


def _viewed(op: Operation, pointers: Mapping[Value, str]) -> str | None:
    """The pointer argument that an operation makes a view of."""
    pointer = op.bound.get("ptr") if "view" in op.traits and op.bound else None
    value = pointer.value if isinstance(pointer, Operand) else None
    return pointers.get(value) if value is not None else None


def _larger(known: Needed | None, reach: Needed) -> Needed:
    if known is None:
        return reach
    elements = max(known.elements, reach.elements)
    if known.shape != reach.shape:
        return Needed(elements, (elements,))
    return Needed(elements, known.shape, in_order=known.in_order and reach.in_order)


def _reach(op: Operation, scalars: Mapping[str, Any]) -> Needed | None:
    sizes = _known(op.bound.get("shape"), scalars)
    strides = _known(op.bound.get("strides"), scalars)
    if sizes is None or strides is None or len(sizes) != len(strides) or not sizes:
        return None
    if min(sizes) <= 0:
        return Needed(0, (0,))
    type_ = op.results[0].type
    assert isinstance(type_, ViewType)
    spec = view_spec(*five_dims(sizes, strides), type_.elem, "nd")
    elements = spec.high + 1
    kept = tuple(d for i, d in enumerate(sizes) if d != 1 or i >= len(sizes) - 2)
    if math.prod(sizes) != elements:
        return Needed(elements, (elements,))
    rows_first = all(
        size == 1 or stride == math.prod(sizes[i + 1 :])
        for i, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    )
    return Needed(elements, kept, in_order=rows_first)


def squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its dimensions of one."""
    return tuple(size for size in shape if size != 1)


def _known(operands: Any, scalars: Mapping[str, Any]) -> tuple[int, ...] | None:
    values = [known_value(operand, scalars) for operand in operands or ()]
    known = tuple(value for value in values if value is not None)
    return known if known and len(known) == len(values) else None


def known_value(operand: Operand, scalars: Mapping[str, Any], depth: int = 0) -> int | None:
    """Return the integer that an operand is if literals, given scalars and arithmetic on them fix
    it, else None."""
    value = operand.value
    if operand.const is not None or value is None:
        return operand.const if isinstance(operand.const, int) else None
    if value.is_argument:
        given = scalars.get(value.name)
        return int(given) if isinstance(given, (int, np.integer)) else None
    op = value.owner
    make = numbers.MAKERS.get(op.name) if op is not None else None
    if op is None or make is None or depth > MAX_DEPTH or len(op.results) != 1:
        return None
    operands = [o for o in op.bound.values() if isinstance(o, Operand)]
    values = [known_value(o, scalars, depth + 1) for o in operands]
    types = operands[0].type, op.results[0].type
    if any(v is None for v in values) or not all(isinstance(t, ScalarType) for t in types):
        return None
    try:
        found = make(*(t.dtype for t in types if isinstance(t, ScalarType)))(*values)
    except PtosimError:
        return None  # a division by zero is the run's to tell
    return found if isinstance(found, int) else None


def missing_scalars(function: Function, pointer: Value, scalars: Mapping[str, Any]) -> list[str]:
    """Return the scalar arguments that are not given and that the views of a pointer depend on."""
    names: dict[str, None] = {}
    for op in function.ops:
        if _viewed(op, {pointer: pointer.name}) is None:
            continue
        for operand in (*op.bound["shape"], *op.bound["strides"]):
            names |= dict.fromkeys(_arguments(operand.value, 0))
    return [name for name in names if name not in scalars]


def _arguments(value: Value | None, depth: int) -> list[str]:
    if value is None or depth > MAX_DEPTH:
        return []
    if value.is_argument:
        return [value.name] if isinstance(value.type, ScalarType) else []
    inputs = value.owner.operand_values() if value.owner is not None else []
    return [name for each in inputs for name in _arguments(each, depth + 1)]
