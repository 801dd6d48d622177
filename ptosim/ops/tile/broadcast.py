"""Broadcasts: one value for each row, or one row for all rows, alone or with an operation.

The broadcast operand of a row form is a column-major [R, 1] tile (element r belongs to row r) or a
row-major tile whose rows are meant to hold copies. For the second the libraries of both targets
repeat the 32-byte block r of the tile's flat memory over row r; the assembler's goldens (A5) use
column 0 of row r. The switch `rowexpand.block` chooses, and a warning says when the two differ.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, tile_array
from ptosim.ops.base.functions import Commit, Kernel, kernel
from ptosim.ops.tile.arithmetic import WORDS, Function, word


@kernel("pto.trowexpand", over="dst src")
def trowexpand(op: Binding) -> Commit:
    """dst[r, c] = src[r, 0]."""
    dst = op.tile("dst")
    out, column = op.region("dst", dst.v_row, dst.v_col), op.region("src", dst.v_row, 1)
    return partial(np.copyto, out, column)


@kernel("pto.tcolexpand", over="dst src")
def tcolexpand(op: Binding) -> Commit:
    """dst[r, c] = src[0, c]."""
    dst = op.tile("dst")
    out, row = op.region("dst", dst.v_row, dst.v_col), op.region("src", 1, dst.v_col)
    return partial(np.copyto, out, row)


# -- one value for each row ------------------------------------------------------------------------


def _row_form(name: str) -> Kernel:
    """dst = src0 <name> src1, in this order, one of which gives one value for each row."""

    def bind(op: Binding) -> Commit:
        dst, first = op.tile("dst"), op.tile("src0")
        rows, cols = dst.v_row, dst.v_col
        full, vector = ("src0", "src1") if _is_full(first, dst) else ("src1", "src0")
        matrix, out = op.region(full, rows, cols), op.region("dst", rows, cols)
        function = _ordered(word(op, name, dst.dtype), swap=full == "src1")
        column = op.region(vector, rows, 1)
        tile = op.tile(vector)
        if tile.layout.name != "nd":
            return partial(function, matrix, column, out=out)
        blocks = tile_array(tile, (rows, 32 // tile.dtype.itemsize), (32, tile.dtype.itemsize))
        if op.switch("rowexpand.block") == "lane":
            op.covers(vector, rows, min(blocks.shape[1], tile.cols))
            compute = _by_lane(function, matrix, blocks, out)
        else:
            compute = partial(function, matrix, column, out=out)
        return _watched(op, vector, column, blocks[:, :cols], compute)

    return bind


def _is_full(tile: Tile, dst: Tile) -> bool:
    return tile.layout.name == "nd" and (tile.v_row, tile.v_col) == (dst.v_row, dst.v_col)


def _ordered(function: Function, *, swap: bool) -> Function:
    """Return the function of (matrix, values) for one of (src0, src1)."""
    if not swap:
        return function
    return lambda matrix, values, out: function(values, matrix, out=out)


def _by_lane(function: Function, matrix: np.ndarray, blocks: np.ndarray, out: np.ndarray) -> Commit:
    """Lane c mod (32/w) of block r for the element (r, c)."""
    lane = np.arange(matrix.shape[1]) % blocks.shape[1]
    return lambda: function(matrix, blocks[:, lane], out=out)


def _watched(
    op: Binding, name: str, column: np.ndarray, blocks: np.ndarray, compute: Commit
) -> Commit:
    """Run `compute`; before, warn once if column 0 and the lanes of the blocks are not the same."""
    word_type = f"u{blocks.dtype.itemsize}"
    one, many = column.view(word_type), blocks.view(word_type)
    warned = False

    def run() -> None:
        nonlocal warned
        if not warned and (one != many).any():
            warned = True
            row, lane = np.argwhere(one != many)[0]
            _warn(op, name, int(row), (column[row, 0], int(lane), blocks[row, lane]))
        compute()

    return run


def _warn(op: Binding, name: str, row: int, found: tuple[object, int, object]) -> None:
    first, lane, other = found
    used = {
        "column0": "column 0 of the row, as the assembler's goldens",
        "lane": "lane c mod (32/w) of the block, as the library",
    }
    op.report(
        "PTO7031",
        f"has a broadcast operand {name} whose block of 32 bytes for row {row} does not hold "
        f"copies: column 0 is {first}, lane {lane} of the block is {other}",
        notes=(f"uses {used[op.switch('rowexpand.block')]}", "switch `rowexpand.block`"),
        help="fill each block with copies, or use a column-major [R, 1] tile",
    )


# -- one row for all rows --------------------------------------------------------------------------


def _column_form(name: str) -> Kernel:
    """dst = src0 <name> row 0 of src1."""

    def bind(op: Binding) -> Commit:
        dst = op.tile("dst")
        function = word(op, name, dst.dtype)
        out = op.region("dst", dst.v_row, dst.v_col)
        values, row = op.region("src0", dst.v_row, dst.v_col), op.region("src1", 1, dst.v_col)
        return partial(function, values, row, out=out)

    return bind


for _name in WORDS:
    kernel(f"pto.trowexpand{_name}", over="dst src0 src1")(_row_form(_name))
    kernel(f"pto.tcolexpand{_name}", over="dst src0 src1")(_column_form(_name))
