"""The cube: GM to L1 as fractals, and multiply-accumulate.

PTO micro-instruction specification, cube. The public programs' data confirm: nd2nz with one
group, m = 1 without `disable_gemv` as a row of k consecutive elements in L0A, `sat`, and the tf32
modes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.ground.records import NamedTuple
from ptosim.machine.gm import reach
from ptosim.machine.numbers import matmul
from ptosim.machine.numbers.rounding import keep_mantissa
from ptosim.machine.pages import unpack_nibbles, view_dtype
from ptosim.machine.values import near
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.micro.dma import Copy, copied
from ptosim.ops.micro.pointers import (
    Place,
    block_bytes,
    columns_of_block,
    copies,
    elem,
    flag,
    holds,
    padded_rows,
    place,
    pointer_to,
    read_accumulator,
    read_blocks,
    reads,
    reads_accumulator,
    reads_blocks,
    require,
    require_each,
    side_place,
    word,
    write_accumulator,
    write_blocks,
    writes,
)

# Operands of a product: L1 to L0A and L0B by tiles or by fractals, and their block scales.
#
# PTO micro-instruction specification, cube. A fractal is 16 rows of 32 bytes; the public programs'
# data confirm the transposing load of L0B, whole tiles, and one fractal; also that the load of an
# 8-bit L0B tile of fewer than 32 columns takes rows as long as the tile is wide. Where a tile
# begins inside another one, loads of several fractals and of blocks of scales, and what `transpose`
# does to fractals are documentation only.

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


# -- GM to L1 --------------------------------------------------------------------------------------


@kernel("pto.mte_gm_l1_frac")
def fractals(op: Binding) -> Commit:
    """Rows of 32 bytes of n rows and d values, column block by column block; short ones end in
    0."""
    values = op.values
    steps = [values[f"dst_group.loop{n}_stride"] * 32 for n in (4, 3, 2)]
    return as_fractals(
        op,
        (values["dst_group.groups"], values["shape.n"], values["shape.d"]),
        (values.get("src_layout.outer", 0), values["src_layout.inner"]),
        steps,
        by_rows=word(op, "mode") == "nd2nz",
        small=values["ctrl.small_c0"],
    )


_MOST_ELEMENTS = 1 << 24


def as_fractals(
    op: Binding,
    sizes: tuple[int, int, int],
    pitches: tuple[int, int],
    steps: Sequence[int],
    *,
    by_rows: bool,
    small: bool,
) -> Commit:
    """Groups of n rows of d values, from group to group and row to row (`by_rows`; else column to
    column) `pitches` bytes apart, as rows of 32 bytes `steps` bytes apart: from group to group,
    from column block to column block, from row to row."""
    if small:
        raise OpFault("PTO8002", f"'{op.op.name}': no public document gives the layout of small C0")
    dtype: DType = op.op.bound["src"].type.elem
    (groups, rows, depth), (outer, inner) = sizes, pitches
    if min(sizes) <= 0:
        return nothing
    if groups * rows * depth > _MOST_ELEMENTS:
        raise OpFault(
            "PTO1104",
            f"'{op.op.name}' moves {groups * rows * depth:,} elements; at most {_MOST_ELEMENTS:,} "
            "are moved, which is more than a memory on chip has",
            help="look at how the sizes were computed",
        )
    source, target = place(op, "src"), place(op, "dst")
    size, width = max(dtype.bits // 8, 1), columns_of_block(dtype)
    if dtype.bits == 4:
        depth, width = depth // 2, 32
    strides = (outer, *((inner, size) if by_rows else (size, inner)))
    blocks = -(-depth // width)
    require_each(op, target, 32, *zip((groups, blocks, rows), steps, strict=True))
    extent = (groups, rows, depth)
    read = _source(op, source, extent, strides, view_dtype(dtype))
    reads(op, source, size, *zip(extent, strides, strict=True))
    shape = (groups, blocks, rows, 32)
    out = target.array(shape, np.uint8, (*steps, 1))
    writes(op, target, 32, *zip(shape, steps, strict=False))

    def convert() -> None:
        full = np.zeros((groups, rows, blocks * width), view_dtype(dtype))
        full[:, :, :depth] = read()
        lines = full.view(np.uint8).reshape(groups, rows, blocks, 32)
        out[:] = lines.transpose(0, 2, 1, 3)

    return convert


def _source(
    op: Binding, where: Place, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
) -> partial[np.ndarray]:
    """Return the function that reads elements at byte strides; those outside the buffer are 0."""
    low, high = reach(shape, strides)
    if holds(op, where, where.start + low, where.start + high + dtype.itemsize):
        return partial(where.array, shape, dtype, strides)
    return partial(_gather, where, shape, strides, dtype)


def _gather(
    where: Place, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype
) -> np.ndarray:
    steps = [min(max(s, -_FAR), _FAR) for s in strides]  # 64 bits hold the places
    first = near(where.start) + sum(
        axis * s for axis, s in zip(np.ogrid[tuple(slice(n) for n in shape)], steps, strict=True)
    )
    places = np.asarray(first)[..., None] + np.arange(dtype.itemsize)
    inside = (places >= 0) & (places < where.size)
    chosen = np.where(inside, places, 0)
    return np.where(inside, where.data[chosen], 0).astype(np.uint8).view(dtype)[..., 0]


# -- multiply-accumulate ---------------------------------------------------------------------------

_FAR = 1 << 37
"""Bytes beyond every buffer. So many for each of the elements that are moved, and the address of
the first one, have no more than 64 bits."""
_SCALES_OF = {"lhs": "left_scale", "rhs": "right_scale"}
_MADS = ("mad", "mad_acc", "mad_bias", "mad_mx", "mad_mx_acc", "mad_mx_bias")
_RAW_MADS = ("mad_raw", "mad_bias_raw", "mad_mx_raw", "mad_mx_bias_raw")


class Product(NamedTuple):
    """What a product is asked for: its extents, what it starts with (`acc`, `bias`, or zero), how
    it reads one row, and what it does to infinities, NaN and mantissas."""

    m: int
    n: int
    k: int
    start: str
    rows_apart: bool
    saturate: bool
    tf32: str | None

    @property
    def is_row(self) -> bool:
        """True if the left operand is one row of consecutive elements."""
        return self.m == 1 and not self.rows_apart


@kernel(*(f"pto.{name}" for name in _MADS))
def mad(op: Binding) -> Commit:
    """dst = lhs x rhs, plus what dst holds (acc) or a bias for each column."""
    m, n, k = (op.values[name] for name in "mnk")
    start = op.op.name.rpartition("_")[2]
    flags = flag(op, "disable_gemv"), flag(op, "sat"), word(op, "tf32_mode.mode")
    return multiplied(op, Product(m, n, k, start, *flags))


@kernel(*(f"pto.{name}" for name in _RAW_MADS))
def raw_mad(op: Binding) -> Commit:
    """A product as a word of controls says: m, k, n of 12 bits each from bit 0 on, bit 61
    `disable_gemv`, bit 62 the bias first, bit 63 zero first, with neither what dst holds."""
    word_ = op.values["config"]
    m, k, n = (word_ >> shift & 0xFFF for shift in (0, 12, 24))
    has_bias = op.has("bias")
    if word_ >> 62 & 1 and not has_bias:
        raise OpFault("PTO8002", f"'{op.op.name}': starts with a bias that no operand names")
    start = "bias" if has_bias else "zero" if word_ >> 63 & 1 else "acc"
    return multiplied(op, Product(m, n, k, start, bool(word_ >> 61 & 1), False, None))


def multiplied(op: Binding, asked: Product) -> Commit:
    """Return the effect of a product."""
    if min(asked[:3]) <= 0:
        return nothing
    target = place(op, "dst")
    result = view_dtype(elem(op, "dst"))
    stride, order = padded_rows(asked.m), op.switch("matmul.order")
    _note_reach(op, target, asked)

    def accumulate() -> None:
        left, right = (_operand(op, name, asked) for name in ("lhs", "rhs"))
        start = _start(op, target, asked, result)
        values = matmul.product(left, right.T, start, order=order, saturate=asked.saturate)
        write_accumulator(op, target, values.astype(result), stride)

    return accumulate


def _has_scales(op: Binding) -> bool:
    return op.op.name.startswith("pto.mad_mx")


def _note_reach(op: Binding, target: Place, asked: Product) -> None:
    """What a product reads and writes."""
    m, n, k = asked[:3]
    stride = padded_rows(m)
    for name, rows in (("lhs", m), ("rhs", n)):
        where, dtype = place(op, name), elem(op, name)
        if name == "lhs" and asked.is_row:
            reads(op, where, dtype.bytes_for(k))
        else:
            reads_blocks(op, where, rows, k, dtype, padded_rows(rows))
        if _has_scales(op):
            scales = scale_place(op, _SCALES_OF[name], name)
            reads(op, scales, min(rows, 16) * 2, (-(-rows // 16) * -(-k // 64), 32))
    if asked.start == "acc":
        reads_accumulator(op, target, m, n, 4, stride)
    if asked.start == "bias":
        reads(op, place(op, "bias"), n * 4)
    writes(op, target, m * 64, (-(-n // 16), stride * 64))


def _start(op: Binding, target: Place, asked: Product, result: np.dtype) -> np.ndarray | None:
    if asked.start == "acc":
        return read_accumulator(op, target, asked.m, asked.n, result, padded_rows(asked.m))
    if asked.start == "bias":
        bias = place(op, "bias")
        require(op, bias, bias.start, bias.start + asked.n * 4)
        return np.ndarray((asked.n,), result, bias.data, bias.start)
    return None


def _operand(op: Binding, name: str, asked: Product) -> np.ndarray:
    """The matrix [rows, depth] of L0A or L0B, as `matmul.operand` makes it."""
    where, dtype = place(op, name), elem(op, name)
    rows, depth = asked.m if name == "lhs" else asked.n, asked.k
    if name == "lhs" and asked.is_row:
        raw = _row(op, where, depth, dtype)
    else:
        raw = read_blocks(op, where, rows, depth, dtype, padded_rows(rows))
    if asked.tf32 is not None:
        raw = keep_mantissa(raw, 10, asked.tf32)
    values = matmul.operand(raw, conversion_name(dtype), saturate=asked.saturate)
    if not _has_scales(op):
        return values
    return matmul.scaled(values, _scales(op, _SCALES_OF[name], name, rows, depth))


def _scales(op: Binding, space: str, pointer: str, rows: int, depth: int) -> np.ndarray:
    """Codes [rows, groups of 32 values]."""
    where = scale_place(op, space, pointer)
    outer, inner = -(-rows // 16), -(-depth // 64)
    size = outer * inner * 32
    require(op, where, where.start, where.start + size)
    blocks = where.data[where.start : where.start + size].reshape(outer, inner, 16, 2)
    return blocks.transpose(0, 2, 1, 3).reshape(outer * 16, inner * 2)[:rows]


def _row(op: Binding, where: Place, depth: int, dtype: DType) -> np.ndarray:
    size = dtype.bytes_for(depth)
    require(op, where, where.start, where.start + size)
    data = where.data[where.start : where.start + size]
    values = unpack_nibbles(data) if dtype.bits == 4 else data.copy().view(view_dtype(dtype))
    return values[:depth].reshape(1, depth)
