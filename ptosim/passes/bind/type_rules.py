"""Rules about types: which names a use may repeat, and results whose type depends on operands."""

from __future__ import annotations

from dataclasses import replace

from ptosim.ground.ir.core import Operation, Tok
from ptosim.ground.ir.types import AbstractTileType, ErrorType, PtrType, TileType, Type, VectorType

_LEFT_LAYOUT = {"a2a3": "row_major", "a5": "col_major"}


def for_target(type_: Type, target: str) -> Type:
    """The assembler gives every `left` tile the box order of the target's L0A, whatever is
    written."""
    if isinstance(type_, TileType) and type_.loc == "left":
        blayout = _LEFT_LAYOUT[target]
        if type_.blayout != blayout and type_.slayout != "none_box":
            return replace(type_, blayout=blayout)
    return type_


def compatible(actual: Type, declared: Type) -> bool:
    """True if a value of one type can stand where the other is written.

    Old programs drop the space of a pointer; the two spellings of a tile type mean the same; a type
    that was reported agrees with every other, an abstract tile with every tile.
    """
    if actual == declared or isinstance(actual, ErrorType) or isinstance(declared, ErrorType):
        return True
    if isinstance(actual, AbstractTileType) or isinstance(declared, AbstractTileType):
        tiles = (AbstractTileType, TileType, VectorType)
        return isinstance(actual, tiles) and isinstance(declared, tiles)
    if isinstance(actual, PtrType) and isinstance(declared, PtrType):
        return actual.elem.family == declared.elem.family
    if isinstance(actual, TileType) and isinstance(declared, TileType):
        return replace(actual, ssa=False) == replace(declared, ssa=False)
    return False


def operand_type(op: Operation, name: str) -> Type:
    """Return the type of a bound operand."""
    operand = op.bound.get(name)
    return (operand.type if operand is not None else None) or ErrorType()


def window_type(op: Operation, name: str) -> Type:
    """The type of the tile operand with the constant shape that `sizes` names."""
    type_ = operand_type(op, name)
    sizes = [o.const for o in op.bound.get("sizes") or ()]
    if not isinstance(type_, TileType) or len(sizes) != 2:
        return type_ if not isinstance(type_, TileType) else ErrorType()
    if not all(isinstance(s, int) and s > 0 for s in sizes):
        return type_  # the check of the operation says what is wrong
    rows, cols = sizes
    return replace(type_, rows=rows, cols=cols, v_row=rows, v_col=cols)


def with_space_of(op: Operation, tok: Tok, type_: Type) -> Type:
    """A pointer type without a space (`<f32>`) that follows a pointer operand is in its space."""
    source = operand_type(op, "ptr")
    if isinstance(source, PtrType) and isinstance(type_, PtrType) and "," not in tok.value:
        return replace(type_, space=source.space)
    return type_
