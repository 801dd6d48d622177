"""Conversions of element types, and what undoes a quantisation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import DType, PackedDType
from ptosim.ground.isa.conversions import (
    conversion,
    conversion_name,
    conversions,
    number_name,
    saturation,
)
from ptosim.ground.isa.dates import Profile
from ptosim.machine.layout import round_up
from ptosim.machine.numbers import integers
from ptosim.machine.numbers.convert import Conversion, converter
from ptosim.machine.numbers.cpu_model import cpu_converter
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.tile import Tile
from ptosim.ops.base.binding import Binding, OpFault
from ptosim.ops.base.functions import Commit, kernel, nothing, support, written_type

_MODES = {"CAST_RINT": "rint", None: "rint"}


@support("pto.tcvt")
def tcvt_support(op: Operation, profile: Profile) -> str | None:
    """Say why a pair of element types cannot be converted on the target; None if it can."""
    src, dst = written_type(op, "src"), written_type(op, "dst")
    if src is None or dst is None or profile.name == "cpu":
        return None
    if conversion(src.dtype, dst.dtype, profile.target) is not None:
        return None
    name = conversion_name(src.dtype)
    target = profile.target
    known = [d for (s, d), row in conversions().items() if s == name and target in row.targets]
    if not known:
        return f"{target} converts {name} to no other type"
    return f"{target} converts {name} to {', '.join(known)}, not to {dst.dtype}"


@kernel("pto.tcvt", over="src dst")
def tcvt(op: Binding) -> Commit:
    """dst = src in another element type, for dst's valid region. A 4-bit float destination is
    cleared first, and an odd last column of a 4-bit one is dropped."""
    src, dst = op.tile("src"), op.tile("dst")
    domain = src if op.profile.name == "cpu" else dst
    rows, cols = domain.v_row, domain.v_col
    if not rows or not cols:
        return nothing
    convert = _converter(op, src.type.dtype, dst.type.dtype)
    if isinstance(src.type.dtype, PackedDType) or isinstance(dst.type.dtype, PackedDType):
        return _with_pairs(op, src, dst, convert)
    op.covers("src", rows, cols)
    op.covers("dst", rows, cols)
    if 4 in (src.bits, dst.bits):
        return _with_nibbles(op, rows, cols, convert)
    if src.is_run(rows, cols) and dst.is_run(rows, cols):
        source, target = src.flat(rows * cols), dst.flat(rows * cols)
    else:
        source, target = op.region("src", rows, cols), op.region("dst", rows, cols)
    return lambda: np.copyto(target, convert(np.ascontiguousarray(source)))


def _with_nibbles(
    op: Binding, rows: int, cols: int, convert: Callable[[np.ndarray], np.ndarray]
) -> Commit:
    src, dst = op.tile("src"), op.tile("dst")
    used = cols // 2 * 2 if dst.bits == 4 else cols
    clears = dst.bits == 4 and not dst.type.dtype.is_integer
    if clears:
        op.covers("dst", dst.rows, dst.cols)
    signed = src.type.dtype.family == "i4"

    def run() -> None:
        values = np.ascontiguousarray(src.read(rows, cols)[:, :used])
        if signed:
            values = (values << 4).view(np.int8) >> 4
        if clears:
            dst.region(dst.rows, dst.cols)[...] = 0
        dst.write(convert(values))

    return run


def _with_pairs(
    op: Binding, src: Tile, dst: Tile, convert: Callable[[np.ndarray], np.ndarray]
) -> Commit:
    """Elements that are pairs of 4-bit floats, of numbers that follow each other: along a row, or
    along a column of a tile that is laid out by columns. A destination of pairs is cleared first
    and takes no odd last number."""

    def lines(tile: Tile, count: int, length: int) -> np.ndarray:
        by_column = tile.type.blayout == "col_major"
        return tile.region(length, count).T if by_column else tile.region(count, length)

    def valid(tile: Tile) -> tuple[int, int]:
        by_column = tile.type.blayout == "col_major"
        return (tile.v_col, tile.v_row) if by_column else (tile.v_row, tile.v_col)

    count, length = valid(dst)
    if isinstance(dst.type.dtype, PackedDType):
        pairs = valid(src)[1] // 2
        op.covers("dst", dst.rows, dst.cols)

        def pack() -> None:
            codes = convert(np.ascontiguousarray(lines(src, count, 2 * pairs)))
            dst.region(dst.rows, dst.cols)[...] = 0
            lines(dst, count, pairs)[...] = codes[:, 0::2] | codes[:, 1::2] << 4

        return pack

    def unpack() -> None:
        packed = np.asarray(lines(src, count, -(-length // 2)))
        codes = np.stack((packed & 15, packed >> 4), axis=2).reshape(count, -1)[:, :length]
        lines(dst, count, length)[...] = convert(np.ascontiguousarray(codes))

    return unpack


def _converter(op: Binding, src: DType, dst: DType) -> Callable[[np.ndarray], np.ndarray]:
    mode = op.attr("rmode")
    rounding = _MODES.get(mode, str(mode).lower())
    names = number_name(src), number_name(dst)
    if op.profile.name == "cpu":
        asked = op.attr("satmode") or op.attr("sat_mode")
        try:
            return cpu_converter(*names, rounding=rounding, saturate=asked == "ON")
        except ValueError as problem:
            message = f"profile cpu does not model tcvt {names[0]} -> {names[1]}"
            raise OpFault("PTO8002", message) from problem
    row = conversion(src, dst, op.target)
    if row is None:
        raise OpFault("PTO8002", f"{op.target} does not convert {names[0]} to {names[1]}")
    mode = saturation(op.op, row, op.target, op.switch("tcvt.default"))
    convert = converter(
        *names,
        rounding=rounding,
        saturate=mode.saturates,
        target=op.target,
        off_wide=op.switch("tcvt.off_wide"),
        nan_to_int=op.switch("tcvt.nan_to_int"),
        obeyed=mode.obeyed,
    )
    if mode.is_default:
        return _noted(op, convert, *names)
    if op.switch("tcvt.fp8_nan") == "zero" and names in _FP8:
        return lambda values: np.where(np.isnan(values), np.uint8(0), convert(values))
    return convert


_FP8 = (("f32", "f8E4M3FN"), ("f32", "f8E5M2"))


def _noted(op: Binding, convert: Conversion, src: str, dst: str) -> Conversion:
    """Say once that a value is outside the destination: the C++ that the assembler writes passes
    OFF on where its native expansion saturates."""
    kind = lookup(dst)

    def noting(values: np.ndarray) -> np.ndarray:
        if (values > kind.highest).any() or (values < kind.lowest).any():
            op.report(
                "PTO7080",
                f"converts values of {src} outside the range of {dst}, which saturate",
                notes=("switch `tcvt.default`: `off` treats them as a written OFF does",),
                help="write `sat_mode = #pto<saturation_mode ON>` or `OFF`",
            )
        return convert(values)

    return noting


@kernel("pto.tdequant", over="src")
def tdequant(op: Binding) -> Commit:
    """dst = (src - offset[r]) * scale[r] in f32, one rounding each; parameters from column 0."""
    src, dst = op.tile("src"), op.tile("dst")
    rows, cols = src.v_row, src.v_col
    codes, values = op.region("src", rows, cols), op.region("dst", rows, cols)
    scale, offset = _parameter(op, "scale", rows, cols), _parameter(op, "offset", rows, cols)
    surplus = None
    if op.target == "a5" and op.profile.name == "hw" and cols > 64:
        # The mask of the first 64 lanes serves every chunk, so the last one is stored whole.
        surplus = op.region("dst", rows, min(round_up(cols, 64), dst.cols))[:, cols:]

    def dequantize() -> None:
        result = integers.dequantize(codes, scale(), offset())
        if surplus is not None:
            surplus.view(np.uint32).fill(0xFFFFFFFF)
        values[...] = result

    return dequantize


def _parameter(op: Binding, name: str, rows: int, cols: int) -> Callable[[], np.ndarray]:
    """Return column 0 of a parameter tile; profile `cpu` uses the column of the element, and the
    last one where there are fewer."""
    tile = op.tile(name)
    if op.profile.name != "cpu" or tile.v_col < 2:
        column = op.region(name, rows, 1)
        return lambda: column
    whole = op.region(name, rows, tile.v_col)
    index = np.minimum(np.arange(cols), tile.v_col - 1)
    return lambda: whole[:, index]
