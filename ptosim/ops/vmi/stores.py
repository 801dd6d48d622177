"""Stores of logical vectors: exactly the logical lanes that are active, and nothing after them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import BLOCK_BYTES
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core
from ptosim.ops.base.functions import support
from ptosim.ops.micro.access import near_step
from ptosim.ops.micro.rows import Store, bytes_of, with_rows
from ptosim.ops.vmi.context import LogicalContext, Run, logical
from ptosim.ops.vmi.loads import indices, one_register
from ptosim.ops.vmi.producers import groups
from ptosim.ops.vmi.reach import (
    Planner,
    Scattered,
    active_run,
    address,
    block_starts,
    element_bytes,
    gated,
    start_of,
    storing,
    unit_of,
)
from ptosim.ops.vmi.reach import Run as Bytes


@logical("vstore")
def vstore(ctx: LogicalContext) -> Run:
    """A vector to UB; `dist_mode`, `group` and strides say where its lanes go."""
    if ctx.has("block_stride"):
        return _blocks(ctx)
    if groups(ctx) is not None:
        return _rows(ctx)
    if ctx.attr("dist_mode") == "dintlv" or ctx.has("high"):
        return _interleaved(ctx)
    value, at = ctx["value"], address(ctx, "base")
    if not ctx.has("mask") or ctx.mask_is_full:
        run = storing(ctx, lambda core: active_run(at(core.slots), core.slots[value], None))
        return with_rows(run, _many(ctx))
    mask = ctx["mask"]

    def plan(core: Core) -> Bytes:
        slots = core.slots
        gate = slots[mask]
        on = None if gate.off is None else gate.on
        return active_run(at(slots), slots[value], on)

    return with_rows(storing(ctx, plan), _many(ctx, mask))


def _many(ctx: LogicalContext, mask: int | None = None) -> Store:
    """The store of many rounds: lanes one after the other."""
    width = ctx.lanes("value").itemsize
    return Store(
        start_of(ctx, "base"), ctx.count("value") * width, bytes_of, (ctx["value"],), ctx.place,
        mask, lambda gate: gate.on, width, unit_of(ctx, "base"), pages_of_all=True,
    )  # fmt: skip


def _interleaved(ctx: LogicalContext) -> Run:
    """The lanes of two vectors in turn. The assembler loses a mask here."""
    low, high, at = ctx["value"], ctx["high"], address(ctx, "base")

    def every(core: Core) -> Bytes:
        slots = core.slots
        both = np.stack((slots[low], slots[high]), axis=1).reshape(-1)
        return active_run(at(slots), both, None)

    if not ctx.has("mask") or ctx.mask_is_full:
        return storing(ctx, every)
    mask = ctx["mask"]

    def active(core: Core) -> Bytes:
        slots = core.slots
        both = np.stack((slots[low], slots[high]), axis=1).reshape(-1)
        return active_run(at(slots), both, np.repeat(slots[mask].on, 2))

    readings: list[Planner] = [every, active]
    if ctx.switch("vmi.mask") == "documented":
        readings.reverse()
    ctx.other = readings[1]  # type: ignore[assignment]
    return storing(ctx, readings[0])


def _rows(ctx: LogicalContext) -> Run:
    """Rows a stride apart, one for each group; 32-bit lanes may go to bytes, their low ones."""
    parts, count = groups(ctx) or 1, ctx.count("value")
    value, stride, at = ctx["value"], ctx["stride"], address(ctx, "base", aligned=False)
    width, size = element_bytes(ctx, "base"), count // parts
    row, group = np.arange(size) * width, np.arange(parts)[:, None] * width
    is_packed = width != ctx.lanes("value").itemsize

    def plan(core: Core) -> Bytes | Scattered:
        slots = core.slots
        units, start, step = slots[value], at(slots), near_step(slots[stride])
        if is_packed:
            units = np.ascontiguousarray(units).view(np.uint8)[:: units.dtype.itemsize]
        if step == size:
            return active_run(start, units, None)
        return Scattered((start + group * step + row).reshape(-1), units)

    def image(units: np.ndarray) -> np.ndarray:
        found = bytes_of(units)
        return found[..., :: units.dtype.itemsize] if is_packed else found

    unit = unit_of(ctx, "base", aligned=False)
    rows = Store(
        start_of(ctx, "base"), count * width, image, (value,), ctx.place,
        unit=unit, pages_of_all=True, when=(stride, size),
    )  # fmt: skip
    return with_rows(storing(ctx, plan), rows)


@logical("vsstb")
def vsstb(ctx: LogicalContext) -> Run:
    """A register to blocks of 32 bytes at a stride."""
    return _blocks(ctx)


@support("pto.vmi.vsstb", "pto.vmi.vstore")
def _is_defined(op: Operation, profile: Profile) -> str | None:
    return one_register(op, op.bound["value"].type)


def _blocks(ctx: LogicalContext) -> Run:
    value, lanes, count = ctx["value"], ctx.lanes("value"), ctx.count("value")
    width = lanes.itemsize
    starts_of = block_starts(ctx, "base", count * width)
    within = np.arange(BLOCK_BYTES // width) * width
    gate: Callable[[list], np.ndarray] | None = gated(ctx, width) if ctx.has("mask") else None

    def plan(core: Core) -> Scattered:
        slots = core.slots
        places = (starts_of(slots)[:, None] + within).reshape(-1)[:count]
        if gate is None:
            return Scattered(places, slots[value])
        on = gate(slots)
        return Scattered(places[on], slots[value][on])

    return storing(ctx, plan)


@logical("vscatter")
def vscatter(ctx: LogicalContext) -> Run:
    """Each active lane to the element at pointer + indices; of equal indices the last lane wins."""
    value, mask, index = ctx["value"], ctx["mask"], indices(ctx)
    at, width = address(ctx, "base", aligned=False), ctx.lanes("value").itemsize

    def plan(core: Core) -> Scattered:
        slots = core.slots
        on = slots[mask].on
        return Scattered((at(slots) + index(slots) * width)[on], slots[value][on])

    return storing(ctx, plan)


@logical("compress_store")
def compress_store(ctx: LogicalContext) -> Run:
    """The active lanes one after the other."""
    value, mask, at = ctx["value"], ctx["mask"], address(ctx, "base", aligned=False)

    def plan(core: Core) -> Bytes:
        slots = core.slots
        return active_run(at(slots), slots[value][slots[mask].on], None)

    return storing(ctx, plan)
