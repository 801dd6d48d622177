"""TPUSH, TPOP, TFREE: tiles from the cube core to the vector cores of its cluster and back.

With split 0 one vector core takes part, with 1 each has half of the rows, with 2 half of the
columns. The slots are in the consumer's memory, where a popped tile stays until it is freed, or in
global memory, from where the pop copies it; on A2/A3 it frees the slot at once (pto-isa headers,
TPUSH and TPOP). A slot on the chip is filled in the layout of the consumer's tile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.types import TileType
from ptosim.machine.core import Core
from ptosim.machine.fifo import FifoKey, PipeEnd, Share, ShareKey
from ptosim.machine.tile import Tile, TileRef, tile_ref
from ptosim.machine.values import GmView, Pointer
from ptosim.semantics.base.binding import Binding, OpFault
from ptosim.semantics.base.functions import Commit, kernel, nothing, value
from ptosim.semantics.base.orders import FifoUse, Free, Pop, Push
from ptosim.semantics.base.scalar_unit import Action, ValueContext

_DIRECTIONS = {
    "pto.tpush_to_aiv": "c2v",
    "pto.tpop_from_aic": "c2v",
    "pto.tfree_from_aic": "c2v",
    "pto.tpush_to_aic": "v2c",
    "pto.tpop_from_aiv": "v2c",
    "pto.tfree_from_aiv": "v2c",
}
_BITS = {"c2v": 1, "v2c": 2}

Shares = Callable[[], list[Share]]


# -- ends ------------------------------------------------------------------------------------------


@value("pto.reserve_buffer", "pto.import_reserved_buffer")
def reserved_buffer(ctx: ValueContext) -> Action:
    """The address of a consumer's slots: the program's, or the planner's."""
    return ctx.constant(ctx.address or 0)


@value(
    "pto.aic_initialize_pipe",
    "pto.aiv_initialize_pipe",
    "pto.initialize_l2l_pipe",
    "pto.initialize_l2g2l_pipe",
)
def initialize_pipe(ctx: ValueContext) -> Action:
    """One end of a FIFO. The other end is the one with the same id, `flag_base`, or number in the
    order of initialisation."""
    attrs = {name: attr_value(attr) for name, attr in ctx.op.attrs.items()}
    mask, size = int(attrs["dir_mask"]), int(attrs["slot_size"])
    count = int(attrs.get("slot_num") or (4 if mask == 3 else 8))
    locals_ = int(attrs.get("local_slot_num") or min(2, count))
    slots = ctx.slots
    directions = [d for d, bit in _BITS.items() if mask & bit]
    if "initialize_l2" in ctx.op.name:
        base = attrs.get("flag_base")
        key = FifoKey("flags", base) if base is not None else None
        places = dict(zip(directions, ("local_addr", "peer_local_addr"), strict=False))
        pointer = slots.get("gm_addr")
    else:
        key = FifoKey("pipe", attrs.get("id", 0))
        places = {d: f"{d}_consumer_buf" for d in directions}
        # On A5 the assembler makes this form one between on-chip memories, and drops the pointer.
        pointer = slots.get("gm_slot_buffer") if ctx.profile.target == "a2a3" else None

    def run(core: Core) -> None:
        values = core.slots
        fifos = core.cluster.fifos
        local = tuple((d, _number(values, slots.get(name))) for d, name in places.items())
        gm = _gm_start(values[pointer]) if pointer is not None else None
        made = sum(index == core.index for index, _ in fifos.ends)
        end = PipeEnd(key or FifoKey("order", made), size, count, locals_, local, gm)
        fifos.ends[core.index, end.key] = end
        if ctx.results:
            values[ctx.result] = end
        else:
            fifos.current[core.index] = end

    return run


def _number(values: list[Any], slot: int | None) -> int:
    return int(values[slot]) if slot is not None else 0


def _gm_start(given: Pointer | GmView) -> Pointer:
    """The first byte of a pointer or memref."""
    return given.start if isinstance(given, GmView) else given


def _end(op: Binding) -> PipeEnd:
    handle = op.values.get("pipe_handle")
    end = handle or op.core.cluster.fifos.current.get(op.core.index)
    if not isinstance(end, PipeEnd):
        raise OpFault(
            "PTO5100",
            f"'{op.op.name}': this core has not initialised its end of the FIFO",
            help="initialise the pipe before the first push or pop",
        )
    return end


