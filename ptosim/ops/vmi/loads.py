"""Loads of logical vectors: lane i is the element at pointer + offset + i, or as a form says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import BLOCK_BYTES, REGISTER_BYTES
from ptosim.ground.isa.dates import Profile
from ptosim.machine.core import Core
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.vector import LogicalMask
from ptosim.ops.base.functions import support
from ptosim.ops.micro.access import near_step
from ptosim.ops.micro.context import Load, Store, bytes_of, with_rows
from ptosim.ops.vmi.context import LogicalContext, Run, groups, logical
from ptosim.ops.vmi.reach import (
    Planner,
    Scattered,
    active_run,
    address,
    block_starts,
    element_bytes,
    gated,
    gathered,
    loader,
    start_of,
    storing,
    unit_of,
)
from ptosim.ops.vmi.reach import Run as Bytes


@logical("vload")
def vload(ctx: LogicalContext) -> Run:
    """A vector from UB; `dist_mode`, `group` and strides say which elements its lanes are."""
    word = ctx.attr("dist_mode", "continuous")
    if ctx.has("block_stride"):
        return _blocks(ctx)
    if groups(ctx) is not None:
        return _rows(ctx, one_each=word == "brc")
    if word == "dintlv":
        return _deinterleaved(ctx)
    if word == "brc":
        return _every_lane(ctx)
    if word == "unpack":
        return _unpacked(ctx)
    lanes, target, at = ctx.lanes("dst"), ctx["dst"], address(ctx, "base")
    size = ctx.count("dst") * lanes.itemsize
    load = loader(ctx, size)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = np.frombuffer(load(core, at(slots)), lanes)

    return with_rows(run, _many(ctx, size, lambda data: data.view(lanes), (target,)))


def _many(
    ctx: LogicalContext,
    size: int,
    spread: Callable[[np.ndarray], Any],
    targets: tuple[int, ...],
    *,
    rest: bool = True,
    aligned: bool = True,
    when: tuple[int, int] | None = None,
) -> Load:
    """The load of many rounds: bytes one after the other; `rest` and `aligned` as in `reach`."""
    unit, beyond = unit_of(ctx, "base", aligned=aligned), -size % REGISTER_BYTES if rest else 0
    at = start_of(ctx, "base")
    return Load(at, size, spread, targets, ctx.place, unit, beyond, pages_of_all=True, when=when)


@support("pto.vmi.vload")
def _is_defined(op: Operation, profile: Profile) -> str | None:
    type_: Any = op.result_values["dst"].type
    source = op.bound["base"].type
    if op.attributes.get("dist_mode") == "unpack":
        ratio = type_.elem.bits / max(source.elem.bits, 1)
        if ratio not in (2, 4) or (ratio == 4 and source.elem.bits != 8):
            return f"unpack from {source.elem.bits} to {type_.elem.bits} bits has no meaning"
    return one_register(op, type_)


def one_register(op: Operation, type_: object) -> str | None:
    """Return why a block form is not executed: only that of one register is defined."""
    bits = type_.lanes * type_.elem.bits  # type: ignore[attr-defined]
    if op.bound.get("block_stride") is not None and bits > REGISTER_BYTES * 8:
        return "block strides of more than one register are not defined"
    return None


# -- forms ----------------------------------------------------------------------------------------


def _deinterleaved(ctx: LogicalContext) -> Run:
    lanes, low, high = ctx.lanes("dst"), ctx["dst"], ctx["high"]
    size = 2 * ctx.count("dst") * lanes.itemsize
    at, load = address(ctx, "base"), loader(ctx, size)

    def apart(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = data.view(lanes)
        return both[..., ::2].copy(), both[..., 1::2].copy()

    def run(core: Core) -> None:
        slots = core.slots
        slots[low], slots[high] = apart(np.frombuffer(load(core, at(slots)), np.uint8))

    return with_rows(run, _many(ctx, size, apart, (low, high)))


def _every_lane(ctx: LogicalContext) -> Run:
    lanes, target, count = ctx.lanes("dst"), ctx["dst"], ctx.count("dst")
    at, load = address(ctx, "base", aligned=False), loader(ctx, lanes.itemsize, rest=False)

    def spread(data: np.ndarray) -> np.ndarray:
        return np.repeat(data.view(lanes), count, axis=-1)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = spread(np.frombuffer(load(core, at(slots)), np.uint8))

    rows = _many(ctx, lanes.itemsize, spread, (target,), rest=False, aligned=False)
    return with_rows(run, rows)


def _unpacked(ctx: LogicalContext) -> Run:
    lanes, target, count = ctx.lanes("dst"), ctx["dst"], ctx.count("dst")
    width = element_bytes(ctx, "base")
    at, load = address(ctx, "base"), loader(ctx, count * width)
    narrow, wide = f"u{width}", unsigned(lanes)

    def widened(data: np.ndarray) -> np.ndarray:
        return data.view(narrow).astype(wide).view(lanes)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = widened(np.frombuffer(load(core, at(slots)), np.uint8))

    return with_rows(run, _many(ctx, count * width, widened, (target,)))


def _rows(ctx: LogicalContext, *, one_each: bool) -> Run:
    """Rows a stride apart, one for each group; `one_each`: one element in all of its lanes."""
    parts, count = groups(ctx) or 1, ctx.count("dst")
    lanes, target, stride = ctx.lanes("dst"), ctx["dst"], ctx["stride"]
    size = 1 if one_each else count // parts
    width, times = lanes.itemsize, count // parts if one_each else 1
    at = address(ctx, "base", aligned=False)
    row, group = np.arange(size) * width, np.arange(parts)[:, None] * width
    whole = loader(ctx, count * width, rest=False)

    def run(core: Core) -> None:
        slots = core.slots
        start, step = at(slots), near_step(slots[stride])
        if step == size and times == 1:
            slots[target] = np.frombuffer(whole(core, start), lanes)
            return
        starts = (start + group * step + row).reshape(-1)
        found = gathered(ctx, core, starts, width).view(lanes)
        slots[target] = np.repeat(found, times) if times > 1 else found

    if times > 1:
        return run
    rows = _many(
        ctx, count * width, lambda data: data.view(lanes), (target,),
        rest=False, aligned=False, when=(stride, size),
    )  # fmt: skip
    return with_rows(run, rows)


def _blocks(ctx: LogicalContext) -> Run:
    """Blocks of 32 bytes at a stride; those that a mask leaves out are 0."""
    lanes, target, count = ctx.lanes("dst"), ctx["dst"], ctx.count("dst")
    width, starts_of = lanes.itemsize, block_starts(ctx, "base", count * lanes.itemsize)
    within = np.arange(BLOCK_BYTES // width) * width
    gate = gated(ctx, width) if ctx.has("mask") else None

    def run(core: Core) -> None:
        slots = core.slots
        places = (starts_of(slots)[:, None] + within).reshape(-1)[:count]
        if gate is None:
            slots[target] = gathered(ctx, core, places, width).view(lanes)
            return
        on = gate(slots)
        result = np.zeros(count, unsigned(lanes))
        result[on] = gathered(ctx, core, places[on], width)
        slots[target] = result.view(lanes)

    return run


# -- lanes by mask and index ----------------------------------------------------------------------


def indices(ctx: LogicalContext) -> Callable[[list], np.ndarray]:
    """Return the function that gives the index of each lane: unsigned numbers of their width."""
    slot, raw = ctx["indices"], unsigned(ctx.lanes("indices"))
    return lambda slots: slots[slot].view(raw).astype(np.int64)


@logical("vgather")
def vgather(ctx: LogicalContext) -> Run:
    """The element at pointer + indices in each active lane; 0, or what a lane passes through, in
    the others, which read nothing."""
    lanes, target, mask = ctx.lanes("dst"), ctx["dst"], ctx["mask"]
    through = ctx["passthru"] if ctx.has("passthru") else None
    at, width, index = address(ctx, "base", aligned=False), element_bytes(ctx, "base"), indices(ctx)

    def run(core: Core) -> None:
        slots = core.slots
        on: LogicalMask = slots[mask]
        starts = at(slots) + index(slots) * width
        slots[target] = _placed(
            ctx, core, starts, on, lanes, None if through is None else slots[through]
        )

    return ctx.only_full(run)


def _placed(
    ctx: LogicalContext,
    core: Core,
    starts: np.ndarray,
    mask: LogicalMask,
    lanes: np.dtype,
    through: np.ndarray | None,
) -> np.ndarray:
    width, bits = element_bytes(ctx, "base"), f"u{lanes.itemsize}"  # bytes have zeros above them
    if mask.off is None:
        return gathered(ctx, core, starts, width).astype(bits, copy=False).view(lanes)
    result = np.zeros(len(starts), lanes) if through is None else through.copy()
    found = gathered(ctx, core, starts[mask.on], width)
    result[mask.on] = found.astype(bits, copy=False).view(lanes)
    return result


@logical("masked_load")
def masked_load(ctx: LogicalContext) -> Run:
    """The elements in active lanes, what `passthru` has in the others, whose memory is not
    needed."""
    lanes, target, mask, through = ctx.lanes("dst"), ctx["dst"], ctx["mask"], ctx["passthru"]
    at, steps = address(ctx, "base"), np.arange(ctx.count("dst")) * lanes.itemsize

    def run(core: Core) -> None:
        slots = core.slots
        starts = at(slots) + steps
        slots[target] = _placed(ctx, core, starts, slots[mask], lanes, slots[through])

    return run


@logical("expand_load")
def expand_load(ctx: LogicalContext) -> Run:
    """Consecutive elements in the active lanes, what `passthru` has in the others."""
    lanes, target, mask, through = ctx.lanes("dst"), ctx["dst"], ctx["mask"], ctx["passthru"]
    at, width = address(ctx, "base", aligned=False), lanes.itemsize

    def run(core: Core) -> None:
        slots = core.slots
        on = slots[mask].on
        starts = at(slots) + np.arange(int(on.sum())) * width
        result = slots[through].copy()
        result[on] = gathered(ctx, core, starts, width).view(lanes)
        slots[target] = result

    return run


# Stores of logical vectors: exactly the logical lanes that are active, and nothing after them.


@logical("vstore")
def vstore(ctx: LogicalContext) -> Run:
    """A vector to UB; `dist_mode`, `group` and strides say where its lanes go."""
    if ctx.has("block_stride"):
        return _stores_blocks(ctx)
    if groups(ctx) is not None:
        return _stores_rows(ctx)
    if ctx.attr("dist_mode") == "dintlv" or ctx.has("high"):
        return _interleaved(ctx)
    value, at = ctx["value"], address(ctx, "base")
    if not ctx.has("mask") or ctx.mask_is_full:
        run = storing(ctx, lambda core: active_run(at(core.slots), core.slots[value], None))
        return with_rows(run, _stores_many(ctx))
    mask = ctx["mask"]

    def plan(core: Core) -> Bytes:
        slots = core.slots
        gate = slots[mask]
        on = None if gate.off is None else gate.on
        return active_run(at(slots), slots[value], on)

    return with_rows(storing(ctx, plan), _stores_many(ctx, mask))


def _stores_many(ctx: LogicalContext, mask: int | None = None) -> Store:
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


def _stores_rows(ctx: LogicalContext) -> Run:
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
    return _stores_blocks(ctx)


@support("pto.vmi.vsstb", "pto.vmi.vstore")
def _stores_is_defined(op: Operation, profile: Profile) -> str | None:
    return one_register(op, op.bound["value"].type)


def _stores_blocks(ctx: LogicalContext) -> Run:
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
