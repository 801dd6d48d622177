"""TQUANT to INT8: multiply, add, and the chain of conversions of the A5 library (f32, i32, f32,
f16, 8 bits), whose first step saturates and whose last one rounds a second time."""

from __future__ import annotations

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ops.lower.operands import NotExpandable, row_major, tile, valid, word
from ptosim.ops.lower.writer import Writer


def int8(op: Operation, out: Writer) -> None:
    """q = saturate(round(x * scale[r] [+ offset[r]]))."""
    source, target, scale = tile(op, "src", out), tile(op, "dst", out), tile(op, "fp", out)
    offset = tile(op, "offset", out) if isinstance(op.bound.get("offset"), Operand) else None
    kind = word(op, "quant_type")
    unsigned = kind == "INT8_ASYM" or (kind is None and target.type.dtype.kind == "uint")
    if unsigned and offset is None:
        raise NotExpandable("scale and offset share a tile")
    row_major(source, target)
    if scale.type.rows * scale.type.cols == 1 and source.type.rows > 1:
        raise NotExpandable("one scale for all rows is no form of the library")
    rows, cols = valid(source)
    if rows == 0 or cols == 0:
        return
    codes = "ui8" if unsigned else "si8"
    x, q, by = source.pointer(out), target.pointer(out, codes), scale.pointer(out)
    shift = offset.pointer(out) if offset else None
    with out.loop(rows) as row:
        factor = out.load(by, "f32", row, "BRC_B32")
        zero = out.load(shift, "f32", row, "BRC_B32") if shift else None
        for column, count in out.columns(cols, 64):
            value = out.load(x, "f32", out.place((row, source.type.cols), (column, 1)))
            value = out.binary("vmul", value, factor, out.every(), "f32")
            if zero:
                value = out.binary("vadd", value, zero, out.every(), "f32")
            value = out.convert(value, "f32", "si32")
            value = out.convert(value, "si32", "f32")
            value = out.convert(value, "f32", "f16", "EVEN")
            value = out.convert(value, "f16", codes, "EVEN")
            at = out.place((row, target.type.cols), (column, 1))
            out.store(value, codes, q, codes, at, out.first(count), "PK4_B32")
