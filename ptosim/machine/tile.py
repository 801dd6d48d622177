"""Tiles at run time: a handle in a slot, and the view of memory that an operation works on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np

from ptosim.ground.errors import OpFault
from ptosim.ground.ir.types import BLOCK_BITS, DType, TileType
from ptosim.ground.records import dataclass, field, replace
from ptosim.machine.core import Core
from ptosim.machine.storage import argument_dtype, pack_nibbles, unpack_nibbles, view_dtype
from ptosim.machine.values import Pointer

# Where the element (r, c) of a tile is: strides, boxes and compact forms.
#
# Six layouts follow from the order of the boxes and the order inside a box (pto-isa headers, tile
# class): with the box iR x iC, R = r div iR, a = r mod iR, C = c div iC, b = c mod iC, N = iR*iC,
# in elements
#
#     ND  r*Cols + c                     DN  c*Rows + r
#     Nz  C*Rows*iC + R*N + a*iC + b     Zz  R*Cols*iR + C*N + a*iC + b
#     Zn  R*Cols*iR + C*N + b*iR + a     Nn  C*Rows*iC + R*N + b*iR + a
#
# What the cube lays out itself does not follow the type. L0C has blocks of 16 x 16 elements of 32
# bits, its columns of blocks are as high as the valid rows need, whatever fractal and rows a type
# names. A row of scales has blocks of 16 rows as well.

Index = TypeVar("Index", int, "np.ndarray")


@dataclass(frozen=True, slots=True)
class Layout:
    """Strides in elements. A boxed layout has the strides of box row, row in box, box column and
    column in box; an unboxed one is a layout with 1x1 boxes, whose `row_stride` and `col_stride`
    are the elements from a row or column to the next. `reach` are the bytes up to the last element
    of the valid region, at most those of the static shape (but for `row_plus_one`): a window of a
    tile has the strides, but not the whole extent, of its static shape."""

    name: str
    rows: int
    cols: int
    box_rows: int
    box_cols: int
    strides: tuple[int, int, int, int]
    reach: int = 0
    is_boxed: bool = field(init=False)
    row_stride: int = field(init=False)
    col_stride: int = field(init=False)

    def __post_init__(self) -> None:
        fix = object.__setattr__
        fix(self, "is_boxed", self.name not in ("nd", "dn"))
        fix(self, "row_stride", self.strides[0])
        fix(self, "col_stride", self.strides[2])

    def begins_box(self, row: int, col: int) -> bool:
        """True if a box begins at a row and column."""
        return row % self.box_rows == 0 and col % self.box_cols == 0

    def offset(self, row: Index, col: Index) -> Index:
        """Return the offset of an element, or those of arrays of them, from the base of the tile,
        in elements."""
        s0, s1, s2, s3 = self.strides
        return (
            row // self.box_rows * s0
            + row % self.box_rows * s1
            + col // self.box_cols * s2
            + col % self.box_cols * s3
        )


_NAMES = {
    ("row_major", "none_box"): "nd",
    ("col_major", "none_box"): "dn",
    ("col_major", "row_major"): "nz",
    ("row_major", "row_major"): "zz",
    ("row_major", "col_major"): "zn",
    ("col_major", "col_major"): "nn",
}


SCALE_MEMORIES = ("left_scale", "right_scale")
"""Memories of the scales of L0A and L0B; a scale belongs to the data at 16 times its address."""


def memory_of(type_: TileType) -> str:
    """Return the memory of a core that a tile lies in: the location of its type, but for scaling
    tiles. Those of block scales in the boxes of the left or right matrix lie beside L0A or L0B,
    all others in the buffer of the fixpipe."""
    if type_.loc != "scaling" or type_.dtype.family != "f8E8M0FNU" or type_.fractal != 32:
        return type_.loc
    return {"zz": "left_scale", "nn": "right_scale"}.get(layout_name(type_), "scaling")


def layout_name(type_: TileType) -> str:
    """Return nd, dn, nz, zz, zn or nn."""
    return _NAMES[type_.blayout, type_.slayout]


def box_shape(dtype: DType, slayout: str, fractal: int) -> tuple[int, int]:
    """Return the rows and columns of a box, in elements."""
    if slayout == "none_box":
        return 1, 1
    if fractal == 1024:
        return 16, 16
    inner = 2 if fractal == 32 else BLOCK_BITS // dtype.bits
    return (16, inner) if slayout == "row_major" else (inner, 16)


def round_up(value: int, step: int) -> int:
    """Return the least multiple of step that is not below value."""
    return -(-value // step) * step


@lru_cache(maxsize=4096)
def tile_layout(type_: TileType, v_row: int, v_col: int) -> Layout:
    """Return the layout of a tile.

    The strides follow the static shape, except in the compact forms: `normal` (1) follows the valid
    shape rounded up to whole boxes, `row_plus_one` (2) has the valid rows rounded up to 16, plus
    one row that keeps column blocks out of each other's memory banks."""
    name = layout_name(type_)
    box_rows, box_cols = box_shape(type_.dtype, type_.slayout, type_.fractal)
    rows, cols = type_.rows, type_.cols
    if by_cube := type_.loc == "acc" and type_.dtype.bits == 32:
        name, box_rows, box_cols = "nz", 16, 16
        rows = type_.pitch or round_up(max(v_row, 1), 16)
    elif rows == 1 and type_.slayout == "row_major" and type_.loc not in SCALE_MEMORIES:
        box_rows = 1  # the vector of a gemv is one run, not in boxes of 16 rows
    if name not in ("nd", "dn") and not by_cube:
        if type_.compact == 1:
            rows, cols = round_up(v_row, 16), round_up(v_col, box_cols)
        elif type_.compact == 2:
            rows = round_up(v_row, 16) + 1
    box = box_rows * box_cols
    strides = {
        "nd": (cols, 0, 1, 0),
        "dn": (1, 0, rows, 0),
        "nz": (box, box_cols, rows * box_cols, 1),
        "zz": (cols * box_rows, box_cols, box, 1),
        "zn": (cols * box_rows, 1, box, box_rows),
        "nn": (box, 1, rows * box_cols, box_rows),
    }[name]
    layout = Layout(name, rows, cols, box_rows, box_cols, strides)
    last = layout.offset(max(v_row - 1, 0), max(v_col - 1, 0))
    reach = type_.dtype.bytes_for(last + 1)
    # Rows between column blocks, and the other rows of a block, come on top of the static shape.
    if type_.compact != 2 and not by_cube and type_.loc not in SCALE_MEMORIES:
        reach = min(type_.bytes, reach)
    return replace(layout, reach=reach)


