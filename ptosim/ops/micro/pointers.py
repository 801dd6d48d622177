"""Bytes that a transfer reaches through a pointer: global memory, the core's own spaces, a
peer's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS, DType, PackedDType
from ptosim.ground.records import NamedTuple
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.strided import Level, Touch, Touches
from ptosim.machine.gm import byte_steps
from ptosim.machine.layout import round_up
from ptosim.machine.pages import pack_nibbles, unpack_nibbles, view_dtype
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.ops.base.binding import Binding, outside_space

VECTOR_SPACE = "vec"


class Place(NamedTuple):
    """Where a pointer points: the bytes of its space as an array, the offset of its first byte, a
    name for messages, whether accesses outside are dropped instead of faults (global memory), and
    whose space or which buffer it is, for operand `operand`."""

    data: np.ndarray
    start: int
    name: str
    drops: bool
    core: Core
    where: Any
    operand: str

    @property
    def size(self) -> int:
        """Bytes of the space."""
        return len(self.data)

    def array(
        self, shape: Sequence[int], dtype: np.dtype | type, steps: Sequence[int]
    ) -> np.ndarray:
        """Return the elements of a shape with steps in bytes; one that nobody takes may be any."""
        strides = byte_steps(shape, steps, 1)
        return np.ndarray(tuple(shape), dtype, self.data, self.start, strides)


def place(op: Binding, name: str, sub_block: int | None = None) -> Place:
    """Return where a pointer operand points; UB of another core of the cluster if `sub_block` is
    given or the core has none itself."""
    return place_of(op, op.values[name], sub_block, name)


def pointer_to(value: Pointer | TileRef | GmView) -> Pointer:
    """Return a pointer as it is, of a memref one to its first element."""
    return value if isinstance(value, Pointer) else value.start


def place_of(
    op: Binding,
    pointer: Pointer | TileRef | GmView,
    sub_block: int | None = None,
    name: str = "",
) -> Place:
    """Return where a pointer or memref, the operand `name`, points."""
    where, start = pointer_to(pointer)
    if isinstance(where, int):
        buffer = op.machine.buffers[where]
        return Place(buffer.data, start, f"`{buffer.name}`", True, op.core, where, name)
    assert where is not None
    core = owner(op.machine, op.core, where, sub_block)
    data = np.frombuffer(core.space(where).data, np.uint8)
    return Place(data, start, where, False, core, where, name)


def side_place(op: Binding, name: str, start: int) -> Place:
    """Return a place in memory that has no pointers of its own."""
    core = owner(op.machine, op.core, name)
    data = np.frombuffer(core.space(name).data, np.uint8)
    return Place(data, start, name, False, core, name, name)


def owner(machine: Machine, core: Core, space: str, sub_block: int | None = None) -> Core:
    """Return the core whose space a core of the cluster means: UB is that of vector core 0 for a
    cube core that names none, L1 and what hangs on it is the cube core's."""
    kind = "vector" if space == VECTOR_SPACE else "cube"
    if core.kind == kind and (sub_block is None or core.sub_block == sub_block):
        return core
    mates = (
        other
        for other in machine.mates(core, kind)
        if kind == "cube" or other.sub_block == (sub_block or 0)
    )
    return next(mates, core)


def _touch(where: Place, run: int, levels: tuple[Level, ...]) -> Touch:
    levels = tuple(level for level in levels if level[0] != 1)
    return Touch(where.operand, where.core, where.where, where.start, run, levels)


def reads(op: Binding, where: Place, run: int, *levels: Level) -> None:
    """Tell that an operation reads runs of `run` bytes, repeated at each level."""
    if run > 0 and all(count > 0 for count, _ in levels):
        op.touches = op.touches or Touches()
        op.touches.reads.append(_touch(where, run, levels))


def writes(op: Binding, where: Place, run: int, *levels: Level) -> None:
    """Tell that an operation writes runs of `run` bytes, repeated at each level."""
    if run > 0 and all(count > 0 for count, _ in levels):
        op.touches = op.touches or Touches()
        op.touches.writes.append(_touch(where, run, levels))


