"""FIFOs whose entries are the slots in global memory themselves: the producer takes a free one as a
view, fills it and pushes it; the consumer pops the same view, reads it and gives it back.

Slot k begins at k * slot_size; of a split entry the view of vector core s begins at its half."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.types import ViewType
from ptosim.machine.fifo import PipeEnd
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.base.orders import Alloc, Pop, Push
from ptosim.ops.sync.fifo_ends import (
    direction_of,
    end_of,
    free_slots,
    half,
    lane_of,
    pushed_tiles,
    shares_of,
    slot_start,
    split_of,
    tokens,
)


@kernel("pto.talloc_to_aiv", "pto.talloc_to_aic", "pto.talloc", events=True)
def talloc(op: Binding) -> Commit:
    """Hand out the next slot as a view, when it is free."""
    end = end_of(op)
    direction = direction_of(op, end)
    if end.slot is None:
        raise OpFault(
            "PTO5141",
            f"'{op.op.name}': the entries of this FIFO are tiles, its slots are no views",
            help="give both ends a gm_slot_tensor, and no consumer buffer",
        )
    shares = shares_of(op, end, direction)
    op.sync = Alloc(end.key, direction)
    op.guard = free_slots(op, end, shares)
    op.awaits = tokens(op, end, direction, "fifo free")
    core, slot, type_ = op.core, *_place(op, "entry")

    def take() -> None:
        taking = shares()
        index = taking[0].taken if taking else 0
        core.slots[slot] = _view(op, end, direction, index, type_)
        for share in taking:
            share.taken += 1

    return take


def push(op: Binding, end: PipeEnd, direction: str) -> Commit:
    """Hand on the slot that was taken: what its producer has stored is there."""
    shares = shares_of(op, end, direction)
    op.sync = Push(end.key, direction)
    op.signals = tokens(op, end, direction)
    if not shares():
        return nothing

    def hand_on() -> None:
        for share in shares():
            share.pushed += 1
            if share.pushed > share.taken:
                raise OpFault(
                    "PTO5142",
                    f"'{op.op.name}' pushes a slot that was not taken",
                    help="take it with talloc before the store",
                )

    return hand_on


def pop(op: Binding, end: PipeEnd, direction: str) -> Commit:
    """Hand out the oldest slot as a view, when there is one."""
    shares = shares_of(op, end, direction)
    op.sync = Pop(end.key, direction)
    op.awaits = tokens(op, end, direction)
    op.guard = pushed_tiles(op, shares)
    core, slot, type_ = op.core, *_place(op, "tile")

    def take() -> None:
        taking = shares()
        index = taking[0].popped if taking else 0
        core.slots[slot] = _view(op, end, direction, index, type_)
        for share in taking:
            share.issued += 1
            share.popped += 1

    return take


def _place(op: Binding, name: str) -> tuple[int, ViewType]:
    """Where the view goes: the result, or the view that was declared for it; and its type."""
    if op.op.results:
        result = op.op.results[0]
        assert isinstance(result.type, ViewType)
        return op.slots[result], result.type
    operand: Any = op.op.bound[name]
    return op.slots[operand.value], operand.type


def _view(op: Binding, end: PipeEnd, direction: str, index: int, type_: ViewType) -> GmView:
    first = end.slot
    assert first is not None
    rank = len(type_.dims)
    whole = first.spec.sizes[-rank:]
    strides = first.spec.strides[-rank:]
    sizes = tuple(w if d is None else d for d, w in zip(type_.dims, whole, strict=True))
    split = split_of(op)
    place = slot_start(op, end, direction, index)
    offset = place.byte * 8 // first.spec.dtype.bits
    if split and op.core.kind == "vector" and rank >= 2:
        axis = rank - 2 if split in (1, 3) else rank - 1
        offset += _half(op, end, sizes[axis], whole[axis], strides[axis])
    spec = view_spec(*five_dims(sizes, strides), first.spec.dtype, first.spec.layout)
    return GmView(spec, place.memory or 0, offset)


def _half(op: Binding, end: PipeEnd, extent: int, whole: int, stride: int) -> int:
    """Elements from the start of a slot to the half of a vector core. Where the view of the pipe is
    of one half, the second is in the second half of the slot."""
    lane = lane_of(op)
    if extent < whole:
        return half(whole, lane)[0] * stride
    assert end.slot is not None
    return lane * (end.slot_size // 2) * 8 // end.slot.spec.dtype.bits
