"""How vector instructions reach UB: addresses, bounds, and stores that no barrier has ordered
yet."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import PtrType
from ptosim.machine.core import Core
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.semantics.base.faults import outside_space
from ptosim.semantics.micro.context import VectorContext
from ptosim.semantics.micro.hazards import STORE_LOAD, stores

Address = Callable[[list], int]
"""From the values of a program to a byte address in UB."""


def element_bytes(ctx: VectorContext, name: str) -> int:
    """Return the bytes that an offset of one element moves a pointer."""
    type_: PtrType = ctx.type(name)
    return max(type_.elem.bits // 8, 1)


def address(ctx: VectorContext, pointer: str, offset: str | None = None) -> Address:
    """Return the function that computes pointer + offset elements."""
    at = ctx[pointer]
    if offset is None or not ctx.has(offset):
        return lambda slots: slots[at].byte
    size = element_bytes(ctx, pointer)
    const = ctx.const(offset)
    if const is not None:
        distance = const * size
        return lambda slots: slots[at].byte + distance
    index = ctx[offset]
    return lambda slots: slots[at].byte + slots[index] * size


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
