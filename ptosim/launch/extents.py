"""How much of its arguments a program needs, as far as its text and the given scalars say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.attributes import attribute_of
from ptosim.ground.ir.chains import add_in_order
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, ScalarType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import dataclass, replace
from ptosim.machine.effects.row import named_values
from ptosim.machine.gm import five_dims, view_spec
from ptosim.ops.scalar import numbers


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


def only_read(functions: Iterable[Function]) -> set[str]:
    """Return the names of pointer arguments that only the scalar unit reads through, or of which
    all that is made are views, and of them parts, that operations read and nothing else: what they
    point to stays as it is."""
    found: dict[Value, str] = {}
    written: set[str] = set()
    for function in functions:
        found |= {v: v.name for v in function.args if isinstance(v.type, PtrType)}
        for op in function.ops:
            for _, role, value in named_values(op):
                name = found.get(value)
                if name is None or (role is Role.OUT and value.owner is op):
                    continue
                if op.has("view") or op.has("window"):
                    found |= dict.fromkeys(op.results, name)
                elif role is Role.IN and op.has("reads_memory") and not _changes_memory(op):
                    continue
                elif not (isinstance(value.type, ViewType) and role is Role.IN and _only_reads(op)):
                    written.add(name)
    return {*found.values()} - written


def _changes_memory(op: Operation) -> bool:
    return op.has("writes_memory") or op.has("atomic_update")


def _only_reads(op: Operation) -> bool:
    """True for an operation of a pipe that has a row, which says what it writes."""
    is_of_pipe = op.queue != "S" and not op.regions and not op.has("writes_memory")
    return is_of_pipe and op.variant is not None


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
    found: dict[Value, int | None] = {}
    values = [_fixed(operand, scalars, found) for operand in operands or ()]
    known = tuple(value for value in values if value is not None)
    return known if known and len(known) == len(values) else None


def _fixed(
    operand: Operand, scalars: Mapping[str, Any], found: dict[Value, int | None]
) -> int | None:
    """Return the integer that an operand is if literals, given scalars and arithmetic on them fix
    it, else None. `found` keeps what values are: each is computed once, however many uses it
    has."""
    value, order = _variable(operand), dict[Value, None]()
    if value is not None:
        add_in_order(value, lambda v: [] if v in found else _variables(v), order)
    for each in order:
        if each not in found:
            found[each] = _number(each, scalars, found)
    return _looked_up(operand, found)


def _variables(value: Value) -> list[Value]:
    return [v for term in _terms(value) if (v := _variable(term)) is not None]


def _variable(operand: Operand) -> Value | None:
    """The value that says what an operand is; None for a constant."""
    return operand.value if operand.const is None else None


def _looked_up(operand: Operand, found: Mapping[Value, int | None]) -> int | None:
    value = _variable(operand)
    if value is not None:
        return found.get(value)
    return operand.const if isinstance(operand.const, int) else None


def _terms(value: Value) -> list[Operand]:
    """The operands of the arithmetic that a value is the result of."""
    op = None if value.is_argument else value.owner
    if op is None or op.name not in numbers.MAKERS or len(op.results) != 1:
        return []
    return [o for o in op.bound.values() if isinstance(o, Operand)]


def _number(
    value: Value, scalars: Mapping[str, Any], found: Mapping[Value, int | None]
) -> int | None:
    """What a value is, of whose terms that is known."""
    if value.is_argument:
        given = scalars.get(value.name)
        return int(given) if isinstance(given, (int, np.integer)) else None
    terms, op = _terms(value), value.owner
    if not terms or op is None:
        return None
    values = [_looked_up(term, found) for term in terms]
    types = [t for t in (terms[0].type, value.type) if isinstance(t, ScalarType)]
    if any(v is None for v in values) or len(types) != 2:
        return None
    try:
        made = numbers.MAKERS[op.name](*(t.dtype for t in types))(*values)
    except PtosimError:
        return None  # a division by zero is the run's to tell
    return made if isinstance(made, int) else None


def missing_scalars(function: Function, pointer: Value, scalars: Mapping[str, Any]) -> list[str]:
    """Return the scalar arguments that are not given and that the views of a pointer depend on."""
    names: dict[str, None] = {}
    for op in function.ops:
        if _viewed(op, {pointer: pointer.name}) is None:
            continue
        sizes = [operand.value for operand in (*op.bound["shape"], *op.bound["strides"])]
        names |= dict.fromkeys(_arguments(sizes))
    return [name for name in names if name not in scalars]


def _arguments(values: Iterable[Value | None]) -> list[str]:
    """The scalar arguments that values are computed from, each once, in the order of the text."""
    waiting, seen, found = [*values][::-1], set[Value](), list[str]()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen:
            continue
        seen.add(value)
        if value.is_argument:
            found += [value.name] if isinstance(value.type, ScalarType) else []
        elif value.owner is not None:
            waiting += reversed(value.owner.operand_values())
    return found
