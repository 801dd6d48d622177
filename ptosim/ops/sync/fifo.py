"""TPUSH, TPOP, TFREE: tiles from the cube core to the vector cores of its cluster and back.

With split 0 one vector core takes part, with 1 each has half of the rows, with 2 half of the
columns; 3 and 4 are the same for odd numbers, of which the first core has one more. The slots are
in the consumer's memory, where a popped tile stays until it is freed, or in global memory, from
where the pop copies it; on A2/A3 it frees the slot at once (pto-isa headers, TPUSH and TPOP). A
slot on the chip is filled in the layout of the consumer's tile. An entry may also be a view of a
slot itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.types import TileType, ViewType
from ptosim.machine.core import PipeEnd, Share
from ptosim.machine.gm import five_dims, view_spec
from ptosim.machine.tile import Tile, TileRef, store_tile, tile_ref
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding, OpFault, check_valid
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.base.orders import Alloc, FifoUse, Free, Pop, Push
from ptosim.ops.sync.fifo_ends import (
    converted,
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

# FIFOs whose entries are the slots in global memory themselves: the producer takes a free one as a
# view, fills it and pushes it; the consumer pops the same view, reads it and gives it back.
#
# Slot k begins at k * slot_size; of a split entry the view of vector core s begins at its half.


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


def push_slot(op: Binding, end: PipeEnd, direction: str) -> Commit:
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


def pop_slot(op: Binding, end: PipeEnd, direction: str) -> Commit:
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


# -- push ------------------------------------------------------------------------------------------


@kernel("pto.tpush_to_aiv", "pto.tpush_to_aic", "pto.tpush", events=True)
def tpush(op: Binding) -> Commit:
    """Copy a tile into the next slot, when there is a free one."""
    end = end_of(op)
    direction = direction_of(op, end)
    if end.slot is not None:
        return push_slot(op, end, direction)
    tile = op.tile("tile")
    shares = shares_of(op, end, direction)
    op.sync = Push(end.key, direction)
    op.signals = tokens(op, end, direction)
    parts = len(shares())
    if not parts:
        return nothing
    op.guard, op.pushed = free_slots(op, end, shares), tile.ref
    split = split_of(op)
    _check_push(op, end, tile, 2 if direction == "v2c" and split else 1, parts if split else 1)
    convert = converted(op, end, tile)
    if end.gm is not None:
        op.slot = lambda: _extent(op, end, direction, shares()[0].pushed)

    def push() -> None:
        values = convert(tile.read())
        index = shares()[0].pushed
        for share in shares():
            share.entries[index % end.slot_num] = np.array(values)
            if end.gm is not None:
                share.places[index % end.slot_num] = slot_start(op, end, direction, index)
            share.pushed += 1
        if end.gm is not None:
            _store(op, end, direction, index, values, split)

    return push


def _extent(op: Binding, end: PipeEnd, direction: str, index: int) -> tuple[int, int, int]:
    number, start = slot_start(op, end, direction, index)
    assert isinstance(number, int)
    return number, start, start + end.slot_size


def _check_push(op: Binding, end: PipeEnd, tile: Tile, times: int, parts: int) -> None:
    rows, cols = tile.v_row, tile.v_col
    size = tile.type.dtype.bytes_for(rows * cols) * times
    if size > end.slot_size and end.epilogue is None:
        raise OpFault(
            "PTO5102",
            f"'{op.op.name}' pushes {size:,} bytes into slots of {end.slot_size:,}",
            help=f"give both ends a slot_size of {size} or more",
        )
    split = split_of(op)
    side, name = ((rows, "rows"), (cols, "columns"))[split in (2, 4)]
    if split in (1, 2) and side % parts:
        raise OpFault(
            "PTO5103",
            f"'{op.op.name}' halves a tile of {side} {name}",
            notes=("split 1 halves the rows, split 2 the columns; both halves are equal",),
            help="splits 3 and 4 halve an odd number: the first core has one more",
        )
    if split in (3, 4) and not side % 2:
        raise OpFault(
            "PTO5103",
            f"'{op.op.name}' halves a tile of {side} {name} as an odd number of them",
            notes=("split 3 halves an odd number of rows, split 4 of columns",),
            help="splits 1 and 2 halve an even number",
        )


def _store(
    op: Binding, end: PipeEnd, direction: str, index: int, values: np.ndarray, split: int
) -> None:
    """Write a tile, or a vector core's half of it, to its slot in global memory, row by row."""
    size = values.dtype.itemsize
    first, row = stored_at(op, direction, split, values.shape, size)
    view = _slot(op, end, direction, index, values.shape, (row, size), first, values.dtype)
    view[...] = values


