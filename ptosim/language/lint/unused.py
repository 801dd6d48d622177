"""Values that nothing uses, and storage whose content nobody reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, TileType
from ptosim.ground.isa.schema import Role
from ptosim.ground.source import Source
from ptosim.machine.effects.operands import named_values
from ptosim.machine.effects.storage import Roots, joined


def unused(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report tiles and views that no operation names."""
    for op in function.ops:
        for result in op.results:
            if result.uses:
                continue
            if op.has("makes_storage"):
                yield _unused(result, "PTO7401", "tile", source, _RESERVED)
            elif op.has("view") or op.has("window") or op.has("same_storage"):
                yield _unused(result, "PTO7402", "view", source)


def arguments(functions: Sequence[Function], source: Source) -> Iterator[Diagnostic]:
    """Report pointer arguments that no operation names. Functions that are launched together have
    the same arguments, and each uses some of them."""
    public = [function for function in functions if not function.private]
    used = {argument.name for function in public for argument in function.args if argument.uses}
    for function in public:
        for argument in function.args:
            if argument.name not in used and isinstance(argument.type, PtrType):
                yield _unused(argument, "PTO7403", "argument", source)


_RESERVED = "its bytes are reserved all the same"


def _unused(value: Value, code: str, what: str, source: Source, note: str = "") -> Diagnostic:
    return finding(
        code,
        f"{what} `%{value.name}` is never used",
        value.span(source),
        notes=(note,) if note else (),
        help="remove it",
    )


def unread(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report tiles that operations fill and none reads. An operation with several results may have
    some that nobody needs; what a loop or a branch hands over is read there."""
    writers: dict[int, Operation] = {}
    tiles: dict[int, Value] = {}
    read: set[int] = set()
    roots = Roots()
    for op in function.ops:
        for pair in joined(op) if not op.has("same_storage") else ():
            read.update(id(roots.of(value)) for value in pair)
        written = _only_output(op)
        for _, role, value in named_values(op):
            root = roots.of(value)
            if op.has("makes_storage") and value in op.results:
                tiles[id(root)] = root
            elif op.has("same_storage"):
                continue
            elif role is Role.OUT and value is written:
                writers[id(root)] = op
            else:
                read.add(id(root))
    for key, tile in tiles.items():
        if key in writers and key not in read:
            label = f"fills `%{tile.name}`"
            yield finding(
                "PTO7404",
                f"what is written to `%{tile.name}` is never read",
                writers[key].span(source),
                label=label,
                more=(Label(tile.span(source), "the tile"),),
                help="store it, or remove what fills it",
            )


def _only_output(op: Operation) -> Value | None:
    """The tile that an operation fills if it has no other result."""
    outputs = [value for _, role, value in named_values(op) if role is not Role.IN]
    tile = outputs[0] if len(outputs) == 1 else None
    return tile if tile is not None and isinstance(tile.type, TileType) else None


_WHOLE = frozenset(
    ("elementwise", "tile_scalar", "expand", "reduce", "convert", "generate", "quant")
)
"""Families whose operations write the whole valid region of their result."""


def overwritten(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report a result that the next operation on the same tile overwrites unread. Only operations
    in a row count: what has regions, calls or changes extents ends the row."""
    roots = Roots()
    for op in function.ops:
        for region in op.regions:
            for block in region.blocks:
                yield from _overwritten(block.ops, roots, source)


def _overwritten(ops: list[Operation], roots: Roots, source: Source) -> Iterator[Diagnostic]:
    pending: dict[int, tuple[Operation, Value]] = {}
    for op in ops:
        if op.regions or op.has("call") or op.has("sets_valid") or op.has("jumps"):
            pending.clear()
            continue
        output = _only_output(op)
        for _, role, value in named_values(op):
            root = roots.of(value)
            before = pending.pop(id(root), None)
            if role is not Role.OUT or value is not output or not _fills(op):
                continue
            if before is not None and before[1] is value:
                yield _lost(before[0], op, value, source)
            pending[id(root)] = (op, value)


def _fills(op: Operation) -> bool:
    row = op.definition
    if row is None:
        return False
    return row.family in _WHOLE or (row.family == "memory" and op.bound.get("src") is not None)


def _lost(first: Operation, second: Operation, tile: Value, source: Source) -> Diagnostic:
    return finding(
        "PTO7405",
        f"what is written to `%{tile.name}` is overwritten before anything reads it",
        first.span(source),
        label="written here",
        more=(Label(second.span(source), "and here"),),
        help="remove the first, or give one of them another tile",
    )
