"""textract and tinsert: a window of one tile and the whole of another, in UB and between memories
around the cube: L1 to L0 and to block scales, accumulators to L1, UB to L1.

Which memories the two tiles are in decides what happens; `EXTRACT` and `INSERT` hold a function of
(operation, tile with the window, other tile, row, column) for each pair of locations."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, check_window, owned_tile, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing, support
from ptosim.ops.cube.outward import accumulator_to_ub, accumulator_window, halves, tell_ways
from ptosim.ops.move.transfer import copy_window, extent, write_window

# -- of vec tiles ----------------------------------------------------------------------------------

Mover = Callable[[Binding, Tile, Tile, int, int], Commit]

EXTRACT: dict[tuple[str, str], Mover] = {}
INSERT: dict[tuple[str, str], Mover] = {}


def start_of(op: Binding, whole: Tile, sizes: tuple[int, int]) -> tuple[int, int]:
    """Return where the window of a size begins; faults if it leaves the tile."""
    row, col = int(op.scalar("row")), int(op.scalar("col"))
    check_window((row, col), sizes, (whole.rows, whole.cols), f"'{op.op.name}': ")
    return row, col


def _mover(op: Binding, table: dict[tuple[str, str], Mover]) -> Mover:
    pair = op.tile("src").type.loc, op.tile("dst").type.loc
    if pair not in table:
        raise OpFault("PTO8002", f"'{op.op.name}' does not move from {pair[0]} to {pair[1]}")
    return table[pair]


@kernel("pto.textract")
def textract(op: Binding) -> Commit:
    """dst = the window of src."""
    src, dst = op.tile("src"), op.tile("dst")
    start = start_of(op, src, (dst.rows, dst.cols))
    return nothing if dst.is_empty else _mover(op, EXTRACT)(op, src, dst, *start)


@kernel("pto.tinsert")
def tinsert(op: Binding) -> Commit:
    """The window of dst = src."""
    src, dst = op.tile("src"), op.tile("dst")
    start = start_of(op, dst, (src.v_row, src.v_col))
    return nothing if src.is_empty else _mover(op, INSERT)(op, dst, src, *start)


def extract_vec(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """Between vec tiles: the valid region of dst is filled."""
    if whole.layout.is_boxed or part.layout.is_boxed:
        op.moves(part.v_row, part.v_col, src=(row, col))
        return copy_window(whole, (row, col), part, (0, 0), part.v_row, part.v_col)
    source = _window(op, "src", part, row, col)
    op.carries(part.v_row, part.v_col, "src", src=(row, col))
    return partial(_copy, op.region("dst", part.v_row, part.v_col), source)


def insert_vec(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """Between vec tiles: the valid region of src is copied."""
    if whole.layout.is_boxed or part.layout.is_boxed:
        op.moves(part.v_row, part.v_col, dst=(row, col))
        return copy_window(part, (0, 0), whole, (row, col), part.v_row, part.v_col)
    target = _window(op, "dst", part, row, col)
    op.carries(part.v_row, part.v_col, "src", dst=(row, col))
    return partial(_copy, target, op.region("src", part.v_row, part.v_col))


def _window(op: Binding, name: str, part: Tile, row: int, col: int) -> np.ndarray:
    """Return the valid extent of `part` from (row, col) of a tile; 4-bit elements as bytes."""
    half = 2 if part.bits == 4 else 1
    if col % half:
        raise OpFault("PTO6005", f"column {col} of a tile of 4-bit elements begins inside a byte")
    rows, cols = part.v_row, part.v_col
    whole = op.region(name, row + rows, col + cols, is_covered=False)
    op.covers(name, rows, cols, row, col)
    return whole[row:, col // half :]


def _copy(target: np.ndarray, source: np.ndarray) -> None:
    target[...] = source


EXTRACT["vec", "vec"] = extract_vec
INSERT["vec", "vec"] = insert_vec


# -- around the cube -------------------------------------------------------------------------------


def to_l0(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of L1 to L0; it begins at a box of the source."""
    layout = whole.layout
    if not layout.begins_box(row, col):
        raise OpFault(
            "PTO6312",
            f"'{op.op.name}' takes a window at ({row}, {col}) of a tile with boxes of "
            f"{layout.box_rows}x{layout.box_cols}",
            help="begin the window at a multiple of the box",
        )
    if layout.name == "nz" and part.type.loc == "right":
        tell_ways(op, "a window of an NZ tile of L1 into L0B")
    rows, cols = extent(part)
    op.moves(rows, cols, src=(row, col))
    return copy_window(whole, (row, col), part, (0, 0), rows, cols)


