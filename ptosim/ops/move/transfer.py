"""The geometry of a transfer: which elements of a GM window meet which elements of a tile.

Rows are counted by the window, the row length by the tile: an ND window moves s0*s1*s2*s3 rows of
`validCol` elements each, whatever its last size says (DN: columns and `validRow`; NZ: s0*s1 column
blocks of `validRow` rows of 32 bytes, contiguous in global memory). This is what the transfer
instructions of both targets do; the equations between window and valid shape in the library's
headers are debug assertions that real programs do not obey.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from ptosim.ground.ir.types import BLOCK_BITS
from ptosim.ground.records import dataclass
from ptosim.machine.gm import byte_steps, reach
from ptosim.machine.layout import round_up
from ptosim.machine.pages import unpack_nibbles
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, GmAccess, OpFault, check_elements, tile_array
from ptosim.ops.base.functions import Commit

Shape = tuple[int, ...]


class GmWindow:
    """The elements of global memory that a transfer moves: shape and strides, and the place where
    they begin (in elements). The view that they belong to may reach farther."""

    __slots__ = ("_high", "_low", "_size", "buffer", "dtype", "offset", "shape", "strides")

    def __init__(
        self,
        view: GmAccess,
        dtype: np.dtype,
        sizes: Shape,
        strides: Shape,
    ) -> None:
        self.buffer = view.buffer
        self.dtype = dtype
        self.offset = view.offset
        self._size = view.dtype.bits
        self.shape, steps = sizes, strides
        if self._size == 4:
            self.shape = (*sizes[:-1], sizes[-1] // 2)
            steps = (*(s // 2 for s in strides[:-1]), 1)
        self.strides = byte_steps(self.shape, steps, dtype.itemsize)
        self._low, self._high = reach(sizes, strides)

    @property
    def ends(self) -> tuple[int, int]:
        """The first element and the one after the last."""
        return self.offset + self._low, self.offset + self._high + 1

    @property
    def count(self) -> int:
        """Elements of the buffer."""
        return self.buffer.size * 8 // self._size

    def array(self, offset: int, use: str = "") -> np.ndarray:
        """Return the elements with the window at a place. `use`: `read` or `fill`, if that happens
        to all of them before anything else does."""
        start, buffer = offset * self._size // 8, self.buffer
        if not use or buffer.pages is None:
            return buffer.array(self.shape, self.dtype, start, self.strides)
        made = buffer.array_to_read if use == "read" else buffer.array_to_fill
        return made(self.shape, self.dtype, start, self.strides)

    def limits(self, view: GmAccess) -> range:
        """Return the places where both the window and its view are in the buffer; none for elements
        of half a byte, which have rules of their own."""
        if self._size == 4:
            return range(0)
        spec = view.spec
        return range(-min(spec.low, self._low), self.count - max(spec.high, self._high))


def on_window(
    op: Binding,
    view: GmAccess,
    window: GmWindow,
    effect: Callable[[np.ndarray], Commit],
    use: str = "",
) -> Commit:
    """Return the effect of a transfer on its window. The binding keeps how it would be on the same
    window at another place: the rest of what was bound and checked does not depend on it. `use`:
    the effect does nothing but to `read` the window, or to `fill` all of it."""
    places = window.limits(view)
    use = use if use in op.at_once else ""
    op.moved = lambda place: effect(window.array(place, use)) if place in places else None
    return effect(window.array(window.offset, use if use == "read" else ""))


@dataclass(frozen=True, slots=True)
class Matched:
    """Window and tile as two views of one five-dimensional shape. `lines` rows of the tile (columns
    of a DN tile) take part."""

    window: GmWindow
    tile: np.ndarray
    lines: int


def check_widths(view: GmAccess, tile: Tile) -> None:
    """A transfer does not convert; 4-bit elements move as whole bytes."""
    if view.dtype.bits != tile.bits:
        raise OpFault(
            "PTO6008",
            f"elements of {view.dtype} and {tile.type.dtype} differ in width; a transfer does not "
            "convert",
            help="give the view the tile's element type, and convert with tcvt",
        )
    if tile.bits != 4:
        return
    outer = zip(view.sizes[:-1], view.spec.strides[:-1], strict=True)
    even = view.offset % 2 == 0 == view.sizes[-1] % 2 and all(
        n == 1 or s % 2 == 0 for n, s in outer
    )
    if not even or view.spec.strides[-1] != 1 or tile.v_col % 2 or tile.layout.name == "dn":
        raise OpFault(
            "PTO6015",
            f"a window of {view.dtype} or its tile does not consist of whole bytes",
            notes=("two 4-bit elements share a byte: rows begin at even elements and have an even "
                   "number of them",),
        )  # fmt: skip


def is_matched(op: Binding, view: GmAccess, tile: Tile) -> bool:
    """True where window and tile have one layout, or layouts that are the same for their shapes."""
    if tile.layout.is_boxed:
        return tile.layout.name == "nz" and _is_blocked(op, view, tile)
    if view.layout == tile.layout.name or tile.rows == 1 or tile.cols == 1:
        return True
    if view.layout == "nz":
        warn_pair(op, view, tile)
        return True
    return False


def _is_blocked(op: Binding, view: GmAccess, tile: Tile) -> bool:
    """True for column blocks of 32 bytes: an nz view, or its shape in a view without a layout."""
    s0, s1, _, _, s4 = view.sizes
    block = tile.layout.box_cols
    if view.layout == "nz":
        if s4 != block and op.target == "a2a3":
            raise OpFault(
                "PTO6017",
                f"the last dimension of the nz view is {s4}; a column block of {view.dtype} has "
                f"{block} elements",
                notes=("A5 takes any split of a block, A2/A3 blocks of 16 rows of 32 bytes",),
            )
        return True
    columns = s0 * s1 * block
    return s4 == block and columns > block and columns == round_up(tile.v_col, block)


def warn_pair(op: Binding, view: GmAccess, tile: Tile) -> None:
    """Report a pair of layouts that the library's transfer does not have."""
    op.report(
        "PTO6104",
        f"moves between a {view.layout} view and a {tile.layout.name} tile in {tile.type.loc}",
        notes=("the C++ library refuses this pair of layouts; elements go where they belong",),
        help="give view and tile the same layout",
    )


