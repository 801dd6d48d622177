"""The comparing form of tgather: the places whose elements compare true with the row's key.

What is known is the A5 library: it packs the indices of the hits to the left of the row and leaves
the rest of the row alone; the running index begins at `offset`, grows by 64 for each 64 lanes and
is not begun anew for a row; `gt` of f32 rounds the element to a whole number and compares it, as an
unsigned number, with the key; the count is where the store register is after the row, which is
bytes. The manual speaks of values and of the number of hits (switches `tgather.compare` and
`tgather.count`). Nothing is published for A2/A3, where the manual is followed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.numbers.integers import float_to_int
from ptosim.machine.numbers.lanes import COMPARISONS
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import Binding, OpFault, typed_scalar
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.base.strided import tile_array

_LANES = 64


@kernel("pto.tgather:compare", over="src")
def gather_hits(op: Binding) -> Commit:
    """Row r of dst = the indices of the hits of row r of src; element r of count = how many."""
    src, dst, count = op.tile("src"), op.tile("dst"), op.tile("count")
    rows, cols = src.v_row, src.v_col
    values, out = op.region("src", rows, cols), op.region("dst", rows, dst.cols)
    counts = _by_row(op, "count", count, rows)
    key, hits = _keys(op, src, rows), _comparison(op, src)
    first = int(op.attr("offset") or 0)
    lanes = -(-cols // _LANES) * _LANES
    running = first + np.arange(rows)[:, None] * lanes + np.arange(cols)
    unit = dst.dtype.itemsize if op.switch("tgather.count") == "bytes" else 1

    def gather() -> None:
        found = hits(values, key())
        numbers = found.sum(axis=1)
        if int(numbers.max()) > dst.cols:
            raise OpFault(
                "PTO6412",
                f"'{op.op.name}' finds {int(numbers.max())} hits in a row; dst has {dst.cols} "
                "columns",
            )
        for row, hit, places in zip(out, found, running, strict=True):
            row[: int(hit.sum())] = places[hit]
        counts[...] = numbers * unit

    return gather


def _by_row(op: Binding, name: str, tile: Tile, rows: int) -> np.ndarray:
    """Return the first elements of a tile in memory order, one for each row."""
    if tile.rows > 1 and tile.layout.name == "nd" and tile.cols > 1:
        op.report(
            "PTO6422",
            f"takes element r of {name} in memory order for row r; its rows have {tile.cols} "
            "elements",
            help=f"make {name} a column (blayout=col_major) or a single row",
        )
    return tile_array(tile, (rows,), (tile.dtype.itemsize,))


def _keys(op: Binding, src: Tile, rows: int) -> Callable[[], np.ndarray]:
    """Return what gives the key of each row, as a column."""
    if isinstance(op.values["kValue"], TileRef):
        column = _by_row(op, "kValue", op.tile("kValue"), rows)
        return lambda: column[:, None]
    scalar = np.full((1, 1), typed_scalar(op.scalar("kValue"), src.dtype))
    return lambda: scalar


def _comparison(op: Binding, src: Tile) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    mode = str(op.attr("cmpMode"))
    rule = COMPARISONS[mode]
    if mode == "eq" or src.dtype != np.float32 or op.switch("tgather.compare") == "value":
        return rule

    def compare(values: np.ndarray, key: np.ndarray) -> np.ndarray:
        found = rule(_words(values), _words(key))
        if (found != rule(values, key)).any():
            op.report(
                "PTO6423",
                "compares elements rounded to whole numbers, as unsigned ones; a comparison of "
                "values has other hits",
                notes=("switch `tgather.compare`: `library` or `value`",),
            )
        return found

    return compare


def _words(values: np.ndarray) -> np.ndarray:
    """Return floats rounded to s32, ties to even, and integers, as unsigned 32-bit numbers."""
    if values.dtype.kind == "f":
        values = float_to_int(np.ascontiguousarray(values), "i32", "rint")
    return np.ascontiguousarray(values).view(np.uint32)
