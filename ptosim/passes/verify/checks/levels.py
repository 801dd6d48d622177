"""What each level allows: addresses and placement belong to level 3."""

from __future__ import annotations

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Source, Span


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report addresses below level 3 and missing ones at level 3."""
    source = resolved.module.source
    if resolved.module.kind == "snippet":
        return
    for op in resolved.module.walk():
        if op.name == "pto.alloc_tile":
            finding = _alloc(op, level, source)
        elif op.name == "pto.tassign" and level < 3:
            finding = _tassign(op, source)
        elif op.name == "pto.tassign" and resolved.insert_sync:
            finding = _tassign_with_sync(op, source)
        else:
            continue
        if finding is not None:
            sink.emit(finding)


def _alloc(op: Operation, level: int, source: Source) -> Diagnostic | None:
    has_address = op.bound.get("addr") is not None
    span = Span(source, op.start, op.name_end)
    if has_address and level < 3:
        return finding(
            "PTO3010",
            "'pto.alloc_tile' op unexpected 'addr' operand: only supported when --pto-level=level3",
            span,
            notes=("levels 1 and 2 plan memory themselves",),
            help="remove `addr = …`, or run with `--level 3`",
        )
    if not has_address and level == 3 and op.bound:
        return finding(
            "PTO3011",
            "'pto.alloc_tile' op requires 'addr' operand when --pto-level=level3",
            span,
            notes=("at level 3 every address is the program's",),
            help="give the tile `addr = %address`, or run with `--level 2`",
        )
    return None


def _tassign(op: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO3012",
        "pto.tassign is only supported when --pto-level=level3.",
        Span(source, op.start, op.name_end),
        help="run with `--level 3`, or let the planner place the tile",
    )


def _tassign_with_sync(op: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO3013",
        "pto.tassign requires --enable-insert-sync to be disabled",
        Span(source, op.start, op.name_end),
        notes=("automatic synchronisation does not follow a tile to another address",),
        help="run with `--sync manual`",
    )
