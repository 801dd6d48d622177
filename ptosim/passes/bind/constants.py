"""Values of literals, as the types of their constants have them."""

from __future__ import annotations

import struct
from typing import Any

from ptosim.ground.ir.attributes import token_value
from ptosim.ground.ir.core import Tok
from ptosim.ground.ir.types import ScalarType, Type, VectorType
from ptosim.ground.isa.dtypes import dtype


def constant_value(literal: Any, type_: Type) -> Any:
    """Return the value of a literal in a scalar type, None if it does not fit.

    Integers may be written with or without sign: they fit if they lie between the smallest signed
    and the largest unsigned number of the width (as MLIR has it), and are given with the type's
    sign. A hexadecimal literal of a float type is its bit pattern.
    """
    if isinstance(type_, VectorType):
        return getattr(literal, "value", None)
    if not isinstance(type_, ScalarType) or literal.__class__ is not Tok:
        return None
    element = type_.dtype
    value = token_value(literal)
    if element.is_float:
        return _float_constant(value, literal, element)
    if isinstance(value, bool):
        return int(value) if element.name != "i1" else value
    if not isinstance(value, int):
        return None
    if element.name == "i1":
        return bool(value)
    if not -(1 << element.bits - 1) <= value < 1 << element.bits:
        return None
    wrapped = value & ((1 << element.bits) - 1)
    if element.kind == "int" and wrapped >> (element.bits - 1):
        wrapped -= 1 << element.bits
    return wrapped


_FLOAT_PATTERNS = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}


def _float_constant(value: Any, literal: Tok, element: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if literal.type != "HEX" or isinstance(value, float):
        return float(value)
    if value < 0 or value >> element.bits:
        return None
    if element.family == "bf16":
        return struct.unpack("<f", struct.pack("<I", value << 16))[0]
    if element.bits not in _FLOAT_PATTERNS:
        return None
    integer, real = _FLOAT_PATTERNS[element.bits]
    return struct.unpack(real, struct.pack(integer, value))[0]


def literal_type(literal: Any) -> Type:
    """Return the type of a literal that names none."""
    kind = getattr(literal, "type", "")
    if kind in ("TRUE", "FALSE"):
        return ScalarType(dtype("i1"))
    if kind in ("INT", "HEX"):
        return ScalarType(dtype("i64"))
    return ScalarType(dtype("f64"))
