"""Block forms: 32-byte blocks at a stride, and which of them a mask lets through.

Block k begins (rs + k * bs) * 32 bytes after the pointer, both strides unsigned numbers of 16
bits. The text has a mask of lanes; the instruction reads one bit a block, at position k of the
32-bit view of the mask (`vmi.block_gate`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import BLOCK_BYTES
from ptosim.ops.vmi.context import LogicalContext
from ptosim.ops.vmi.reach import address, warn_unaligned


def block_starts(ctx: LogicalContext, pointer: str, size: int) -> Callable[[list], np.ndarray]:
    """Return the function that gives where the blocks of `size` bytes begin."""
    at, stride = address(ctx, pointer, aligned=False), ctx["block_stride"]
    repeat = ctx["repeat_stride"] if ctx.has("repeat_stride") else None
    number = np.arange(-(-size // BLOCK_BYTES))

    def starts(slots: list) -> np.ndarray:
        first = at(slots)
        if first % BLOCK_BYTES:
            warn_unaligned(ctx, first)
        step = slots[stride] & 0xFFFF
        more = 0 if repeat is None else slots[repeat] & 0xFFFF
        return first + (more + number * step) * BLOCK_BYTES

    return starts


def gated(ctx: LogicalContext, width: int) -> Callable[[list], np.ndarray]:
    """Return the function that gives the lanes of `width` bytes which are accessed."""
    mask, by_lane = ctx["mask"], ctx.switch("vmi.block_gate") == "lane"
    size, step = BLOCK_BYTES // width, 4 // width

    def lanes(slots: list) -> np.ndarray:
        on = slots[mask].on
        blocks = -(-len(on) // size)
        at = np.arange(blocks) * step
        bits = np.zeros(blocks, np.bool_)
        bits[at < len(on)] = on[at[at < len(on)]]
        whole = np.repeat(bits, size)[: len(on)]
        if (whole != on).any():
            ctx.report(
                "PTO6706",
                "has a mask that is not the same for whole blocks: the text means lanes, the "
                "instruction reads one bit for each block of 32 bytes",
                "`--set vmi.block_gate=position` gives what the instruction does",
            )
        return on if by_lane else whole

    return lanes
