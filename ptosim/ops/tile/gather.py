"""Gathering and scattering inside vec memory: by element index, mask pattern, comparison, blocks.

An index names an element of the source (of the destination of a scatter) in memory order, over its
static shape. The hardware leaves an index outside the tile undefined; here it stops the run, or
gives zero as in the CPU simulator (switch `tgather.outside`).

The comparing form of tgather: the places whose elements compare true with the row's key.

What is known is the A5 library: it packs the indices of the hits to the left of the row and leaves
the rest of the row alone; the running index begins at `offset`, grows by 64 for each 64 lanes and
is not begun anew for a row; `gt` of f32 rounds the element to a whole number and compares it, as an
unsigned number, with the key; the count is where the store register is after the row, which is
bytes. The manual speaks of values and of the number of hits (switches `tgather.compare` and
`tgather.count`). Nothing is published for A2/A3, where the manual is followed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.numbers.integers import float_to_int
from ptosim.machine.numbers.lanes import COMPARISONS
from ptosim.machine.tile import Tile, TileRef
from ptosim.ops.base.binding import Binding, OpFault, tile_array, typed_scalar
from ptosim.ops.base.functions import Commit, kernel
from ptosim.ops.tile.tables import check_range, warn_shared

_BLOCK = 32


def _elements(tile: Tile) -> np.ndarray:
    """Return all elements of a tile in memory order."""
    return tile.flat(tile.rows * tile.cols)


@kernel("pto.tgather:index", over="dst")
def gather_by_index(op: Binding) -> Commit:
    """dst[r, c] = the element of src that indices[r, c] names."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, cols = dst.v_row, dst.v_col
    indices, out = op.region("indices", rows, cols), op.region("dst", rows, cols)
    warn_shared(op, "dst", "src")
    elements = _elements(src)
    op.finds("src", src.type.bytes, (1, 0))
    stops = op.switch("tgather.outside") == "trap"
    count = len(elements)

    def gather() -> None:
        places = indices.astype(np.int64)
        if stops:
            check_range(op, "PTO6402", places, count, "the elements of src")
            out[...] = elements[places]
            return
        inside = (places >= 0) & (places < count)
        found = elements[np.where(inside, places, 0)]
        out[...] = np.where(inside, found, np.zeros((), src.dtype))

    return gather


KEPT = {
    "P0101": (0, 2), "P1010": (1, 3), "P0001": (0,), "P0010": (1,), "P0100": (2,), "P1000": (3,),
    "P1111": (0, 1, 2, 3),
}  # fmt: skip
"""Which of four neighboring elements a pattern keeps: its digits are read from the right."""


def _axis(op: Binding) -> str | None:
    """Along what a pattern selects: `row` columns of each row, `col` rows; April says nothing."""
    return op.values.get("direction") or op.attr("axis")


def _selected(op: Binding, count: int) -> list[int]:
    """Of so many places those that the pattern selects."""
    kept = KEPT[str(op.attr("maskPattern"))]
    return [place for place in range(count) if place % 4 in kept]


def _gather_lines(op: Binding) -> Commit:
    """The columns or rows that the pattern selects, next to each other; no more than dst has."""
    src, dst = op.tile("src"), op.tile("dst")
    source = op.region("src", src.v_row, src.v_col)
    if _axis(op) == "row":
        picked = _selected(op, src.v_col)[: dst.v_col]
        out = op.region("dst", src.v_row, len(picked))
        return lambda: np.copyto(out, source[:, picked].view(out.dtype))
    picked = _selected(op, src.v_row)[: dst.v_row]
    out = op.region("dst", len(picked), src.v_col)
    return lambda: np.copyto(out, source[picked].view(out.dtype))