def stored_at(
    op: Binding, direction: str, split: int, shape: tuple[int, ...], size: int
) -> tuple[int, int]:
    """Return where in a slot in global memory a push puts elements of `size` bytes: the first byte,
    and bytes from row to row."""
    rows, cols = shape
    lane = lane_of(op) if direction == "v2c" and split else 0
    width = cols * (2 if direction == "v2c" and split == 2 else 1)
    return lane * (rows * cols if split == 1 else cols) * size, width * size


def _slot(
    op: Binding,
    end: PipeEnd,
    direction: str,
    index: int,
    shape: tuple[int, ...],
    strides: tuple[int, int],
    first: int,
    dtype: np.dtype,
) -> np.ndarray:
    """The elements of a slot in global memory."""
    number, start = slot_start(op, end, direction, index)
    assert isinstance(number, int)
    buffer = op.machine.buffers[number]
    start += first
    last = start + (shape[0] - 1) * strides[0] + shape[1] * strides[1]
    if start < 0 or last > buffer.size:
        raise OpFault(
            "PTO5104",
            f"'{op.op.name}': slot {index % end.slot_num} is bytes [{start}, {last}) of "
            f"`{buffer.name}`, which has {buffer.size}",
            help=f"pass a buffer of {len(end.local) * end.slot_num * end.slot_size} bytes, and a "
            "pointer to the first of them",
        )
    if buffer.watch is not None:
        buffer.watch(start, last)
    return buffer.array(shape, dtype, start, strides)


# -- pop -------------------------------------------------------------------------------------------


@kernel("pto.tpop_from_aic", "pto.tpop_from_aiv", "pto.tpop", events=True)
def tpop(op: Binding) -> Commit:
    """Hand out the oldest tile, when there is one. The handle exists from the issue on."""
    end = end_of(op)
    direction = direction_of(op, end)
    if end.slot is not None:
        return pop_slot(op, end, direction)
    shares = shares_of(op, end, direction)
    split = split_of(op)
    slot, type_, rows, cols = _handle(op)
    core = op.core
    op.sync = Pop(end.key, direction)
    op.awaits = tokens(op, end, direction)
    op.guard = pushed_tiles(op, shares)
    op.popped = lambda entries: _elements(op, direction, entries, split) if shares() else None
    name = op.op.results[0].name if op.op.results else op.op.bound["tile"].value.name
    stub = op.machine.stub

    def issue() -> None:
        core.slots[slot] = tile_ref(type_, end.address(direction, _issue(shares())), rows, cols)

    op.at_issue = issue
    frees = op.target == "a2a3"

    def pop() -> None:
        taking = shares()
        index = taking[0].popped if taking else 0
        ref = tile_ref(type_, end.address(direction, index), rows, cols)
        tile = op.bind_tile(ref, "result")
        op.made = [(core, ref)]
        if not taking:  # the idle vector core of split 0
            tile.write(np.zeros((rows, cols), tile.dtype))
            return
        if stub is not None:
            for share in taking:
                share.pushed += 1
            store_tile(core, ref, stub(name, index, (rows, cols), type_.dtype))
            advance(taking)
            return
        _check_place(op, end, direction, taking[0])
        values = _taken(op, end, direction, taking, split)
        _check_pop(op, tile, values)
        tile.write(values.view(tile.dtype))
        advance(taking)

    def advance(taking: list[Share]) -> None:
        for share in taking:
            share.popped += 1
            share.freed += frees

    return pop


def _handle(op: Binding) -> tuple[int, TileType, int, int]:
    """Slot of the handle, the tile's type, its valid shape. Raises OpFault for one that the tile
    does not have."""
    given: TileRef | None = op.values.get("tile")
    if given is not None:
        operand = op.op.bound["tile"]
        return op.slots[operand.value], given.type, given.v_row, given.v_col
    result = op.op.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    rows = op.scalar("valid_row") if op.has("valid_row") else type_.v_row
    cols = op.scalar("valid_col") if op.has("valid_col") else type_.v_col
    shape = (
        type_.rows if rows is None else int(rows),
        type_.cols if cols is None else int(cols),
    )
    check_valid(type_, *shape)
    return (op.slots[result], type_, *shape)


def _issue(shares: list[Share]) -> int:
    if not shares:
        return 0
    index = shares[0].issued
    for share in shares:
        share.issued += 1
    return index


def _taken(
    op: Binding, end: PipeEnd, direction: str, shares: list[Share], split: int
) -> np.ndarray:
    """The elements of the oldest tile."""
    index = shares[0].popped
    entries = [share.entries[index % end.slot_num] for share in shares]
    dtype = entries[0].dtype

    def fetch(shape: tuple[int, ...], first: int, row: int) -> np.ndarray:
        strides = row, dtype.itemsize
        return np.array(_slot(op, end, direction, index, shape, strides, first, dtype))

    return popped(op, end, direction, entries, split, dtype.itemsize, fetch)