def ub_to_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of UB to a tile of L1."""
    target = owned_tile(op, "dst")
    op.moves(part.v_row, part.v_col, src=(row, col))
    return copy_window(whole, (row, col), target, (0, 0), part.v_row, part.v_col)


def ub_into_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A tile of UB into a window of L1."""
    target = owned_tile(op, "dst")
    op.moves(part.v_row, part.v_col, dst=(row, col))
    return copy_window(part, (0, 0), target, (row, col), part.v_row, part.v_col)


def acc_to_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of an accumulator, converted."""
    size = part.v_row, part.v_col
    return accumulator_window(op, whole, (row, col), part, (0, 0), size)


def acc_into_l1(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """An accumulator into a window of L1, converted."""
    size = part.v_row, part.v_col
    return accumulator_window(op, part, (0, 0), whole, (row, col), size)


def acc_to_ub(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """A window of an accumulator to UB, converted; of two vector cores each gets a half of it."""
    by_rows, by_cols = halves(op)
    size = part.v_row * by_rows, part.v_col * by_cols
    check_window((row, col), size, (whole.rows, whole.cols), f"'{op.op.name}': ")
    return accumulator_to_ub(op, whole, (row, col), (0, 0), size)


def acc_into_ub(op: Binding, whole: Tile, part: Tile, row: int, col: int) -> Commit:
    """An accumulator into a window of a tile of UB, converted."""
    return accumulator_to_ub(op, part, (0, 0), (row, col), (part.v_row, part.v_col))


EXTRACT["mat", "left"] = to_l0
EXTRACT["mat", "right"] = to_l0
EXTRACT["mat", "scaling"] = to_l0
EXTRACT["mat", "left_scale"] = to_l0
EXTRACT["mat", "right_scale"] = to_l0
EXTRACT["vec", "mat"] = ub_to_l1
EXTRACT["acc", "mat"] = acc_to_l1
EXTRACT["acc", "vec"] = acc_to_ub
INSERT["vec", "mat"] = ub_into_l1
INSERT["acc", "mat"] = acc_into_l1
INSERT["acc", "vec"] = acc_into_ub


@kernel("pto.textract_fp", "pto.textract.fp")
def textract_fp(op: Binding) -> Commit:
    """A window of an accumulator with a scale for each column; the first word is that of the first
    column of the window."""
    src, dst = op.tile("src"), op.tile("dst")
    return acc_to_l1(op, src, dst, *start_of(op, src, (dst.rows, dst.cols)))


@kernel("pto.tinsert_fp", "pto.tinsert.fp")
def tinsert_fp(op: Binding) -> Commit:
    """An accumulator into a window of L1 with a scale for each column."""
    src, dst = op.tile("src"), op.tile("dst")
    return acc_into_l1(op, dst, src, *start_of(op, dst, (src.rows, src.cols)))


# timg2col: the columns of a convolution's input, gathered from a feature map in L1.
#
# The map lies in L1 as it is in global memory, [images, channels / C0, H, W, C0] with C0 elements
# in 32 bytes. Row m of the matrix is an output pixel (image, then row, then column), column k a
# block of C0 channels, a tap of the filter and a channel of the block, in this order (pto-isa
# headers).

_BLOCK_BYTES = 32


@support("pto.timg2col")
def has_no_map(op: Operation, profile: object) -> str | None:
    """The filter is in attributes of ptosim's own: without them there is nothing to gather."""
    del profile
    wanted = ("fmapH", "fmapW", "filterH", "filterW")
    missing = [name for name in wanted if not op.attributes.get(name)]
    return f"{', '.join(missing)} must be given to gather the map" if missing else None