@kernel("pto.tscatter:mask", over="src")
def scatter_by_mask(op: Binding) -> Commit:
    """The columns or rows of src at the places that the pattern selects; the whole of dst is zeroed
    first but where the pattern selects everything."""
    src, dst = op.tile("src"), op.tile("dst")
    source = op.region("src", src.v_row, src.v_col)
    by_rows = _axis(op) == "row"
    picked = _selected(op, dst.cols if by_rows else dst.rows)[: src.v_col if by_rows else src.v_row]
    whole = op.region("dst", dst.rows, dst.cols)
    zeroes = str(op.attr("maskPattern")) != "P1111" and op.switch("tscatter.rest") == "zero"
    warn_shared(op, "dst", "src")

    def store() -> None:
        values = source.copy()
        if zeroes:
            whole[...] = np.zeros((), whole.dtype)
        if by_rows:
            whole[: src.v_row, picked] = values[:, : len(picked)]
        else:
            whole[picked, : src.v_col] = values[: len(picked)]

    return store


@kernel("pto.tgather:mask", over="src")
def gather_by_mask(op: Binding) -> Commit:
    """The elements that the pattern keeps of each row, packed one row after the other; along an
    axis the columns or rows that it keeps."""
    if _axis(op) is not None:
        return _gather_lines(op)
    src, dst = op.tile("src"), op.tile("dst")
    kept = KEPT[str(op.attr("maskPattern"))]
    columns = [c for c in range(src.v_col) if c % 4 in kept]
    count, room = src.v_row * len(columns), dst.rows * dst.cols
    if count > room:
        raise OpFault(
            "PTO6412",
            f"'{op.op.name}' keeps {count} elements; dst has {room}",
            help="give dst as many elements as the pattern keeps",
        )
    source = op.region("src", src.v_row, src.v_col)
    out = tile_array(dst, (count,), (dst.dtype.itemsize,), src.dtype)
    return lambda: np.copyto(out, source[:, columns].reshape(-1))


@kernel("pto.tgatherb", over="dst")
def gather_blocks(op: Binding) -> Commit:
    """dst = blocks of 32 bytes of src at byte offsets, one offset for each block of a row. A2/A3
    write whole blocks, A5 the valid columns."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, width = dst.v_row, dst.v_col * dst.dtype.itemsize
    blocks = -(-width // _BLOCK)
    offsets = op.region("offset", rows, blocks)
    warn_shared(op, "dst", "src", "offset")
    room = src.type.bytes
    source = tile_array(src, (max(room // _BLOCK, 0), _BLOCK), (_BLOCK, 1), np.uint8)
    whole = op.switch("tgatherb.tail") == "blocks"
    written = min(blocks * _BLOCK, dst.row_bytes) if whole else width
    out = tile_array(dst, (rows, written), (dst.row_bytes, 1), np.uint8)
    op.finds("src", len(source) * _BLOCK, (1, 0))
    op.writes_beyond("dst", width, written - width, (rows, dst.row_bytes))

    def gather() -> None:
        places = offsets.astype(np.int64)
        if (places % _BLOCK).any():
            raise OpFault(
                "PTO6403",
                f"'{op.op.name}': offset {int(places[places % _BLOCK != 0][0])} is no multiple "
                "of 32 bytes",
                help="blocks begin at multiples of 32 bytes from the start of src",
            )
        check_range(op, "PTO6402", places // _BLOCK, len(source), "the 32-byte blocks of src")
        found = source[places // _BLOCK].reshape(rows, blocks * _BLOCK)
        out[...] = found[:, :written]

    return gather


@kernel("pto.tscatter", "pto.tscatter:index", over="src")
def scatter(op: Binding) -> Commit:
    """Zero the whole of dst (switch `tscatter.rest`), then store each valid element of src at the
    place that its index names; of equal indices the last in row order stays."""
    src, dst = op.tile("src"), op.tile("dst")
    values = op.region("src", src.v_row, src.v_col)
    indices = op.region("indices", src.v_row, src.v_col)
    elements = _elements(dst)
    zeroes = op.switch("tscatter.rest") == "zero"
    warn_shared(op, "dst", "src", "indices")

    def store() -> None:
        if zeroes:
            elements[...] = np.zeros((), dst.dtype)
        places = indices.astype(np.int64).reshape(-1)
        check_range(
            op, "PTO6402", places.reshape(indices.shape), len(elements), "the elements of dst"
        )
        # An equal index stores again: NumPy keeps the last one.
        elements[places] = values.reshape(-1)

    return store


# -- indices of hits -------------------------------------------------------------------------------


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
