"""What is wrong with an address that the program gives a tile."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.types import MultiTileType, TileType
from ptosim.ground.isa.targets import SpaceDef
from ptosim.ground.source import Source, Span

_CURE = "choose another address, or a smaller tile"


def space_limit(space: SpaceDef) -> int:
    """All bytes of a space that the assembler knows of."""
    return max(space.bytes, space.planner)


def address_faults(
    op: Operation,
    name: str,
    type_: TileType | MultiTileType,
    addr: int,
    space: SpaceDef,
    source: Source,
    *,
    whole_units: bool,
) -> Iterator[Diagnostic]:
    """Yield what the headers of the library and the assembler refuse of a constant address. With
    `whole_units` it is a multiple of what the planner gives: 512 bytes in left, right and acc."""

    def fault(code: str, vendor: str, what: str, cure: str = _CURE) -> Diagnostic:
        note = f"[{vendor}] TASSIGN of the vendor's headers states the same condition"
        place = Span(source, op.start, op.end)
        return finding(code, f"tile %{name}{what}", place, notes=(note,), help=cure)

    end, limit = addr + type_.bytes, space_limit(space)
    if type_.bytes > limit:
        what = f" takes {type_.bytes} bytes, more than {titled(space)} has ({space.bytes})"
        yield fault("PTO4352", "SA-0352", what)
    elif addr < 0:
        yield fault("PTO4353", "SA-0353", f": addr must be non-negative, got {addr}")
    elif end > limit:
        what = f" ends at {end:#x}, outside {titled(space)} ({space.bytes} bytes)"
        yield fault("PTO4353", "SA-0353", what)
    align = space.plan_align if whole_units else space.align
    if addr % align:
        what = f"addr must be aligned to {align} bytes for local tile memory space, got {addr}"
        yield fault("PTO4354", "SA-0354", f": {what}", f"use a multiple of {align}")


def titled(space: SpaceDef) -> str:
    """A space with both of its names."""
    return f"{space.alias} ({space.name})"
