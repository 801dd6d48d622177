"""Loads from UB into vector registers, with every distribution over the lanes.

PTO micro-instruction specification, vector loads. The width of a distribution need not be that of
the pointer's elements or of the lanes: what a distribution does, it does to bytes in groups of its
width. Confirmed by the public programs' data: NORM, BRC_*, US_B16, DS_B16, UNPK_B16, DINTLV_B8 and
_B32, unaligned streams, gathers, block addresses; the others are what the documentation says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operand
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.core import Core
from ptosim.machine.numbers.integers import unsigned
from ptosim.machine.values import Pointer, near
from ptosim.machine.vector import PAGE_BITS, Align
from ptosim.ops.base.binding import outside_space
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.access import Address, address, check, element_bytes, loader
from ptosim.ops.micro.context import Load, Run, VectorContext, with_rows
from ptosim.ops.micro.hazards import STORE_LOAD, loads

Reader = Callable[[Core, int], bytearray]
Spread = Callable[[np.ndarray], np.ndarray]
"""From the bytes that are read to those of a register; of rows of them, row by row."""


def _of_width(name: str) -> int:
    """Bytes of the width that a distribution names."""
    return int(name.rpartition("_B")[2]) // 8


def _broadcast(width: int) -> tuple[int, Spread]:
    times = REGISTER_BYTES // width
    return width, lambda data: np.repeat(data.view(f"V{width}"), times, axis=-1)


def _twice(width: int) -> tuple[int, Spread]:
    return REGISTER_BYTES // 2, lambda data: np.repeat(data.view(f"u{width}"), 2, axis=-1)


def _every(width: int, step: int) -> tuple[int, Spread]:
    return REGISTER_BYTES * step, lambda data: data.view(f"u{width}")[..., ::step].copy()


def _widened(width: int, step: int) -> tuple[int, Spread]:
    return REGISTER_BYTES // step, lambda data: data.view(f"u{width}").astype(f"u{width * step}")


def _to_blocks(width: int) -> tuple[int, Spread]:
    return 8 * width, lambda data: np.repeat(data.view(f"u{width}"), 32 // width, axis=-1)


def distribution(word: str) -> tuple[int, Spread]:
    """Return the bytes that a distribution reads and the function that spreads them over a
    register."""
    if word == "NORM":
        return REGISTER_BYTES, lambda data: data
    if word == "BRC_BLK":
        return _broadcast(32)
    if word in ("UNPK4", "UNPK4_B8"):
        return _widened(1, 4)
    if word == "SPLT4CHN":
        return _every(1, 4)
    kind = word.rpartition("_B")[0]
    width = _of_width(word)
    if kind == "SPLT4CHN":
        return _every(width, 4)
    return {
        "BRC": lambda: _broadcast(width),
        "US": lambda: _twice(width),
        "DS": lambda: _every(width, 2),
        "UNPK": lambda: _widened(width, 2),
        "E2B": lambda: _to_blocks(width),
        "SPLT2CHN": lambda: _every(width, 2),
    }[kind]()


@vector("pto.vlds")
def vlds(ctx: VectorContext) -> Run:
    """A register from UB at pointer + offset."""
    word = ctx.word("dist")
    size, spread = distribution(word)
    if word == "NORM":
        return _whole_register(ctx, address(ctx, "src", "offset"))
    return _loaded(ctx, size, spread)


def _loaded(
    ctx: VectorContext, size: int, spread: Spread, used: tuple[np.ndarray, int] | None = None
) -> Run:
    """dst = bytes at pointer + offset, spread over the register; `used` as in `loader`."""
    lanes, target, at = ctx.lanes("dst"), ctx["dst"], address(ctx, "src", "offset")
    load = loader(ctx, size, used)

    def register(data: np.ndarray) -> np.ndarray:
        return spread(data).view(lanes)

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = register(np.frombuffer(load(core, at(slots)), np.uint8))

    rows = Load(at, size, register, (target,), ctx.place) if used is None else None
    return with_rows(run, rows)


def _whole_register(ctx: VectorContext, at: Address) -> Run:
    """256 bytes as they are: what loops do most, so nothing is called that can be written here."""
    lanes, target = ctx.lanes("dst"), ctx["dst"]
    stamp, size, bits = ctx.place.stamp(REGISTER_BYTES), REGISTER_BYTES, PAGE_BITS
    entry = ctx.place.entry(size)
    make, report = np.frombuffer, ctx.report

    def run(core: Core) -> None:
        slots, ub = core.slots, core.ub
        start = at(slots)
        end = start + size
        if start < 0 or end > ub.size:
            raise outside_space(ctx.op.name, "UB", start, start + size, ub.size)
        log = ub.log
        if log is not None:
            log.append(entry + start)
        ub.last[start:end] = stamp
        ub.touched.add(start >> bits)
        if ub.marks.find(ub.interval, start, end) >= 0:
            report(*STORE_LOAD)
        slots[target] = make(ub.data[start:end], lanes)

    return with_rows(run, Load(at, size, lambda data: data.view(lanes), (target,), ctx.place))


@vector("pto.vldsx2")
def vldsx2(ctx: VectorContext) -> Run:
    """Two registers: the even and the odd elements (BDINTLV: 32-byte blocks) of 512 bytes."""
    word = ctx.word("dist")
    unit = f"V{32 if word == 'BDINTLV' else _of_width(word)}"
    lanes, low, high = ctx.lanes("low"), ctx["low"], ctx["high"]
    at = address(ctx, "src", "offset")
    size = 2 * REGISTER_BYTES
    load = loader(ctx, size)

    def apart(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        units = data.view(unit)
        return units[..., ::2].copy().view(lanes), units[..., 1::2].copy().view(lanes)

    def run(core: Core) -> None:
        slots = core.slots
        data = np.frombuffer(load(core, at(slots)), np.uint8)
        slots[low], slots[high] = apart(data)

    return with_rows(run, Load(at, size, apart, (low, high), ctx.place))


@vector("pto.vsld")
def vsld(ctx: VectorContext) -> Run:
    """A register from elements at a fixed distance: lane i is element i * stride of the named
    width."""
    step, width = _stride(ctx.word("stride"))
    count = REGISTER_BYTES // width
    used = np.arange(count) * step * width, width
    size = ((count - 1) * step + 1) * width
    return _loaded(ctx, size, lambda data: data.view(f"V{width}")[..., ::step].copy(), used)


def _stride(word: str) -> tuple[int, int]:
    """Step and element bytes of a word such as STRIDE_S3_B16."""
    _, step, bits = word.split("_")
    return int(step[1:]), int(bits[1:]) // 8


# -- blocks ----------------------------------------------------------------------------------------


BLOCK = 32
"""Bytes of a block, the unit of the strides of block accesses."""


def block_addresses(slots: list, first: int, block_stride: int) -> list[int]:
    """Return the addresses of the eight 32-byte blocks of a block access."""
    step = slots[block_stride] * BLOCK
    return [first + k * step for k in range(8)]


@vector("pto.vsldb")
def vsldb(ctx: VectorContext) -> Run:
    """Eight blocks of 32 bytes at a stride; a block whose bit 4k of the mask is off is 0."""
    lanes, target, mask = ctx.lanes("dst"), ctx["dst"], ctx["mask"]
    at, stride = address(ctx, "src", "repeat_stride", BLOCK), ctx["block_stride"]

    def run(core: Core) -> None:
        slots = core.slots
        starts = block_addresses(slots, at(slots), stride)
        slots[target] = _blocks(ctx, core, starts, slots[mask].bits).view(lanes)

    return run


def _blocks(ctx: VectorContext, core: Core, starts: list[int], image: int) -> np.ndarray:
    """Eight blocks, those that bits 0, 4, … 28 of the mask leave out as 0."""
    ub, stamp, entry = core.ub, ctx.place.stamp(32), ctx.place.entry(32)
    register = bytearray(REGISTER_BYTES)
    for k, start in enumerate(starts):
        if image >> 4 * k & 1:
            check(ctx, ub, start, 32)
            if loads(ub, start, stamp, entry):
                ctx.report(*STORE_LOAD)
            register[32 * k : 32 * k + 32] = ub.data[start : start + 32]
    return np.frombuffer(register, np.uint8)


@vector("pto.vgatherb")
def vgatherb(ctx: VectorContext) -> Run:
    """Eight blocks of 32 bytes at byte offsets in the first eight lanes of a register."""
    lanes, target, mask = ctx.lanes("dst"), ctx["dst"], ctx["mask"]
    offsets = ctx.register("offsets", np.dtype(np.uint32))
    at = address(ctx, "src")

    def run(core: Core) -> None:
        slots = core.slots
        base = at(slots)
        starts = [base + int(offset) for offset in slots[offsets][:8]]
        slots[target] = _blocks(ctx, core, starts, slots[mask].bits).view(lanes)

    return ctx.made(run)


# -- lanes -----------------------------------------------------------------------------------------


def lane_addresses(ctx: VectorContext, indices: str, pointer: str) -> tuple[int, int]:
    """Return the slot of the indices, signless and unsigned ones as unsigned numbers of their
    width, and the bytes of an element."""
    width = ctx.width(indices)
    return ctx.register(indices, np.dtype(f"u{width}")), element_bytes(ctx, pointer)


@vector("pto.vgather2", "pto.vgather2_bc")
def vgather2(ctx: VectorContext) -> Run:
    """Lane i is the element at pointer + indices[i], with zeros to its width; inactive lanes are 0
    and read nothing."""
    lanes, target, mask = ctx.lanes("dst"), ctx["dst"], ctx["mask"]
    indices, size = lane_addresses(ctx, "indices", "src")
    at = address(ctx, "src")
    active = ctx.active(lanes.itemsize)
    width, raw = min(size, lanes.itemsize), f"u{min(size, lanes.itemsize)}"

    def run(core: Core) -> None:
        slots = core.slots
        ub, on = core.ub, active(slots[mask])
        chosen = slots[indices][: len(on)]
        on = on[: len(chosen)]
        starts = near(at(slots)) + chosen[on].astype(np.int64) * size
        register = np.zeros(REGISTER_BYTES // lanes.itemsize, unsigned(lanes))
        if len(starts):
            low, high = int(starts.min()), int(starts.max())
            check(ctx, ub, low, high - low + width)
            _warn_gather(ctx, core, starts, width)
            places = starts[:, None] + np.arange(width)
            bytes_ = np.frombuffer(ub.data, np.uint8)[places]
            register[: len(on)][on] = bytes_.reshape(-1).view(raw)
        slots[target] = register.view(lanes)

    return ctx.made(run)


def _warn_gather(ctx: VectorContext, core: Core, starts: np.ndarray, width: int) -> None:
    ub = core.ub
    places = starts[:, None] + np.arange(width)
    np.frombuffer(ub.last, np.uint8)[places] = ctx.place.number
    ub.touched.update((starts >> PAGE_BITS).tolist())
    ub.note(ctx.place.code, starts, width)
    if (np.frombuffer(ub.marks, np.uint8)[places] == ub.interval).any():
        ctx.report(*STORE_LOAD)


# -- unaligned streams -----------------------------------------------------------------------------


@vector("pto.vldas")
def vldas(ctx: VectorContext) -> Run:
    """The 32-byte block that holds the address: the beginning of a stream of unaligned loads."""
    target, at = ctx["align"], address(ctx, "src")

    def run(core: Core) -> None:
        slots = core.slots
        start = at(slots) // 32 * 32
        check(ctx, core.ub, start, 32)
        slots[target] = Align(bytes(core.ub.data[start : start + 32]), start + 32)

    return run


def _begun(ctx: VectorContext) -> int | None:
    """The slot of the align state where an instruction is the first of a stream that begins beside
    it."""
    align = ctx.op.bound.get("align")
    owner = align.value.owner if isinstance(align, Operand) and align.value is not None else None
    if owner is None or owner.parent is not ctx.op.parent or owner.bound.get("align") is not None:
        return None
    return ctx["align"] if owner.has("loads") else None


@vector("pto.vldus", "pto.uvld")
def vldus(ctx: VectorContext) -> Run:
    """256 bytes at any address; the new align state of a stream is the block after them. April's
    form with the pointer as third result gives the address after them."""
    lanes, target, align = ctx.lanes("dst"), ctx["dst"], ctx.slots.get("align_out")
    beyond = None if ctx.has("offset") else ctx.slots.get("src_out")
    at, load, source = address(ctx, "src", "offset"), loader(ctx, REGISTER_BYTES), ctx["src"]
    begun = _begun(ctx)

    def run(core: Core) -> None:
        slots = core.slots
        start = at(slots)
        if begun is not None and slots[begun].end != start // 32 * 32 + 32:
            ctx.report(
                "PTO6432",
                f"begins at {start:#x} of UB, and the 32 bytes that wait for it are those before "
                f"{slots[begun].end:#x}",
            )
        slots[target] = np.frombuffer(load(core, start), lanes)
        if align is None:
            return
        end = start + REGISTER_BYTES
        block = end // 32 * 32
        slots[align] = Align(bytes(core.ub.data[block : block + 32]), end)
        if beyond is not None:
            slots[beyond] = Pointer(slots[source].memory, end)

    return run
