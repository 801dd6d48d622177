"""Reductions along rows (into column 0) and along columns (into row 0), and their arguments.

The domain is the valid region of the source. The order of float sums and products is in `order`;
i16 sums are kept in 32 bits on A5 and cut at the end, which wrapping gives as well.

max and min start from the lowest (highest) value, infinity for floats, and are replaced by strictly
better elements only: the first of equal elements stays, a NaN is never taken, and a row of NaN
gives the start value. Along columns they start from row 0, whose NaN therefore stays. The switch
`maxmin.nan` set to `spec` gives the other rule in both: NaN loses, +0 is above -0.

The order in which a row is reduced, which decides how float sums and products round.

A2/A3 (a row of more than one 256-byte repeat): repeats are combined lane by lane from left to
right, then the lanes of the one remaining repeat by the reduce instruction. Four f32 shapes take a
path of group reductions over the whole row instead: 64x128, 32x256, 16x512 and 8x1024. A5: each
256-byte chunk is reduced by the reduce instruction, then the results are combined from left to
right, the first with the neutral element.

The reduce instruction combines neighbors in pairs, level by level ("binary tree, two by two" in the
public documentation of the reduce interfaces); a lane without a partner goes up unchanged."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.ground.records import NamedTuple
from ptosim.machine.numbers import lanes
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, tile_array
from ptosim.ops.base.functions import Commit, Kernel, kernel
from ptosim.ops.tile.elementwise import WORDS, Function, with_sign_of, word

# -- orders of a sum -------------------------------------------------------------------------------

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

_WHOLE_ROW_SHAPES = frozenset({(64, 128), (32, 256), (16, 512), (8, 1024)})


def tree(values: np.ndarray, combine: Combine) -> np.ndarray:
    """Combine the last axis, neighbors in pairs, level by level."""
    while values.shape[-1] > 1:
        paired = combine(values[..., 0:-1:2], values[..., 1::2])
        if values.shape[-1] % 2:
            paired = np.concatenate((paired, values[..., -1:]), axis=-1)
        values = paired
    return values[..., 0]


def is_whole_row(rows: int, cols: int, dtype: np.dtype) -> bool:
    """True for the shapes that A2/A3 reduce by groups over the whole row."""
    return dtype == np.float32 and (rows, cols) in _WHOLE_ROW_SHAPES


def by_lanes(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """A2/A3: repeats lane by lane, then the tree."""
    rows, cols = values.shape
    lanes = REGISTER_BYTES // values.dtype.itemsize
    if cols <= lanes or is_whole_row(rows, cols, values.dtype):
        return tree(values, combine)
    total = np.array(values[:, :lanes])
    for start in range(lanes, cols, lanes):
        piece = values[:, start : start + lanes]
        total[:, : piece.shape[1]] = combine(total[:, : piece.shape[1]], piece)
    return tree(total, combine)


def by_chunks(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """A5: the tree for each chunk, then the chunks from left to right."""
    rows, cols = values.shape
    lanes = REGISTER_BYTES // values.dtype.itemsize
    total = np.full(rows, neutral, values.dtype)
    whole = cols // lanes * lanes
    if whole:
        chunks = tree(values[:, :whole].reshape(rows, whole // lanes, lanes), combine)
        for column in chunks.T:
            total = combine(total, column)
    if whole < cols:
        total = combine(total, tree(values[:, whole:], combine))
    return total


def one_by_one(values: np.ndarray, combine: Combine, neutral: Any) -> np.ndarray:
    """The CPU simulator: from left to right; sums of f16 and bf16 in f32, rounded at the end."""
    wide = values.dtype.kind not in "iu" and combine is np.add
    columns = values.astype(np.float32) if wide else values
    total = np.full(len(values), neutral, columns.dtype)
    for column in columns.T:
        total = combine(total, column)
    return total.astype(values.dtype)


ORDERS = {"lanes": by_lanes, "chunks": by_chunks, "sequential": one_by_one}


def in_rows(values: np.ndarray, combine: Combine) -> np.ndarray:
    """Combine the rows from top to bottom."""
    total = np.array(values[0])
    for row in values[1:]:
        total = combine(total, row)
    return total


def in_row_pairs(values: np.ndarray, combine: Combine, *, odd_into_first: bool) -> np.ndarray:
    """Combine rows in pairs, level by level. An odd last row is added to the first (A2/A3) or the
    last (A5) result of its level."""
    while len(values) > 1:
        paired = combine(values[0:-1:2], values[1::2])
        if len(values) % 2:
            place = 0 if odd_into_first else -1
            paired[place] = combine(paired[place], values[-1])
        values = paired
    return np.array(values[0])


# -- reductions ------------------------------------------------------------------------------------


Reduce = Callable[[np.ndarray], np.ndarray]


class Extreme(NamedTuple):
    """A maximum or minimum: its word, the place of the first one, the value alone where that is all
    that matters, and what it starts from."""

    word: str
    place: Callable[..., np.ndarray]
    of_all: Callable[..., np.ndarray]
    infinity: float
    limit: str

    def start(self, dtype: np.dtype) -> Any:
        """The value that every other one replaces."""
        value = getattr(np.iinfo(dtype), self.limit) if dtype.kind in "iu" else self.infinity
        return dtype.type(value)

    def ranked(self, values: np.ndarray) -> np.ndarray:
        """Values with the start value in the place of NaN."""
        if values.dtype.kind in "iu":
            return values
        return np.where(np.isnan(values), self.start(values.dtype), values)

    def first(self, ranked: np.ndarray, axis: int) -> np.ndarray:
        """Places of the first best values along an axis."""
        exact = ranked if ranked.dtype.kind in "iu" else ranked.astype(np.float32, copy=False)
        return self.place(exact, axis=axis)


MAXIMUM = Extreme("max", np.argmax, np.max, -np.inf, "min")
MINIMUM = Extreme("min", np.argmin, np.min, np.inf, "max")


# -- along rows ------------------------------------------------------------------------------------


def _folded(op: Binding, combine: np.ufunc, neutral: int) -> Reduce:
    order = ORDERS[op.switch("reduce.order")]

    def fold(values: np.ndarray) -> np.ndarray:
        if op.stacked == 1 or order is not by_lanes:
            return order(values, combine, neutral)
        tiles = np.split(values, op.stacked)  # how many rows a tile has may decide the order
        return np.concatenate([order(tile, combine, neutral) for tile in tiles])

    return fold


def _best(op: Binding, extreme: Extreme) -> Reduce:
    if op.switch("maxmin.nan") == "spec":
        of_two = lanes.of(extreme.word, op.tile("src").dtype, "spec")

        def fold(values: np.ndarray) -> np.ndarray:
            best = tree(values, of_two)
            return of_two(np.full_like(best, extreme.start(values.dtype)), best)

        return fold

    def take(values: np.ndarray) -> np.ndarray:
        found = extreme.of_all(values, axis=1)
        # Which of the zeros comes first, and NaN, are looked for where they decide.
        if values.dtype.kind in "iu" or (found.all() and not np.isnan(found).any()):
            return found
        ranked = extreme.ranked(values)
        place = extreme.first(ranked, axis=1)
        return np.take_along_axis(ranked, place[:, None], axis=1)[:, 0]

    return take


_ROWS: dict[str, Callable[[Binding], Reduce]] = {
    "sum": partial(_folded, combine=np.add, neutral=0),
    "prod": partial(_folded, combine=np.multiply, neutral=1),
    "max": partial(_best, extreme=MAXIMUM),
    "min": partial(_best, extreme=MINIMUM),
}


def _reduction(choose: Callable[[Binding], Reduce], axis: int) -> Kernel:
    """Return the kernel that reduces along an axis: each row to one result, or each column."""

    def bind(op: Binding) -> Commit:
        src = op.tile("src")
        values = op.region("src", src.v_row, src.v_col)
        out = _line(op, "dst", axis)
        values, reduce = with_sign_of(out, values), choose(op)
        return lambda: np.copyto(out, reduce(values))

    return bind


# -- along columns ---------------------------------------------------------------------------------


def _column_sum(op: Binding) -> Reduce:
    """From top to bottom, or with `isBinary` rows in pairs."""
    odd = op.switch("tcolsum.odd_row")
    if not op.attr("isBinary") or odd == "sequential":
        return partial(in_rows, combine=np.add)
    return partial(in_row_pairs, combine=np.add, odd_into_first=odd == "first")


def _column_best(op: Binding, extreme: Extreme) -> Reduce:
    combine = lanes.of(extreme.word, op.tile("src").dtype, op.switch("maxmin.nan"))
    return partial(in_rows, combine=combine)


_COLUMNS: dict[str, Callable[[Binding], Reduce]] = {
    "sum": _column_sum,
    "prod": lambda op: partial(in_rows, combine=np.multiply),
    "max": partial(_column_best, extreme=MAXIMUM),
    "min": partial(_column_best, extreme=MINIMUM),
}


# -- arguments -------------------------------------------------------------------------------------


def _argument(axis: int, extreme: Extreme) -> Kernel:
    """The index of the first best element along an axis, and its value if there is a tile for
    it."""

    def bind(op: Binding) -> Commit:
        src = op.tile("src")
        values = op.region("src", src.v_row, src.v_col)
        indices = _line(op, "dst", axis)
        best = _line(op, "value", axis) if op.has("value") else None

        def compute() -> None:
            ranked = extreme.ranked(values)
            first = extreme.first(ranked, axis)
            if best is not None:
                found = np.take_along_axis(ranked, np.expand_dims(first, axis), axis)
                best[...] = np.squeeze(found, axis)
            indices[...] = first

        return compute

    return bind


def _line(op: Binding, name: str, axis: int) -> np.ndarray:
    src = op.tile("src")
    return op.region(name, src.v_row, 1)[:, 0] if axis == 1 else op.region(name, 1, src.v_col)[0]


for _axis, _side, _words in ((1, "row", _ROWS), (0, "col", _COLUMNS)):
    for _name, _choose in _words.items():
        kernel(f"pto.t{_side}{_name}", over="src dst")(_reduction(_choose, _axis))
    for _name, _extreme in (("max", MAXIMUM), ("min", MINIMUM)):
        kernel(f"pto.t{_side}arg{_name}", over="src dst")(_argument(_axis, _extreme))


# -- neighbors -------------------------------------------------------------------------------------


@kernel("pto.tpairreducesum", over="dst src")
def tpairreducesum(op: Binding) -> Commit:
    """dst[r, c] = src[r, 2c] + src[r, 2c + 1]."""
    dst = op.tile("dst")
    out = op.region("dst", dst.v_row, dst.v_col)
    values = op.region("src", dst.v_row, 2 * dst.v_col)
    even, odd = values[:, 0::2], values[:, 1::2]
    return lambda: np.add(even, odd, out=out)


# Broadcasts: one value for each row, or one row for all rows, alone or with an operation.
#
# The broadcast operand of a row form is a column-major [R, 1] tile (element r belongs to row r) or
# a row-major tile whose rows are meant to hold copies. For the second the libraries of both targets
# repeat the 32-byte block r of the tile's flat memory over row r; the assembler's goldens (A5) use
# column 0 of row r. The switch `rowexpand.block` chooses, and a warning says when the two differ.


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


for _broadcast_name in WORDS:
    kernel(f"pto.trowexpand{_broadcast_name}", over="dst src0 src1")(_row_form(_broadcast_name))
    kernel(f"pto.tcolexpand{_broadcast_name}", over="dst src0 src1")(_column_form(_broadcast_name))
