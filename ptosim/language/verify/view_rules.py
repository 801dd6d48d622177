"""Predicates of rules about views of global memory, lists of them, and the tiles that data pass
through on their way between devices. Each takes operands or lists of operands."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.records import replace
from ptosim.language.verify.rules import predicate


def _each(operands: tuple[Any, ...]) -> Iterator[Any]:
    for operand in operands:
        if isinstance(operand, tuple):
            yield from operand
        elif operand is not None:
            yield operand


def _views(operands: tuple[Any, ...]) -> Iterator[Any]:
    return (v for v in _each(operands) if v.kind == "view")


@predicate("PTO2015", "expects {names} to be a tensor_view or partition_view")
def gm_views(*operands: Any) -> bool:
    """All are views of global memory of one dimension or more."""
    return all(v.kind == "error" or (v.kind == "view" and v.rank >= 1) for v in _each(operands))


@predicate("PTO2048", "expects every static dimension of {names} to be positive")
def positive_dims(*operands: Any) -> bool:
    """No extent that the type fixes is 0."""
    return all(dim is None or dim > 0 for v in _views(operands) for dim in v.dims)


@predicate("PTO2048", "does not support dynamic dimensions on {names}")
def static_dims(*operands: Any) -> bool:
    """The types fix all extents."""
    return all(v.static for v in _views(operands))


@predicate("PTO2048", "expects {names} to have a static shape")
def static_shape(*operands: Any) -> bool:
    """The same, in the words of asynchronous transfers."""
    return all(v.static for v in _views(operands))


@predicate("PTO2048", "allows dynamic dimensions on {names} only for partition_tensor_view")
def dynamic_parts(*operands: Any) -> bool:
    """Whole views are static; parts of them need not be."""
    return all(v.static or v.is_part for v in _views(operands))


@predicate("PTO2016", "expects {names} to be a static flat contiguous logical 1D GM view")
def flat_view(*operands: Any) -> bool:
    """All dimensions but the last are 1."""
    return all(all(dim == 1 for dim in v.dims[:-1]) for v in _views(operands) if v.static)


@predicate("PTO2015", "expects {names} to be in vec address space")
def staging(*operands: Any) -> bool:
    """Data pass through tiles of the vector core."""
    return all(v.kind == "error" or (v.kind == "tile" and v.loc == "vec") for v in _each(operands))


@predicate("PTO2014", "expects {names} to have the same element type")
def elements_of(tiles: Any, views: Any) -> bool:
    """Operands of both lists hold the same elements (integers by width)."""
    families = [v.family for v in _each((tiles, views)) if v.family is not None]
    return all(a == b for a, b in pairwise(families))


@predicate("PTO2029", "expects {names} to have the same type")
def one_type(*operands: Any) -> bool:
    """All have one type, however it is spelled."""
    types = [_spelled_alike(v.type) for v in _each(operands) if v.type is not None]
    return all(a == b for a, b in pairwise(types))


@predicate("PTO2029", "expects {names} to be the tile and its multi buffer")
def is_slot(tile: Any, buffer: Any) -> bool:
    """A tile has the type of the slots, however it is spelled."""
    slot = getattr(buffer.type, "slot", None)
    return slot is None or _spelled_alike(tile.type) == _spelled_alike(slot)


def _spelled_alike(type_: Type) -> Type:
    return replace(type_, ssa=False) if isinstance(type_, TileType) else type_
