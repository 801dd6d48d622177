"""Gathering from and scattering to a table in global memory in the language of April 2026 (A5).

An index tile of one column names rows of the table, one of the shape of the tile names elements.
The library addresses the table densely: a row has as many elements as the tile has valid columns.
Indices count as unsigned, so a negative one is huge. What happens to an index that the table does
not have is an attribute; `undefined` reaches into the memory after the view, which stops the run
only where the buffer ends.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ptosim.ground.records import dataclass
from ptosim.machine.numbers import lanes
from ptosim.machine.pages import view_dtype
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing

# Places that an index operand names: checks with the element that is wrong, and where.


def check_range(
    op: Binding, code: str, places: np.ndarray, limit: int, what: str, help_: str | None = None
) -> None:
    """Raise OpFault where a place is outside [0, limit), naming the first such index. Places are
    signed: a negative number stays one."""
    wrong = (places < 0) | (places >= limit)
    if not wrong.any():
        return
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    where = at[0] if len(at) == 1 else at
    raise OpFault(
        code,
        f"'{op.op.name}': index {int(places[at])} at {where} is outside {what} of {limit}",
        notes=(f"{int(wrong.sum())} of {places.size} indices are out of range",),
        help=help_,
    )


def overlaps(first: Tile, second: Tile) -> bool:
    """True if two tiles share bytes of a space."""
    if first.type.loc != second.type.loc:
        return False
    return (
        first.addr < second.addr + second.type.bytes and second.addr < first.addr + first.type.bytes
    )


def warn_shared(op: Binding, written: str, *read: str, is_certain: bool = False) -> None:
    """Warn where an operation writes a tile while it still reads another one at the same place; an
    error where `is_certain`, that is, the code that does so is known to run."""
    target = op.tile(written)
    for name in read:
        if op.has(name) and overlaps(target, op.tile(name)):
            op.report(
                "PTO6406" if is_certain else "PTO6401",
                f"writes {written} in the place of {name}, which it reads out of order",
                notes=("what the hardware reads there after the first write is undefined",),
                help=f"give {written} storage of its own",
            )


Chooser = Callable[[np.ndarray, int], np.ndarray]

# What the out-of-bounds modes make of indices, which count as unsigned: a negative one is huge.
MODES: dict[str, Chooser] = {
    "clamp": lambda places, limit: np.minimum(places, limit - 1),
    "wrap": lambda places, limit: places % limit,
}


def unsigned(indices: np.ndarray) -> np.ndarray:
    """Return 32-bit indices as the unsigned numbers that a table access makes of them."""
    return np.ascontiguousarray(indices).view(np.uint32).astype(np.int64)


Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Table:
    """A table in global memory as its buffer sees it: `limit` rows or elements of `step` elements
    each from element `base`; `lanes` are the elements of one index."""

    elements: Array
    base: int
    step: int
    limit: int
    lanes: Array
    name: str

    def places(self, indices: Array) -> Array:
        """Return the elements that indices name: one for each element of the tile."""
        return self.base + indices * self.step + self.lanes


def _table(op: Binding, view: GmAccess, tile: Tile, idx: Tile) -> Table:
    if view.dtype.bits != tile.bits:
        raise OpFault(
            "PTO6008",
            f"elements of {view.dtype} and {tile.type.dtype} differ in width; a transfer does not "
            "convert",
        )
    cols, sizes = tile.v_col, view.sizes
    by_rows = idx.v_col == 1 and cols > 1
    _warn_sparse(op, view, cols, by_rows=by_rows)
    dtype = view_dtype(view.dtype)
    elements = view.buffer.elements(dtype)
    limit = prod(sizes[:4] if by_rows else sizes)
    lanes = np.arange(cols) if by_rows else np.zeros(1, np.int64)
    return Table(elements, view.offset, cols if by_rows else 1, limit, lanes, view.buffer.name)


def _warn_sparse(op: Binding, view: GmAccess, cols: int, *, by_rows: bool) -> None:
    """Report a table that is not dense with rows of the tile's valid columns."""
    step = 1
    expected = []
    for size in reversed(view.sizes):
        expected.insert(0, step)
        step *= size
    dense = all(
        n == 1 or s == e for n, s, e in zip(view.sizes, view.spec.strides, expected, strict=True)
    )
    if dense and (not by_rows or view.sizes[4] == cols):
        return
    op.report(
        "PTO6404",
        f"addresses the table densely with rows of {cols} elements; the view has sizes "
        f"{list(view.sizes)} and strides {list(view.spec.strides)}",
        help="give the tile as many valid columns as the table, and the table no gaps",
    )


