"""Moves of tiles on the chip: between spaces, and from one layout to another."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.machine.layout import round_up
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, owned_tile, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.move.transfer import copy_window, extent

_BIAS_SOURCES = {
    "a2a3": {"f32": ("f32", "f16"), "i32": ("i32",)},
    "a5": {"f32": ("f32", "f16", "bf16"), "i32": ("i32",)},
}


_MANUAL = ("m2l", "m2r", "m2b", "m2s", "a2v", "v2v", "s2d")
"""Spellings of the instruction manual that name the memories; the operands say the same."""


@kernel("pto.tmov:plain", "pto.tmov:fp", "pto.tmov:quant", "pto.tmov.fp")
@kernel(*(f"pto.tmov.{memories}" for memories in _MANUAL))
def tmov(op: Binding) -> Commit:
    """Copy a tile; which copy depends on where source and destination live."""
    src = op.tile("src")
    if src.type.loc == "acc":
        # Programs of vector cores do without the output path of the cube.
        from ptosim.ops.cube.outward import accumulator_to_tile

        return nothing if src.is_empty else accumulator_to_tile(op)
    dst = owned_tile(op, "dst")
    if src.is_empty or dst.is_empty:
        return nothing
    if dst.type.loc == "bias":
        return _to_bias(op, src, dst)
    if src.bits != dst.bits:
        raise OpFault("PTO6008", f"a move of {src.type.dtype} to {dst.type.dtype} does not convert")
    if src.type.loc == "vec" and dst.type.loc == "vec" and op.profile.name != "cpu":
        return _VEC_TO_VEC[op.target](op, src, dst)
    if src.type.loc == "vec":
        return _logical(op, src, dst, dst.v_row, dst.v_col)
    _check_block(op, src, dst)
    rows, cols = extent(dst)
    return _logical(op, src, dst, min(src.rows, rows), min(src.cols, cols))


def _logical(op: Binding, src: Tile, dst: Tile, rows: int, cols: int) -> Commit:
    """Element by element through both layouts: mat to left, right, scaling; vec to mat."""
    if rows > src.rows or cols > src.cols:
        raise OpFault("PTO6021", f"{rows}x{cols} elements move; src has {src.rows}x{src.cols}")
    op.moves(rows, cols)
    return copy_window(src, (0, 0), dst, (0, 0), rows, cols)


def _to_bias(op: Binding, src: Tile, dst: Tile) -> Commit:
    """One row into the bias table; half-precision values are widened."""
    taken = _BIAS_SOURCES[op.target].get(dst.type.dtype.family, ())
    if src.type.dtype.family not in taken:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': {op.target} does not move {src.type.dtype} to a bias of "
            f"{dst.type.dtype}",
            notes=(f"a bias of {dst.type.dtype} comes from {', '.join(taken) or 'nothing'}",),
        )
    _check_block(op, src, dst)
    cols = min(src.cols, dst.cols)
    if src.bits == dst.bits:
        op.moves(1, cols)
    else:  # what is not valid may have no values
        op.finds("src", cols * src.dtype.itemsize, (1, 0))
        op.covers("dst", 1, cols)
    return lambda: dst.write(src.read(1, cols).astype(dst.dtype))


def _check_block(op: Binding, src: Tile, dst: Tile) -> None:
    """Bias and parameter memory are written in blocks: 64 bytes (of the source on A2/A3, of the
    table on A5) and 128 bytes."""
    loc = dst.type.loc
    if loc not in ("bias", "scaling") or dst.type.fractal == 32:  # block scales are elsewhere
        return
    counted = src if loc == "bias" and op.target == "a2a3" else dst
    size, block = counted.cols * counted.bits // 8, 64 if loc == "bias" else 128
    if size % block:
        op.report(
            "PTO6107",
            f"moves {size} bytes to {loc}; the library takes multiples of {block}",
            help="widen the tile, or fill it up",
        )


# -- vec to vec ------------------------------------------------------------------------------------


def _vec_a2a3(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Whole 32-byte blocks of each row, whatever the layout attributes say."""
    rows, cols = min(src.v_row, dst.v_row), min(src.v_col, dst.v_col)
    if src.layout.name == "dn" and dst.layout.name == "dn":
        op.moves(rows, cols)
        return _copy_rows(src, dst, cols, _whole_blocks(rows, src, dst.rows), transposed=True)
    if dst.layout.name != src.layout.name:
        _warn_plain(op, src, dst)
    else:
        op.moves(rows, cols)
    return _copy_rows(src, dst, rows, _whole_blocks(cols, src, dst.cols))


