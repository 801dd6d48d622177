"""textract and tinsert: a window of one tile and the whole of another.

Which memories the two tiles are in decides what happens; `EXTRACT` and `INSERT` hold a function of
(operation, tile with the window, other tile, row, column) for each pair of locations.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.faults import check_window
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.move.boxes import copy_window

Mover = Callable[[Binding, Tile, Tile, int, int], Commit]

EXTRACT: dict[tuple[str, str], Mover] = {}
INSERT: dict[tuple[str, str], Mover] = {}


def start_of(op: Binding, whole: Tile, sizes: tuple[int, int]) -> tuple[int, int]:
    """Return where the window of a size begins; faults if it leaves the tile."""
    row, col = int(op.scalar("row")), int(op.scalar("col"))
    check_window((row, col), sizes, (whole.rows, whole.cols), f"'{op.op.name}': ")
    return row, col


def _mover(op: Binding, table: dict[tuple[str, str], Mover]) -> Mover:
    pair = op.tile("src").type.loc, op.tile("dst").type.loc
    if pair not in table:
        raise OpFault("PTO8002", f"'{op.op.name}' does not move from {pair[0]} to {pair[1]}")
    return table[pair]


@kernel("pto.textract")
def textract(op: Binding) -> Commit:
    """dst = the window of src."""
    src, dst = op.tile("src"), op.tile("dst")
    start = start_of(op, src, (dst.rows, dst.cols))
    return nothing if dst.is_empty else _mover(op, EXTRACT)(op, src, dst, *start)


@kernel("pto.tinsert")
def tinsert(op: Binding) -> Commit:
    """The window of dst = src."""
    src, dst = op.tile("src"), op.tile("dst")
    start = start_of(op, dst, (src.v_row, src.v_col))
    return nothing if src.is_empty else _mover(op, INSERT)(op, dst, src, *start)


def extract_vec(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """Between vec tiles: the valid region of dst is filled."""
    if whole.layout.is_boxed or part.layout.is_boxed:
        return copy_window(whole, (row, col), part, (0, 0), part.v_row, part.v_col)
    source = _window(op, "src", part, row, col)
    return partial(_copy, op.region("dst", part.v_row, part.v_col), source)


def insert_vec(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """Between vec tiles: the valid region of src is copied."""
    if whole.layout.is_boxed or part.layout.is_boxed:
        return copy_window(part, (0, 0), whole, (row, col), part.v_row, part.v_col)
    target = _window(op, "dst", part, row, col)
    return partial(_copy, target, op.region("src", part.v_row, part.v_col))


def _window(op: Binding, name: str, part: Tile, row: int, col: int) -> np.ndarray:
    """Return the valid extent of `part` from (row, col) of a tile; 4-bit elements as bytes."""
    half = 2 if part.bits == 4 else 1
    if col % half:
        raise OpFault("PTO6005", f"column {col} of a tile of 4-bit elements begins inside a byte")
    return op.region(name, row + part.v_row, col + part.v_col)[row:, col // half :]


def _copy(target: np.ndarray, source: np.ndarray) -> None:
    target[...] = source


EXTRACT["vec", "vec"] = extract_vec
INSERT["vec", "vec"] = insert_vec
