"""Loads of logical vectors: lane i is the element at pointer + offset + i, or as a form says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import BLOCK_BYTES, REGISTER_BYTES
from ptosim.ground.isa.profiles import Profile
from ptosim.machine.core import Core
from ptosim.machine.logical import LogicalMask
from ptosim.machine.numbers.lanes import unsigned
from ptosim.ops.base.functions import support
from ptosim.ops.micro.access import near_step
from ptosim.ops.micro.rows import Load, with_rows
from ptosim.ops.vmi.context import LogicalContext, Run, logical
from ptosim.ops.vmi.producers import groups
from ptosim.ops.vmi.reach import (
    address,
    block_starts,
    element_bytes,
    gated,
    gathered,
    loader,
    start_of,
    unit_of,
)


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
    at, width, index = address(ctx, "base", aligned=False), lanes.itemsize, indices(ctx)

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
    if mask.off is None:
        return gathered(ctx, core, starts, lanes.itemsize).view(lanes)
    result = np.zeros(len(starts), lanes) if through is None else through.copy()
    result[mask.on] = gathered(ctx, core, starts[mask.on], lanes.itemsize).view(lanes)
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
