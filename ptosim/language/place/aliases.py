"""Operands of one operation that must not share bytes, wherever they are: the assembler's planner
refuses a placement in which they do, the program's own addresses too.

Ranges are followed through windows and other names to the allocation. A place that is not known
here (an argument of a function, a window at a run-time offset) is no finding."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MultiTileType, TileType
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Source
from ptosim.language.place.planner import Placement
from ptosim.language.verify.operands import constant, operand_span
from ptosim.machine.effects.row import access_entry
from ptosim.machine.effects.storage import operand_value, slot_of


@dataclass(frozen=True, slots=True)
class _Place:
    """`lines` runs of `run` bytes, `pitch` bytes apart, from byte `start` of a memory (or, where
    the address is not known, of an allocation)."""

    memory: object
    start: int
    run: int
    lines: int = 1
    pitch: int = 0

    @property
    def end(self) -> int:
        return self.start + (self.lines - 1) * self.pitch + self.run


def shared_bytes(
    resolved: ResolvedModule, functions: Sequence[Function], placement: Placement
) -> Iterator[Diagnostic]:
    """Yield a finding for each operation of which two such operands overlap."""
    for function in functions:
        for op in function.ops:
            entry = access_entry(op, "no_alias", resolved.target)
            if entry is not None and op.bound:
                yield from _of(op, entry["of"].split(), placement, resolved.module.source)


def _of(
    op: Operation, names: Sequence[str], placement: Placement, source: Source
) -> Iterator[Diagnostic]:
    values = ((name, operand_value(op, name)) for name in names)
    places = [(n, v, _place(v, placement)) for n, v in values if v is not None]
    for (first, one, mine), (second, other, theirs) in itertools.combinations(places, 2):
        if mine is None or theirs is None or not _meet(mine, theirs):
            continue
        low, high = max(mine.start, theirs.start), min(mine.end, theirs.end)
        yield finding(
            "PTO4050",
            f"'{op.name}' op PlanMemory semantic no-alias violation: operand byte ranges overlap",
            op.span(source),
            label=f"{first} %{one.name} and {second} %{other.name} share [{low:#x}, {high:#x})",
            more=tuple(
                Label(
                    operand_span(op.bound[name], op, source), f"{name}: [{p.start:#x}, {p.end:#x})"
                )
                for name, p in ((first, mine), (second, theirs))
            ),
            help=f"give %{other.name} storage of its own",
        )
        return


def _place(value: Value, placement: Placement) -> _Place | None:
    """Where a value is; None where that is not known before the run."""
    names: list[Value] = []  # windows and other names, from the value to the allocation
    while value.owner is not None and value.owner.has("same_storage"):
        source = operand_value(value.owner, "source")
        if source is None:
            return None
        names.append(value)
        value = source
    type_ = value.type
    if not isinstance(type_, (TileType, MultiTileType)):
        return None
    at = _address(value, placement)
    place = _Place(value, 0, type_.bytes) if at is None else _Place(type_.loc, at, type_.bytes)
    for name in reversed(names):
        if (found := _part(name, place)) is None:
            return None
        place = found
    return place


def _part(value: Value, around: _Place) -> _Place | None:
    """Where a window or another name of a place is."""
    type_, owner = value.type, value.owner
    if owner is None or not isinstance(type_, (TileType, MultiTileType)):
        return None
    if owner.has("picks_slot"):
        at = slot_of(owner)
        return None if at is None else replace(around, start=around.start + at, run=type_.bytes)
    if not owner.has("window"):
        return replace(around, run=type_.bytes, lines=1, pitch=0)
    return _window(owner, operand_value(owner, "source"), around)


def _window(op: Operation, source: Value | None, around: _Place) -> _Place | None:
    type_ = source.type if source is not None else None
    numbers = [constant(op.bound[n]) for n in ("row", "col")]
    sizes = [constant(o) for o in op.bound["sizes"] or ()]
    known = [n for n in (*numbers, *sizes) if n is not None]
    if not isinstance(type_, TileType) or len(known) != 4 or type_.slayout != "none_box":
        return None
    row, col, rows, cols = known
    if type_.blayout == "col_major":
        row, col, rows, cols = col, row, cols, rows
    size = type_.dtype.bits
    width = type_.cols if type_.blayout == "row_major" else type_.rows
    pitch = around.pitch or width * size // 8
    start = around.start + row * pitch + col * size // 8
    return _Place(around.memory, start, -(-cols * size // 8), rows, pitch)


def _address(value: Value, placement: Placement) -> int | None:
    planned = placement.values.get(value)
    if planned is not None or value.owner is None:
        return planned
    given = value.owner.bound.get("addr")
    at = given.const if isinstance(given, Operand) else None
    return at if isinstance(at, int) else None


def _meet(one: _Place, other: _Place) -> bool:
    """True if two places share a byte; windows of one tile are compared line by line."""
    if one.memory != other.memory or one.start >= other.end or other.start >= one.end:
        return False
    if one.pitch != other.pitch or not one.pitch:
        return True
    lines, columns = divmod(other.start - one.start, one.pitch)
    return any(
        -other.lines < distance < one.lines and -other.run < shift < one.run
        for distance, shift in ((lines, columns), (lines + 1, columns - one.pitch))
    )
