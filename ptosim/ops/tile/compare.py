"""Comparisons into packed masks, and selection by a mask.

A mask has one bit an element, eight to a byte, least significant first; row r of a mask tile starts
at its row r. How much of a mask row is written depends on the target: A5 writes whole groups (128
bits, 256 for 8-bit elements) with zeros after the valid columns; A2/A3 compare whole 256-byte
repeats of their source, so that bits after the valid columns come from whatever is there.

A2/A3 compare i32 for equality only, whatever the mode says (`ne` is the inverted result), and
`tcmps` compares 16-bit integers as if their bits were f16.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import REGISTER_BYTES
from ptosim.machine.numbers.lanes import COMPARISONS
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, tile_array, typed_scalar
from ptosim.ops.base.functions import Commit, kernel

_INT32 = (np.dtype(np.int32), np.dtype(np.uint32))
_INT16 = (np.dtype(np.int16), np.dtype(np.uint16))


def _comparison(op: Binding, dtype: np.dtype) -> Callable[..., np.ndarray]:
    mode = str(op.attr("cmpMode"))
    equality = op.switch("tcmp.i32") == "equality"
    if equality and dtype in _INT32 and mode not in ("eq", "ne"):
        op.report(
            "PTO7026",
            f"compares for equality: A2/A3 have no `{mode}` of 32-bit integers",
            help="compare in f32, or as the sign of a difference",
        )
        mode = "eq"
    return COMPARISONS[mode]


@kernel("pto.tcmp", over="src0 src1 dst")
def tcmp(op: Binding) -> Commit:
    """Compare two tiles."""
    first, second = op.tile("src0"), op.tile("src1")
    compare = _comparison(op, first.dtype)
    width, lanes = _extent(op, first)
    left, right = _lanes(op, "src0", first, lanes), _lanes(op, "src1", first, lanes)
    if op.target == "a5" and first.dtype.itemsize == 4 and first.cols != second.cols:
        op.report(
            "PTO7030",
            f"reads rows of src1 {first.cols} elements apart, as in src0; it has {second.cols}",
            help="give both sources the same number of columns",
        )
        right = _lanes(op, "src1", first, lanes, first.row_bytes)
    store = _row_writer(op, first, width)
    return lambda: store(compare(left, right))


@kernel("pto.tcmps", over="src dst")
def tcmps(op: Binding) -> Commit:
    """Compare a tile with a scalar."""
    src, dst = op.tile("src"), op.tile("dst")
    compare = _near(op, src) or _comparison(op, src.dtype)
    scalar = typed_scalar(op.scalar("scalar"), src.dtype)
    halves = op.switch("tcmps.i16") == "f16" and src.dtype in _INT16
    if halves:
        op.report(
            "PTO7027",
            f"compares the bits of {src.type.dtype} elements as f16: A2/A3 have no 16-bit integer "
            "comparison with a scalar",
            notes=("negative values are ordered backwards, and -1 is a NaN",),
        )
        scalar = scalar.view(np.float16)
    if op.target == "a5" and op.switch("tcmps.mask") == "linear":
        return _linear(op, src, dst, scalar, compare)
    width, lanes = _extent(op, src)
    values = _lanes(op, "src", src, lanes)
    values = values.view(np.float16) if halves else values
    store = _row_writer(op, src, width)
    return lambda: store(compare(values, scalar))


_NEAR = 1e-9


def _near(op: Binding, src: Tile) -> Callable[[Any, Any], np.ndarray] | None:
    """The comparison of the CPU simulator for eq and ne of floats: a difference in f64."""
    mode = str(op.attr("cmpMode"))
    exact = op.switch("tcmps.equal") == "exact" or src.dtype.kind in "iu"
    if exact or mode not in ("eq", "ne"):
        return None

    def compare(values: Any, scalar: Any) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            distance = np.abs(values.astype(np.float64) - np.float64(scalar))
        close = distance < _NEAR
        return close if mode == "eq" else ~close

    return compare


def _extent(op: Binding, src: Tile) -> tuple[int, int]:
    """Return the bytes of a mask row that are written, and the lanes of a source row that are
    compared for it."""
    if op.switch("tcmp.tail") == "groups":
        return _group_bytes(src.v_col, src.dtype.itemsize), src.v_col
    repeat = REGISTER_BYTES // src.dtype.itemsize
    lanes = -(-src.v_col // repeat) * repeat
    return lanes // 8, lanes


def _group_bytes(cols: int, size: int) -> int:
    group = 256 if size == 1 else 128
    return -(-cols // group) * group // 8


def _lanes(
    op: Binding, name: str, domain: Tile, lanes: int, stride: int | None = None
) -> np.ndarray:
    """Return the first lanes of each row as they are in memory, also after the row's end; where
    the space ends sooner, as many as all rows have. Raises OpFault where that is not even the valid
    region: rows may be further apart than those of the tile."""
    tile = op.tile(name)
    view = op.region(name, domain.v_row, domain.v_col)
    step = view.strides[0] if stride is None else stride
    if tile.layout.name != "nd" or (lanes <= domain.v_col and stride is None):
        return view
    room = len(tile.buffer) - tile.addr - (domain.v_row - 1) * step
    count = min(lanes, max(room // tile.dtype.itemsize, domain.v_col))
    op.finds(name, count * tile.dtype.itemsize, (domain.v_row, step))
    return tile_array(tile, (domain.v_row, count), (step, tile.dtype.itemsize))


def _row_writer(op: Binding, src: Tile, width: int) -> Callable[[np.ndarray], Any]:
    """Return what stores mask rows of `width` bytes at the destination's rows; rows that are longer
    than those of the tile run into the next one, which is written after them. Groups end in zeros,
    whole repeats in bits without meaning."""
    dst, rows = op.tile("dst"), src.v_row
    stride = dst.row_bytes
    target = tile_array(dst, (rows, width), (stride, 1), np.uint8)
    valid = width if op.switch("tcmp.tail") == "groups" else -(-src.v_col // 8)
    op.covers("dst", 0, 0)
    if width > stride:
        op.writes_beyond("dst", 0, (rows - 1) * stride + width)
    else:
        op.writes_beyond("dst", valid, width - valid, (rows, stride), spoiled=True)
        op.writes_beyond("dst", 0, valid, (rows, stride))
    if width > stride:
        op.report(
            "PTO7028",
            f"writes {width} bytes for each row of a mask whose rows have {stride}",
            notes=("later rows overwrite the tail of earlier ones",),
            help="give the mask tile rows of at least that many bytes",
        )
    overlap = width > stride

    def store(bits: np.ndarray) -> None:
        mask = _packed(bits, width)
        if not overlap:
            target[...] = mask
            return
        for row, values in zip(target, mask, strict=True):
            row[...] = values

    return store


def _packed(bits: np.ndarray, width: int) -> np.ndarray:
    """Return rows of bits as rows of `width` bytes, zeros after the bits."""
    mask = np.zeros((len(bits), width), np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    mask[:, : packed.shape[1]] = packed
    return mask


def _linear(
    op: Binding, src: Tile, dst: Tile, scalar: Any, compare: Callable[[Any, Any], np.ndarray]
) -> Commit:
    """Groups packed back to back over all rows; 32-bit elements are numbered through, so that a row
    need not start at a group."""
    values = op.region("src", src.v_row, src.v_col)
    values = values.view(scalar.dtype) if values.dtype.itemsize == 2 else values
    rows, cols = values.shape
    if src.dtype.itemsize == 4:
        rows, cols = 1, rows * cols
    width = _group_bytes(cols, src.dtype.itemsize)
    target = tile_array(dst, (rows, width), (width, 1), np.uint8)
    op.covers("dst", 0, 0)
    op.writes_beyond("dst", 0, rows * width)
    return lambda: np.copyto(target, _packed(compare(values, scalar).reshape(rows, cols), width))


# -- selection -------------------------------------------------------------------------------------


@kernel("pto.tsel", over="dst")
def tsel(op: Binding) -> Commit:
    """dst = src0 where the bit of the mask is one, else src1."""
    return _select(op, "src0", "src1")


@kernel("pto.tsels", over="dst")
def tsels(op: Binding) -> Commit:
    """dst = src where the bit of the mask is one, else the scalar."""
    return _select(op, "src", "scalar")


def _select(op: Binding, chosen: str, other: str) -> Commit:
    dst, mask = op.tile("dst"), op.tile("mask")
    rows, cols = dst.v_row, dst.v_col
    out, first = op.region("dst", rows, cols), op.region(chosen, rows, cols)
    if isinstance(op.values[other], (int, float)):
        second = typed_scalar(op.values[other], dst.dtype)
    else:
        second = op.region(other, rows, cols)
    _warn_linear(op, rows)
    bits = _mask_bits(op, mask, rows, cols)
    return lambda: np.copyto(out, np.where(bits(), first, second))


def _mask_bits(op: Binding, mask: Tile, rows: int, cols: int) -> Callable[[], np.ndarray]:
    """Return what reads the bits of a mask: row by row, or as one stream of its valid bytes."""
    if op.switch("tsel.mask") == "rows":
        width = -(-cols // 8)
        packed = tile_array(mask, (rows, width), (mask.row_bytes, 1), np.uint8)
        op.covers("mask", rows, -(-width // mask.dtype.itemsize))
        return lambda: np.unpackbits(packed, axis=1, count=cols, bitorder="little")
    stream = tile_array(mask, (mask.v_row, mask.v_col), (mask.row_bytes, 1), np.uint8)
    if rows * cols > stream.size * 8:
        bits = stream.size * 8
        raise OpFault("PTO6412", f"'{op.op.name}' reads {rows * cols} bits; mask has {bits}")
    return lambda: np.unpackbits(stream.reshape(-1), count=rows * cols, bitorder="little").reshape(
        rows, cols
    )


def _warn_linear(op: Binding, rows: int) -> None:
    """Warn of a mask that `tcmps` packs back to back: selection reads it row by row."""
    mask = op.op.bound["mask"].value
    if (
        rows < 2
        or op.target != "a5"
        or op.switch("tcmps.mask") != "linear"
        or op.op.function is None
    ):
        return
    for other in op.op.function.walk():
        if other.name == "pto.tcmps" and _destination(other) is mask:
            op.report(
                "PTO7029",
                "reads a mask row by row that tcmps packs back to back over its rows",
                notes=("switch `tcmps.mask`: `linear` as in goldens, `rows` as in the library",),
                help="compare with tcmp, or run with --set tcmps.mask=rows",
            )
            return


def _destination(op: Operation) -> Value | None:
    operand = op.bound.get("dst")
    if operand is not None:
        return operand.value
    return op.results[0] if op.results else None
