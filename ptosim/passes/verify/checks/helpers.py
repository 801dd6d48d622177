"""Functions with the attribute `pto.tileop.helper`: the body of one tile operation, written with
register operations on the tiles that it is given (`isa/units.toml`)."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import AbstractTileType, ErrorType, ScalarType, TileType
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source, Span

HELPER = "pto.tileop.helper"
_ARGUMENTS = (TileType, AbstractTileType, ScalarType, ErrorType)


def helpers(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report results, arguments and operations that a helper must not have."""
    texts, source = unit_rules(resolved.date).helpers, resolved.module.source
    for function in resolved.functions.values() if texts else ():
        if HELPER in function.op.attrs:
            yield from _signature(function, texts, source)
            yield from _body(function, resolved, texts)


def _signature(function: Function, texts: dict[str, str], source: Source) -> Iterator[Diagnostic]:
    if function.results:
        yield _finding(texts["results"], function.op.span(source))
    for number, argument in enumerate(function.args):
        if not isinstance(argument.type, _ARGUMENTS):
            text = texts["argument"].replace("{number}", str(number))
            yield _finding(text, argument.span(source))


def _body(
    function: Function, resolved: ResolvedModule, texts: dict[str, str]
) -> Iterator[Diagnostic]:
    source = resolved.module.source
    for op in function.ops:
        for trait in ("section", "sync", "makes_storage"):
            if trait in op.traits:
                yield _finding(texts[trait], op.span(source))
        callee = resolved.functions.get(op.bound.get("callee", "")) if "call" in op.traits else None
        if callee is not None and HELPER in callee.op.attrs:
            yield _finding(texts["call"], op.span(source))


def _finding(text: str, span: Span) -> Diagnostic:
    return finding(
        "PTO1027",
        text,
        span,
        notes=("a helper is called as one operation on tiles that its caller owns",),
        help="leave that to the function that calls the helper",
    )