_FLIPPED = {"row_major": "col_major", "col_major": "row_major", "none_box": "none_box"}


class TileRef:
    """A tile as a value: type, address and valid shape. Equal tiles are one object (`tile_ref`), so
    that identity can be the key of what is cached for them."""

    __slots__ = ("addr", "layout", "type", "v_col", "v_row")

    def __init__(self, type_: TileType, addr: int, v_row: int, v_col: int) -> None:
        self.type = type_
        self.addr = addr
        self.v_row = v_row
        self.v_col = v_col
        self.layout: Layout = tile_layout(type_, v_row, v_col)

    @property
    def start(self) -> Pointer:
        """A pointer to the first byte, as a memref gives it to operations on pointers."""
        return Pointer(self.type.loc, self.addr)

    def __repr__(self) -> str:
        return f"TileRef({self.type.loc}@{self.addr:#x}, {self.v_row}x{self.v_col})"


_REFS: dict[tuple[TileType, int, int, int], TileRef] = {}


def tile_ref(type_: TileType, addr: int, v_row: int, v_col: int) -> TileRef:
    """Return the one handle of a tile, whose type names the memory that it lies in."""
    if type_.loc == "scaling":
        type_ = _in_its_memory(type_)
    key = (type_, addr, v_row, v_col)
    ref = _REFS.get(key)
    if ref is None:
        if len(_REFS) > 100_000:
            _REFS.clear()  # handles in use stay valid; later equal ones are new objects
        ref = _REFS[key] = TileRef(type_, addr, v_row, v_col)
    return ref


@lru_cache(maxsize=256)
def _in_its_memory(type_: TileType) -> TileType:
    return replace(type_, loc=memory_of(type_))


