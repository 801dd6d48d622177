"""Transfers between global memory and tiles; see `transfer` for what meets what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.machine.storage import POISON, pack_nibbles, view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.move.transfer import (
    PACKED_TABLES,
    SCALE_TABLES,
    GmWindow,
    check_atomic,
    check_widths,
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
