"""Accumulators on their way out through the fixpipe: to global memory, to L1, to UB of either
vector core or of both. What happens to the values is in `fixpipe`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.storage import view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, owned_tile, vector_cores
from ptosim.ops.base.functions import Commit
from ptosim.ops.cube.fixpipe import is_scaled, stored
from ptosim.ops.move.boxes import Start, read_window, write_window
from ptosim.ops.move.transfer import (
    GmWindow,
    from_logical,
    inside,
    layout_for_acc,
    logical_sizes,
    on_window,
)

_ATOMIC_TYPES = ("f32", "f16", "bf16", "i32", "i16", "i8")
_WHOLE = slice(None)

Part = tuple[Tile, slice, slice]
"""A destination with the rows and columns of the result that go there."""


# -- to global memory ------------------------------------------------------------------------------


def store_accumulator(op: Binding, view: GmAccess, tile: Tile) -> Commit:
    """Store an accumulator to a window, as rows, columns or column blocks; optional atomic add."""
    convert = stored(op, tile, view.dtype)
    layout = layout_for_acc(view, tile)
    sizes, rows, cols = logical_sizes(op, view, tile, layout)
    dtype = view_dtype(view.dtype)

    def results() -> np.ndarray:
        return from_logical(convert(tile.read(rows, cols)), sizes, layout).view(dtype)

    window = inside(op, view, GmWindow(view, dtype, sizes, view.spec.strides))
    if op.attr("atomicType") != "atomic_add":
        return on_window(op, view, window, lambda place: lambda: np.copyto(place, results()))
    check_atomic(view)
    if all(n == 1 or s for n, s in zip(sizes, view.spec.strides, strict=True)):
        return on_window(
            op, view, window, lambda place: lambda: np.copyto(place, place + results())
        )
    return _adding_again(view, sizes, results)


def check_atomic(view: GmAccess) -> None:
    """Raise OpFault for element types that no atomic store adds."""
    if view.dtype.family not in _ATOMIC_TYPES:
        raise OpFault(
            "PTO6016",
            f"there is no atomic addition of {view.dtype}",
            notes=(f"atomic stores add {', '.join(_ATOMIC_TYPES)}",),
        )


def _adding_again(
    view: GmAccess, sizes: tuple[int, ...], results: Callable[[], np.ndarray]
) -> Commit:
    """A window that repeats a place adds to it once for each repetition."""
    dtype = view_dtype(view.dtype)
    whole = view.buffer.elements(dtype)
    places = np.full(sizes, view.offset, np.int64)
    axes = np.ogrid[tuple(slice(n) for n in sizes)]
    for axis, step in zip(axes, view.spec.strides, strict=True):
        if axis.size > 1:  # a stride that nobody takes may have more than 64 bits
            places += axis * step
    view.buffer.bring(places, dtype)
    return lambda: np.add.at(whole, places, results())


# -- to other tiles --------------------------------------------------------------------------------


def accumulator_to_tile(op: Binding) -> Commit:
    """The valid region of an accumulator to a tile of mat or vec."""
    src, dst = op.tile("src"), op.values["dst"].type
    if dst.loc != "vec":
        tile = owned_tile(op, "dst")
        size = min(src.v_row, tile.rows), min(src.v_col, tile.cols)
        return accumulator_window(op, src, (0, 0), tile, (0, 0), size)
    rows, cols = src.v_row, src.v_col
    parts = _vector_parts(op, rows, cols)
    convert = stored(op, src, dst.dtype)
    if len(parts) == 1:
        rows, cols = min(rows, parts[0][0].rows), min(cols, parts[0][0].cols)

    def move() -> None:
        values = convert(src.read(rows, cols))
        for tile, row_part, col_part in parts:
            tile.write(np.ascontiguousarray(values[row_part, col_part]).view(tile.dtype))

    return move


def accumulator_window(
    op: Binding,
    src: Tile,
    src_start: tuple[int, int],
    dst: Tile,
    dst_start: tuple[int, int],
    size: tuple[int, int],
) -> Commit:
    """Convert a window of an accumulator into a window of a tile of L1."""
    _check_mat(op, src, dst)
    convert = stored(op, src, dst.type.dtype)

    def move() -> None:
        values = convert(read_window(src, src_start, *size))
        write_window(dst, dst_start, values.view(dst.dtype))

    return move


def accumulator_to_ub(
    op: Binding, src: Tile, src_start: Start, dst_start: Start, size: Start
) -> Commit:
    """Convert a window of an accumulator into a window of a tile of UB, of one vector core or by
    halves of both."""
    parts = _vector_parts(op, *size)
    convert = stored(op, src, op.values["dst"].type.dtype)

    def move() -> None:
        values = convert(read_window(src, src_start, *size))
        for tile, rows, cols in parts:
            part = np.ascontiguousarray(values[rows, cols])
            write_window(tile, dst_start, part.view(tile.dtype))

    return move


def halves(op: Binding) -> tuple[int, int]:
    """Return how many destinations the rows and the columns of a move to UB are shared by."""
    mode = str(op.attr("accToVecMode") or "").lower()
    return 2 if mode == "dual_mode_split_m" else 1, 2 if mode == "dual_mode_split_n" else 1


def _check_mat(op: Binding, src: Tile, dst: Tile) -> None:
    """A2/A3 has no way to move 32-bit elements from the accumulator to L1."""
    if dst.type.loc == "mat" and op.target == "a2a3" and dst.bits == 32:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': {op.target} does not move {src.type.dtype} from acc to mat as "
            f"{dst.type.dtype}",
            notes=("on A2/A3 accumulators become 16 or 8 bits wide on their way to L1",),
            help="give the mat tile f16 or bf16, or store the accumulator to global memory",
        )


def _vector_parts(op: Binding, rows: int, cols: int) -> list[Part]:
    """The tiles of the vector cores that a move to UB fills: one core's, or a half for each."""
    mode = str(op.attr("accToVecMode") or "single_mode_vec0").lower()
    cores, ref = vector_cores(op), op.values["dst"]
    wanted = {"single_mode_vec0": 1}.get(mode, 2)
    if len(cores) < wanted:
        raise OpFault(
            "PTO8002",
            f"'{op.op.name}': accToVecMode {mode} writes to the memory of the second vector core; "
            "this program runs on a core without one",
            help="put cube and vector operations into sections: such a kernel runs on one cube and "
            "two vector cores",
        )
    tiles = [op.bind_tile(ref, "dst", core) for core in cores]
    if mode.startswith("single"):
        number = int(mode[-1])
        op.made = [(cores[number], ref)]
        return [(tiles[number], _WHOLE, _WHOLE)]
    op.made = [(core, ref) for core in cores[:2]]
    by_rows = mode == "dual_mode_split_m"
    _check_halves(op, rows if by_rows else cols, by_rows)
    half = (rows if by_rows else cols) // 2
    parts = slice(half), slice(half, None)
    if by_rows:
        return [(t, p, _WHOLE) for t, p in zip(tiles, parts, strict=False)]
    return [(t, _WHOLE, p) for t, p in zip(tiles, parts, strict=False)]


def _check_halves(op: Binding, side: int, by_rows: bool) -> None:
    if is_scaled(op):
        raise OpFault("PTO6310", f"'{op.op.name}': a move to both vector cores does not quantise")
    unit, name = (2, "rows") if by_rows else (32, "columns")
    if side % unit:
        raise OpFault(
            "PTO6311",
            f"'{op.op.name}' splits {side} {name} between two vector cores",
            notes=("rows are halved in twos, columns in multiples of 32",),
        )
