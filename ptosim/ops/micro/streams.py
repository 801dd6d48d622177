"""Streams of unaligned stores, and predicates in UB.

PTO micro-instruction specification, unaligned stores. An align state carries the bytes of the last,
incomplete 32-byte block of a stream and where the stream ends. Appending writes whole blocks and
keeps the rest; a flush writes the rest so that it ends where the flush says, which in every public
program is the end of the stream. AR is the byte offset of the register-counted stream, SQZN the
byte count of the last vsqz."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core
from ptosim.machine.values import Pointer
from ptosim.machine.vector import (
    Align,
    Mask,
    first_lanes,
    image_of,
    lane_count,
    lanes_of,
    mask_of_bits,
)
from ptosim.ops.base.functions import vector
from ptosim.ops.base.orders import constant
from ptosim.ops.micro.access import Address, address, element_bytes, loader, write
from ptosim.ops.micro.context import Counted, Known, Load, Run, Store, VectorContext, with_rows

# Predicates: patterns, counts, logic, rearrangement.
#
# PTO micro-instruction specification, predicates; the public programs' data decide that PAT_H and
# PAT_Q are the first half and quarter of the lanes (the text says the last), and that packing
# acts on the 256 bits of the image, not on lanes.

_HALF = (1 << 128) - 1


def _width(ctx: VectorContext) -> int:
    """Bytes of a lane, from the width in the operation's name."""
    return int(ctx.op.name.rpartition("_b")[2]) // 8


# -- patterns and counts ---------------------------------------------------------------------------


def pattern(word: str, width: int) -> Mask:
    """Return the mask that a pattern names, for lanes of `width` bytes."""
    count = lane_count(width)
    if word.startswith("PAT_VL"):
        return first_lanes(width)[min(int(word.removeprefix("PAT_VL")), count)]
    lanes = np.arange(count)
    patterns = {
        "PAT_ALL": lanes >= 0,
        "PAT_ALLF": lanes < 0,
        "PAT_H": lanes < count // 2,
        "PAT_Q": lanes < count // 4,
        "PAT_M3": lanes % 3 == 0,
        "PAT_M4": lanes % 4 == 0,
    }
    if word not in patterns:
        raise UsageError(f"`{word}` is no pattern of a mask", help=", ".join(patterns))
    return Mask.of_lanes(patterns[word])


@vector("pto.pset_b8", "pto.pset_b16", "pto.pset_b32", "pto.pge_b8", "pto.pge_b16", "pto.pge_b32")
def pset(ctx: VectorContext) -> Run:
    """The lanes that a word names."""
    mask = pattern(ctx.word("pattern"), _width(ctx))
    return ctx.known(lambda: mask)


@vector("pto.plt_b8", "pto.plt_b16", "pto.plt_b32")
def plt(ctx: VectorContext) -> Run:
    """The first lanes, as many as are left, and how many are left after them."""
    masks = first_lanes(_width(ctx))
    count, target, remaining = ctx["count"], ctx["dst"], ctx["remaining"]
    most = len(masks) - 1

    def run(core: Core) -> None:
        slots = core.slots
        left = slots[count]
        if left < 0:
            left &= 0xFFFFFFFF
        if left > most:
            slots[target] = masks[most]
            rest = left - most
            slots[remaining] = rest if rest < 1 << 31 else rest - (1 << 32)
        else:
            slots[target] = masks[left]
            slots[remaining] = 0

    return with_rows(run, Counted(masks[most], most, count, target, remaining, run))


@vector("pto.pltm_b8", "pto.pltm_b16", "pto.pltm_b32")
def pltm(ctx: VectorContext) -> Run:
    """The lanes that a round of a loop has below the bound."""
    masks = first_lanes(_width(ctx))
    most = len(masks) - 1
    return ctx.known(
        lambda loop, bound: masks[min(max(bound - loop * most, 0), most)], "loop", "bound"
    )


# -- logic -----------------------------------------------------------------------------------------

_LOGIC: dict[str, Callable[[int, int, int], int]] = {
    "pto.pand": lambda a, b, gate: a & b & gate,
    "pto.por": lambda a, b, gate: (a | b) & gate,
    "pto.pxor": lambda a, b, gate: (a ^ b) & gate,
    "pto.psel": lambda a, b, gate: (a & gate) | (b & ~gate),
}


@vector(*_LOGIC)
def logic(ctx: VectorContext) -> Run:
    """Bit by bit on the images, under a governing mask."""
    function = _LOGIC[ctx.op.name]
    return ctx.known(
        lambda lhs, rhs, gate: mask_of_bits(function(lhs.bits, rhs.bits, gate.bits)),
        "lhs",
        "rhs",
        "mask",
    )


@vector("pto.pnot")
def pnot(ctx: VectorContext) -> Run:
    """Not, under a governing mask."""
    return ctx.known(lambda mask, gate: mask_of_bits(~mask.bits & gate.bits), "src", "mask")


@vector("pto.pbitcast")
def pbitcast(ctx: VectorContext) -> Run:
    """The same image."""
    return ctx.known(lambda mask: mask, "src")


