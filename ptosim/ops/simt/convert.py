"""Conversions of SIMT code: as those of vector registers, lane by lane, and of pairs of numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.ir.types import DType, PackedDType, ScalarType, Type, VectorType
from ptosim.ground.isa.conversions import conversion_name
from ptosim.machine.numbers.codes import decode_table, encoder
from ptosim.machine.numbers.formats import lookup
from ptosim.machine.numbers.vcvt import MODES, vector_conversion
from ptosim.machine.storage import view_dtype
from ptosim.ops.simt.frame import Lanes, Run
from ptosim.ops.simt.table import LaneContext, lanes

Conversion = Callable[[Lanes], Lanes]


@lanes("pto.convert")
def convert(ctx: LaneContext) -> Run:
    """A value in another type."""
    letter = str(ctx.op.bound["round"]["mode"].const or "r") if ctx.has("round") else "r"
    letter = {"h": "a"}.get(letter.lower(), letter.lower()).upper()
    source, target = ctx.type("src"), ctx.result_type
    before, after = _names(ctx, source), _names(ctx, target)
    number = _number_conversion(before, after, letter, saturate=not ctx.has("nosat"))
    unpack, pack = _unpacker(source), _packer(target)
    wanted = _lane_type(target)

    def compute(value: Lanes) -> Lanes:
        parts = np.ascontiguousarray(unpack(value))
        found = number(parts)
        return pack(found.view(wanted) if found.dtype != wanted else found)

    return ctx.computed(compute, "src")


def _part(type_: Type) -> DType:
    """The type of the numbers of a value; those that a pair of low precision holds."""
    if isinstance(type_, VectorType):
        return type_.elem
    assert isinstance(type_, ScalarType)
    found = type_.dtype
    return found.part if isinstance(found, PackedDType) else found


def _lane_type(type_: Type) -> np.dtype:
    return view_dtype(_part(type_))


def _names(ctx: LaneContext, type_: Type) -> str:
    """The format of a type; the word says the sign of an integer."""
    part = _part(type_)
    if part.is_integer:
        return f"ui{part.bits}" if ctx.has("unsigned") else f"i{part.bits}"
    return conversion_name(part)


def _number_conversion(src: str, dst: str, letter: str, *, saturate: bool) -> Conversion:
    """The conversion of one number."""
    source, target = lookup(src), lookup(dst)
    if source.kind == "code":
        table = decode_table(source.name).astype(target.dtype)
        return lambda codes: table.take(codes)
    if target.kind == "code":
        nan = "zero" if saturate or target.bits == 4 else "signed"
        return encoder(source.name, target.name, MODES[letter], saturate, nan=nan)
    if source.kind == "unsigned":
        kind = source.dtype
        inner = vector_conversion(src, dst, letter, saturate=saturate)
        return lambda values: inner(values.view(kind))
    return vector_conversion(src, dst, letter, saturate=saturate)


def _unpacker(type_: Type) -> Conversion:
    """From a value to its numbers, with the pair as first axis."""
    packed = type_.dtype if isinstance(type_, ScalarType) else None
    if not isinstance(packed, PackedDType):
        return lambda value: value
    if packed.part.bits == 4:
        return lambda value: np.stack((value & 15, value >> 4))
    low = np.uint16(0xFF)
    return lambda value: np.stack((value & low, value >> np.uint16(8))).astype(np.uint8)


def _packer(type_: Type) -> Conversion:
    packed = type_.dtype if isinstance(type_, ScalarType) else None
    if not isinstance(packed, PackedDType):
        return lambda value: value
    if packed.part.bits == 4:
        return lambda codes: (codes[0] & 15) | (codes[1] & 15) << np.uint8(4)
    return lambda codes: codes[0].astype(np.uint16) | codes[1].astype(np.uint16) << np.uint16(8)
