"""Tiles from nothing and around their content: fills, paddings, ramps, triangles, random
numbers."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.ground.ir.types import DType, TileType
from ptosim.machine.numbers.rounding import counter_words, philox4x32
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, typed_scalar
from ptosim.ops.base.functions import Commit, kernel


@kernel("pto.texpands", over="dst")
def texpands(op: Binding) -> Commit:
    """dst = the scalar: the valid region of a vec tile, the whole of a mat tile."""
    dst = op.tile("dst")
    value = typed_scalar(op.scalar("scalar"), dst.dtype)
    if dst.type.loc == "mat":
        return partial(dst.flat(dst.rows * dst.cols).fill, value)
    (out,) = op.array_operands(("dst",))
    return partial(out.fill, value)


# -- padding ---------------------------------------------------------------------------------------
#
# A pad value is the bit pattern that a tile's pad code represents in its element type.
# Codes: 1 zero, 2 max, 3 min; a code with bit 32 set carries the pattern itself in its lower bits.
# Integers: the limits of the type. Floats: the largest finite value, or infinity, as the switch
# `pad.float` says (finite in the assembler's goldens, infinite in the C++ library's table). 64-bit
# and 8-bit float types have no pad value; the table gives zero.

_FLOAT_MAX = {
    ("f32", "finite"): 0x7F7FFFFF, ("f32", "inf"): 0x7F800000,
    ("f16", "finite"): 0x7BFF, ("f16", "inf"): 0x7C00,
    ("bf16", "finite"): 0x7F7F, ("bf16", "inf"): 0x7F80,
}  # fmt: skip


def pad_pattern(op: Binding, type_: TileType) -> int:
    """Return the bits of a tile's pad value."""
    return pattern(type_.dtype, type_.pad, op.switch("pad.float"))


def pattern(dtype: DType, code: int, floats: str) -> int:
    """Return the bits of a pad code in an element type."""
    if code >> 32 & 1:
        return code & (1 << min(dtype.bits, 32)) - 1
    if code < 2 or dtype.bits not in (8, 16, 32):
        return 0
    if dtype.is_float:
        top = _FLOAT_MAX.get((dtype.family, floats), 0)
        return top if code == 2 or top == 0 else top | 1 << (dtype.bits - 1)
    if not dtype.is_integer:
        return 0
    if dtype.kind == "uint":
        return (1 << dtype.bits) - 1 if code == 2 else 0
    limit = 1 << (dtype.bits - 1)
    return limit - 1 if code == 2 else limit


@kernel("pto.tfillpad", "pto.tfillpad_expand", over="dst")
def tfillpad(op: Binding) -> Commit:
    """dst = the valid region of src, then the pad value of dst's type around it; an empty source
    leaves all of it to the pad value."""
    src, dst = op.tile("src"), op.tile("dst")
    pad = _padding(op, src, dst)
    op.carries(src.v_row, src.v_col, "src")

    def fill() -> None:
        dst.write(np.array(src.read()).view(dst.dtype))
        pad()

    return pad if src.is_empty else fill


@kernel("pto.tfillpad_inplace", over="src dst")
def tfillpad_inplace(op: Binding) -> Commit:
    """The pad value around the valid region of src, which shares its storage with dst."""
    src, dst = op.tile("src"), op.tile("dst")
    if src.addr != dst.addr:
        op.report(
            "PTO7033",
            f"writes padding at {dst.addr:#x} and no content: src is at {src.addr:#x}",
            help="use tfillpad, or give both tiles the same address",
        )
    fill = _padding(op, src, dst)
    if not dst.layout.is_boxed:
        _keeps_content(op, src, dst)
    return fill


def _keeps_content(op: Binding, src: Tile, dst: Tile) -> None:
    """Say that the padding alone is written, and nothing read."""
    layout, size, window = dst.layout, dst.dtype.itemsize, op.covered["dst"]
    op.covers("src", 0, 0)
    op.covered["dst"] = window._replace(rows=0, cols=0)
    pitch, along, lines = layout.row_stride, (src.v_col, window.cols), (src.v_row, window.rows)
    if layout.col_stride > pitch:
        pitch, along, lines = layout.col_stride, lines, along
    pitch *= size
    op.writes_beyond("dst", along[0] * size, (along[1] - along[0]) * size, (lines[0], pitch))
    op.writes_beyond("dst", lines[0] * pitch, along[1] * size, (lines[1] - lines[0], pitch))


