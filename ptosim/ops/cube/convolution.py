"""timg2col: the columns of a convolution's input, gathered from a feature map in L1.

The map lies in L1 as it is in global memory, [images, channels / C0, H, W, C0] with C0 elements in
32 bytes. Row m of the matrix is an output pixel (image, then row, then column), column k a block of
C0 channels, a tap of the filter and a channel of the block, in this order (pto-isa headers)."""

from __future__ import annotations

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ops.base.binding import Binding, OpFault, tile_array
from ptosim.ops.base.functions import Commit, kernel, nothing, support
from ptosim.ops.move.transfer import write_window

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
