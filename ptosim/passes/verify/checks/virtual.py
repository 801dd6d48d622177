"""Vectors of any length, as a program may have them: without what the assembler's passes add."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import Type, VirtualMaskType, VirtualVRegType
from ptosim.ground.source import Span

PREFIX = "VMI-PASS-INVARIANT: "


def boundary(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report layouts, granularities of masks and helpers of the assembler's passes."""
    source = resolved.module.source
    for function in resolved.functions.values():
        for type_ in function.results:
            if not is_surface(type_):
                yield _not_surface(type_, function.op.span(source))
    for value in _values(resolved):
        if not is_surface(value.type):
            yield _not_surface(value.type, value.span(source))
    for op in resolved.ops:
        if op.has("dump_only"):
            yield finding(
                "PTO2304",
                f"{PREFIX}'{op.name}' helper op appears before layout assignment",
                op.span(source),
                help="leave it out: the assembler adds it where it is needed",
            )


def _values(resolved: ResolvedModule) -> Iterator[Value]:
    """Every value of a module where it is defined."""
    for function in resolved.functions.values():
        yield from function.args
    for op in resolved.ops:
        yield from op.results
        if op.has("function"):
            continue
        for region in op.regions:
            for block in region.blocks:
                yield from block.values


def is_surface(type_: Type) -> bool:
    """True for a type as a program has it: without layout, of a mask without granularity."""
    if isinstance(type_, VirtualVRegType):
        return type_.layout is None
    return not isinstance(type_, VirtualMaskType) or (
        type_.layout is None and type_.granule == "pred"
    )


def _not_surface(type_: Type, span: Span) -> Diagnostic:
    return finding(
        "PTO2304",
        f"{PREFIX}producer boundary requires surface VMI types, not {type_}",
        span,
        help="leave the layout out, and write `pred` for a mask",
    )
