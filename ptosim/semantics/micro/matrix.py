"""Operands of the cube: GM to L1 as fractals, L1 to L0A and L0B, block scales, multiply-accumulate.

PTO micro-instruction specification, cube. The public programs' data confirm: nd2nz with one group,
the transposing load of L0B, m = 1 without `disable_gemv` as a row of k consecutive elements in L0A,
`sat`, and the tf32 modes; also that the load of an 8-bit L0B tile of fewer than 32 columns takes
rows as long as the tile is wide."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.ground.ir.types import DType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.gm import reach
from ptosim.machine.storage import unpack_nibbles, view_dtype
from ptosim.numerics import matmul
from ptosim.numerics.rounding import keep_mantissa
from ptosim.semantics.base.binding import Binding, OpFault
from ptosim.semantics.base.functions import Commit, kernel, nothing
from ptosim.semantics.micro.blocks import (
    block_bytes,
    columns_of_block,
    padded_rows,
    read_accumulator,
    read_blocks,
    reads_accumulator,
    reads_blocks,
    write_accumulator,
    write_blocks,
)
from ptosim.semantics.micro.pointers import (
    Place,
    copies,
    flag,
    holds,
    place,
    reads,
    require,
    side_place,
    word,
    writes,
)


def elem(op: Binding, name: str) -> DType:
    """Return the element type of a pointer operand."""
    return op.op.bound[name].type.elem


# -- GM to L1 --------------------------------------------------------------------------------------


@kernel("pto.mte_gm_l1_frac")
def fractals(op: Binding) -> Commit:
    """Rows of 32 bytes of n rows and d values, column block by column block; short ones end in
    0."""
    values, dtype = op.values, elem(op, "src")
    if values["ctrl.small_c0"]:
        raise OpFault(
            "PTO8002", "'pto.mte_gm_l1_frac': no public document gives the layout of small C0"
        )
    groups, rows, depth = values["dst_group.groups"], values["shape.n"], values["shape.d"]
    if min(groups, rows, depth) <= 0:
        return nothing
    source, target = place(op, "src"), place(op, "dst")
    inner, outer = values["src_layout.inner"], values.get("src_layout.outer", 0)
    size, width = max(dtype.bits // 8, 1), columns_of_block(dtype)
    if dtype.bits == 4:
        depth, width = depth // 2, 32
    by_rows = word(op, "mode") == "nd2nz"
    strides = (outer, *((inner, size) if by_rows else (size, inner)))
    blocks = -(-depth // width)
    steps = [values[f"dst_group.loop{n}_stride"] * 32 for n in (4, 3, 2)]
    last = sum((n - 1) * s for n, s in zip((groups, blocks, rows), steps, strict=True))
    require(op, target, target.start, target.start + last + 32)
    extent = (groups, rows, depth)
    read = _source(op, source, extent, strides, view_dtype(dtype))
    reads(op, source, size, *zip(extent, strides, strict=True))
    shape = (groups, blocks, rows, 32)
    out = np.ndarray(shape, np.uint8, target.data, target.start, (*steps, 1))
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
        return partial(np.ndarray, shape, dtype, where.data, where.start, strides)
    places = where.start + sum(
        axis * s for axis, s in zip(np.ogrid[tuple(slice(n) for n in shape)], strides, strict=True)
    )
    places = np.asarray(places)[..., None] + np.arange(dtype.itemsize)
    inside = (places >= 0) & (places < where.size)
    chosen = np.where(inside, places, 0)
    return partial(_gather, where, chosen, inside, dtype)


def _gather(where: Place, places: np.ndarray, inside: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.where(inside, where.data[places], 0).astype(np.uint8).view(dtype)[..., 0]


# -- L1 to L0 --------------------------------------------------------------------------------------


@kernel("pto.mte_l1_l0a", "pto.mte_l1_l0b")
def to_l0(op: Binding) -> Commit:
    """A tile of L1 as the rows of a product's operand: [m, k] for L0A, [n, k] for L0B; with
    `transpose` the tile is held the other way round."""
    if op.has("m_step"):
        return _fractals_to_l0(op)
    is_left = op.op.name == "pto.mte_l1_l0a"
    rows, cols = (op.values["m" if is_left else "n"], op.values["k"])
    if rows <= 0 or cols <= 0:
        return nothing
    source, target, dtype = place(op, "src"), place(op, "dst"), elem(op, "src")
    stride = padded_rows(rows)
    pitch = padded_rows(cols) if op.attr("transpose") else stride
    source = source._replace(start=source.start + _begin(op, pitch // 16, dtype))
    if not op.attr("transpose"):
        size = block_bytes(stride, cols, dtype)
        return _moved(op, source, target, size)
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


_FRACTAL = 512


def _fractals_to_l0(op: Binding) -> Commit:
    """Fractals from (m_start, k_start), columns of them `src_stride` and `dst_stride` apart."""
    row, col, rows, cols, pitch, step = (op.values[name] for name in _FULL)
    if rows <= 0 or cols <= 0:
        return nothing
    if op.attr("transpose"):
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': transposing single fractals is not simulated",
            help="write m, k, start_row and start_col (n for the right operand)",
        )
    source, target = place(op, "src"), place(op, "dst")
    first = source.start + (row + pitch * col) * _FRACTAL
    require(op, source, first, first + ((cols - 1) * pitch + rows) * _FRACTAL)
    require(op, target, target.start, target.start + ((cols - 1) * step + rows) * _FRACTAL)
    source = source._replace(start=first)
    levels = (cols, pitch * _FRACTAL, step * _FRACTAL)
    copies(op, source, target, rows * _FRACTAL, levels)
    shape = (cols, rows * _FRACTAL)
    taken = np.ndarray(shape, np.uint8, source.data, first, (pitch * _FRACTAL, 1))
    given = np.ndarray(shape, np.uint8, target.data, target.start, (step * _FRACTAL, 1))
    return partial(np.copyto, given, taken)


_FULL = ("m_start", "k_start", "m_step", "k_step", "src_stride", "dst_stride")


def _moved(op: Binding, source: Place, target: Place, size: int) -> Commit:
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
    if dtype.is_integer or dtype.bits > 8 or width >= 32:
        return 32
    op.report(
        "PTO6607",
        f"takes rows of {width} bytes from L1: the tile is narrower than a 32-byte row",
    )
    return width


_SCALES = {"pto.mte_l1_l0a_mx": ("left_scale", "m"), "pto.mte_l1_l0b_mx": ("right_scale", "n")}


@kernel(*_SCALES)
def scales_to_l0(op: Binding) -> Commit:
    """Block scales: 16 rows and 2 groups of 32 values are 32 bytes, byte 2 * row + group; blocks of
    rows outside, blocks of 64 values inside."""
    space, rows = _SCALES[op.op.name]
    if op.has("x_step") or op.values.get("start_row") or op.values.get("start_col"):
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': only whole tables of scales are simulated",
            help="write the size of the tile, and 0, 0 for where it begins",
        )
    size = -(-op.values[rows] // 16) * -(-op.values["k"] // 64) * 32
    if size <= 0:
        return nothing
    return _moved(op, place(op, "src"), _scale_place(op, space, "dst"), size)


def _scale_place(op: Binding, space: str, pointer: str) -> Place:
    return side_place(op, space, op.values[pointer].byte >> 4)._replace(operand=pointer)


def _scales(op: Binding, space: str, pointer: str, rows: int, depth: int) -> np.ndarray:
    """Codes [rows, groups of 32 values]."""
    where = _scale_place(op, space, pointer)
    outer, inner = -(-rows // 16), -(-depth // 64)
    size = outer * inner * 32
    require(op, where, where.start, where.start + size)
    blocks = where.data[where.start : where.start + size].reshape(outer, inner, 16, 2)
    return blocks.transpose(0, 2, 1, 3).reshape(outer * 16, inner * 2)[:rows]


# -- multiply-accumulate ---------------------------------------------------------------------------

_SCALES_OF = {"lhs": "left_scale", "rhs": "right_scale"}
_MADS = ("mad", "mad_acc", "mad_bias", "mad_mx", "mad_mx_acc", "mad_mx_bias")


@kernel(*(f"pto.{name}" for name in _MADS))
def mad(op: Binding) -> Commit:
    """dst = lhs x rhs, plus what dst holds (acc) or a bias for each column."""
    m, n, k = (op.values[name] for name in "mnk")
    if min(m, n, k) <= 0:
        return nothing
    target = place(op, "dst")
    result = view_dtype(elem(op, "dst"))
    stride = padded_rows(m)
    saturate, order = flag(op, "sat"), op.switch("matmul.order")
    _tell(op, target, m, n, k)

    def accumulate() -> None:
        left, right = _operand(op, "lhs", m, k), _operand(op, "rhs", n, k)
        start = _start(op, target, m, n, result, stride)
        values = matmul.product(left, right.T, start, order=order, saturate=saturate)
        write_accumulator(op, target, values.astype(result), stride)

    return accumulate


def _tell(op: Binding, target: Place, m: int, n: int, k: int) -> None:
    """What a product reads and writes."""
    stride = padded_rows(m)
    for name, rows in (("lhs", m), ("rhs", n)):
        where, dtype = place(op, name), elem(op, name)
        if name == "lhs" and _is_row(op, m):
            reads(op, where, dtype.bytes_for(k))
        else:
            reads_blocks(op, where, rows, k, dtype, padded_rows(rows))
        if op.op.name.startswith("pto.mad_mx"):
            scales = _scale_place(op, _SCALES_OF[name], name)
            reads(op, scales, min(rows, 16) * 2, (-(-rows // 16) * -(-k // 64), 32))
    if op.op.name.endswith("_acc"):
        reads_accumulator(op, target, m, n, 4, stride)
    if op.op.name.endswith("_bias"):
        reads(op, place(op, "bias"), n * 4)
    writes(op, target, m * 64, (-(-n // 16), stride * 64))


def _is_row(op: Binding, rows: int) -> bool:
    """True if the left operand is one row of consecutive elements."""
    return rows == 1 and not flag(op, "disable_gemv")


def _start(
    op: Binding, target: Place, m: int, n: int, result: np.dtype, stride: int
) -> np.ndarray | None:
    if op.op.name.endswith("_acc"):
        return read_accumulator(op, target, m, n, result, stride)
    if op.op.name.endswith("_bias"):
        bias = place(op, "bias")
        require(op, bias, bias.start, bias.start + n * 4)
        return np.ndarray((n,), result, bias.data, bias.start)
    return None


def _operand(op: Binding, name: str, rows: int, depth: int) -> np.ndarray:
    """The matrix [rows, depth] of L0A or L0B, as `matmul.operand` makes it."""
    where, dtype = place(op, name), elem(op, name)
    if name == "lhs" and _is_row(op, rows):
        raw = _row(op, where, depth, dtype)
    else:
        raw = read_blocks(op, where, rows, depth, dtype, padded_rows(rows))
    tf32 = word(op, "tf32_mode.mode")
    if tf32 is not None:
        raw = keep_mantissa(raw, 10, tf32)
    values = matmul.operand(raw, conversion_name(dtype), saturate=flag(op, "sat"))
    if not op.op.name.startswith("pto.mad_mx"):
        return values
    return matmul.scaled(values, _scales(op, _SCALES_OF[name], name, rows, depth))


def _row(op: Binding, where: Place, depth: int, dtype: DType) -> np.ndarray:
    size = dtype.bytes_for(depth)
    require(op, where, where.start, where.start + size)
    data = where.data[where.start : where.start + size]
    values = unpack_nibbles(data) if dtype.bits == 4 else data.copy().view(view_dtype(dtype))
    return values[:depth].reshape(1, depth)
