"""The storage around what an operation reaches, as ranges: quick, and never too little. What the
operation uses of a range is in `account`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.isa.schema import Role
from ptosim.ground.records import NamedTuple
from ptosim.machine.affine import Unknown
from ptosim.machine.effects.account import Bound
from ptosim.machine.effects.storage import READ, bound_values, roles
from ptosim.machine.effects.strided import Strided
from ptosim.machine.tile import TileRef
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


# Sets of bytes as sorted intervals: rows (first byte, one past the last), which do not touch.

EMPTY = np.empty((0, 2), np.int64)


def intervals(parts: Iterable[Strided]) -> np.ndarray:
    """Return the bytes of some parts."""
    return union([_rows(part) for part in parts])


def _rows(part: Strided) -> np.ndarray:
    starts = np.array([part.start], np.int64)
    run = part.run
    for count, distance in part.dims:
        steps = np.arange(count, dtype=np.int64) * distance
        starts = (starts[:, None] + steps).reshape(-1)
    return np.stack([starts, starts + run], 1)


def union(sets: Sequence[np.ndarray]) -> np.ndarray:
    """Return the bytes that are in one of several sets (or lists of rows in any order)."""
    if not sets:
        return EMPTY
    rows = np.concatenate(sets)
    if len(rows) < 2:
        return rows
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    ends = np.maximum.accumulate(rows[:, 1])
    first = np.concatenate(([True], rows[1:, 0] > ends[:-1]))
    last = np.concatenate((first[1:], [True]))
    return np.stack([rows[first, 0], ends[last]], 1)


def contains(whole: np.ndarray, rows: np.ndarray) -> bool:
    """True if all bytes of some rows are in a set."""
    if not len(rows) or not len(whole):
        return not len(rows)
    at = np.searchsorted(whole[:, 0], rows[:, 0], "right") - 1
    return bool((at >= 0).all() and (rows[:, 1] <= whole[at, 1]).all())


class Meeting(NamedTuple):
    """A byte that two owners reach, of whom the first writes it."""

    writer: int
    other: int
    byte: int


def meeting(
    written: Sequence[tuple[int, np.ndarray]], read: Sequence[tuple[int, np.ndarray]]
) -> Meeting | None:
    """Return a byte that one owner writes and another one writes or reads; None if there is none.
    Sets come with the numbers of their owners, at most one for each."""
    owners, rows = _owned(written)
    if not len(rows):
        return None
    order = np.argsort(rows[:, 0], kind="stable")
    owners, rows = owners[order], rows[order]
    over = np.flatnonzero(rows[1:, 0] < rows[:-1, 1])  # the first overlap is of neighbours
    if len(over):
        at = int(over[0])
        return Meeting(int(owners[at]), int(owners[at + 1]), int(rows[at + 1, 0]))
    readers, windows = _owned(read)
    if not len(windows):
        return None
    low = np.searchsorted(rows[:, 1], windows[:, 0], "right")
    high = np.searchsorted(rows[:, 0], windows[:, 1], "left")
    changes = np.concatenate(([0], np.cumsum(owners[1:] != owners[:-1])))
    meets = np.flatnonzero(low < high)
    first, last = low[meets], high[meets] - 1
    wrong = (owners[first] != readers[meets]) | (changes[first] != changes[last])
    found = meets[wrong]
    if not len(found):
        return None
    one = int(found[0])
    for at in range(int(low[one]), int(high[one])):
        if owners[at] != readers[one]:
            byte = max(int(rows[at, 0]), int(windows[one, 0]))
            return Meeting(int(owners[at]), int(readers[one]), byte)
    return None


def _owned(sets: Sequence[tuple[int, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """All rows, and the owner of each."""
    owners = [np.full(len(rows), owner, np.int64) for owner, rows in sets]
    return (
        np.concatenate([*owners, np.empty(0, np.int64)]),
        np.concatenate([*(rows for _, rows in sets), EMPTY]),
    )
