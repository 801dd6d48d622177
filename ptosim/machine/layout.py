"""Where the element (r, c) of a tile is: strides, boxes and compact forms.

Six layouts follow from the order of the boxes and the order inside a box (pto-isa headers, tile
class): with the box iR x iC, R = r div iR, a = r mod iR, C = c div iC, b = c mod iC, N = iR*iC, in
elements

    ND  r*Cols + c                     DN  c*Rows + r
    Nz  C*Rows*iC + R*N + a*iC + b     Zz  R*Cols*iR + C*N + a*iC + b
    Zn  R*Cols*iR + C*N + b*iR + a     Nn  C*Rows*iC + R*N + b*iR + a

What the cube lays out itself does not follow the type. L0C has blocks of 16 x 16 elements of 32
bits, its columns of blocks are as high as the valid rows need, whatever fractal and rows a type
names. A row of scales has blocks of 16 rows as well.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from ptosim.ground.ir.types import BLOCK_BITS, DType, TileType
from ptosim.ground.records import dataclass, field, replace

if TYPE_CHECKING:  # rules read layouts, and a check of the text alone does without NumPy
    import numpy as np

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