def _direction(op: Binding, end: PipeEnd) -> str:
    known = _DIRECTIONS.get(op.op.name)
    if known is not None:
        return known
    directions = [d for d, _ in end.local]
    if len(directions) == 1:
        return directions[0]
    consumer = {"pto.tpush": "v2c", "pto.tpop": "c2v", "pto.tfree": "c2v"}[op.op.name]
    other = {"v2c": "c2v", "c2v": "v2c"}[consumer]
    return consumer if op.core.kind == "vector" else other


def _shares(op: Binding, end: PipeEnd, direction: str) -> Shares:
    """How to find the shares that take part: this vector core's, or on the cube core those of all
    vector cores; with split 0 only the first vector core has one."""
    core = op.core
    if core.kind == "any":
        raise OpFault(
            "PTO5101",
            f"'{op.op.name}' runs on a core that is neither cube nor vector",
            help="put it into a section, or give its function a kernel kind",
        )
    vectors = _vector_cores(op) or [0]
    if not op.attr("split"):
        vectors = vectors[:1]
    if core.kind == "vector":
        vectors = [core.sub_block] if core.sub_block in vectors else []
    fifos = core.cluster.fifos
    keys = [ShareKey(end.key, direction, v) for v in vectors]
    # Not the shares themselves: going back to an earlier state puts others in their place.
    return lambda: [fifos.share(key) for key in keys]


def _vector_cores(op: Binding) -> list[int]:
    return [c.sub_block for c in op.machine.mates(op.core, "vector")]


def _tokens(op: Binding, end: PipeEnd, direction: str) -> tuple[Any, ...]:
    """What orders a pop after its push: one event for each vector core that takes part."""
    vectors = [op.core.sub_block] if op.core.kind == "vector" else _vector_cores(op)
    return tuple(("fifo", op.core.place, end.key, direction, v) for v in vectors)


def _split(op: Binding) -> int:
    """How tiles are split: 0 whole, 1 rows, 2 columns; whole if there is but one vector core."""
    return op.attr("split") or 0 if len(_vector_cores(op)) > 1 else 0


# -- push ------------------------------------------------------------------------------------------


@kernel("pto.tpush_to_aiv", "pto.tpush_to_aic", "pto.tpush", events=True)
def tpush(op: Binding) -> Commit:
    """Copy a tile into the next slot, when there is a free one."""
    end, tile = _end(op), op.tile("tile")
    direction = _direction(op, end)
    shares = _shares(op, end, direction)
    op.sync = Push(end.key, direction)
    op.signals = _tokens(op, end, direction)
    parts = len(shares())
    if not parts:
        return nothing
    op.guard = lambda: all(share.has_slot(end) for share in shares())
    split = _split(op)
    _check_push(op, end, tile, 2 if direction == "v2c" and split else 1, parts if split else 1)

    def push() -> None:
        values = tile.read()
        index = shares()[0].pushed
        for number, share in enumerate(shares()):
            part = _part(values, split, number, parts)
            share.entries[index % end.slot_num] = np.array(part)
            share.pushed += 1
        if end.gm is not None:
            _store(op, end, direction, index, values, split)

    return push


def _check_push(op: Binding, end: PipeEnd, tile: Tile, times: int, parts: int) -> None:
    rows, cols = tile.v_row, tile.v_col
    size = tile.type.dtype.bytes_for(rows * cols) * times
    if size > end.slot_size:
        raise OpFault(
            "PTO5102",
            f"'{op.op.name}' pushes {size} bytes into slots of {end.slot_size}",
            help=f"give both ends a slot_size of {size} or more",
        )
    split = _split(op)
    side, name = ((rows, "rows"), (cols, "columns"))[split == 2]
    if split and side % parts:
        raise OpFault(
            "PTO5103",
            f"'{op.op.name}' halves a tile of {side} {name}",
            notes=("split 1 halves the rows, split 2 the columns; both halves are equal",),
        )


def _part(values: np.ndarray, split: int, number: int, parts: int) -> np.ndarray:
    if not split or parts == 1:
        return values
    axis = split - 1
    half = values.shape[axis] // parts
    window = slice(number * half, (number + 1) * half)
    return values[window] if axis == 0 else values[:, window]


