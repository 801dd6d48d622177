"""Moves of tiles on the chip: between spaces, and from one layout to another."""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.space import POISON
from ptosim.machine.tile import Tile
from ptosim.semantics.binding import Binding, OpFault
from ptosim.semantics.registry import Commit, kernel, nothing

@kernel("pto.tmov:plain", "pto.tmov")
def tmov(op: Binding) -> Commit:
    """Copy a tile; which copy depends on where source and destination live."""
    src, dst = op.tile("src"), op.tile("dst")
    if src.bits != dst.bits and dst.type.loc != "bias":
        raise OpFault("PTO6008", f"a move of {src.type.dtype} to {dst.type.dtype} does not convert")
    if src.is_empty or dst.is_empty:
        return nothing
    if dst.type.loc == "bias":
        return _to_bias(src, dst)
    if src.type.loc == "vec" and dst.type.loc == "vec" and op.profile.name != "cpu":
        return _VEC_TO_VEC[op.target](op, src, dst)
    return _logical(src, dst)


def _logical(src: Tile, dst: Tile) -> Commit:
    """Element by element through both layouts: mat to left, right, scaling; vec to mat."""
    rows, cols = min(src.rows, dst.rows), min(src.cols, dst.cols)

    def move() -> None:
        values = src.read(rows, cols)
        dst.write(values if values.dtype == dst.dtype else values.view(dst.dtype))

    return move


def _to_bias(src: Tile, dst: Tile) -> Commit:
    """One row into the bias table; half-precision values are widened."""
    cols = min(src.cols, dst.cols)
    source, target = src.region(1, cols), dst.region(1, cols)
    return lambda: np.copyto(target, source.astype(dst.dtype))


# -- vec to vec ------------------------------------------------------------------------------------------