def _whole_blocks(count: int, tile: Tile, limit: int) -> int:
    return min(round_up(count, BLOCK_BITS // tile.bits), limit)


def _vec_a5(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Row-major to NZ and to ZN are conversions; every other pair is a copy of rows."""
    if src.layout.name == "nd":
        if dst.layout.name == "nz":
            return _to_nz(op, src, dst)
        if dst.layout.name == "zn":
            return _to_zn(op, src, dst)
    rows, cols = min(src.v_row, dst.v_row), min(src.v_col, dst.v_col)
    if src.layout.name == "dn" and dst.layout.name == "dn":
        op.moves(rows, cols)
        return _copy_rows(src, dst, cols, rows, transposed=True)
    if src.layout.name != dst.layout.name:
        _warn_plain(op, src, dst)
    else:
        op.moves(rows, cols)
    return _copy_rows(src, dst, rows, cols)


_VEC_TO_VEC = {"a2a3": _vec_a2a3, "a5": _vec_a5}


def _warn_plain(op: Binding, src: Tile, dst: Tile) -> None:
    if dst.rows == 1 or dst.cols == 1:  # the layouts are one
        return
    op.report(
        "PTO7002",
        f"copies rows of a {src.layout.name} tile into a {dst.layout.name} tile without converting",
        notes=("only ND to NZ and ND to ZN are conversions, and only on A5",),
        help="move block exponents with the three-operand form",
    )


def _copy_rows(src: Tile, dst: Tile, rows: int, cols: int, *, transposed: bool = False) -> Commit:
    """Copy the first elements of rows; tiles are seen as plain rows of their static width (columns
    of their static height for two column-major tiles)."""
    target = _rows(dst, dst.dtype, rows, cols, dst.rows if transposed else dst.cols)
    source = _rows(src, dst.dtype, rows, cols, src.rows if transposed else src.cols)
    return partial(np.copyto, target, source)


def _rows(tile: Tile, dtype: np.dtype, rows: int, cols: int, width: int) -> np.ndarray:
    if tile.bits == 4:
        return tile_array(tile, (rows, (cols + 1) // 2), (width // 2, 1))
    size = dtype.itemsize
    return tile_array(tile, (rows, cols), (width * size, size), dtype)


def _to_nz(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Column blocks of 32 bytes, each of the destination's valid rows rounded up to 16 (one more in
    the row_plus_one form); rows of the source, columns of the destination. 4-bit elements go as
    bytes."""
    half = 2 if dst.bits == 4 else 1
    rows, cols = src.v_row, dst.v_col // half
    size = dst.dtype.itemsize
    width = 32 // size
    pitch = round_up(dst.v_row, 16) + (1 if dst.type.compact == 2 else 0)
    if rows > pitch:
        raise OpFault(
            "PTO6018",
            f"'{op.op.name}': {rows} rows of src in column blocks of {pitch} rows",
            help="give src and dst the same valid rows",
        )
    _warn_pitch(op, dst, pitch, -(-cols // width), rows)
    for name in ("src", "dst"):
        op.covers(name, rows, cols * half)
    if pitch == dst.rows:  # else it is not where the layout says
        op.carries(rows, cols, "src")
    source = _rows(src, dst.dtype, rows, cols * half, src.cols)
    whole, rest = divmod(cols, width)
    image = tile_array(dst, (rows, whole, width), (32, pitch * 32, size))
    tail = tile_array(dst, (rows, rest), (32, size), offset=whole * pitch * 32)

    def move() -> None:
        values = source.copy()  # src and dst may share memory
        image[...] = values[:, : whole * width].reshape(rows, whole, width)
        tail[...] = values[:, whole * width :]

    return move


def _warn_pitch(op: Binding, dst: Tile, pitch: int, blocks: int, rows: int) -> None:
    if dst.type.compact == 0 and dst.rows != pitch and blocks > 1:
        op.report(
            "PTO7003",
            f"puts column blocks {pitch} rows apart, but consumers address the tile with "
            f"{dst.rows} rows",
            help="give the tile as many rows as its valid rows rounded up to 16",
        )
    used = ((blocks - 1) * pitch + rows) * 32
    if used > dst.type.bytes:
        op.report("PTO6105", f"writes {used:,} bytes into a tile of {dst.type.bytes:,}")


def _to_zn(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Whole boxes only; the source is read densely with the destination's valid columns as
    stride."""
    if dst.bits == 4:
        raise OpFault("PTO8002", f"'{op.op.name}': there is no move of 4-bit elements to ZN")
    size = dst.dtype.itemsize
    depth = 32 // size
    rows, cols = src.v_row, dst.v_col
    box_rows, box_cols = rows // depth, cols // 16
    if cols % 16 or rows % depth:
        op.report(
            "PTO7003",
            f"writes {box_rows * depth}x{box_cols * 16} of {rows}x{cols} elements: whole boxes",
        )
    if cols != src.cols and rows > 1:
        op.report(
            "PTO7003",
            f"reads src densely with {cols} elements a row; its rows are {src.cols} apart",
            help="give dst as many valid columns as src has columns",
        )
    strides = (depth * cols * size, cols * size, 16 * size, size)
    source = tile_array(src, (box_rows, depth, box_cols, 16), strides, dst.dtype)
    box = 16 * depth * size
    strides = (cols // 16 * box, box, depth * size, size)
    target = tile_array(dst, (box_rows, box_cols, 16, depth), strides)
    return lambda: np.copyto(target, source.transpose(0, 2, 3, 1))
