"""Loads, stores and addresses in SIMT code."""

from __future__ import annotations

import numpy as np

from ptosim.ops.simt.frame import Frame, LanePtr, Lanes, Run
from ptosim.ops.simt.memory import element_of
from ptosim.ops.simt.table import LaneContext, computed, element_type, lanes


@lanes("pto.load", "pto.ldg", "pto.load_scalar")
def load(ctx: LaneContext) -> Run:
    """The element at pointer + offset elements."""
    op, pointer, offset, target = ctx.op, ctx.slots["ptr"], ctx.slots["offset"], ctx.results[0]
    element = element_of(ctx.elem("ptr"))

    def run(frame: Frame) -> None:
        values = frame.values
        at = values[offset]
        values[target] = frame.memory.load(op, values[pointer], at, element)

    return run


@lanes("pto.store", "pto.stg", "pto.store_scalar")
def store(ctx: LaneContext) -> Run:
    """Write the element at pointer + offset elements."""
    op, pointer, offset, source = ctx.op, ctx.slots["ptr"], ctx.slots["offset"], ctx.slots["value"]
    element = element_of(ctx.elem("ptr"))

    def run(frame: Frame) -> None:
        values = frame.values
        frame.memory.store(op, values[pointer], values[offset], element, values[source])

    return run


@lanes("pto.addptr")
def addptr(ctx: LaneContext) -> Run:
    """The pointer some elements farther on."""
    bits = ctx.elem("ptr").bits

    def add(pointer: LanePtr, offset: Lanes) -> LanePtr:
        distance = offset.astype(np.int64) * bits // 8
        return LanePtr(pointer.memory, pointer.byte + distance)

    return computed(add, [ctx.slots["ptr"], ctx.slots["offset"]], ctx.results[0])


GM_BASE = 48
"""A pointer into global memory as an integer: the number of its buffer + 1 above so many bits of
offset, as the scalar unit has it."""


@lanes("pto.castptr")
def castptr(ctx: LaneContext) -> Run:
    """An integer is a byte address in the space of the result's type; a pointer keeps its place."""
    space = getattr(ctx.result_type, "space", None)
    kind = element_type(ctx.result_type)
    source, target, op = ctx.slots["src"], ctx.results[0], ctx.op

    def run(frame: Frame) -> None:
        given = frame.values[source]
        if isinstance(given, LanePtr):
            frame.values[target] = given if space is not None else _number(given, kind.bits)
            return
        address = given.astype(np.int64)
        if space != "gm":
            frame.values[target] = LanePtr(space, address)
            return
        ids = frame.active()
        buffers = np.unique(frame.full(address)[ids] >> GM_BASE)
        if len(buffers) != 1 or not 0 < buffers[0] <= len(frame.machine.buffers):
            text = f"{int(frame.full(address)[ids[0]]):#x} is no address in global memory"
            if len(buffers) > 1:
                text = "makes pointers into several arguments in one value"
            raise frame.fault("PTO6603", op, text)
        mask = np.int64((1 << GM_BASE) - 1)
        frame.values[target] = LanePtr(int(buffers[0]) - 1, address & mask)

    return run


def _number(given: LanePtr, bits: int) -> Lanes:
    memory, byte = given
    base = (memory + 1) << GM_BASE if isinstance(memory, int) else 0
    return (byte + base).astype(f"i{bits // 8}")