def _vec_a2a3(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Whole 32-byte blocks of each row, whatever the layout attributes say."""
    rows, cols = min(src.v_row, dst.v_row), min(src.v_col, dst.v_col)
    if src.layout.name == "dn" and dst.layout.name == "dn":
        return _copy_rows(src, dst, cols, _whole_blocks(rows, src, dst.rows), transposed=True)
    if dst.layout.is_boxed != src.layout.is_boxed:
        _warn_plain(op, src, dst)
    return _copy_rows(src, dst, rows, _whole_blocks(cols, src, dst.cols))


def _whole_blocks(count: int, tile: Tile, limit: int) -> int:
    return min(round_up(count, 256 // tile.bits), limit)


def _vec_a5(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Row-major to NZ and to ZN are conversions; every other pair is a copy of rows."""
    if not src.layout.is_boxed and src.layout.name == "nd":
        if dst.layout.name == "nz":
            return _to_nz(op, src, dst)
        if dst.layout.name == "zn":
            return _to_zn(op, src, dst)
    if src.layout.name == "dn" and dst.layout.name == "dn":
        rows, cols = min(src.v_row, dst.v_row), min(src.v_col, dst.v_col)
        return _copy_rows(src, dst, cols, rows, transposed=True)
    if src.layout.name != dst.layout.name:
        _warn_plain(op, src, dst)
    return _copy_rows(src, dst, min(src.v_row, dst.v_row), min(src.v_col, dst.v_col))


_VEC_TO_VEC = {"a2a3": _vec_a2a3, "a5": _vec_a5}


def _warn_plain(op: Binding, src: Tile, dst: Tile) -> None:
    op.warn(
        "PTO7002",
        f"copies rows of a {src.layout.name} tile into a {dst.layout.name} tile without converting",
        notes=("only ND to NZ and ND to ZN are conversions, and only on A5",),
        help="move block exponents with the three-operand form",
    )


def _copy_rows(src: Tile, dst: Tile, rows: int, cols: int, *, transposed: bool = False) -> Commit:
    """Copy the first elements of rows; tiles are seen as plain rows of their static width (columns of
    their static height for two column-major tiles)."""
    target = _rows(dst, rows, cols, dst.rows if transposed else dst.cols)
    source = _rows(src, rows, cols, src.rows if transposed else src.cols)
    return partial(np.copyto, target, source if source.dtype == target.dtype else source.view(target.dtype))


def _rows(tile: Tile, rows: int, cols: int, width: int) -> np.ndarray:
    if tile.bits == 4:
        return np.ndarray((rows, (cols + 1) // 2), np.uint8, tile.buffer, tile.addr, (width // 2, 1))
    size = tile.dtype.itemsize
    return np.ndarray((rows, cols), tile.dtype, tile.buffer, tile.addr, (width * size, size))


def _to_nz(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Column blocks of 32 bytes, each of the destination's valid rows rounded up to 16 (one more in the
    row_plus_one form); rows of the source, columns of the destination. 4-bit elements go as bytes."""
    half = 2 if dst.bits == 4 else 1
    rows, cols = src.v_row, dst.v_col // half
    width = 32 // dst.dtype.itemsize
    pitch = round_up(dst.v_row, 16) + (1 if dst.type.compact == 2 else 0)
    if dst.type.compact == 0 and dst.rows != round_up(dst.v_row, 16):
        op.warn(
            "PTO7003",
            f"column blocks are {pitch} rows apart, but consumers address the tile with {dst.rows} rows",
            help="give the tile as many rows as its valid rows rounded up to 16",
        )
    size = dst.dtype.itemsize
    blocks = -(-cols // width)
    end = dst.addr + ((blocks - 1) * pitch + rows) * 32
    if end > len(dst.buffer):
        raise OpFault("PTO6013", f"the NZ image ends at {end:#x}, outside its memory space")
    source = _rows(src, rows, cols * half, src.cols)
    whole, rest = divmod(cols, width)
    image = np.ndarray(
        (rows, whole, width), dst.dtype, dst.buffer, dst.addr, (32, pitch * 32, size)
    )
    tail = np.ndarray(
        (rows, rest), dst.dtype, dst.buffer, dst.addr + whole * pitch * 32, (32, size)
    ) if rest else None

    def move() -> None:
        image[...] = source[:, : whole * width].reshape(rows, whole, width)
        if tail is not None:
            tail[...] = source[:, whole * width :]

    return move


def _to_zn(op: Binding, src: Tile, dst: Tile) -> Commit:
    """Whole boxes only; the source is read densely with the destination's valid columns as stride."""
    size = dst.dtype.itemsize
    depth = 32 // size
    cols = dst.v_col
    box_rows, box_cols = src.v_row // depth, cols // 16
    if cols % 16 or src.v_row % depth:
        op.warn(
            "PTO7003",
            f"writes {box_rows * depth}x{box_cols * 16} of {src.v_row}x{cols} elements: whole boxes only",
        )
    source = np.ndarray(
        (box_rows, depth, box_cols, 16), src.dtype, src.buffer, src.addr,
        (depth * cols * size, cols * size, 16 * size, size),
    )  # fmt: skip
    box = 16 * depth * size
    target = np.ndarray(
        (box_rows, box_cols, 16, depth), dst.dtype, dst.buffer, dst.addr,
        (cols // 16 * box, box, depth * size, size),
    )  # fmt: skip
    return lambda: np.copyto(target, source.transpose(0, 2, 3, 1))


# -- block exponents ---------------------------------------------------------------------------------------


@kernel("pto.tmov:exponents")
def tmov_exponents(op: Binding) -> Commit:
    """Block exponents into the ZZ form of the cube's scale memory: 32-byte boxes of 16 rows (or
    columns) with two exponents each."""
    if op.attr("grp_axis") == 0:
        return _columns_to_zz(op)
    return _rows_to_zz(op)


def _rows_to_zz(op: Binding) -> Commit:
    """ND to ZZ: e[r][g] goes to (r/16)*16*G + (g/2)*32 + (r%16)*2 + g%2. The source is dense with G
    exponents a row; rows up to the next multiple of 16 are cleared in it first."""
    src, dst, tmp = op.tile("src"), op.tile("dst"), op.opt_tile("tmp")
    rows, groups = dst.v_row, dst.v_col
    if groups % 2:
        raise OpFault("PTO6014", f"{groups} exponents a row; the ZZ form takes pairs")
    if src.rows > 1 and src.cols != groups:
        op.warn(
            "PTO7003",
            f"reads its source densely with {groups} exponents a row; the tile's rows are {src.cols} long",
            help="quantise into a one-row exponent tile",
        )
    padded = round_up(rows, 16)
    source = _bytes(src, padded * groups)
    target = _bytes(dst, padded * groups).reshape(padded // 16, groups // 2, 16, 2)
    table = None
    if tmp is not None:
        count = (16 + -(-rows // 16) * (groups // 2) + 16) * 2
        table = _bytes(tmp, min(count, tmp.type.bytes))

    def move() -> None:
        source[rows * groups :] = 0
        if table is not None:
            table[...] = POISON  # index tables of the gather; their content is not documented
        boxes = source.reshape(padded // 16, 16, groups // 2, 2).transpose(0, 2, 1, 3)
        target[...] = boxes

    return move


def _columns_to_zz(op: Binding) -> Commit:
    """DN to ZZ: exponent rows 2p and 2p+1 of column c go to (c/16)*32*(M/2) + p*32 + (c%16)*2. Whole
    blocks of 16 columns and whole pairs of rows."""
    src, dst = op.tile("src"), op.tile("dst")
    pairs, blocks = src.v_row // 2, src.v_col // 16
    if not pairs or not blocks:
        return nothing
    stride = src.v_col
    source = np.ndarray(
        (pairs, 2, blocks, 16), np.uint8, src.buffer, src.addr, (2 * stride, stride, 16, 1)
    )
    target = _bytes(dst, blocks * pairs * 32).reshape(blocks, pairs, 16, 2)
    return lambda: np.copyto(target, source.transpose(2, 0, 3, 1))


def _bytes(tile: Tile, count: int) -> np.ndarray:
    if tile.addr + count > len(tile.buffer):
        raise OpFault("PTO6013", f"{count} bytes at {tile.addr:#x} leave the memory space")
    return tile.flat(count, np.uint8)
