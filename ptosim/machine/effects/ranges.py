"""The storage around what an operation reaches, as ranges: quick, and never too little. What the
operation uses of a range is in `account`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.schema import Role
from ptosim.machine.effects.account import Bound
from ptosim.machine.effects.operands import READ, bound_values, roles
from ptosim.machine.tile import TileRef
from ptosim.machine.unknown import Unknown
from ptosim.machine.values import GmView, Memory, Pointer

Range = tuple[Memory, int, int]
"""A place (a space by name, a buffer by number), the first byte and the one after the last."""
Ranges = tuple[tuple[Range, ...], tuple[Range, ...]]
"""Ranges that are read, and ranges that are written."""

END = 1 << 32
"""After the last byte of any memory of a core."""


def ranges_of(op: Operation, values: Mapping[str, Any]) -> Ranges:
    """Return the bytes that an operation reads and those that it writes."""
    reads: list[Range] = []
    writes: list[Range] = []
    for name, role in roles(op):
        value = values.get(name)
        is_pointer = isinstance(value, Pointer)
        ranges = _pointed(name, value, values) if is_pointer else storage_ranges(value)
        if role in READ:
            reads += ranges
        if role is not Role.IN:
            writes += ranges
    return tuple(reads), tuple(writes)


def far_ranges(op: Operation, values: Mapping[str, Any]) -> Ranges:
    """Return the bytes of global memory that an operation reads and those that it writes."""
    reads: list[Range] = []
    writes: list[Range] = []
    for name, role in roles(op):
        value = values.get(name)
        if isinstance(value, tuple):
            if role in READ:
                reads += storage_ranges(value)
            if role is not Role.IN:
                writes += storage_ranges(value)
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


def storage_ranges(value: Any) -> list[Range]:
    """Return the bytes of an operand's value, or of each of a list: a tile's whole storage, a
    view's extent; none for a pointer."""
    if isinstance(value, TileRef):
        if value.addr.__class__ is Unknown:
            return [(value.type.loc, 0, END)]
        size = max(value.type.bytes, value.layout.reach)
        return [(value.type.loc, value.addr, value.addr + size)]
    if isinstance(value, GmView):
        if not value.is_placed:
            return [(value.memory, 0, END)]
        return [(value.memory, *value.span())]
    if value.__class__ is not tuple:
        return []
    return [range_ for item in value for range_ in storage_ranges(item)]


Place = tuple[int, Memory, int, int]
"""A core, and a range."""

SLACK = 1024
"""What an operation may write after the end of a tile: column blocks, alignment, whole lines."""


def may_write(binding: Bound) -> list[Place] | None:
    """Return the bytes that an operation may write, None if that is not known. It need not write
    them all: a valid region has gaps, and so have the windows of pointers."""
    core = binding.core.index
    if binding.touches is not None:
        written = (*binding.touches.writes, *binding.touches.tails)
        return [(t.core.index, t.where, *t.span) for t in written]
    found: list[Place] = []
    for _, role, value in bound_values(binding.op, binding.values):
        if role is Role.IN:
            continue
        if isinstance(value, Pointer) and value.memory is not None:
            found.append((core, value.memory, 0, END))
        for where, low, high in storage_ranges(value):
            high += SLACK if isinstance(where, str) else 0
            found.append((core, where, low, high))
    found += [(core, b.space, b.part.start, b.part.end) for b in binding.beyond]
    return found or None


def _pointed(name: str, pointer: Pointer, values: Mapping[str, Any]) -> list[Range]:
    """Return the bytes that an instruction of the micro level reaches from a pointer: its bursts
    and loops if they say so in bytes, else everything from there on."""
    place, start = pointer
    if place is None:
        return []
    if start.__class__ is Unknown:
        return [(place, 0, END)]
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