def matched(op: Binding, view: GmAccess, tile: Tile) -> Matched:
    """Return both sides of a transfer that keeps the layout."""
    name = "nz" if tile.layout.is_boxed else tile.layout.name
    sizes = _moved(name, view, tile)
    _compare(op, name, view, tile)
    strides = _TILE_STRIDES[name](tile, sizes)
    window = gm_window(op, view, tile, sizes, name == "nz")
    if tile.bits == 4:
        sizes = (*sizes[:-1], sizes[-1] // 2)
    size = tile.dtype.itemsize
    array = tile_array(tile, sizes, [s * size for s in strides])
    return Matched(window, array, _lines(name, view))


def _moved(name: str, view: GmAccess, tile: Tile) -> Shape:
    """The five sizes that really move, by layout."""
    s0, s1, s2, s3, s4 = view.sizes
    if name == "nd":
        return s0, s1, s2, s3, tile.v_col
    if name == "dn":
        return s0, s1, s2, tile.v_row, s4
    return s0, s1, 1, tile.v_row, tile.layout.box_cols


def _lines(name: str, view: GmAccess) -> int:
    """Rows, columns or column blocks that the window has."""
    s0, s1, s2, s3, s4 = view.sizes
    return {"nd": s0 * s1 * s2 * s3, "dn": s0 * s1 * s2 * s4, "nz": s0 * s1}[name]


def _compare(op: Binding, name: str, view: GmAccess, tile: Tile) -> None:
    """Report where the window and the valid region disagree (see the module's text)."""
    _, _, s2, s3, s4 = view.sizes
    block = tile.layout.box_cols
    lines = _lines(name, view)
    axis, other = ("rows", "columns") if name == "nd" else ("columns", "rows")
    if name == "nd":
        valid, limit, across, length = tile.v_row, tile.rows, s4, tile.v_col
    elif name == "dn":
        valid, limit, across, length = tile.v_col, tile.cols, s3, tile.v_row
    else:
        axis = "column blocks"
        valid, limit = -(-tile.v_col // block), -(-tile.cols // block)
        across, length = s2 * s3 * s4 // block, tile.v_row
    if lines > limit:
        raise OpFault(
            "PTO6009",
            f"the window has {lines} {axis}, the tile only {limit}",
            help="move a smaller window or use a larger tile",
        )
    if lines != valid:
        op.report(
            "PTO6102",
            f"moves {lines} {axis} of the window; the tile's valid region has {valid}",
            notes=(f"{axis} are counted by the window",),
        )
    if across != length:
        op.report(
            "PTO6103",
            f"moves {length} {other} of each; the window has {across}",
            notes=(f"the length along the {other} is the tile's valid size",),
            help="give window and valid region the same size",
        )


def gm_window(
    op: Binding, view: GmAccess, tile: Tile, sizes: Shape, contiguous: bool = False
) -> GmWindow:
    """Return the elements of a window with the sizes that the transfer moves (packed 4-bit: bytes);
    a longer row reads on in global memory. Column blocks are contiguous whatever strides say."""
    strides = view.spec.strides
    if contiguous:
        strides = (*strides[:2], 0, sizes[-1], 1)
        _, _, s2, s3, _ = view.sizes
        if (s3 > 1 and view.spec.strides[3] != sizes[-1]) or (
            s2 > 1 and view.spec.strides[2] != s3 * sizes[-1]
        ):
            op.report(
                "PTO6106",
                "takes every column block as contiguous; the view's strides say otherwise",
                notes=("the transfer of an NZ tile uses the strides between blocks only",),
            )
    return inside(op, view, GmWindow(view, tile.dtype, sizes, strides))


def inside(op: Binding, view: GmAccess, window: GmWindow) -> GmWindow:
    """Return a window that its buffer holds as a whole; faults for any other."""
    note = "the length of a row is the tile's valid size, not the window's"
    check_elements(op.op.name, view.buffer.name, *window.ends, window.count, notes=(note,))
    return window


def _nd_strides(tile: Tile, sizes: Shape) -> Shape:
    row = tile.layout.row_stride // (2 if tile.bits == 4 else 1)
    _, s1, s2, s3, _ = sizes
    return s1 * s2 * s3 * row, s2 * s3 * row, s3 * row, row, 1


def _dn_strides(tile: Tile, sizes: Shape) -> Shape:
    col = tile.layout.col_stride
    _, s1, s2, _, s4 = sizes
    return s1 * s2 * s4 * col, s2 * s4 * col, s4 * col, tile.layout.row_stride, col


def _nz_strides(tile: Tile, sizes: Shape) -> Shape:
    half = 2 if tile.bits == 4 else 1
    block = tile.layout.strides[2] // half
    return sizes[1] * block, block, 0, tile.layout.box_cols // half, 1


_TILE_STRIDES = {"nd": _nd_strides, "dn": _dn_strides, "nz": _nz_strides}


# -- windows as rows and columns -------------------------------------------------------------------


def logical_sizes(op: Binding, view: GmAccess, tile: Tile, layout: str) -> tuple[Shape, int, int]:
    """Return the sizes that move where layouts differ, with the rows and columns that they are."""
    sizes = view.sizes
    if layout in SCALE_TABLES and sizes[3:] != (16, 2):
        raise OpFault(
            "PTO6051",
            f"'{op.op.name}': a view of layout {layout} with the last sizes {sizes[3]}, {sizes[4]}",
            notes=("scales are in boxes of 16 lines with two groups each",),
            help="give the view the sizes [1, lines/16, groups/2, 16, 2]",
        )
    if layout != "nz" and layout not in SCALE_TABLES:
        sizes = _moved(layout, view, tile)
        _compare(op, layout, view, tile)
    rows, cols = _rows_and_columns(sizes, layout)
    if rows > tile.rows or cols > tile.cols:
        raise OpFault(
            "PTO6009",
            f"the window has {rows}x{cols} elements, the tile only {tile.rows}x{tile.cols}",
            help="move a smaller window or use a larger tile",
        )
    return sizes, rows, cols


def layout_for_acc(view: GmAccess, tile: Tile) -> str:
    """Return the layout of a window that an accumulator is stored to: column blocks, of 16 elements
    or of 32 bytes, where the window has several; a view cannot say so itself in most cases."""
    s0, s1, _, _, s4 = view.sizes
    if s4 not in (16, BLOCK_BITS // view.dtype.bits) or s0 * s1 < 2:
        return view.layout
    return "nz" if s0 * s1 * s4 == round_up(tile.v_col, s4) else view.layout


SCALE_TABLES = {"mx_a_zz": "zz", "mx_b_nn": "nn"}
"""Layouts of views of the scales of a matrix, [1, lines/16, groups/2, 16, 2] (a line is a row of
the left matrix or a column of the right one), with those of their tiles."""

PACKED_TABLES = {f"packed {layout}": name for layout, name in SCALE_TABLES.items()}
"""The same of views of rows and columns, which only say where a table begins."""

_ORDERS = {
    "dn": (3, 0, 1, 2, 4), "nz": (2, 3, 0, 1, 4),
    "mx_a_zz": (0, 1, 3, 2, 4), "mx_b_nn": (2, 4, 0, 1, 3),
}  # fmt: skip
"""Dimensions of a window in the order of rows and columns."""


def _rows_and_columns(sizes: Shape, layout: str) -> tuple[int, int]:
    s0, s1, s2, s3, s4 = sizes
    if layout == "mx_a_zz":
        return s0 * s1 * s3, s2 * s4
    if layout == "mx_b_nn":
        return s2 * s4, s0 * s1 * s3
    if layout == "dn":
        return s3, s0 * s1 * s2 * s4
    if layout == "nz":
        return s2 * s3, s0 * s1 * s4
    return s0 * s1 * s2 * s3, s4


def to_logical(array: np.ndarray, sizes: Shape, layout: str, bits: int) -> np.ndarray:
    """Return a five-dimensional window as rows and columns (4-bit: one code an entry)."""
    if bits == 4:
        array = unpack_nibbles(array)
    if layout in _ORDERS:
        array = array.transpose(_ORDERS[layout])
    return array.reshape(_rows_and_columns(sizes, layout))


def from_logical(values: np.ndarray, sizes: Shape, layout: str) -> np.ndarray:
    """Undo `to_logical`: rows and columns to the five sizes of the window."""
    order = _ORDERS.get(layout)
    if order is None:
        return values.reshape(sizes)
    return values.reshape([sizes[axis] for axis in order]).transpose(np.argsort(order))


# Copies between windows of tiles of any layout, box by box where both have the same boxes.
#
# Copies by long items: NumPy moves one item of many bytes faster than what it is made of.

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


_ATOMIC_TYPES = ("f32", "f16", "bf16", "i32", "i16", "i8")


def check_atomic(view: GmAccess) -> None:
    """Raise OpFault for element types that no atomic store adds."""
    if view.dtype.family not in _ATOMIC_TYPES:
        raise OpFault(
            "PTO6016",
            f"there is no atomic addition of {view.dtype}",
            notes=(f"atomic stores add {', '.join(_ATOMIC_TYPES)}",),
        )