def popped(
    op: Binding, end: PipeEnd, direction: str, entries: list[np.ndarray], split: int, size: int,
    fetch: Callable[[tuple[int, ...], int, int], np.ndarray],
) -> np.ndarray:  # fmt: skip
    """Return the elements of the tile that the entries of the shares are: of what the cube pushed
    this vector core's half, on the cube the halves of both cores. `fetch` gives those of a shape
    that are in the slot in global memory: from which byte on, with so many from row to row; `size`
    are the bytes of an element."""
    if end.gm is None:
        return _elements(op, direction, entries, split)
    if direction == "v2c" or not split:
        whole = _elements(op, direction, entries, split)
        return fetch(whole.shape, 0, whole.shape[1] * size)
    axis = (split - 1) % 2
    start, length = half(entries[0].shape[axis], lane_of(op))
    rows, cols = entries[0].shape
    shape, first = ((length, cols), start * cols) if axis == 0 else ((rows, length), start)
    return fetch(shape, first * size, cols * size)


def _elements(op: Binding, direction: str, entries: list[np.ndarray], split: int) -> np.ndarray:
    """Return which elements of the entries of the shares a popped tile has."""
    if not split:
        return entries[0]
    axis = (split - 1) % 2
    if direction == "v2c":
        return entries[0] if len(entries) == 1 else _joined(op, entries, axis)
    start, length = half(entries[0].shape[axis], lane_of(op))
    return entries[0].take(range(start, start + length), axis)


def _joined(op: Binding, halves: list[np.ndarray], axis: int) -> np.ndarray:
    """The tile that the halves of both vector cores are. Raises OpFault for halves of two kinds."""
    if len({(part.dtype, part.shape[1 - axis]) for part in halves}) > 1:
        both = " and ".join(
            f"{part.shape[0]}x{part.shape[1]} elements of {part.itemsize * 8} bits"
            for part in halves
        )
        raise OpFault(
            "PTO5105",
            f"'{op.op.name}' takes halves of one tile, which the vector cores pushed as {both}",
            help="push halves of one element type and one size from both vector cores",
        )
    return np.concatenate(halves, axis)


def _check_place(op: Binding, end: PipeEnd, direction: str, share: Share) -> None:
    """Report a slot that is not where the other end has put the tile: each end computes the place
    from the pointer that it was given."""
    pushed = share.places.get(share.popped % end.slot_num)
    taken = slot_start(op, end, direction, share.popped) if end.gm is not None else None
    if pushed is None or taken is None or pushed == taken:
        return
    mine, other = (_place_of(op, place) for place in (taken, pushed))
    op.report(
        "PTO5108",
        f"takes slot {share.popped % end.slot_num} from {mine}; the push put its tile at {other}",
        help="give both ends the same pointer as gm_slot_buffer, with the same offset of the block",
    )


def _place_of(op: Binding, place: Pointer) -> str:
    assert isinstance(place.memory, int)
    return f"byte {place.byte} of `{op.machine.buffers[place.memory].name}`"


def _check_pop(op: Binding, tile: Tile, values: np.ndarray) -> None:
    rows, cols = values.shape
    if values.dtype.itemsize != tile.dtype.itemsize or rows > tile.rows or cols > tile.cols:
        raise OpFault(
            "PTO5105",
            f"'{op.op.name}' takes {rows}x{cols} elements of {values.dtype.itemsize * 8} bits as a "
            f"tile of {tile.rows}x{tile.cols} {tile.type.dtype}",
            help="push and pop tiles of one element type, whole or in halves as `split` says",
        )


@kernel("pto.tfree_from_aic", "pto.tfree_from_aiv", "pto.tfree", events=True)
def tfree(op: Binding) -> Commit:
    """Give the slot of the oldest popped tile back; on A2/A3 the pop has done so."""
    end = end_of(op)
    direction = direction_of(op, end)
    shares = shares_of(op, end, direction)
    op.sync = Free(end.key, direction)
    if end.slot is not None:
        op.signals = tokens(op, end, direction, "fifo free")
    elif op.target == "a2a3":
        return nothing

    def free() -> None:
        for share in shares():
            share.freed += 1
            if share.freed > share.popped:
                raise OpFault(
                    "PTO5106",
                    f"'{op.op.name}' frees a slot, but no popped tile is left",
                    help="free once for each pop",
                )

    return free


def counted(op: Binding) -> Commit:
    """Return what a bound operation on a FIFO does to the counters alone, for a run without
    values."""
    use = op.sync
    assert isinstance(use, FifoUse)
    end = end_of(op)
    shares = shares_of(op, end, use.direction)
    pops_free = op.target == "a2a3" and end.slot is None

    def alloc() -> None:
        for share in shares():
            share.taken += 1

    def push() -> None:
        for share in shares():
            share.pushed += 1

    def pop() -> None:
        for share in shares():
            share.popped += 1
            share.freed += pops_free

    def free() -> None:
        for share in shares():
            share.freed += not pops_free

    effects: dict[str, Any] = {"alloc": alloc, "push": push, "pop": pop, "free": free}
    return effects[use.kind]
