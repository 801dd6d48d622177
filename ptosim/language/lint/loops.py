"""Loads in a loop that bring the same bytes each time."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import TileType, ViewType
from ptosim.ground.isa.schema import Role
from ptosim.ground.source import Source
from ptosim.machine.effects.operands import named_values
from ptosim.machine.effects.storage import argument_of, root_of


def invariant_loads(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report loads whose view and tile are made outside a counted loop that changes neither."""
    for op in function.ops:
        if op.has("counted") and op.regions:
            inside = op.walk()[1:]
            if not any(each.has("call") for each in inside):
                yield from _of_loop(op, inside, source)


def _of_loop(loop: Operation, inside: list[Operation], source: Source) -> Iterator[Diagnostic]:
    defined = {id(v) for op in inside for v in op.results}
    defined |= {
        id(v) for op in (loop, *inside) for r in op.regions for b in r.blocks for v in b.values
    }
    stored = {argument_of(v) for op in inside for v in _written(op) if isinstance(v.type, ViewType)}
    filled = [id(root_of(v)) for op in inside for v in _written(op)]
    for op in loop.regions[0].ops:
        view, tile = _load(op)
        if view is None or tile is None or {id(view), id(tile)} & defined:
            continue
        argument = argument_of(view)
        if argument == "?" or stored & {argument, "?"} or filled.count(id(root_of(tile))) > 1:
            continue
        if any(id(v) in defined for v in op.operand_values()):
            continue
        yield finding(
            "PTO7406",
            f"'{op.name}' brings the same bytes in every round of the loop",
            op.span(source),
            more=(Label(loop.span(source), "the loop"),),
            notes=("its view and its tile are made outside, and nothing in the loop changes them",),
            help="move it before the loop",
        )


def _load(op: Operation) -> tuple[Value | None, Value | None]:
    """The view and the tile of an operation that fills a tile from global memory."""
    named = list(named_values(op))
    views = [v for _, role, v in named if role is Role.IN and isinstance(v.type, ViewType)]
    tiles = [v for _, role, v in named if role is Role.OUT and isinstance(v.type, TileType)]
    if len(views) != 1 or len(tiles) != 1 or op.definition is None:
        return None, None
    return (views[0], tiles[0]) if op.definition.family == "memory" else (None, None)


def _written(op: Operation) -> list[Value]:
    if op.has("same_storage") or op.has("window") or op.has("view"):
        return []
    return [value for _, role, value in named_values(op) if role is not Role.IN]
