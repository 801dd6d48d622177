"""Whether a value of one type can be used where the text says another, and what differs."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.types import AbstractTileType, ErrorType, PtrType, TileType, Type, VectorType
from ptosim.ground.records import replace


def compatible(actual: Type, declared: Type) -> bool:
    """True if a value of one type can be used where the other is written.

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


def type_difference(actual: Type, declared: Type) -> str:
    """Return what differs between two types of one kind, to be added to a sentence: `: cols is 64
    there and 32 here`; "" where the kinds differ."""
    from dataclasses import fields, is_dataclass  # brings `inspect`

    if type(actual) is not type(declared) or not is_dataclass(actual):
        return ""
    told = [
        f"{field.name} is {_shown(actual, field)} there and {_shown(declared, field)} here"
        for field in fields(actual)
        if field.compare and getattr(actual, field.name) != getattr(declared, field.name)
    ]
    return f": {', '.join(told[:2])}" if told else ""


def _shown(type_: Type, field: Any) -> str:
    part = getattr(type_, field.name)
    if isinstance(part, tuple):
        return "x".join("?" if each is None else str(each) for each in part)
    return "?" if part is None else str(part)