def _inside(op: Binding, table: Table, indices: Array, places: Array) -> None:
    """Mode `undefined`: after the table a warning, after the buffer the end of the run."""
    outside = indices >= table.limit
    if not outside.any():
        return
    at = tuple(int(i) for i in np.argwhere(outside)[0])
    text = (
        f"index {int(indices[at].astype(np.uint32).astype(np.int32))} at {at} is not in the table"
    )
    if int(places.max()) >= len(table.elements):
        raise OpFault(
            "PTO6402",
            f"'{op.op.name}': {text} of {table.limit} and is past the end of `{table.name}`",
            help="correct the index, or choose an out-of-bounds mode",
        )
    op.report("PTO6405", f"{text} of {table.limit}; it is in `{table.name}` all the same")


def check_used(op: Binding, places: Array, count: int, buffer: str, cols: int) -> None:
    """Raise OpFault where a place that is read or written is none of a buffer's `count` elements: a
    row has as many elements as the tile has valid columns, whatever the table has."""
    if not places.size:
        return
    past = int(places.max()) >= count
    if not past and int(places.min()) >= 0:
        return
    what = f"a row of {cols} elements" if cols > 1 else "an element"
    raise OpFault(
        "PTO6402",
        f"'{op.op.name}': {what} is {'past the end' if past else 'before the start'} of `{buffer}`",
        help="give the tile as many valid columns as the table has, and check the table's strides",
    )


_LEAVING_OUT = ("zero", "skip")
"""Modes in which an index that the table does not have reaches nothing."""


def _named(op: Binding, table: Table, indices: Array, mode: str) -> tuple[Array, Array]:
    """Indices as numbers, and the elements that they name under an out-of-bounds mode. Raises
    OpFault where one that is used is past the end of the buffer: rows have the tile's width."""
    named = unsigned(indices)
    places = table.places(MODES[mode](named, table.limit) if mode in MODES else named)
    if mode == "undefined":
        _inside(op, table, named, places)
    used = places
    if mode in _LEAVING_OUT:
        used = places[np.broadcast_to(named < table.limit, places.shape)]
    check_used(op, used, len(table.elements), table.name, len(table.lanes))
    op.view("mem").buffer.bring(used, table.elements.dtype)
    return named, places


# -- gather ----------------------------------------------------------------------------------------


@kernel("pto.mgather")
def mgather(op: Binding) -> Commit:
    """dst = the rows or elements of the table that idx names."""
    view, idx, dst = op.view("mem"), op.tile("idx"), op.tile("dst")
    if dst.is_empty or 0 in view.sizes:
        return nothing
    table = _table(op, view, dst, idx)
    indices = op.region("idx", dst.v_row, idx.v_col)
    mode = str(op.attr("gatherOob"))

    def gather() -> None:
        named, places = _named(op, table, indices, mode)
        if mode == "zero":
            missing = np.broadcast_to(named >= table.limit, places.shape)
            found = table.elements[np.where(missing, table.base, places)]
            dst.write(np.where(missing, np.zeros((), found.dtype), found).view(dst.dtype))
            return
        dst.write(table.elements[places].view(dst.dtype))

    return gather


# -- scatter ---------------------------------------------------------------------------------------


@kernel("pto.mscatter")
def mscatter(op: Binding) -> Commit:
    """Store, add or compare each element of src at the places that idx names, in row order; each
    element is rounded in the table's type before the next one comes."""
    view, idx, src = op.view("mem"), op.tile("idx"), op.tile("src")
    if src.is_empty or 0 in view.sizes:
        return nothing
    table = _table(op, view, src, idx)
    indices = op.region("idx", src.v_row, idx.v_col)
    values = op.region("src", src.v_row, src.v_col)
    mode, combine = str(op.attr("scatterOob")), combination(op, table.elements.dtype)

    def scatter() -> None:
        named, places = _named(op, table, indices, mode)
        kept = np.broadcast_to(mode != "skip" or named < table.limit, places.shape)
        given = np.ascontiguousarray(values).view(table.elements.dtype)
        store_in_order(table.elements, places[kept], given[kept], combine)

    return scatter


Combination = Callable[[Array, Array], Array]


def combination(op: Binding, dtype: np.dtype) -> Combination | None:
    """Return what an atomic scatter makes of two values, None for a plain one."""
    word = str(op.attr("scatterAtomicOp") or "none")
    if word == "none":
        return None
    return lanes.of(word, dtype, "" if word == "add" else op.switch("maxmin.nan"))


@np.errstate(all="ignore")
def store_in_order(
    elements: Array, places: Array, values: Array, combine: Combination | None
) -> None:
    """Combine values into elements in order; a place that occurs again meets the earlier result."""
    if combine is None:
        elements[places] = values  # of equal places the last one stays
        return
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]]
    starts = np.flatnonzero(first)
    rounds = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
    for number in range(int(rounds.max(initial=-1)) + 1):
        chosen = order[rounds == number]
        at = places[chosen]
        elements[at] = combine(elements[at], values[chosen])
