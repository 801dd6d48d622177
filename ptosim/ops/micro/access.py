"""How vector instructions reach UB: addresses, updated pointers, bounds, and stores that no barrier
has ordered yet.

An access is at pointer + offset. An instruction with a result `NAME_out` beside the pointer NAME is
a post-updating one: it accesses the pointer itself, and the result is pointer + offset (PTO
micro-instruction specification, post-update; confirmed by the public programs' data)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.diagnostics.model import UnsupportedError, finding
from ptosim.ground.ir.types import MemRefType, PtrType
from ptosim.machine.core import Core
from ptosim.machine.values import Pointer
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.ops.base.binding import outside_space
from ptosim.ops.micro.context import VectorContext
from ptosim.ops.micro.hazards import STORE_LOAD, stores

Address = Callable[[list], int]
"""From the values of a program to a byte address in UB."""


_FAR_STEP = 1 << 40


def near_step(step: int) -> int:
    """Return the distance of two rows or lanes that 64 bits hold, as `values.near` does of an
    address."""
    return min(max(step, -_FAR_STEP), _FAR_STEP) if isinstance(step, int) else step


def element_bytes(ctx: VectorContext, name: str) -> int:
    """Return the bytes that an offset of one element moves a pointer."""
    type_: PtrType | MemRefType = ctx.type(name)
    return max(type_.elem.bits // 8, 1)


def address(
    ctx: VectorContext, pointer: str, offset: str | None = None, unit: int | None = None
) -> Address:
    """Return the function that computes where an access is: pointer + offset * `unit` bytes, by
    default those of an element. Of a post-updating instruction it is the pointer alone, and the
    function sets the updated one: to be called once for each access."""
    at, target = ctx[pointer], ctx.slots.get(f"{pointer}_out")
    if isinstance(ctx.type(pointer), MemRefType):
        if target is not None:
            text = f"'{ctx.op.name}' moves a pointer; its base is a memref"
            raise UnsupportedError([finding("PTO8002", text)])
        return _in_memref(ctx, at, pointer, offset, unit)
    if offset is None or not ctx.has(offset):
        return lambda slots: slots[at].byte
    size = element_bytes(ctx, pointer) if unit is None else unit
    const, index = ctx.const(offset), ctx[offset]
    if target is not None:
        return _updating(at, target, index, size, None if const is None else const * size)
    if const is not None:
        distance = const * size
        return lambda slots: slots[at].byte + distance
    return lambda slots: slots[at].byte + slots[index] * size


def _in_memref(
    ctx: VectorContext, at: int, base: str, offset: str | None, unit: int | None
) -> Address:
    """Where an access is whose base is a memref instead of a pointer."""
    size = element_bytes(ctx, base) if unit is None else unit
    index = ctx.slots.get(offset) if offset is not None else None
    if index is None:
        return lambda slots: slots[at].start.byte
    return lambda slots: slots[at].start.byte + slots[index] * size


def _updating(at: int, target: int, index: int, size: int, distance: int | None) -> Address:
    make = tuple.__new__  # a third of the time of the constructor: loops do this for each access

    def by_constant(slots: list) -> int:
        memory, byte = slots[at]
        slots[target] = make(Pointer, (memory, byte + distance))
        return byte

    def by_index(slots: list) -> int:
        memory, byte = slots[at]
        slots[target] = make(Pointer, (memory, byte + slots[index] * size))
        return byte

    return by_index if distance is None else by_constant


def check(ctx: VectorContext, ub: VectorWindow, start: int, size: int) -> None:
    """Raise if an access leaves UB."""
    if start < 0 or start + size > ub.size:
        raise outside_space(ctx.op.name, "UB", start, start + size, ub.size)


def loader(
    ctx: VectorContext, size: int, used: tuple[np.ndarray, int] | None = None
) -> Callable[[Core, int], bytearray]:
    """Return the function that reads `size` bytes of UB, a copy of them. `used`, where not all of
    them count: where runs of how many bytes begin."""
    report, stamp, entry = ctx.report, ctx.place.stamp(size), ctx.place.entry(size)

    def load(core: Core, start: int) -> bytearray:
        ub = core.ub
        end = start + size
        if start < 0 or end > ub.size:
            raise outside_space(ctx.op.name, "UB", start, start + size, ub.size)
        if ub.log is not None:
            if used is None:
                ub.log.append(entry + start)
            else:
                ub.note(ctx.place.code, used[0] + start, used[1])
        ub.last[start:end] = stamp
        ub.touched.add(start >> PAGE_BITS)
        if ub.marks.find(ub.interval, start, end) >= 0:
            report(*STORE_LOAD)
        return ub.data[start:end]

    return load


def write(
    ctx: VectorContext,
    ub: VectorWindow,
    start: int,
    data: bytes,
    gate: np.ndarray | None = None,
) -> None:
    """Store bytes to UB, those that `gate` says if it is given."""
    size = len(data)
    if not size:
        return
    check(ctx, ub, start, size)
    found = stores(ub, ctx.place, start, data, gate)
    if found is not None:
        ctx.report(*found)
