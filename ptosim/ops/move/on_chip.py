"""Moves of tiles on the chip: between spaces, and from one layout to another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.machine.layout import round_up
from ptosim.machine.pages import POISON, pack_nibbles, view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, owned_tile, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.move.transfer import (
    PACKED_TABLES,
    SCALE_TABLES,
    GmWindow,
    check_atomic,
    check_widths,
    copy_window,
    extent,
    from_logical,
    gm_window,
    in_lines,
    inside,
    is_matched,
    logical_sizes,
    matched,
    on_window,
    to_logical,
    warn_pair,
)
from ptosim.ops.tile.fill import pad_pattern

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


# Transfers between global memory and tiles; see `transfer` for what meets what.

_CONVERSIONS = {
    "a2a3": (("nd", "nz"), ("dn", "zn")),
    "a5": (("nd", "nz"), ("dn", "zn"), ("dn", "nz"), ("nd", "zn")),
}
"""View and tile layouts between which a load into mat converts."""


@kernel("pto.tload")
def tload(op: Binding) -> Commit:
    """GM window to tile. Same layout, or into the boxed layouts of a mat tile."""
    view, tile = op.view("src"), op.tile("dst")
    if 0 in view.sizes or tile.is_empty:
        return nothing
    check_widths(view, tile)
    if view.layout in PACKED_TABLES:
        return _load_table(op, view, tile)
    if not is_matched(op, view, tile):
        return _load_logical(op, view, tile)
    pair = matched(op, view, tile)
    target, pad = pair.tile, _padding(op, tile, pair.lines)

    def load_from(window: np.ndarray) -> Commit:
        copy = partial(np.copyto, target, window)
        return copy if pad is None else _both(copy, pad)

    return on_window(op, view, pair.window, load_from, "read")


def _both(first: Commit, then: Commit) -> Commit:
    def run() -> None:
        first()
        then()

    return run


def _load_logical(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    if not _converts(op, view, tile):
        warn_pair(op, view, tile)
    sizes, _, _ = logical_sizes(op, view, tile, view.layout)
    layout, bits = view.layout, tile.bits

    def load_from(window: np.ndarray) -> Commit:
        values = to_logical(window, sizes, layout, bits)
        target = tile.boxes(*values.shape)
        if target is None or not np.may_share_memory(values, window):  # values are a copy
            return lambda: tile.write(to_logical(window, sizes, layout, bits))
        return partial(np.copyto, *in_lines(target, values.reshape(target.shape)))

    return on_window(op, view, gm_window(op, view, tile, sizes), load_from, "read")


def _load_table(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    """A table of scales that is written as rows and columns: those of the tile, box after box in
    the order that the tile has them in, whatever strides the view says."""
    if tile.layout.name != PACKED_TABLES[view.layout]:
        warn_pair(op, view, tile)
    count = tile.rows * tile.cols
    sizes, strides = (1, 1, 1, 1, count), (count, count, count, count, 1)
    window = inside(op, view, GmWindow(view, tile.dtype, sizes, strides))
    target = tile_array(tile, sizes, strides)
    return on_window(op, view, window, lambda place: partial(np.copyto, target, place), "read")


def _converts(op: Binding, view: GmAccess, tile: Tile) -> bool:
    if tile.type.loc != "mat":
        return False
    if tile.type.fractal == 32:  # scales of block formats
        return op.target == "a5" and SCALE_TABLES.get(view.layout) in (None, tile.layout.name)
    return (view.layout, tile.layout.name) in _CONVERSIONS[op.target]


@kernel("pto.tprefetch")
def tprefetch(op: Binding) -> Commit:
    """A hint; values do not change."""
    op.view("src")
    return nothing


@kernel("pto.tstore")
def tstore(op: Binding) -> Commit:
    """Tile to GM window; elements outside the moved ones are not written. Optional atomic add. An
    accumulator goes through the fixpipe, which can convert it."""
    view, tile = op.view("dst"), op.tile("src")
    if 0 in view.sizes or tile.is_empty:
        return nothing
    if tile.type.loc == "acc":
        # Programs of vector cores do without the output path of the cube.
        from ptosim.ops.cube.outward import store_accumulator

        return store_accumulator(op, view, tile)
    check_widths(view, tile)
    write = _writer(op, view)
    if not is_matched(op, view, tile):
        warn_pair(op, view, tile)
        sizes, rows, cols = logical_sizes(op, view, tile, view.layout)

        def store_to(window: np.ndarray) -> Commit:
            return lambda: write(window, _window_values(tile.read(rows, cols), sizes, view, tile))

        return on_window(op, view, gm_window(op, view, tile, sizes), store_to)
    pair, use = matched(op, view, tile), "fill" if write is np.copyto else ""
    return on_window(op, view, pair.window, lambda place: partial(write, place, pair.tile), use)


def _window_values(
    values: np.ndarray, sizes: tuple[int, ...], view: GmAccess, tile: Tile
) -> np.ndarray:
    shaped = from_logical(values, sizes, view.layout)
    return pack_nibbles(shaped) if tile.bits == 4 else shaped


def _writer(op: Binding, view: GmAccess) -> Callable[[np.ndarray, np.ndarray], None]:
    if op.attr("atomicType") != "atomic_add":
        return np.copyto
    check_atomic(view)
    dtype = view_dtype(view.dtype)

    def add(window: np.ndarray, values: np.ndarray) -> None:
        target = window.view(dtype)
        # A window that repeats a place adds to it once for each repetition.
        repeated = [
            n if n > 1 and s == 0 else 1 for n, s in zip(target.shape, target.strides, strict=True)
        ]
        for index in np.ndindex(*repeated):
            part = tuple(
                slice(i, i + 1) if n > 1 else slice(None)
                for i, n in zip(index, repeated, strict=True)
            )
            np.add(target[part], values.view(dtype)[part], out=target[part])

    return add


# -- padding ---------------------------------------------------------------------------------------


def _padding(op: Binding, tile: Tile, lines: int) -> Callable[[], Any] | None:
    """Return what happens to a tile outside the elements that were loaded.

    The transfer writes whole 32-byte blocks: the rest of the last block of each row (ND) or column
    (DN) gets the pad value, or with no pad value is undefined. Profile `cpu` fills the whole tile
    instead.
    """
    if tile.layout.is_boxed:
        return None
    if op.switch("load.pad") == "fill":
        return _fill_outside(op, tile)
    by_rows = tile.layout.name == "nd"
    valid, size = (tile.v_col, tile.cols) if by_rows else (tile.v_row, tile.rows)
    block = BLOCK_BITS // tile.bits
    end = min(-(-valid // block) * block, size)
    if end == valid:
        return None
    half = 2 if tile.bits == 4 else 1
    whole = tile.region(lines, end) if by_rows else tile.region(end, lines).T
    rest = whole[:, valid // half :].view(f"u{tile.dtype.itemsize}")
    return partial(rest.fill, _filler(op, tile))


def _filler(op: Binding, tile: Tile) -> int:
    if tile.type.pad:
        return pad_pattern(op, tile.type)
    return int.from_bytes(bytes([POISON]) * tile.dtype.itemsize, "little")


def _fill_outside(op: Binding, tile: Tile) -> Callable[[], Any]:
    whole = tile.region(tile.rows, tile.cols).view(f"u{tile.dtype.itemsize}")
    pattern = pad_pattern(op, tile.type) if tile.type.pad else 0
    col = tile.v_col // (2 if tile.bits == 4 else 1)

    def fill() -> None:
        whole[:, col:] = pattern
        whole[tile.v_row :, :col] = pattern

    return fill
