"""Operands of a product: L1 to L0A and L0B by tiles or by fractals, and their block scales.

PTO micro-instruction specification, cube. A fractal is 16 rows of 32 bytes; the public programs'
data confirm the transposing load of L0B, whole tiles, and one fractal; also that the load of an
8-bit L0B tile of fewer than 32 columns takes rows as long as the tile is wide. Where a tile begins
inside another one, loads of several fractals and of blocks of scales, and what `transpose` does to
fractals are documentation only."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ops.base.binding import Binding
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.micro.blocks import (
    block_bytes,
    columns_of_block,
    elem,
    padded_rows,
    read_blocks,
    reads_blocks,
    write_blocks,
)
from ptosim.ops.micro.dma import Copy, copied
from ptosim.ops.micro.pointers import Place, copies, place, pointer_to, require, side_place, writes

_FRACTAL = 512
_FULL = ("m_start", "k_start", "m_step", "k_step", "src_stride", "dst_stride")


@kernel("pto.mte_l1_l0a", "pto.mte_l1_l0b")
def to_l0(op: Binding) -> Commit:
    """A tile of L1 as the rows of a product's operand: [m, k] for L0A, [n, k] for L0B; with
    `transpose` the tile is held the other way round."""
    if op.has("m_step"):
        return fractals_to_l0(op, bool(op.attr("transpose")))
    is_left = op.op.name == "pto.mte_l1_l0a"
    rows, cols = (op.values["m" if is_left else "n"], op.values["k"])
    if rows <= 0 or cols <= 0:
        return nothing
    source, target, dtype = place(op, "src"), place(op, "dst"), elem(op, "src")
    stride = padded_rows(rows)
    pitch = padded_rows(cols) if op.attr("transpose") else stride
    source = source._replace(start=source.start + _begin(op, pitch // 16, dtype))
    if not op.attr("transpose"):
        return moved(op, source, target, block_bytes(stride, cols, dtype))
    pitch = _pitch(op, rows, dtype)
    reads_blocks(op, source, cols, rows, dtype, padded_rows(cols), pitch)
    writes(op, target, block_bytes(stride, cols, dtype))

    def transpose() -> None:
        held = read_blocks(op, source, cols, rows, dtype, padded_rows(cols), pitch)
        write_blocks(op, target, held.T, dtype, stride)

    return transpose


def _begin(op: Binding, pitch: int, dtype: DType) -> int:
    """Bytes before the fractal where a load begins, `pitch` fractals from a column of them to the
    next; two values of 4 bits count as one column less."""
    row, col = op.values.get("start_row") or 0, op.values.get("start_col") or 0
    return (row + pitch * (col // 2 if dtype.bits == 4 else col)) * _FRACTAL


@kernel("pto.load_cbuf_to_ca", "pto.load_cbuf_to_cb")
def load_fractals(op: Binding) -> Commit:
    """L1 to L0A or L0B, by fractals."""
    return fractals_to_l0(op, bool(op.attr("transpose")))


@kernel("pto.load_cbuf_to_ca_s4", "pto.load_cbuf_to_cb_s4")
def load_fractals_of_nibbles(op: Binding) -> Commit:
    """L1 to L0A or L0B, by fractals of 4-bit numbers; the last control is `transpose`."""
    return fractals_to_l0(op, bool(op.values["transpose"]))


def fractals_to_l0(op: Binding, transpose: bool) -> Commit:
    """Fractals from (m_start, k_start), columns of them `src_stride` and `dst_stride` apart."""
    row, col, rows, cols, pitch, step = (op.values[name] for name in _FULL)
    if rows <= 0 or cols <= 0:
        return nothing
    source, target = place(op, "src"), place(op, "dst")
    source = source._replace(start=source.start + (row + pitch * col) * _FRACTAL)
    if transpose:
        return _transposed(op, source, target, (rows, cols, pitch, step))
    levels = [(cols, pitch * _FRACTAL, step * _FRACTAL)]
    return copied(op, Copy(source, target, rows * _FRACTAL, levels))


def _transposed(
    op: Binding, source: Place, target: Place, controls: tuple[int, int, int, int]
) -> Commit:
    """`rows` by `cols` fractals as a matrix, whose transpose goes to columns of fractals `step`
    fractals apart."""
    rows, cols, pitch, step = controls
    dtype = elem(op, "src")
    height, width = rows * 16, cols * columns_of_block(dtype)
    reads_blocks(op, source, height, width, dtype, pitch * 16)
    blocks = -(-height // columns_of_block(dtype))
    writes(op, target, width * 32, (blocks, step * _FRACTAL))

    def transpose() -> None:
        held = read_blocks(op, source, height, width, dtype, pitch * 16)
        write_blocks(op, target, held.T, dtype, step * 16)

    return transpose


def moved(op: Binding, source: Place, target: Place, size: int) -> Commit:
    """Bytes one after the other, as they are."""
    require(op, source, source.start, source.start + size)
    require(op, target, target.start, target.start + size)
    copies(op, source, target, size)
    return partial(
        np.copyto,
        target.data[target.start : target.start + size],
        source.data[source.start : source.start + size],
    )


def _pitch(op: Binding, cols: int, dtype: DType) -> int:
    """Bytes from row to row of a tile that is transposed on its way."""
    width = cols * dtype.bits // 8
    if dtype.is_integer or dtype.bits != 8 or width >= 32:
        return 32
    op.report(
        "PTO6607",
        f"takes rows of {width} bytes from L1: the tile is narrower than a 32-byte row",
    )
    return width


# -- block scales ----------------------------------------------------------------------------------

_SCALES = {
    "pto.mte_l1_l0a_mx": ("left_scale", "m"),
    "pto.mte_l1_l0b_mx": ("right_scale", "n"),
    "pto.load_cbuf_to_ca_mx": ("left_scale", ""),
    "pto.load_cbuf_to_cb_mx": ("right_scale", ""),
}
_SCALE_BLOCK = 32


@kernel(*_SCALES)
def scales_to_l0(op: Binding) -> Commit:
    """Block scales: 16 rows and 2 groups of 32 values are 32 bytes, byte 2 * row + group; blocks of
    rows outside, blocks of 64 values inside. A part of a table begins at the block (x, y), and
    strides are blocks from one block of rows to the next."""
    space, rows = _SCALES[op.op.name]
    values = op.values
    if op.has("x_step"):
        x, y, high, wide = (values[f"{axis}_{what}"] for what in ("start", "step") for axis in "xy")
        pitch, step = values["src_stride"], values["dst_stride"]
    else:
        x, y = (values.get(name) or 0 for name in ("start_row", "start_col"))
        high, wide = -(-values[rows] // 16), -(-values["k"] // 64)
        pitch = step = wide
    source, target = place(op, "src"), scale_place(op, space, "dst")
    source = source._replace(start=source.start + (x * pitch + y) * _SCALE_BLOCK)
    levels = [(high, pitch * _SCALE_BLOCK, step * _SCALE_BLOCK)]
    return copied(op, Copy(source, target, wide * _SCALE_BLOCK, levels))


def scale_place(op: Binding, space: str, pointer: str) -> Place:
    """Return where the scales of a pointer into L0A or L0B are: at a 16th of its address."""
    return side_place(op, space, pointer_to(op.values[pointer]).byte >> 4)._replace(operand=pointer)
