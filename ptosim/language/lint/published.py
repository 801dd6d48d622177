"""Stores of the scalar unit to global memory that others are told of while its cache has them."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import PtrType, ViewType
from ptosim.ground.source import Source
from ptosim.machine.effects.storage import operand_value


def unpublished(function: Function, source: Source) -> Iterator[Diagnostic]:
    """Report the last scalar store before a signal to other cores or ranks, in the order of the
    text, where nothing between them writes the scalar data cache back."""
    stored: Operation | None = None
    for op in function.ops:
        if op.has("writes_back"):
            stored = None
        elif _stores_to_gm(op):
            stored = op
        elif stored is not None and (op.has("signals") or op.has("publishes")):
            yield _unpublished(stored, op, source)
            stored = None


def _stores_to_gm(op: Operation) -> bool:
    if not op.has("writes_memory") or op.has("atomic_update"):
        return False
    place = operand_value(op, "ptr")
    type_ = place.type if place is not None else None
    return isinstance(type_, ViewType) or (isinstance(type_, PtrType) and type_.space == "gm")


def _unpublished(store: Operation, signal: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO6110",
        f"'{store.name}' is in the scalar unit's cache when '{signal.name}' tells others of it",
        store.span(source),
        more=(Label(signal.span(source), "told here"),),
        notes=(
            "on hardware they may read what was there before; here memory is always up to date",
        ),
        help="write `pto.cmo.cacheinvalid %pointer single_cache_line : …` between them",
    )
