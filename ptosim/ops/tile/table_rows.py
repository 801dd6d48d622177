"""Gathering from and scattering to a table in global memory, in the language of August 2026.

With `coalesce = row` an index names a row of the table: its first four dimensions, in row-major
order. With `elem` it names an element, counted in the row-major order of all of its sizes. The
strides are the view's; the length of a row is the tile's. Indices count as unsigned, so a negative
one is huge. Without an out-of-bounds mode the library uses whatever address comes out; here such an
index reads what nothing has written, and stores nothing."""

from __future__ import annotations

from math import prod

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, check_elements, flat_bytes
from ptosim.ops.base.functions import Commit, kernel, nothing
from ptosim.ops.tile.tables import MODES, check_used, combination, store_in_order, unsigned

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Table:
    """A table as its buffer sees it: all elements of the buffer, how many indices the table has,
    and whether one names a row of `cols` elements."""

    view: GmAccess
    elements: Array
    cols: int
    by_rows: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that an index counts through."""
        return tuple(self.view.sizes[:4] if self.by_rows else self.view.sizes)

    @property
    def capacity(self) -> int:
        """Rows or elements of the table."""
        return prod(self.sizes)

    def places(self, named: Array) -> Array:
        """Return where the elements of indices are in the buffer: [rows, columns of the tile].
        Those of a row that is longer than the table's may be outside of it."""
        found = np.full(named.shape, self.view.offset, np.int64)
        # A step that the view itself never takes may have more than 64 bits. One as long as the
        # buffer leaves it just as well.
        most = len(self.elements)
        strides = [max(-most, min(stride, most)) for stride in self.view.spec.strides]
        for position, stride in zip(np.unravel_index(named, self.sizes), strides, strict=False):
            found = found + position * stride
        if self.by_rows:
            found = found.reshape(-1, 1) + np.arange(self.cols) * strides[4]
        return found


def _table(op: Binding, tile: Tile, *, by_rows: bool) -> Table:
    view = op.view("mem")
    if view.dtype.bits != tile.bits:
        raise OpFault(
            "PTO6008",
            f"elements of {view.dtype} and {tile.type.dtype} differ in width; a transfer does not "
            "convert",
        )
    return Table(view, view.buffer.elements(view_dtype(view.dtype)), tile.v_col, by_rows)


def _chosen(op: Binding, table: Table, indices: Array, mode: str) -> tuple[Array, Array]:
    """Return the places of indices under a mode, and which of them are in the table. Those that are
    not get the place of index 0."""
    named = unsigned(indices)
    if mode in MODES:
        named = MODES[mode](named, table.capacity)
    inside = named < table.capacity
    if mode == "undefined" and not inside.all():
        first = int(indices.reshape(-1)[np.flatnonzero(~inside.reshape(-1))[0]])
        what = "rows" if table.by_rows else "elements"
        op.report(
            "PTO6460",
            f"has index {first}, and {int((~inside).sum())} like it, outside a table of "
            f"{table.capacity} {what}",
            help="correct the index, or choose an out-of-bounds mode",
        )
    places = table.places(np.where(inside, named, 0))
    check_used(op, places, len(table.elements), table.view.buffer.name, table.cols)
    table.view.buffer.bring(places, table.elements.dtype)
    return places, np.broadcast_to(inside.reshape(-1, 1) if table.by_rows else inside, places.shape)


def _indices(op: Binding, tile: Tile, *, by_rows: bool) -> Array:
    """The indices as they are read at the end: one for each row, or the shape of the tile."""
    if isinstance(op.values["idx"], tuple):  # a view of global memory
        view = op.view("idx")
        count = tile.v_row if by_rows else tile.v_row * tile.v_col
        if prod(view.sizes) < count:
            raise OpFault(
                "PTO6021", f"'{op.op.name}' takes {count} indices; idx has {list(view.sizes)}"
            )
        flat = view.array().reshape(-1)[:count]
        return flat if by_rows else flat.reshape(tile.v_row, tile.v_col)
    idx = op.tile("idx")
    if not by_rows:
        return op.region("idx", tile.v_row, tile.v_col)
    if idx.type.blayout == "row_major" and idx.v_col != 1:
        return op.region("idx", 1, tile.v_row)[0]
    return op.region("idx", tile.v_row, 1)[:, 0]


# -- gather ----------------------------------------------------------------------------------------


@kernel("pto.mgather:table")
def mgather(op: Binding) -> Commit:
    """dst = the rows or elements of the table that idx names."""
    dst, by_rows = op.tile("dst"), op.attr("coalesce") == "row"
    if dst.is_empty or 0 in op.view("mem").sizes:
        return nothing
    table = _table(op, dst, by_rows=by_rows)
    indices, mode = _indices(op, dst, by_rows=by_rows), str(op.attr("gatherOob"))
    image = _image(op, dst) if op.has("scratch") else None
    missing = b"\0" if mode == "zero" else bytes([op.core.unwritten])

    def gather() -> None:
        places, inside = _chosen(op, table, indices, mode)
        found = table.elements[places]
        fill = np.frombuffer(missing * found.dtype.itemsize, found.dtype)[0]
        values = np.where(inside, found, fill).view(dst.dtype)
        if image is not None:
            image[1][...] = 0
        dst.write(np.ascontiguousarray(values))
        if image is not None:
            image[0][...] = image[1]

    return gather


def _image(op: Binding, dst: Tile) -> tuple[Array, Array]:
    """The bytes of the scratch view, and those of the tile, that are one image at the end."""
    scratch = op.view("scratch")
    size, count = dst.type.bytes, prod(scratch.sizes)
    if count < dst.rows * dst.cols:
        raise OpFault(
            "PTO6461",
            f"'{op.op.name}': scratch has {count} elements; the tile has {dst.rows * dst.cols}",
            help="the library builds the image of the whole tile there",
        )
    first = scratch.offset * scratch.dtype.bits // 8
    bytes_of_tile = flat_bytes(dst, size)
    check_elements(op.op.name, scratch.buffer.name, first, first + size, scratch.buffer.size)
    return scratch.buffer.part(first, first + size), bytes_of_tile


# -- scatter ---------------------------------------------------------------------------------------


@kernel("pto.mscatter:table")
def mscatter(op: Binding) -> Commit:
    """Store, add or compare each element of src at the places that idx names, in row order."""
    src, idx = op.tile("src"), op.tile("idx")
    word = op.attr("coalesce")
    by_rows = word == "row" if word is not None else idx.v_col <= 1 < src.v_col
    if src.is_empty or idx.is_empty or 0 in op.view("mem").sizes:
        return nothing
    table = _table(op, src, by_rows=by_rows)
    indices = _indices(op, src, by_rows=by_rows)
    values = op.region("src", src.v_row, src.v_col)
    mode = str(op.attr("scatterOob") or "undefined")
    combine = combination(op, table.elements.dtype)

    def scatter() -> None:
        places, inside = _chosen(op, table, indices, mode)
        given = np.ascontiguousarray(values).view(table.elements.dtype)
        if combine is None and op.target == "a5" and op.attr("scatterConflict") != "last":
            _note_conflicts(op, places[inside])
        store_in_order(table.elements, places[inside], given[inside], combine)

    return scatter


def _note_conflicts(op: Binding, places: Array) -> None:
    count = places.size - np.unique(places).size
    if count:
        op.report(
            "PTO6462",
            f"stores {count} elements where another one goes, too: which one stays is not defined",
            help="write `scatterConflict = #pto<scatter_conflict last>` for the last",
        )
