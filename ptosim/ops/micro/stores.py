"""Stores from vector registers to UB.

PTO micro-instruction specification, vector stores: active elements go to their place, other bytes
keep their value. The mask is read with the width of the distribution, without one with that of the
lanes; 1PT_Bw and vstsx2 ignore it. The public programs' data confirm what is written, not what a
partial mask leaves alone. Channel merges (MRG*) are said not to work on A5 and are only
documentation: elements of the channels, in blocks of 32 bytes one channel after the other, become
neighbors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.machine.values import near
from ptosim.machine.vector import PAGE_BITS, VectorWindow
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.access import address, check, write
from ptosim.ops.micro.context import Run, Store, VectorContext, bytes_of, with_rows
from ptosim.ops.micro.loads import BLOCK, block_addresses, lane_addresses

Narrow = Callable[[np.ndarray], np.ndarray]


@vector("pto.vsts")
def vsts(ctx: VectorContext) -> Run:
    """A register to UB at pointer + offset."""
    word = ctx.attr("dist")
    if word is None:
        return _store(ctx, ctx.lanes("value").itemsize)
    kind, _, bits = word.rpartition("_B")
    width = int(bits) // 8
    if kind == "1PT":
        return _store_point(ctx, width)
    if kind == "PK4":
        return _store_narrow(
            ctx, width, lambda register: register.view(np.uint8)[..., ::4], REGISTER_BYTES // 4
        )
    if kind == "PK":
        half = width // 2
        return _store_narrow(
            ctx, width, lambda register: register.view(f"V{half}")[..., ::2], REGISTER_BYTES // 2
        )
    if kind.startswith("MRG"):
        return _store_merged(ctx, int(kind[3]), width)
    return _store(ctx, width)


def _store(ctx: VectorContext, width: int) -> Run:
    """Store the lanes of `width` bytes."""
    value, mask = ctx["value"], ctx["mask"]
    at = address(ctx, "base", "offset")
    inactive = ctx.inactive(width)
    full, bits, none = REGISTER_BYTES, PAGE_BITS, None
    known, stamp, entry = ctx.place.known, ctx.place.stamp(full), ctx.place.entry(full)
    active = ctx.active(width)

    def run(core: Core) -> None:
        slots, ub = core.slots, core.ub
        start = at(slots)
        end = start + full
        if inactive(slots[mask]) is None and 0 <= start <= ub.size - full:
            data = slots[value].tobytes()
            if ub.last[start:end].translate(none, known):
                write(ctx, ub, start, data)
            else:
                log = ub.log
                if log is not None:
                    log.append(entry + start)
                ub.data[start:end] = data
                ub.marks[start:end] = ub.stamp
                ub.last[start:end] = stamp
                ub.touched.add(start >> bits)
        else:
            units = slots[value].view(f"V{width}")
            store_units(ctx, ub, start, units, active(slots[mask]))

    sources = (value,)
    return with_rows(
        run, Store(at, full, bytes_of, sources, ctx.place, mask, active, width, entry=full)
    )


def _store_narrow(ctx: VectorContext, width: int, narrow: Narrow, size: int) -> Run:
    """Store what `narrow` makes of a register, `size` bytes, under the mask of lanes of `width`
    bytes."""
    value, mask, active = ctx["value"], ctx["mask"], ctx.active(width)
    at = address(ctx, "base", "offset")

    def run(core: Core) -> None:
        slots = core.slots
        store_units(ctx, core.ub, at(slots), narrow(slots[value]), active(slots[mask]))

    def image(register: np.ndarray) -> np.ndarray:
        return bytes_of(narrow(register))

    units = size * width // REGISTER_BYTES
    return with_rows(
        run, Store(at, size, image, (value,), ctx.place, mask, active=active, width=units)
    )


def store_units(
    ctx: VectorContext, ub: VectorWindow, start: int, units: np.ndarray, on: np.ndarray
) -> None:
    """Store those units, one after the other from `start`, that are active."""
    if start % BLOCK:
        ub.odd.setdefault(ctx.place.code, start)
    count = min(len(units), len(on))
    on = on[:count]
    chosen = np.flatnonzero(on)
    if not len(chosen):
        return
    size = units.dtype.itemsize
    first = start + int(chosen[0]) * size
    skip = int(chosen[0])
    on = on[skip : int(chosen[-1]) + 1]
    source = np.ascontiguousarray(units[skip : skip + len(on)]).view(np.uint8)
    gate = None if len(on) == len(chosen) else np.repeat(on, size)
    write(ctx, ub, first, source.tobytes(), gate)


def _store_point(ctx: VectorContext, width: int) -> Run:
    value, at = ctx["value"], address(ctx, "base", "offset")

    def run(core: Core) -> None:
        slots = core.slots
        write(ctx, core.ub, at(slots), slots[value].tobytes()[:width])

    def image(register: np.ndarray) -> np.ndarray:
        return bytes_of(register)[..., :width]

    return with_rows(run, Store(at, width, image, (value,), ctx.place))


def _store_merged(ctx: VectorContext, channels: int, width: int) -> Run:
    """Documentation only: block c of 32 bytes holds elements of channel c mod `channels`."""

    def merge(register: np.ndarray) -> np.ndarray:
        rows = register.shape[:-1]
        blocks = register.view(f"V{width}").reshape(*rows, -1, channels, 32 // width)
        merged = np.ascontiguousarray(blocks.swapaxes(-1, -2)).reshape(*rows, -1)
        return merged.view(f"V{channels * width}")

    return _store_narrow(ctx, channels * width, merge, REGISTER_BYTES)


@vector("pto.vstsx2")
def vstsx2(ctx: VectorContext) -> Run:
    """512 bytes to UB: the elements of two registers in turn."""
    unit = f"V{int(ctx.word('dist').rpartition('_B')[2]) // 8}"
    low, high, at = ctx["low"], ctx["high"], address(ctx, "base", "offset")

    def image(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        both = np.stack((first.view(unit), second.view(unit)), axis=-1)
        return both.reshape(*first.shape[:-1], -1).view(np.uint8)

    def run(core: Core) -> None:
        slots = core.slots
        write(ctx, core.ub, at(slots), image(slots[low], slots[high]).tobytes())

    size = 2 * REGISTER_BYTES
    return with_rows(run, Store(at, size, image, (low, high), ctx.place))


@vector("pto.vsst")
def vsst(ctx: VectorContext) -> Run:
    """A register to elements at a fixed distance: lane i to element i * stride of the named
    width."""
    _, step_word, bits = ctx.word("stride").split("_")
    step, width = int(step_word[1:]), int(bits[1:]) // 8
    value, at = ctx["value"], address(ctx, "base", "offset")

    def run(core: Core) -> None:
        slots = core.slots
        units = slots[value].view(f"V{width}")
        starts = near(at(slots)) + np.arange(len(units)) * step * width
        _scatter(ctx, core.ub, starts, units)

    return run


@vector("pto.vsstb")
def vsstb(ctx: VectorContext) -> Run:
    """Eight blocks of 32 bytes at a stride; a block whose bit 4k of the mask is off keeps its
    value."""
    value, mask, stride = ctx["value"], ctx["mask"], ctx["block_stride"]
    at = address(ctx, "base", "repeat_stride", BLOCK)

    def run(core: Core) -> None:
        slots = core.slots
        image, data = slots[mask].bits, slots[value].tobytes()
        for k, start in enumerate(block_addresses(slots, at(slots), stride)):
            if image >> 4 * k & 1:
                write(ctx, core.ub, start, data[32 * k : 32 * k + 32])

    return run


@vector("pto.vscatter")
def vscatter(ctx: VectorContext) -> Run:
    """Lane i to the element at pointer + indices[i], of lanes narrower than the indices the first
    that each index covers; of equal indices the last lane wins."""
    value, mask, at = ctx["value"], ctx["mask"], address(ctx, "base")
    indices, size = lane_addresses(ctx, "indices", "base")
    width = ctx.lanes("value").itemsize
    step = max(ctx.width("indices") // width, 1)
    active = ctx.active(width * step)

    def run(core: Core) -> None:
        slots = core.slots
        chosen = slots[indices]
        on = active(slots[mask])[: len(chosen)]
        units = slots[value].view(f"V{width}")[::step][: len(on)][on]
        starts = near(at(slots)) + chosen[: len(on)][on].astype(np.int64) * size
        _scatter(ctx, core.ub, starts, units)

    return ctx.made(run)


def _scatter(ctx: VectorContext, ub: VectorWindow, starts: np.ndarray, units: np.ndarray) -> None:
    """Store units at byte addresses, in order."""
    if not len(starts):
        return
    width = units.dtype.itemsize
    low, high = int(starts.min()), int(starts.max())
    check(ctx, ub, low, high - low + width)
    for start, unit in zip(starts.tolist(), np.ascontiguousarray(units), strict=True):
        write(ctx, ub, start, unit.tobytes())
