"""TQUANT to INT8: a scale, and for the asymmetric form an offset, for each row.

Besides the result A2/A3 leaves intermediate values in its source and its scratch tile; programs
have come to rely on some of it, so all of it is modelled.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.machine.layout import round_up
from ptosim.machine.numbers import affine
from ptosim.machine.space import POISON
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault, flat_bytes, tile_array
from ptosim.ops.base.functions import Commit, kernel

Parameter = Callable[[], np.ndarray]


@kernel("pto.tquant:int8", over="src")
def tquant_int8(op: Binding) -> Commit:
    """q = saturate(round(x * scale[r] [+ offset[r]])), sum and product rounded to f32 each."""
    src = op.tile("src")
    values = op.region("src", src.v_row, src.v_col)
    codes = op.region("dst", src.v_row, src.v_col)
    scale, offset = parameters(op, src)
    by, at = op.switch("tquant.int8_scale"), op.switch("tquant.int8_offset")
    is_signed = op.switch("tquant.int8_range") == "signed"
    leave = _clobber(op, src)

    def quantize() -> None:
        shift = None if offset is None else offset()
        result = affine.quantize_int8(
            values, scale(), shift, scale_by=by, offset_at=at, signed_range=is_signed
        )
        if leave is not None:
            leave(result)
        codes[...] = result.codes

    return quantize


# -- scale and offset ------------------------------------------------------------------------------


def parameters(op: Binding, src: Tile) -> tuple[Parameter, Parameter | None]:
    """Return scale and offset as they meet the elements: [rows, 1], or [rows, cols] by lane."""
    tile, offset = op.tile("fp"), op.opt_tile("offset")
    untold = offset is None and op.attr("quant_type") is None
    if untold and op.tile("dst").type.dtype.kind == "uint":
        pairs = op.region("fp", src.v_row, 2)  # scales and offsets in one tile of two columns
        return lambda: pairs[:, 0:1], lambda: pairs[:, 1:2]
    scale = _parameter(op, "fp", tile, src)
    return scale, None if offset is None else _parameter(op, "offset", offset, src)


def _parameter(op: Binding, name: str, tile: Tile, src: Tile) -> Parameter:
    """The library reads one f32 for each row from flat memory, whatever the layout of the parameter
    tile says. A2/A3 without a scratch tile reads a row-major one as a 32-byte block for each row,
    lane c mod 8 for column c; its blocks follow each other even where the tile is wider."""
    rows, cols = src.v_row, src.v_col
    if op.profile.name == "page" and tile.rows * tile.cols == 1:
        return _flat(tile, (1, 1), (4, 4))
    by_lane = (
        op.target == "a2a3"
        and op.profile.name == "hw"
        and not op.is_written("tmp")
        and tile.type.blayout == "row_major"
    )
    needed = (8 if by_lane else 1) * rows
    if tile.type.bytes < 4 * needed:
        raise OpFault(
            "PTO6011",
            f"'{op.op.name}': {name} has {tile.type.bytes // 4} f32, {needed} are read",
            notes=("A2/A3 without scratch reads 8 values for each row of a row-major tile",),
        )
    if not by_lane:
        return _flat(tile, (rows, 1), (4, 4))
    blocks = tile_array(tile, (rows, cols // 8 + 1, 8), (32, 0, 4), np.float32)

    def lanes() -> np.ndarray:
        used = blocks[:, 0, : min(cols, 8)]
        differing = (used.view(np.uint32) != used[:, :1].view(np.uint32)).any(axis=1)
        if differing.any():
            row = int(np.flatnonzero(differing)[0])
            op.report(
                "PTO7001",
                f"reads a 32-byte block of {name} for each row, and the values of a block differ",
                notes=(f"row {row}: {_listed(used[row])}; column c meets lane c mod 8",),
                help="give the parameter one column (col_major [M, 1]), or fill each block with "
                "copies",
            )
        return blocks.reshape(rows, -1)[:, :cols]

    return lanes


def _listed(values: np.ndarray) -> str:
    return " ".join(f"{v:.6g}" for v in values)


def _flat(tile: Tile, shape: tuple[int, int], strides: tuple[int, int]) -> Parameter:
    view = tile_array(tile, shape, strides, np.float32)
    return lambda: view


# -- what A2/A3 overwrite --------------------------------------------------------------------------


def _clobber(op: Binding, src: Tile) -> Callable[[affine.Int8Result], None] | None:
    """The f32 products in src, the 32-bit integers in tmp, and over the first half of src the f16
    image, packed at a row stride of its own. The row broadcast has filled the start of tmp."""
    if op.target != "a2a3" or op.profile.name != "hw":
        return None
    rows, cols, width = src.v_row, src.v_col, src.cols
    products = op.region("src", rows, cols)
    image = tile_array(src, (rows, cols), (2 * round_up(width, 16), 2), np.float16)
    tmp = op.opt_tile("tmp")
    integers: np.ndarray | None = None
    blocks = np.empty(0, np.uint8)
    if tmp is not None:
        integers = tile_array(tmp, (rows, cols), (4 * width, 4), np.int32)
        blocks = flat_bytes(tmp, min(-(-rows // 8) * 256, 7680, tmp.type.bytes))

    def leave(result: affine.Int8Result) -> None:
        products[...] = result.products
        if integers is not None:
            blocks.fill(POISON)
            integers[...] = result.integers
        image[...] = affine.half_image(result.integers)

    return leave