# -- rearrangement ---------------------------------------------------------------------------------


def pack_image(image: int) -> int:
    """Return every second bit of an image, in its lower half."""
    return image_of(lanes_of(image, 2), 1)


def spread_image(image: int) -> int:
    """Return the lower half of an image spread to every second bit."""
    return image_of(lanes_of(image & _HALF, 1)[:128], 2)


@vector("pto.ppack")
def ppack(ctx: VectorContext) -> Run:
    """Every second bit of the image, into one half."""
    shift = 128 if ctx.word("half") == "HIGHER" else 0
    return _on_image(ctx, lambda image: pack_image(image) << shift)


@vector("pto.punpack")
def punpack(ctx: VectorContext) -> Run:
    """One half of the image, to every second bit."""
    shift = 128 if ctx.word("half") == "HIGHER" else 0
    return _on_image(ctx, lambda image: spread_image(image >> shift))


def _on_image(ctx: VectorContext, function: Callable[[int], int]) -> Run:
    return ctx.known(lambda mask: mask_of_bits(function(mask.bits)), "src")


@vector("pto.pintlv_b8", "pto.pintlv_b16", "pto.pintlv_b32")
def pintlv(ctx: VectorContext) -> Run:
    """The lanes of two masks in turn, as two masks."""
    return _on_lanes(ctx, lambda a, b: np.stack((a, b), axis=1).reshape(2, -1))


@vector("pto.pdintlv_b8", "pto.pdintlv_b16", "pto.pdintlv_b32")
def pdintlv(ctx: VectorContext) -> Run:
    """The even and the odd lanes of two masks one after the other."""
    return _on_lanes(ctx, lambda a, b: np.concatenate((a, b)).reshape(-1, 2).T)