def _padding(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Return what writes the padding.

    The rows of the source are padded to the full width of dst, then further rows follow at full
    width: on A2/A3 (and in mat) up to the static rows, on A5 up to the valid rows of dst.
    """
    bits = pad_pattern(op, dst.type)
    if dst.type.pad > 1 and dst.type.dtype.is_float:
        kind = op.switch("pad.float")
        op.report("PTO7032", f"pads with {_FLOAT_PADS[kind]}", notes=("switch `pad.float`",))
    to_valid = op.switch("tfillpad.rows") == "valid" and dst.type.loc == "vec"
    rows = dst.v_row if to_valid else dst.rows
    op.covers("dst", max(rows, src.v_row), dst.cols)
    if dst.layout.is_boxed:
        return partial(_pad_boxed, dst, src, rows, bits)
    whole = dst.region(dst.rows, dst.cols).view(f"u{dst.dtype.itemsize}")
    right, below = whole[: src.v_row, src.v_col :], whole[src.v_row : rows]

    def pad() -> None:
        right.fill(bits)
        below.fill(bits)

    return pad


_FLOAT_PADS = {"finite": "the largest finite value of the sign", "inf": "infinity"}


def _pad_boxed(dst: Tile, src: Tile, rows: int, bits: int) -> None:
    pattern = np.array(bits, f"u{dst.dtype.itemsize}").view(dst.dtype)
    whole = np.array(dst.read(dst.rows, dst.cols))
    whole[: src.v_row, src.v_col :] = pattern
    whole[src.v_row : rows] = pattern
    dst.write(whole)


# -- ramps and triangles ---------------------------------------------------------------------------


@kernel("pto.tci", over="dst")
def tci(op: Binding) -> Commit:
    """dst[0, c] = scalar + c, or scalar - c if descending; integers wrap."""
    dst = op.tile("dst")
    out = op.region("dst", 1, dst.v_col)[0]
    step = -1 if op.attr("descending") else 1
    start = int(op.scalar("scalar"))
    values = (np.arange(dst.v_col, dtype=np.int64) * step + start).astype(dst.dtype)
    return partial(np.copyto, out, values)


@kernel("pto.ttri", over="dst")
def ttri(op: Binding) -> Commit:
    """dst[r, c] = 1 where c <= r + diagonal (lower) or c >= r + diagonal (upper), else 0."""
    dst = op.tile("dst")
    out = op.region("dst", dst.v_row, dst.v_col)
    distance = np.arange(dst.v_col) - np.arange(dst.v_row)[:, None]
    inside = np.less_equal if op.attr("upperOrLower") == 0 else np.greater_equal
    return partial(np.copyto, out, inside(distance, op.scalar("diagonal")).astype(dst.dtype))


# -- random numbers --------------------------------------------------------------------------------

_LANES = 64
_STRIDE = _LANES * 4


@kernel("pto.trandom", over="dst")
def trandom(op: Binding) -> Commit:
    """Philox 4x32 over a 128-bit counter; switch `trandom.order` says how blocks become columns.

    `interleaved`: step k of a row gives columns 256 k + 4 l + i from word i of the block of counter
    + l, for 64 lanes l; the counter then grows by 64, in the last step of a row by ((columns - 1)
    mod 64) + 1. `planar`: that word is column 256 k + 64 i + l, and the counter grows by a quarter
    of the row stride in every step."""
    dst = op.tile("dst")
    key = tuple(int(op.scalar(f"key{i}")) % (1 << 32) for i in range(2))
    counter = sum((int(op.scalar(f"counter{i}")) % (1 << 32)) << (32 * i) for i in range(4))
    out = op.region("dst", dst.v_row, dst.v_col)
    starts, planar = _ORDERS[op.switch("trandom.order")](dst, counter)
    lanes = counter_words([start + lane for start in starts for lane in range(_LANES)])
    blocks = philox4x32(lanes, (key[0], key[1]), int(op.attr("rounds")))
    if planar:
        blocks = blocks.reshape(-1, _LANES, 4).transpose(0, 2, 1)
    values = blocks.reshape(dst.v_row, -1)[:, : dst.v_col]
    return partial(np.copyto, out, np.ascontiguousarray(values).view(dst.dtype))


def _interleaved(dst: Tile, counter: int) -> tuple[list[int], bool]:
    """Return the counter at the start of each step, row by row; words are side by side."""
    steps = -(-dst.v_col // _STRIDE)
    starts = []
    for _ in range(dst.v_row):
        starts += [counter + _LANES * k for k in range(steps)]
        counter += _LANES * (steps - 1) + (dst.v_col - 1) % _LANES + 1
    return starts, False


def _planar(dst: Tile, counter: int) -> tuple[list[int], bool]:
    """Return the counter at the start of each step, row by row; equal words are side by side."""
    steps = -(-dst.v_col // _STRIDE)
    return [counter + k * (dst.cols // 4) for k in range(dst.v_row * steps)], True


_ORDERS = {"interleaved": _interleaved, "planar": _planar}