def _store(
    op: Binding, end: PipeEnd, direction: str, index: int, values: np.ndarray, split: int
) -> None:
    """Write a tile, or a vector core's half of it, to its slot in global memory, row by row."""
    rows, cols = values.shape
    lane = op.core.sub_block if direction == "v2c" and split else 0
    width = cols * (2 if direction == "v2c" and split == 2 else 1)
    size = values.dtype.itemsize
    first = lane * (rows * cols if split == 1 else cols) * size
    view = _slot(op, end, direction, index, (rows, cols), (width * size, size), first, values.dtype)
    view[...] = values


def _slot(
    op: Binding,
    end: PipeEnd,
    direction: str,
    index: int,
    shape: tuple[int, int],
    strides: tuple[int, int],
    first: int,
    dtype: np.dtype,
) -> np.ndarray:
    """The elements of a slot in global memory; slots of v2c follow those of c2v."""
    number, start = end.gm or (0, 0)
    assert isinstance(number, int)
    buffer = op.machine.buffers[number]
    before = end.slot_num if direction == "v2c" and len(end.local) == 2 else 0
    start += (before + index % end.slot_num) * end.slot_size + first
    last = start + (shape[0] - 1) * strides[0] + shape[1] * strides[1]
    if last > len(buffer.data):
        raise OpFault(
            "PTO5104",
            f"'{op.op.name}': slot {index % end.slot_num} ends at byte {last} of `{buffer.name}`, "
            f"which has {len(buffer.data)}",
            help=f"pass a buffer of {len(end.local) * end.slot_num * end.slot_size} bytes",
        )
    return np.ndarray(shape, dtype, buffer.data, start, strides)


# -- pop -------------------------------------------------------------------------------------------


@kernel("pto.tpop_from_aic", "pto.tpop_from_aiv", "pto.tpop", events=True)
def tpop(op: Binding) -> Commit:
    """Hand out the oldest tile, when there is one. The handle exists from the issue on."""
    end = _end(op)
    direction = _direction(op, end)
    shares = _shares(op, end, direction)
    split = _split(op)
    slot, type_, rows, cols = _handle(op)
    core = op.core
    op.sync = Pop(end.key, direction)
    op.awaits = _tokens(op, end, direction)
    op.guard = lambda: all(share.pushed > share.popped for share in shares())

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
        values = _taken(op, end, direction, taking, split)
        _check_pop(op, tile, values)
        tile.write(values.view(tile.dtype))
        for share in taking:
            share.popped += 1
            share.freed += frees

    return pop


def _handle(op: Binding) -> tuple[int, TileType, int, int]:
    """Slot of the handle, the tile's type, its valid shape."""
    given: TileRef | None = op.values.get("tile")
    if given is not None:
        operand = op.op.bound["tile"]
        return op.slots[operand.value], given.type, given.v_row, given.v_col
    result = op.op.results[0]
    type_ = result.type
    assert isinstance(type_, TileType)
    rows = op.scalar("valid_row") if op.has("valid_row") else type_.v_row
    cols = op.scalar("valid_col") if op.has("valid_col") else type_.v_col
    return (
        op.slots[result],
        type_,
        type_.rows if rows is None else int(rows),
        type_.cols if cols is None else int(cols),
    )


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
    """The elements of the oldest tile: this vector core's half, or the halves of both."""
    index = shares[0].popped
    entries = [share.entries[index % end.slot_num] for share in shares]
    whole = entries[0] if len(entries) == 1 else np.concatenate(entries, split - 1)
    if end.gm is None:
        return whole
    shape = rows, cols = whole.shape
    size = whole.dtype.itemsize
    half = direction == "c2v" and split
    width = cols * 2 if half == 2 else cols
    first = op.core.sub_block * (rows * cols if split == 1 else cols) * size if half else 0
    strides = (width * size, size)
    return np.array(_slot(op, end, direction, index, shape, strides, first, whole.dtype))


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
    end = _end(op)
    direction = _direction(op, end)
    shares = _shares(op, end, direction)
    op.sync = Free(end.key, direction)
    if op.target == "a2a3":
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
    shares = _shares(op, _end(op), use.direction)
    pops_free = op.target == "a2a3"

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

    return {"push": push, "pop": pop, "free": free}[use.kind]