def leaves(op: Binding, where: Place, run: int, *levels: Level) -> None:
    """Tell that an operation leaves bytes without a meaning in runs of `run`, at each level."""
    if run > 0 and all(count > 0 for count, _ in levels):
        op.touches = op.touches or Touches()
        op.touches.tails.append(_touch(where, run, levels))


def copies(
    op: Binding,
    source: Place,
    target: Place,
    run: int,
    *levels: tuple[int, int, int],
    unit: tuple[int, int] = (1, 1),
) -> None:
    """Tell that an operation copies runs of `run` bytes as it finds them, repeated at each level
    (count, source and destination distance); `unit` bytes of the source become so many."""
    if run <= 0 or any(level[0] <= 0 for level in levels):
        return
    op.touches = op.touches or Touches()
    read = _touch(source, run, tuple((n, d) for n, d, _ in levels))
    written = _touch(target, run // unit[0] * unit[1], tuple((n, d) for n, _, d in levels))
    op.touches.writes.append(written)
    op.touches.found.append((read, written, unit))


def require(op: Binding, where: Place, low: int, high: int) -> None:
    """Raise if the bytes [low, high) are not in a space on chip."""
    if low < 0 or high > where.size:
        raise outside_space(op.op.name, where.name, low, high, where.size)


def require_each(op: Binding, where: Place, size: int, *levels: tuple[int, int]) -> None:
    """Raise if `size` bytes are not in a space on chip at each place that levels of (count, step)
    reach; steps may go back."""
    last = [(count - 1) * step for count, step in levels]
    low = where.start + sum(min(way, 0) for way in last)
    require(op, where, low, where.start + sum(max(way, 0) for way in last) + size)


def holds(op: Binding, where: Place, low: int, high: int, *, writes: bool = False) -> bool:
    """True if a memory has the bytes [low, high). Raises OpFault for a space on chip that has not;
    of global memory what is outside is dropped, with a warning."""
    if low >= 0 and high <= where.size:
        return True
    if not where.drops:
        require(op, where, low, high)
    verb, what = ("writes", "are not written") if writes else ("reads", "are read as 0")
    op.report(
        "PTO6604",
        f"{verb} bytes [{low}, {high}) of {where.name}, which has {where.size}; those outside "
        f"{what}",
    )
    return False


def flag(op: Binding, name: str) -> bool:
    """True if a word without operands is written."""
    return op.op.bound.get(name) is True


def word(op: Binding, name: str) -> str | None:
    """Return the word that an operand, or the operand of a clause, is; None if it is left out."""
    value = op.values.get(name)
    return None if value is None else str(getattr(value, "member", value))


# Matrices in L1 and the L0 buffers: element (r, c) of an [R, C] matrix with C0 elements in 32
# bytes.
#
# PTO micro-instruction specification, cube layouts. In L1 element (r, c) is at ((c div C0) * S + r)
# * 32 + (c mod C0) * size, S rows in a column block; L0A holds [M, K] and L0B the transposed [N, K]
# in the same way with S rounded up to 16; L0C holds f32 or i32 with 16 columns in a block of
# 64-byte rows.


def elem(op: Binding, name: str) -> DType:
    """Return the element type of a pointer operand; of pairs of 4-bit numbers that of a number."""
    dtype = op.op.bound[name].type.elem
    is_pair = isinstance(dtype, PackedDType) and dtype.part.bits == 4
    return dtype.part if is_pair else dtype


def columns_of_block(dtype: DType) -> int:
    """C0: elements in 32 bytes."""
    return BLOCK_BITS // dtype.bits


def block_bytes(rows: int, cols: int, dtype: DType) -> int:
    """Bytes of a matrix whose column blocks have `rows` rows."""
    return -(-cols // columns_of_block(dtype)) * rows * 32


def read_blocks(
    op: Binding, where: Place, rows: int, cols: int, dtype: DType, stride: int, pitch: int = 32
) -> np.ndarray:
    """Return the matrix [rows, cols] (4-bit elements as codes) from column blocks of `stride` rows,
    `pitch` bytes from row to row."""
    blocks = -(-cols // columns_of_block(dtype))
    require_each(op, where, rows * pitch, (blocks, stride * pitch))
    packed = where.array((blocks, rows, pitch), np.uint8, (stride * pitch, pitch, 1))
    lines = np.ascontiguousarray(packed.transpose(1, 0, 2)).reshape(rows, -1)
    values = unpack_nibbles(lines) if dtype.bits == 4 else lines.view(view_dtype(dtype))
    return values[:, :cols]


def reads_blocks(
    op: Binding, where: Place, rows: int, cols: int, dtype: DType, stride: int, pitch: int = 32
) -> None:
    """Tell that the elements of a matrix in column blocks of `stride` rows are read."""
    width = columns_of_block(dtype)
    whole, rest = divmod(cols, width)
    line, step = pitch * min(width, cols) // width if pitch != 32 else 32, stride * pitch
    reads(op, where, line, (whole, step), (rows, pitch))
    rest_of = where._replace(start=where.start + whole * step)
    reads(op, rest_of, min(-(-rest * dtype.bits // 8), pitch), (rows, pitch))


def reads_accumulator(
    op: Binding, where: Place, rows: int, cols: int, size: int, stride: int, *rounds: Level
) -> None:
    """Tell that the elements of an accumulator of `size`-byte elements are read, those of several
    in `rounds`."""
    whole, rest = divmod(cols, 16)
    reads(op, where, 16 * size, *rounds, (whole, stride * 64), (rows, 64))
    rest_of = where._replace(start=where.start + whole * stride * 64)
    reads(op, rest_of, rest * size, *rounds, (rows, 64))


def write_blocks(op: Binding, where: Place, values: np.ndarray, dtype: DType, stride: int) -> None:
    """Store a matrix in column blocks of `stride` rows. The columns that fill up the last become
    0."""
    rows, cols = values.shape
    width = columns_of_block(dtype)
    blocks = -(-cols // width)
    full = np.zeros((rows, blocks * width), values.dtype)
    full[:, :cols] = values
    lines = pack_nibbles(full) if dtype.bits == 4 else full
    data = np.ascontiguousarray(lines).view(np.uint8).reshape(rows, blocks, 32).transpose(1, 0, 2)
    require_each(op, where, rows * 32, (blocks, stride * 32))
    target = where.array((blocks, rows, 32), np.uint8, (stride * 32, 32, 1))
    target[:] = data


def padded_rows(rows: int) -> int:
    """Rows of a column block that holds `rows`."""
    return round_up(rows, 16)


def require_accumulator(op: Binding, where: Place, rows: int, cols: int, stride: int) -> None:
    """Raise if an accumulator is not in its memory."""
    if rows and cols:
        require_each(op, where, rows * 64, (-(-cols // 16), stride * 64))


def accumulator(
    op: Binding, where: Place, rows: int, cols: int, dtype: np.dtype, stride: int
) -> np.ndarray:
    """Return the view [column block, row, 16] of an accumulator with `stride` rows in a block."""
    blocks = -(-cols // 16)
    require_accumulator(op, where, rows, cols, stride)
    return where.array((blocks, rows, 16), dtype, (stride * 64, 64, dtype.itemsize))


def read_accumulator(
    op: Binding, where: Place, rows: int, cols: int, dtype: np.dtype, stride: int
) -> np.ndarray:
    """Return a copy of the matrix [rows, cols] of an accumulator."""
    view = accumulator(op, where, rows, cols, dtype, stride)
    return view.transpose(1, 0, 2).reshape(rows, -1)[:, :cols].copy()


def write_accumulator(op: Binding, where: Place, values: np.ndarray, stride: int) -> None:
    """Store a matrix as an accumulator; the columns that fill up the last block become 0."""
    rows, cols = values.shape
    full = np.zeros((rows, round_up(cols, 16)), values.dtype)
    full[:, :cols] = values
    view = accumulator(op, where, rows, cols, values.dtype, stride)
    view[:] = full.reshape(rows, -1, 16).transpose(1, 0, 2)
