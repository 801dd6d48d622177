"""Pad values: the bit pattern that a tile's pad code represents in its element type.

Codes: 1 zero, 2 max, 3 min; a code with bit 32 set carries the pattern itself in its lower bits.
Integers: the limits of the type. Floats: the largest finite value, or infinity, as the switch
`pad.float` says (finite in the assembler's goldens, infinite in the C++ library's table). 64-bit
and 8-bit float types have no pad value; the table gives zero.
"""

from __future__ import annotations

from ptosim.ground.ir.types import DType, TileType
from ptosim.semantics.base.binding import Binding

_FLOAT_MAX = {
    ("f32", "finite"): 0x7F7FFFFF, ("f32", "inf"): 0x7F800000,
    ("f16", "finite"): 0x7BFF, ("f16", "inf"): 0x7C00,
    ("bf16", "finite"): 0x7F7F, ("bf16", "inf"): 0x7F80,
}  # fmt: skip


def pad_pattern(op: Binding, type_: TileType) -> int:
    """Return the bits of a tile's pad value."""
    return pattern(type_.dtype, type_.pad, op.switch("pad.float"))


def pattern(dtype: DType, code: int, floats: str) -> int:
    """Return the bits of a pad code in an element type."""
    if code >> 32 & 1:
        return code & (1 << min(dtype.bits, 32)) - 1
    if code < 2 or dtype.bits not in (8, 16, 32):
        return 0
    if dtype.is_float:
        top = _FLOAT_MAX.get((dtype.family, floats), 0)
        return top if code == 2 or top == 0 else top | 1 << (dtype.bits - 1)
    if not dtype.is_integer:
        return 0
    if dtype.kind == "uint":
        return (1 << dtype.bits) - 1 if code == 2 else 0
    limit = 1 << (dtype.bits - 1)
    return limit - 1 if code == 2 else limit
