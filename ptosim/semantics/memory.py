"""Transfers between global memory and tiles.

Rows are counted by the window, the row length by the tile: a load of an ND window moves s0*s1*s2*s3
rows of `validCol` elements each, whatever the window's last size says (DN: columns and `validRow`; NZ:
s0*s1 column blocks of `validRow` rows of 32 bytes). This is what the transfer instructions of both
targets do; the headers' equations between window and valid shape are debug assertions that real
programs do not obey. Where window and tile differ a finding says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.space import POISON
from ptosim.machine.storage import pack_nibbles, unpack_nibbles
from ptosim.machine.tile import Tile
from ptosim.semantics.binding import Binding, GmAccess, OpFault
from ptosim.semantics.padding import pad_pattern
from ptosim.semantics.registry import Commit, kernel, nothing

Mapping = Callable[[Tile, tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


@kernel("pto.tload")
def tload(op: Binding) -> Commit:
    """GM window to tile. Same layout, or ND to the boxed layouts of a mat tile."""
    view, tile = op.view("src"), op.tile("dst")
    if 0 in view.sizes or tile.is_empty:
        return nothing
    _check_widths(view, tile)
    if not _same_layout(op, view, tile):
        return _load_logical(op, view, tile)
    source, target = _matched(op, view, tile)
    pad = _padding(op, tile)
    copy = partial(np.copyto, target, source)
    if pad is None:
        return copy

    def load() -> None:
        copy()
        pad()

    return load


@kernel("pto.tprefetch")
def tprefetch(op: Binding) -> Commit:
    """A hint; values do not change."""
    op.view("src")
    return nothing


@kernel("pto.tstore")
def tstore(op: Binding) -> Commit:
    """Tile to GM window; elements outside the valid region are not written. Optional atomic add."""
    view, tile = op.view("dst"), op.tile("src")
    if 0 in view.sizes or tile.is_empty:
        return nothing
    _check_widths(view, tile)
    if not _same_layout(op, view, tile):
        return _store_logical(op, view, tile)
    target, source = _matched(op, view, tile)
    if op.attr("atomicType") == "atomic_add":
        return partial(np.add, target, source, out=target)
    return partial(np.copyto, target, source)


def _check_widths(view: GmAccess, tile: Tile) -> None:
    if view.dtype.bits != tile.bits:
        raise OpFault(
            "PTO6008",
            f"elements of {view.dtype} and {tile.type.dtype} differ in width; a transfer does not convert",
            help="give the view the tile's element type, and convert with tcvt",
        )


def _same_layout(op: Binding, view: GmAccess, tile: Tile) -> bool:
    """True where window and tile are two strided views of one shape."""
    if tile.layout.is_boxed:
        return _is_blocked(view, tile)
    if view.layout in (tile.layout.name, "nz") or tile.rows == 1 or tile.cols == 1:
        return True
    op.warn(
        "PTO6104",
        f"moves between a {view.layout} view and a {tile.layout.name} tile",
        notes=("transfers of unboxed tiles keep the layout; the hardware library refuses this pair",),
        help="give view and tile the same layout",
    )
    return False


def _is_blocked(view: GmAccess, tile: Tile) -> bool:
    """True for an Nz tile and a window made of column blocks of 32 bytes: an nz view, or the same shape
    in a view whose layout was inferred."""
    if tile.layout.name != "nz":
        return False
    block = tile.layout.box_cols
    s0, s1, _, _, s4 = view.sizes
    return view.layout == "nz" or (s4 == block and s0 * s1 > 1)


def _matched(op: Binding, view: GmAccess, tile: Tile) -> tuple[np.ndarray, np.ndarray]:
    """Return GM window and tile as two views of one five-dimensional shape."""
    array = _typed(view, tile)
    layout = "nz" if tile.layout.is_boxed else tile.layout.name
    sizes = _MATCH[layout](op, view, tile)
    window = _resized(op, view, array, sizes)
    strides = _TILE_STRIDES[layout](tile, sizes)
    size = tile.dtype.itemsize
    target = np.ndarray(
        window.shape, tile.dtype, tile.buffer, tile.addr, tuple(s * size for s in strides)
    )
    return window, target


def _typed(view: GmAccess, tile: Tile) -> np.ndarray:
    array = view.array()
    return array if array.dtype == tile.dtype else array.view(tile.dtype)


def _resized(
    op: Binding, view: GmAccess, array: np.ndarray, sizes: tuple[int, ...]
) -> np.ndarray:
    """Return the window with the sizes that the transfer moves; a longer row reads on in GM."""
    if tuple(array.shape) == sizes:
        return array
    item = array.dtype.itemsize
    low = view.offset * view.dtype.bits // 8
    last = low + sum((n - 1) * s for n, s in zip(sizes, array.strides, strict=True)) + item
    if last > len(view.buffer.data):
        raise OpFault(
            "PTO6001",
            f"'{op.op.name}' moves rows of the tile's valid length and leaves `{view.buffer.name}` "
            f"({len(view.buffer.data)} bytes, {last} needed)",
            notes=("the length of a row is the tile's valid size, not the window's",),
        )
    return np.ndarray(sizes, array.dtype, view.buffer.data, low, array.strides)


# -- what moves, by the tile's layout ------------------------------------------------------------------


def _nd_sizes(op: Binding, view: GmAccess, tile: Tile) -> tuple[int, ...]:
    s0, s1, s2, s3, s4 = view.sizes
    half = 2 if tile.bits == 4 else 1
    _compare(op, s0 * s1 * s2 * s3, tile.v_row, s4, tile.v_col, tile.rows, "rows", "columns")
    return s0, s1, s2, s3, tile.v_col // half


def _dn_sizes(op: Binding, view: GmAccess, tile: Tile) -> tuple[int, ...]:
    s0, s1, s2, s3, s4 = view.sizes
    _compare(op, s0 * s1 * s2 * s4, tile.v_col, s3, tile.v_row, tile.cols, "columns", "rows")
    return s0, s1, s2, tile.v_row, s4


def _nz_sizes(op: Binding, view: GmAccess, tile: Tile) -> tuple[int, ...]:
    s0, s1, s2, s3, s4 = view.sizes
    blocks = s0 * s1 * tile.layout.box_cols
    _compare(op, blocks, tile.v_col, s2 * s3, tile.v_row, tile.cols, "columns", "rows")
    half = 2 if tile.bits == 4 else 1
    if s2 * s3 == tile.v_row:
        return s0, s1, s2, s3, s4 // half
    return s0, s1, 1, tile.v_row, s4 // half


def _compare(
    op: Binding, window: int, valid: int, length: int, v_length: int, limit: int, axis: str, other: str
) -> None:
    """Report where the window and the valid region disagree (see the module's text)."""
    if window > limit:
        raise OpFault(
            "PTO6009",
            f"the window has {window} {axis}, the tile only {limit}",
            help="load a smaller window or use a larger tile",
        )
    if window != valid:
        op.note(
            "PTO6102",
            f"moves {window} {axis} of the window; the tile's valid region has {valid}",
            notes=(f"{axis} are counted by the window",),
        )
    if length != v_length:
        op.warn(
            "PTO6103",
            f"moves {v_length} {other} of each; the window has {length}",
            notes=(f"the length along the {other} is the tile's valid size",),
        )


def _nd_strides(tile: Tile, sizes: tuple[int, ...]) -> tuple[int, ...]:
    row = tile.layout.row_stride if tile.bits != 4 else tile.cols // 2
    _, s1, s2, s3, _ = sizes
    return s1 * s2 * s3 * row, s2 * s3 * row, s3 * row, row, 1


def _dn_strides(tile: Tile, sizes: tuple[int, ...]) -> tuple[int, ...]:
    col = tile.layout.col_stride if tile.layout.name == "dn" else 1
    row = tile.layout.row_stride
    _, s1, s2, _, s4 = sizes
    return s1 * s2 * s4 * col, s2 * s4 * col, s4 * col, row, col


def _nz_strides(tile: Tile, sizes: tuple[int, ...]) -> tuple[int, ...]:
    half = 2 if tile.bits == 4 else 1
    row = tile.layout.box_cols // half
    block = tile.layout.strides[2] // half
    _, s1, _, s3, _ = sizes
    return s1 * block, block, s3 * row, row, 1


_MATCH = {"nd": _nd_sizes, "dn": _dn_sizes, "nz": _nz_sizes}
_TILE_STRIDES = {"nd": _nd_strides, "dn": _dn_strides, "nz": _nz_strides}


# -- boxed tiles ---------------------------------------------------------------------------------------


def logical_window(view: GmAccess, tile: Tile) -> np.ndarray:
    """Return a GM window as a two-dimensional array of logical rows and columns (a copy or a view)."""
    array = _typed(view, tile)
    s0, s1, s2, s3, s4 = view.sizes
    if tile.bits == 4:
        array = unpack_nibbles(array)
    if view.layout == "dn":
        return array.transpose(3, 0, 1, 2, 4).reshape(s3, s0 * s1 * s2 * s4)
    if view.layout == "nz":
        return array.transpose(2, 3, 0, 1, 4).reshape(s2 * s3, s0 * s1 * s4)
    return array.reshape(s0 * s1 * s2 * s3, s4)


def _load_logical(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    rows, cols = logical_shape(view)
    if rows > tile.rows or cols > tile.cols:
        raise OpFault(
            "PTO6009",
            f"the window has {rows}x{cols} elements, the tile only {tile.rows}x{tile.cols}",
            help="load a smaller window or use a larger tile",
        )

    def load() -> None:
        tile.write(logical_window(view, tile))

    return load


def _store_logical(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    rows, cols = logical_shape(view)
    array = _typed(view, tile)
    atomic = op.attr("atomicType") == "atomic_add"

    def store() -> None:
        values = _shaped(tile.read(rows, cols), view)
        packed = pack_nibbles(values) if tile.bits == 4 else values
        if atomic:
            np.add(array, packed, out=array)
        else:
            array[...] = packed

    return store


def _shaped(values: np.ndarray, view: GmAccess) -> np.ndarray:
    """Undo `logical_window`: rows and columns to the five sizes of the window."""
    s0, s1, s2, s3, s4 = view.sizes
    if view.layout == "dn":
        return values.reshape(s3, s0, s1, s2, s4).transpose(1, 2, 3, 0, 4)
    if view.layout == "nz":
        return values.reshape(s2, s3, s0, s1, s4).transpose(2, 3, 0, 1, 4)
    return values.reshape(view.sizes)


def logical_shape(view: GmAccess) -> tuple[int, int]:
    """Return the rows and columns that a window stands for."""
    s0, s1, s2, s3, s4 = view.sizes
    if view.layout == "dn":
        return s3, s0 * s1 * s2 * s4
    if view.layout == "nz":
        return s2 * s3, s0 * s1 * s4
    return s0 * s1 * s2 * s3, s4


# -- padding -------------------------------------------------------------------------------------------


def _padding(op: Binding, tile: Tile) -> Callable[[], Any] | None:
    """Return what happens to the tile outside the valid region.

    The transfer writes whole 32-byte blocks: the rest of the last block of each row (ND) or column (DN)
    gets the pad value, or with no pad value is undefined. Profile `cpu` fills the whole tile instead.
    """
    if tile.layout.is_boxed or tile.bits == 4:
        return None
    if op.switch("load.pad") == "fill":
        return _fill_outside(op, tile)
    major, valid, size = (
        (tile.v_row, tile.v_col, tile.cols)
        if tile.layout.name == "nd"
        else (tile.v_col, tile.v_row, tile.rows)
    )
    block = 32 // tile.dtype.itemsize
    end = min(round_up(valid, block), size)
    if end == valid or major == 0:
        return None
    whole = tile.full if tile.layout.name == "nd" else tile.full.T
    rest = whole[:major, valid:end].view(f"u{tile.dtype.itemsize}")
    if tile.type.pad == 0:
        poison = np.frombuffer(bytes([POISON]) * tile.dtype.itemsize, rest.dtype)[0]
        return partial(rest.fill, poison)
    return partial(rest.fill, pad_pattern(op, tile.type))


def _fill_outside(op: Binding, tile: Tile) -> Callable[[], Any]:
    whole = tile.full.view(f"u{tile.dtype.itemsize}")
    pattern = pad_pattern(op, tile.type) if tile.type.pad else 0

    def fill() -> None:
        whole[:, tile.v_col :] = pattern
        whole[tile.v_row :, : tile.v_col] = pattern

    return fill