@kernel("pto.timg2col")
def timg2col(op: Binding) -> Commit:
    """dst[r, c] = the element of the map for pixel row + r and column col + c, or the pad value."""
    src, dst = op.tile("src"), op.tile("dst")
    if dst.is_empty:
        return nothing
    rows, cols = dst.v_row, dst.v_col
    size = dst.dtype.itemsize
    lanes = _BLOCK_BYTES // size
    height, width = int(op.attr("fmapH")), int(op.attr("fmapW"))
    blocks = -(-int(op.attr("channels") or lanes) // lanes)
    images = int(op.attr("images"))
    count = images * blocks * height * width
    if count * _BLOCK_BYTES > src.type.bytes:
        raise OpFault(
            "PTO6021",
            f"'{op.op.name}': a map of {images}x{blocks}x{height}x{width} blocks of 32 bytes; src "
            f"has {src.type.bytes:,} bytes",
        )
    if (src.v_row, src.v_col) != (src.rows, src.cols):  # the map is counted by its own sizes
        op.covers("src", src.rows, src.cols)
    places = _places(op, rows, cols, lanes, (images, blocks, height, width))
    elements = tile_array(src, (count * lanes,), (size,), dst.dtype)
    pad = np.array(int(op.attr("padBits")), f"u{size}").view(dst.dtype)

    def gather() -> None:
        found = elements[np.maximum(places, 0)]
        write_window(dst, (0, 0), np.where(places < 0, pad, found))

    return gather


def _places(
    op: Binding, rows: int, cols: int, lanes: int, shape: tuple[int, int, int, int]
) -> np.ndarray:
    """Which element of the map each element of dst is, -1 outside of it."""
    images, blocks, height, width = shape
    out_w = _steps(op, "W", width)
    pixels = np.arange(rows)[:, None] + int(op.scalar("row"))
    columns = np.arange(cols)[None] + int(op.scalar("col"))
    out_h = max(_steps(op, "H", height), 1)
    image = np.minimum(pixels // (out_h * out_w), images - 1)
    across = pixels - image * (out_h * out_w)
    taps = int(op.attr("filterH")) * int(op.attr("filterW"))
    block, rest = np.divmod(columns, lanes * taps)
    tap, lane = np.divmod(rest, lanes)
    y = _pixel(op, "H", across // out_w, tap // int(op.attr("filterW")))
    x = _pixel(op, "W", across % out_w, tap % int(op.attr("filterW")))
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) & (block < blocks)
    place = (((image * blocks + block) * height + y) * width + x) * lanes + lane
    return np.where(inside, place, -1)


_BEFORE = {"H": ("padTop", "padBottom"), "W": ("padLeft", "padRight")}


def _steps(op: Binding, axis: str, size: int) -> int:
    """Output pixels along an axis."""
    before, after = (int(op.attr(name)) for name in _BEFORE[axis])
    reach = int(op.attr(f"dilation{axis}")) * (int(op.attr(f"filter{axis}")) - 1) + 1
    count = (size + before + after - reach) // int(op.attr(f"stride{axis}")) + 1
    if count <= 0:
        raise OpFault("PTO6021", f"'{op.op.name}': the filter is larger than the padded map")
    return count


def _pixel(op: Binding, axis: str, out: np.ndarray, tap: np.ndarray) -> np.ndarray:
    stride, dilation = int(op.attr(f"stride{axis}")), int(op.attr(f"dilation{axis}"))
    return out * stride + tap * dilation - int(op.attr(_BEFORE[axis][0]))
