"""Copies between windows of tiles of any layout, box by box where both have the same boxes.

Copies by long items: NumPy moves one item of many bytes faster than what it is made of."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from ptosim.machine.tile import Tile
from ptosim.ops.base.functions import Commit

# -- copies by long items --------------------------------------------------------------------------


def in_lines(target: np.ndarray, source: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return views of two arrays of one shape and type, so that `np.copyto` of the first from the
    second copies the same elements: what follows one another in both is one item, wherever its axes
    are. Arrays without such a run come back as they are."""
    if target.dtype != source.dtype or target.shape != source.shape or target.size < 2:
        return target, source
    plan = _plan(target.shape, target.strides, source.strides, target.itemsize)
    if plan is None:
        return target, source
    return _items(target, *plan), _items(source, *plan)


@lru_cache(maxsize=1024)
def _plan(
    shape: tuple[int, ...], strides: tuple[int, ...], others: tuple[int, ...], size: int
) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype] | None:
    """How to see two arrays as items: the order of their axes, the sizes of those that stay, and
    the type of an item. None if no two elements follow one another in both."""
    axes = [axis for axis, count in enumerate(shape) if count > 1]
    axes.sort(key=lambda axis: -abs(strides[axis]))
    run = size
    outer = len(axes)
    while outer and strides[axes[outer - 1]] == run == others[axes[outer - 1]]:
        outer -= 1
        run *= shape[axes[outer]]
    if outer == len(axes):
        return None
    rest = [axis for axis, count in enumerate(shape) if count == 1]
    kept = tuple(shape[axis] for axis in axes[:outer])
    return (*rest, *axes), (*kept, -1), np.dtype((np.void, run))


def _items(
    array: np.ndarray, order: tuple[int, ...], shape: tuple[int, ...], item: np.dtype
) -> np.ndarray:
    return array.transpose(order).reshape(shape).view(item)[..., 0]


# -- boxes -----------------------------------------------------------------------------------------


Start = tuple[int, int]


def extent(tile: Tile) -> tuple[int, int]:
    """Return the rows and columns of a tile that a move fills: all of it, in the compact form the
    valid ones rounded up to whole boxes."""
    layout = tile.layout
    if tile.type.compact != 1:
        return tile.rows, tile.cols
    return min(tile.rows, layout.rows), min(tile.cols, layout.cols)


def copy_window(
    src: Tile, src_start: Start, dst: Tile, dst_start: Start, rows: int, cols: int
) -> Commit:
    """Return the copy of rows x cols elements between places of two tiles; elements have one width.
    The windows are inside the tiles."""
    source, target = (
        _boxes(src, src_start, rows, cols, dst),
        _boxes(dst, dst_start, rows, cols, src),
    )
    if source is not None and target is not None:
        return partial(np.copyto, *in_lines(target, source))

    def copy() -> None:
        values = read_window(src, src_start, rows, cols)
        write_window(dst, dst_start, np.ascontiguousarray(values).view(dst.dtype))

    return copy


def _boxes(tile: Tile, start: Start, rows: int, cols: int, other: Tile) -> np.ndarray | None:
    """The window as a view by boxes, if it has whole boxes of the shape that the other tile has."""
    layout = tile.layout
    shape = layout.box_rows, layout.box_cols
    if not layout.is_boxed or shape != (other.layout.box_rows, other.layout.box_cols):
        return None
    row, col = start
    if row % shape[0] or col % shape[1]:
        return None
    whole = tile.boxes(row + rows, col + cols)
    if whole is None:
        return None
    return whole[row // shape[0] :, :, col // shape[1] :, :].view(f"u{tile.dtype.itemsize}")


def read_window(tile: Tile, start: Start, rows: int, cols: int) -> np.ndarray:
    """Return elements from a place of a tile in logical order."""
    row, col = start
    return tile.read(row + rows, col + cols)[row:, col:]


def write_window(tile: Tile, start: Start, values: np.ndarray) -> None:
    """Write elements to a place of a tile; what is before them stays as it is."""
    row, col = start
    if not row and not col:
        tile.write(values)
        return
    rows, cols = values.shape
    layout = tile.layout
    if not layout.is_boxed and tile.bits != 4:
        tile.region(row + rows, col + cols)[row:, col:] = values
        return
    whole = np.array(tile.read(row + rows, col + cols))
    whole[row:, col:] = values
    tile.write(whole)
