"""Predicates: patterns, counts, logic, rearrangement.

PTO micro-instruction specification, predicates; the public programs' data decide that PAT_H and
PAT_Q are the first half and quarter of the lanes (the text says the last), and that packing acts on
the 256 bits of the image, not on lanes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.errors import UsageError
from ptosim.machine.core import Core
from ptosim.machine.vector import Mask, first_lanes, image_of, lane_count, lanes_of, mask_of_bits
from ptosim.ops.base.functions import vector
from ptosim.ops.micro.context import Run, VectorContext
from ptosim.ops.micro.rows import Counted, Known, with_rows

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