class Tile:
    """A tile bound to the bytes of its space. `bits` are those of an element, `row_bytes` the bytes
    from a row to the next (ND tiles); it `is_empty` if its valid region has no element.

    `array` and `full` are views of memory where the layout is plain strides; `read` and `write`
    work for every layout and for 4-bit elements (one uint8 code an entry). All of them raise
    OpFault where they would leave the memory space: binding checks the valid region only, and the
    static shape of a window may end beyond it."""

    __slots__ = (
        "addr", "bits", "buffer", "cols", "dtype", "is_empty", "layout", "ref", "row_bytes", "rows",
        "type", "v_col", "v_row",
    )  # fmt: skip

    def __init__(self, ref: TileRef, buffer: bytearray) -> None:
        type_ = ref.type
        self.ref = ref
        self.type = type_
        self.buffer = buffer
        self.addr = ref.addr
        self.rows, self.cols = type_.rows, type_.cols
        self.v_row, self.v_col = ref.v_row, ref.v_col
        self.is_empty = ref.v_row == 0 or ref.v_col == 0
        self.dtype = view_dtype(type_.dtype)
        self.bits = type_.dtype.bits
        self.layout = ref.layout
        self.row_bytes = ref.layout.row_stride * self.bits // 8

    def strided(
        self,
        shape: Sequence[int],
        strides: Sequence[int],
        dtype: np.dtype | type | None = None,
        offset: int = 0,
    ) -> np.ndarray:
        """Return a view from `offset` bytes after the tile's base, with strides in bytes.

        Raises OpFault where it would leave the memory space; leaving the tile is the caller's
        concern."""
        start = self.addr + offset
        try:
            return np.ndarray(shape, dtype or self.dtype, self.buffer, start, strides)
        except (TypeError, ValueError):  # NumPy looks at the bounds anyway
            size = np.dtype(dtype or self.dtype).itemsize
            steps = zip(shape, strides, strict=True)
            self._check_end(start, start + sum((n - 1) * s for n, s in steps) + size)
            raise

    def _check_end(self, start: int, end: int) -> None:
        if end > len(self.buffer):
            raise OpFault(
                "PTO6013",
                f"bytes [{start:#x}, {end:#x}) of {self.type.loc} are touched; it has "
                f"{len(self.buffer)} bytes",
                help="place the tile further down, or make it smaller",
            )

    def region(self, rows: int, cols: int) -> np.ndarray:
        """Return the view of the first rows and columns of an unboxed tile (4-bit: packed
        bytes)."""
        layout, size = self.layout, self.dtype.itemsize
        if self.bits == 4:
            return self.strided((rows, (cols + 1) // 2), (self.cols // 2, 1), np.uint8)
        return self.strided((rows, cols), (layout.row_stride * size, layout.col_stride * size))

    @property
    def array(self) -> np.ndarray:
        """The valid region as a view (unboxed tiles)."""
        return self.region(self.v_row, self.v_col)

    @property
    def full(self) -> np.ndarray:
        """The whole static shape as a view (unboxed tiles)."""
        return self.region(self.rows, self.cols)

    def flat(self, count: int, dtype: np.dtype | type | None = None, offset: int = 0) -> np.ndarray:
        """Return `count` consecutive elements from `offset` bytes after the tile's base."""
        kind = self.dtype if dtype is None else np.dtype(dtype)
        return self.strided((count,), (kind.itemsize,), kind, offset)

    def is_contiguous(self) -> bool:
        """True if the valid region is one run of memory in row order."""
        return self.is_run(self.v_row, self.v_col)

    def is_run(self, rows: int, cols: int) -> bool:
        """True if the first rows and columns are one run of memory in row order."""
        if self.layout.name != "nd" or rows > self.rows or cols > self.cols:
            return False
        return rows == 1 or self.layout.row_stride == cols

    def _boxes(self, rows: int, cols: int) -> np.ndarray:
        """The boxes of the first rows and columns: those after them need not be in the space."""
        layout, size = self.layout, self.dtype.itemsize
        box_rows, box_cols = layout.box_rows, layout.box_cols
        down, across = -(-min(rows, self.rows) // box_rows), -(-min(cols, self.cols) // box_cols)
        shape = (down, box_rows, across, box_cols)
        strides = layout.strides
        if self.bits == 4:
            # Pairs of columns share a byte, so a box is half as many bytes wide.
            shape = (*shape[:3], box_cols // 2)
            strides = tuple(s // 2 if i != 3 else 1 for i, s in enumerate(strides))
        return self.strided(shape, tuple(s * size for s in strides))

    @property
    def _pairs_rows(self) -> bool:
        """True if two elements of one column share a byte."""
        return self.bits == 4 and self.layout.name in ("dn", "zn", "nn")

    def _transposed(self) -> Tile:
        """The same bytes as a tile whose rows are this one's columns."""
        t = self.type
        flipped = replace(
            t, rows=t.cols, cols=t.rows, v_row=t.v_col, v_col=t.v_row,
            blayout=_FLIPPED[t.blayout], slayout=_FLIPPED[t.slayout],
        )  # fmt: skip
        return Tile(TileRef(flipped, self.addr, self.v_col, self.v_row), self.buffer)

    def boxes(self, rows: int, cols: int) -> np.ndarray | None:
        """Return the first rows and columns of a boxed tile as a view (box row, row in box, box
        column, column in box); None unless they are whole boxes of whole bytes."""
        layout = self.layout
        if not layout.is_boxed or self.bits == 4:
            return None
        if rows % layout.box_rows or cols % layout.box_cols:
            return None
        return self._boxes(rows, cols)

    def read(self, rows: int | None = None, cols: int | None = None) -> np.ndarray:
        """Return the valid region (or the first rows and columns) in logical order.

        A view where the layout is plain strides, otherwise a copy.
        """
        rows = self.v_row if rows is None else rows
        cols = self.v_col if cols is None else cols
        if self._pairs_rows:
            return self._transposed().read(cols, rows + rows % 2)[:, :rows].T
        if not self.layout.is_boxed:
            view = self.region(rows, cols)
            return unpack_nibbles(view)[:, :cols] if self.bits == 4 else view
        half = 2 if self.bits == 4 else 1
        out = np.empty((rows, cols // half), self.dtype)
        for target, source in self._pieces(rows, cols, half):
            out[target] = source.reshape(out[target].shape)
        return unpack_nibbles(out) if half == 2 else out

    def write(self, values: np.ndarray) -> None:
        """Store values (logical order, at most the static shape) in the tile's layout."""
        rows, cols = values.shape
        if self._pairs_rows:
            self._transposed().write(values.T)
            return
        half = 2 if self.bits == 4 else 1
        packed = pack_nibbles(values) if half == 2 else values
        if not self.layout.is_boxed:
            self.region(rows, cols)[...] = packed
            return
        for target, place in self._pieces(rows, cols, half):
            place[...] = packed[target].reshape(place.shape)

    def _pieces(
        self, rows: int, cols: int, half: int
    ) -> list[tuple[tuple[slice, slice], np.ndarray]]:
        """Cut a region along box borders: (slices of the logical array, view of memory) pairs."""
        layout = self.layout
        box_rows, box_cols = layout.box_rows, layout.box_cols
        boxes = self._boxes(rows, cols)
        width = box_cols // half
        return [
            ((row_slice, col_slice), boxes[row_index[0], row_index[1], col_index[0], col_index[1]])
            for row_slice, row_index in _cuts(rows, box_rows)
            for col_slice, col_index in _cuts(cols // half, width)
        ]


def _cuts(size: int, box: int) -> list[tuple[slice, tuple[slice, slice]]]:
    """Whole boxes, then the rest: (slice of the logical axis, (boxes, inside the box))."""
    whole, rest = divmod(size, box)
    cuts = []
    if whole:
        cuts.append((slice(0, whole * box), (slice(0, whole), slice(None))))
    if rest:
        cuts.append((slice(whole * box, size), (slice(whole, whole + 1), slice(0, rest))))
    return cuts


# Tiles as the arrays that a caller gives and gets: logical, row-major, in the caller's types.


def load_tile(core: Core, ref: TileRef) -> np.ndarray:
    """Return the valid region of a tile, shape (valid rows, valid columns): ml_dtypes types for
    narrow floats, one entry for each element of a 4-bit type, codes where NumPy has no type."""
    tile = _tile_of(core, ref)
    values = np.array(tile.read())
    dtype = argument_dtype(tile.type.dtype)
    if tile.type.dtype.array == "int4":
        values = np.where(values > 7, values | 0xF0, values).astype(np.uint8)
    return values.view(dtype) if dtype.itemsize == values.itemsize else values


def store_tile(core: Core, ref: TileRef, array: np.ndarray) -> None:
    """Write an array of the valid region's shape and the tile's type into a tile."""
    _tile_of(core, ref).write(_stored(array, ref))


def _tile_of(core: Core, ref: TileRef) -> Tile:
    return Tile(ref, core.space(ref.type.loc).data)


def _stored(array: np.ndarray, ref: TileRef) -> np.ndarray:
    """An argument array as memory holds it: codes for narrow floats, bytes for i1."""
    if array.dtype == np.bool_ or (ref.type.dtype.bits <= 8 and not ref.type.dtype.is_integer):
        codes = array.view(np.uint8)
        return codes & 15 if ref.type.dtype.bits == 4 else codes
    if ref.type.dtype.bits == 4:
        return array.view(np.uint8) & 15
    return array
