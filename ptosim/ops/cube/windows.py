"""textract and tinsert: a window of one tile and the whole of another, in UB and between memories
around the cube: L1 to L0 and to block scales, accumulators to L1, UB to L1.

Which memories the two tiles are in decides what happens; `EXTRACT` and `INSERT` hold a function of
(operation, tile with the window, other tile, row, column) for each pair of locations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, check_window, owned_tile
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.cube.outward import accumulator_to_ub, accumulator_window, halves, tell_ways
from ptosim.ops.move.transfer import copy_window, extent

# -- of vec tiles ----------------------------------------------------------------------------------

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
        op.moves(part.v_row, part.v_col, src=(row, col))
        return copy_window(whole, (row, col), part, (0, 0), part.v_row, part.v_col)
    source = _window(op, "src", part, row, col)
    op.carries(part.v_row, part.v_col, "src", src=(row, col))
    return partial(_copy, op.region("dst", part.v_row, part.v_col), source)


def insert_vec(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """Between vec tiles: the valid region of src is copied."""
    if whole.layout.is_boxed or part.layout.is_boxed:
        op.moves(part.v_row, part.v_col, dst=(row, col))
        return copy_window(part, (0, 0), whole, (row, col), part.v_row, part.v_col)
    target = _window(op, "dst", part, row, col)
    op.carries(part.v_row, part.v_col, "src", dst=(row, col))
    return partial(_copy, target, op.region("src", part.v_row, part.v_col))


def _window(op: Binding, name: str, part: Tile, row: int, col: int) -> np.ndarray:
    """Return the valid extent of `part` from (row, col) of a tile; 4-bit elements as bytes."""
    half = 2 if part.bits == 4 else 1
    if col % half:
        raise OpFault("PTO6005", f"column {col} of a tile of 4-bit elements begins inside a byte")
    rows, cols = part.v_row, part.v_col
    whole = op.region(name, row + rows, col + cols, is_covered=False)
    op.covers(name, rows, cols, row, col)
    return whole[row:, col // half :]


def _copy(target: np.ndarray, source: np.ndarray) -> None:
    target[...] = source


EXTRACT["vec", "vec"] = extract_vec
INSERT["vec", "vec"] = insert_vec


# -- around the cube -------------------------------------------------------------------------------


def to_l0(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of L1 to L0; it begins at a box of the source."""
    layout = whole.layout
    if not layout.begins_box(row, col):
        raise OpFault(
            "PTO6312",
            f"'{op.op.name}' takes a window at ({row}, {col}) of a tile with boxes of "
            f"{layout.box_rows}x{layout.box_cols}",
            help="begin the window at a multiple of the box",
        )
    if layout.name == "nz" and part.type.loc == "right":
        tell_ways(op, "a window of an NZ tile of L1 into L0B")
    rows, cols = extent(part)
    op.moves(rows, cols, src=(row, col))
    return copy_window(whole, (row, col), part, (0, 0), rows, cols)


def ub_to_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of UB to a tile of L1."""
    target = owned_tile(op, "dst")
    op.moves(part.v_row, part.v_col, src=(row, col))
    return copy_window(whole, (row, col), target, (0, 0), part.v_row, part.v_col)


def ub_into_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A tile of UB into a window of L1."""
    target = owned_tile(op, "dst")
    op.moves(part.v_row, part.v_col, dst=(row, col))
    return copy_window(part, (0, 0), target, (row, col), part.v_row, part.v_col)


def acc_to_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of an accumulator, converted."""
    size = part.v_row, part.v_col
    return accumulator_window(op, whole, (row, col), part, (0, 0), size)


def acc_into_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """An accumulator into a window of L1, converted."""
    size = part.v_row, part.v_col
    return accumulator_window(op, part, (0, 0), whole, (row, col), size)


def acc_to_ub(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of an accumulator to UB, converted; of two vector cores each gets a half of it."""
    by_rows, by_cols = halves(op)
    size = part.v_row * by_rows, part.v_col * by_cols
    check_window((row, col), size, (whole.rows, whole.cols), f"'{op.op.name}': ")
    return accumulator_to_ub(op, whole, (row, col), (0, 0), size)


def acc_into_ub(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """An accumulator into a window of a tile of UB, converted."""
    return accumulator_to_ub(op, part, (0, 0), (row, col), (part.v_row, part.v_col))


EXTRACT["mat", "left"] = to_l0
EXTRACT["mat", "right"] = to_l0
EXTRACT["mat", "scaling"] = to_l0
EXTRACT["mat", "left_scale"] = to_l0
EXTRACT["mat", "right_scale"] = to_l0
EXTRACT["vec", "mat"] = ub_to_l1
EXTRACT["acc", "mat"] = acc_to_l1
EXTRACT["acc", "vec"] = acc_to_ub
INSERT["vec", "mat"] = ub_into_l1
INSERT["acc", "mat"] = acc_into_l1
INSERT["acc", "vec"] = acc_into_ub


@kernel("pto.textract_fp", "pto.textract.fp")
def textract_fp(op: Binding) -> Commit:
    """A window of an accumulator with a scale for each column; the first word is that of the first
    column of the window."""
    src, dst = op.tile("src"), op.tile("dst")
    return acc_to_l1(op, src, dst, *start_of(op, src, (dst.rows, dst.cols)))


@kernel("pto.tinsert_fp", "pto.tinsert.fp")
def tinsert_fp(op: Binding) -> Commit:
    """An accumulator into a window of L1 with a scale for each column."""
    src, dst = op.tile("src"), op.tile("dst")
    return acc_into_l1(op, dst, src, *start_of(op, dst, (src.rows, src.cols)))
