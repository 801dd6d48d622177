"""Matrices in L1 and the L0 buffers: element (r, c) of an [R, C] matrix with C0 elements in 32
bytes.

PTO micro-instruction specification, cube layouts. In L1 element (r, c) is at ((c div C0) * S + r)
* 32 + (c mod C0) * size, S rows in a column block; L0A holds [M, K] and L0B the transposed [N, K]
in the same way with S rounded up to 16; L0C holds f32 or i32 with 16 columns in a block of 64-byte
rows."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS, DType, PackedDType
from ptosim.machine.effects.touch import Level
from ptosim.machine.layout import round_up
from ptosim.machine.storage import pack_nibbles, unpack_nibbles, view_dtype
from ptosim.ops.base.binding import Binding
from ptosim.ops.micro.pointers import Place, reads, require_each


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
