"""The order in which the operations of a block take effect, where it is not that of the text.

The assembler writes out the place of a tile of scales, `tget_scale_addr`, where the tile is first
filled: the nearest earlier move from L1 into it goes there already, if nothing between the two uses
the tile."""

from __future__ import annotations

from collections.abc import Sequence

from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.types import TileType


def in_effect(ops: Sequence[Operation]) -> Sequence[Operation]:
    """Return the operations of a block in the order in which they take effect."""
    if not any(op.has("places_earlier") for op in ops):
        return ops
    ordered: list[Operation] = []
    for op in ops:
        at = len(ordered)
        if op.has("places_earlier"):
            at = _place_of(op, ordered)
        ordered.insert(at, op)
    return ordered


def _place_of(op: Operation, before: Sequence[Operation]) -> int:
    """Where an operation goes that places a tile: in front of the move into it, or at the end."""
    end = len(before)
    tile, source = _value(op, "dst"), _value(op, "src")
    if tile is None:
        return end
    for at in range(end - 1, -1, -1):
        earlier = before[at]
        if source is not None and source in earlier.results:
            return end  # what it takes the place of does not exist any earlier
        if any(tile in inner.operand_values() for inner in earlier.walk()):
            return at if _fills(earlier, tile) else end
    return end


def _fills(op: Operation, tile: Value) -> bool:
    """True for a move from L1 into a tile."""
    source = op.bound.get("src")
    type_ = source.type if isinstance(source, Operand) else None
    from_l1 = isinstance(type_, TileType) and type_.loc == "mat"
    return op.has("moves_whole") and from_l1 and _value(op, "dst") is tile


def _value(op: Operation, name: str) -> Value | None:
    operand = op.bound.get(name)
    return operand.value if isinstance(operand, Operand) else None
