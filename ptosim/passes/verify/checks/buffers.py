"""Reserved buffers: one for each function, known where they are imported, planned or placed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.attributes import Symbol, attr_value
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import name_span

_RESERVE = "pto.reserve_buffer"
_IMPORT = "pto.import_reserved_buffer"


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report buffers that repeat, that nobody reserves, or that the planner cannot honour."""
    source = resolved.module.source
    for function in resolved.functions.values():
        if not function.has_body:
            continue
        ops = list(function.op.walk())
        reserved = [op for op in ops if op.name == _RESERVE]
        sink.extend(_single(reserved, source))
        for op in ops:
            if op.name == _IMPORT:
                sink.extend(_import(op, resolved, source))
        fixed = [op for op in reserved if _attr(op, "auto") is False]
        if fixed and level < 3:
            sink.extend(_planned(function, fixed[0], source))


def _attr(op: Operation, name: str) -> Any:
    attr = op.attrs.get(name)
    return None if attr is None else attr_value(attr)


def _single(reserved: list[Operation], source: Source) -> Iterator[Diagnostic]:
    for op in reserved[1:]:
        yield finding(
            "PTO5018",
            f"'{op.name}' op expects at most one per function",
            name_span(op, source),
            more=(Label(name_span(reserved[0], source), "the first one"),),
        )


def _import(op: Operation, resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    symbol, name = _attr(op, "peer_func"), _attr(op, "name")
    if not isinstance(symbol, Symbol):
        return  # the attribute is reported already
    peer = resolved.functions.get(symbol.name)
    if peer is None:
        yield finding(
            "PTO5019",
            f"'{op.name}' op expects 'peer_func' to reference an existing func.func",
            name_span(op, source),
            label=f"there is no function {symbol}",
        )
    elif not any(r.name == _RESERVE and _attr(r, "name") == name for r in peer.op.walk()):
        yield finding(
            "PTO5019",
            f"'{op.name}' op expects matching peer reserve_buffer to exist",
            name_span(op, source),
            label=f'{symbol} reserves no buffer named "{name}"',
        )


def _planned(function: Function, fixed: Operation, source: Source) -> Iterator[Diagnostic]:
    """Below level 3 the planner places local memory and cannot leave room for a fixed buffer."""
    allocations = [op for op in function.op.walk() if _is_local(op)]
    tiles = any(op.name == "pto.alloc_tile" for op in function.op.walk())
    for op in allocations:
        yield finding(
            "PTO4002",
            f"'{op.name}' op cannot use pto.reserve_buffer with auto = false when local "
            "memref.alloc still requires PlanMemory allocation",
            name_span(op, source),
            more=(Label(name_span(fixed, source), "the buffer with a fixed address"),),
            help="set auto = true",
        )
    yield finding(
        "PTO4003" if allocations or tiles else "PTO4004",
        "pto.reserve_buffer with explicit 'base' (auto = false) is not supported in PlanMemory; "
        "use --pto-level=level3 or set auto = true",
        name_span(fixed, source),
    )


def _is_local(op: Operation) -> bool:
    if op.name != "memref.alloc" or not op.results:
        return False
    type_ = op.results[0].type
    return isinstance(type_, MemRefType) and type_.space != "gm"