def _on_lanes(ctx: VectorContext, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Run:
    lanes = ctx.active(_width(ctx))
    lhs, rhs, low, high = ctx["lhs"], ctx["rhs"], ctx["low"], ctx["high"]

    def run(core: Core) -> None:
        slots = core.slots
        first, second = function(lanes(slots[lhs]), lanes(slots[rhs]))
        slots[low], slots[high] = Mask.of_lanes(first.copy()), Mask.of_lanes(second.copy())

    return with_rows(run, Known(run, (lhs, rhs)))


Bytes = Callable[[Core, list], bytes]


@vector("pto.init_align")
def init_align(ctx: VectorContext) -> Run:
    """A stream to which nothing has been appended."""
    return constant(Align(), ctx["align"])


@vector("pto.sprclr")
def sprclr(ctx: VectorContext) -> Run:
    """A special register becomes 0."""
    name = ctx.word("register").lower()

    def run(core: Core) -> None:
        core.registers[name] = 0

    return run


def append(ctx: VectorContext, core: Core, align: Align, start: int, data: bytes) -> Align:
    """Append bytes to a stream at `start`: whole blocks are written, the rest waits."""
    pending = align.pending if align.end == start else b""
    if align.pending and not pending:
        ctx.report(
            "PTO6611",
            f"appends at {start:#x}, but the stream ends at {align.end:#x}; the "
            f"{len(align.pending)} bytes that wait there are lost",
        )
    data = pending + data
    first = start - len(pending)
    end = first + len(data)
    whole = end // 32 * 32
    if whole <= first:
        return Align(data, end)
    write(ctx, core.ub, first, data[: whole - first])
    return Align(data[whole - first :], end)


def flush(ctx: VectorContext, core: Core, align: Align, end: int) -> None:
    """Write what waits, so that it ends at `end`."""
    if align.end is not None and align.end != end:
        ctx.report(
            "PTO6611",
            f"ends the stream at {end:#x}, but {align.end:#x} is the end of what was appended; "
            "what is pending is written in front of the address of the flush",
        )
    write(ctx, core.ub, end - len(align.pending), align.pending)


def _appended(ctx: VectorContext, at: Address, data: Bytes) -> Run:
    align, target = ctx["align"], ctx["align_out"]

    def run(core: Core) -> None:
        slots = core.slots
        slots[target] = append(ctx, core, slots[align], at(slots), data(core, slots))

    return run


@vector("pto.vstus")
def vstus(ctx: VectorContext) -> Run:
    """Append the first `count` elements of a register at the pointer."""
    value, count, width = ctx["value"], ctx["count"], ctx.lanes("value").itemsize

    def data(core: Core, slots: list) -> bytes:
        return slots[value].tobytes()[: max(slots[count], 0) * width]

    moves = "count" if ctx.has("base_out") else None  # what is appended is at base either way
    return _appended(ctx, address(ctx, "base", moves), data)


@vector("pto.vstur")
def vstur(ctx: VectorContext) -> Run:
    """Append as many bytes as the last vsqz counted, at pointer + AR."""
    value, align, target = ctx["value"], ctx["align"], ctx["align_out"]
    at, update = address(ctx, "base"), ctx.word("mode") == "POST_UPDATE"

    def run(core: Core) -> None:
        slots, registers = core.slots, core.registers
        size = registers.get("sqzn", 0)
        start = at(slots) + registers.get("ar", 0)
        if update:
            registers["ar"] = registers.get("ar", 0) + size
        slots[target] = append(ctx, core, slots[align], start, slots[value].tobytes()[:size])

    return run


@vector("pto.vstu")
def vstu(ctx: VectorContext) -> Run:
    """Append a register at pointer + offset; the new offset is after it with POST_UPDATE."""
    value, align, target = ctx["value"], ctx["align"], ctx["align_out"]
    at, update = address(ctx, "base", "offset"), ctx.word("mode") == "POST_UPDATE"
    offset, moved, size = ctx["offset"], ctx["offset_out"], element_bytes(ctx, "base")

    def run(core: Core) -> None:
        slots = core.slots
        data = slots[value].tobytes()
        slots[target] = append(ctx, core, slots[align], at(slots), data)
        slots[moved] = slots[offset] + (len(data) // size if update else 0)

    return run


@vector("pto.vstas", "pto.vsta", "pto.vstar")
def vstas(ctx: VectorContext) -> Run:
    """Write what waits so that it ends at pointer + offset elements, or at pointer + AR."""
    is_counted = ctx.op.name == "pto.vstar"
    align, at = ctx["align"], address(ctx, "base", None if is_counted else "offset")

    def run(core: Core) -> None:
        slots = core.slots
        beyond = core.registers.get("ar", 0) if is_counted else 0
        flush(ctx, core, slots[align], at(slots) + beyond)

    return run


# -- special registers -----------------------------------------------------------------------------


@vector("pto.sprsts", "pto.sprsti")
def sprsts(ctx: VectorContext) -> Run:
    """The low 32 bits of a special register to UB: at pointer + offset bytes, of the constant form
    words of 4 bytes."""
    name, offset = ctx.word("register").lower(), _offset(ctx, "words", "byte_offset")
    at = address(ctx, "base", *offset)

    def run(core: Core) -> None:
        value = core.registers.get(name, 0) & 0xFFFFFFFF
        write(ctx, core.ub, at(core.slots), value.to_bytes(4, "little"))

    return run


_UNITS = {"byte_offset": 1, "words": 4}
"""Bytes of what an offset counts, by the name that the row gives it."""
_STEPS = {"NORM": 32, "DS": 32, "US": 16, "PK": 16}
"""Bytes of what a constant offset of a predicate counts, by the distribution."""


def _offset(ctx: VectorContext, *names: str) -> tuple[str, int | None]:
    """Return the name of an offset and the bytes of what it counts, None for elements; a date has
    one of the names."""
    name = next((n for n in names if n in ctx.op.bound), "offset")
    return name, _STEPS[ctx.word("dist")] if name == "steps" else _UNITS.get(name)


# -- predicates ------------------------------------------------------------------------------------


@vector("pto.plds", "pto.pldi", "pto.pld")
def plds(ctx: VectorContext) -> Run:
    """A predicate from its image in UB: whole, each bit twice (US), or every second bit (DS)."""
    word, target = ctx.word("dist"), ctx["dst"]
    load = loader(ctx, {"NORM": 32, "US": 16, "DS": 64}[word])
    offset = _offset(ctx, "byte_offset", "steps")
    at = address(ctx, "src", *offset)

    def run(core: Core) -> None:
        slots = core.slots
        image = int.from_bytes(load(core, at(slots)), "little")
        if word == "US":
            low = spread_image(image)
            image = low | low << 1
        elif word == "DS":
            half = (1 << 256) - 1
            image = pack_image(image & half) | pack_image(image >> 256) << 128
        slots[target] = mask_of_bits(image)

    if word != "NORM":
        return run
    return with_rows(run, Load(at, 32, Mask.of_image, (target,), ctx.place))


@vector("pto.psts", "pto.psti", "pto.pst")
def psts(ctx: VectorContext) -> Run:
    """The image of a predicate to UB: whole, or every second bit (PK)."""
    source, packs = ctx["src"], ctx.word("dist") == "PK"
    offset = _offset(ctx, "byte_offset", "steps")
    at = address(ctx, "base", *offset)

    def run(core: Core) -> None:
        slots = core.slots
        image = slots[source].bits
        data = (pack_image(image) if packs else image).to_bytes(32, "little")
        write(ctx, core.ub, at(slots), data[:16] if packs else data)

    if packs:
        return run
    return with_rows(run, Store(at, 32, Mask.image, (source,), ctx.place))


@vector("pto.pstu")
def pstu(ctx: VectorContext) -> Run:
    """Append one bit for each lane to a stream: 8 bytes of b32 lanes, 16 of b16. The pointer after
    them is a result."""
    source, active = ctx["src"], ctx.active(ctx.width("src"))
    base, moved, size = ctx["base"], ctx["base_out"], 32 // ctx.width("src")

    def data(core: Core, slots: list) -> bytes:
        return np.packbits(active(slots[source]), bitorder="little").tobytes()

    appended = _appended(ctx, address(ctx, "base"), data)

    def run(core: Core) -> None:
        appended(core)
        start = core.slots[base]
        core.slots[moved] = Pointer(start.memory, start.byte + size)

    return run
