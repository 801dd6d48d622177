"""Conversions of element types, and what undoes a quantisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ptosim.ir.core import Operation
from ptosim.ir.types import DType, TileType
from ptosim.isa.conversions import conversion, conversion_name, conversions
from ptosim.isa.profiles import Profile
from ptosim.machine.tile import Tile
from ptosim.numerics import affine
from ptosim.numerics.convert import converter
from ptosim.numerics.cpu_model import cpu_converter
from ptosim.semantics.binding import Binding, OpFault
from ptosim.semantics.registry import Commit, kernel, support

_MODES = {"CAST_RINT": "rint", None: "rint"}


@support("pto.tcvt")
def tcvt_support(op: Operation, profile: Profile) -> str | None:
    """Say why a pair of element types cannot be converted on the target; None if it can."""
    src, dst = _tile_type(op, "src"), _tile_type(op, "dst")
    if src is None or dst is None or profile.name == "cpu":
        return None
    if conversion(src.dtype, dst.dtype, profile.target) is not None:
        return None
    name = conversion_name(src.dtype)
    known = [d for (s, d), row in conversions().items() if s == name and profile.target in row.targets]
    return f"{profile.target} converts {name} to {', '.join(known) or 'nothing'}, not to {dst.dtype}"


def _tile_type(op: Operation, name: str) -> TileType | None:
    operand = op.bound.get(name)
    type_ = operand.type if operand is not None else None
    if type_ is None and op.results:
        type_ = op.results[0].type
    return type_ if isinstance(type_, TileType) else None


@kernel("pto.tcvt")
def tcvt(op: Binding) -> Commit:
    """dst = src in another element type. A 4-bit destination is cleared first, and an odd last column
    of it is dropped."""
    src, dst = op.tile("src"), op.tile("dst")
    convert = _converter(op, src.type.dtype, dst.type.dtype)
    if dst.bits == 4:
        return lambda: _to_nibbles(src, dst, convert)
    if src.is_contiguous() and dst.is_contiguous() and src.bits >= 8:
        source = src.flat(src.v_row * src.v_col)
        target = dst.flat(source.size)

        def convert_flat() -> None:
            target[...] = convert(source)

        return convert_flat
    return lambda: dst.write(convert(np.ascontiguousarray(src.read())))


def _to_nibbles(src: Tile, dst: Tile, convert: Callable[[Any], Any]) -> None:
    dst.region(dst.rows, dst.cols)[...] = 0
    even = src.v_col // 2 * 2
    dst.write(convert(np.ascontiguousarray(src.read()[:, :even])))


def _converter(op: Binding, src: DType, dst: DType) -> Callable[[np.ndarray], np.ndarray]:
    mode = op.attr("rmode")
    rounding = _MODES.get(mode, str(mode).lower())
    names = conversion_name(src), conversion_name(dst)
    asked = op.attr("sat_mode")
    if op.profile.name == "cpu":
        try:
            return cpu_converter(*names, rounding=rounding, saturate=asked == "ON")
        except ValueError as problem:
            raise OpFault("PTO8002", f"profile cpu does not model tcvt {names[0]} -> {names[1]}") from problem
    row = conversion(src, dst, op.target)
    if row is None:
        raise OpFault("PTO8002", f"{op.target} does not convert {names[0]} to {names[1]}")
    saturate = row.saturate[op.target] if asked is None else asked == "ON"
    return converter(
        *names,
        rounding=rounding,
        saturate=saturate,
        target=op.target,
        off_wide=op.switch("tcvt.off_wide"),
        nan_to_int=op.switch("tcvt.nan_to_int"),
    )


@kernel("pto.tdequant")
def tdequant(op: Binding) -> Commit:
    """dst = (src - offset[r]) * scale[r] in f32, one rounding each; parameters from column 0."""
    src, dst = op.tile("src"), op.tile("dst")
    scale, offset = op.tile("scale"), op.tile("offset")
    rows = src.v_row
    codes, values = src.array, dst.region(rows, src.v_col)
    scales, offsets = first_column(scale, rows), first_column(offset, rows)

    def dequantize() -> None:
        values[...] = affine.dequantize(codes, scales, offsets)

    return dequantize


def first_column(tile: Tile, rows: int) -> np.ndarray:
    """Return column 0 of a parameter tile as a view of shape [rows, 1]."""
    return tile.region(rows, 1)
