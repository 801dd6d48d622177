"""Tiles at run time: a handle in a slot, and the view of memory that an operation works on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ptosim.ground.errors import OpFault
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import replace
from ptosim.machine.core import Core
from ptosim.machine.layout import Layout, memory_of, tile_layout
from ptosim.machine.pages import argument_dtype, pack_nibbles, unpack_nibbles, view_dtype
from ptosim.machine.values import Pointer

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
