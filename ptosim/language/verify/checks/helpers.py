"""Functions with the attribute `pto.tileop.helper`: the body of one tile operation, written with
register operations on the tiles that it is given (`isa/units.toml`)."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import AbstractTileType, ErrorType, ScalarType, TileType, Type, ViewType
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.place.sides import CUBE, SIMT, VECTOR, pipe_of, votes

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
    source, target = resolved.module.source, resolved.target
    if not function.has_body:
        return
    for op in function.ops[1:]:
        what = _not_allowed(op, resolved)
        if what is not None:
            yield _finding(texts[what], op.span(source))
        elif op.has("tile_address") and op.has("pure") and not _reads_argument(op, function):
            yield _finding(f"'{op.name}' op {texts['no_argument']}", op.span(source))
    kinds = votes(function.body, target) & {CUBE, VECTOR}
    if len(kinds) == 2:
        yield _finding(texts["mixed"], function.op.span(source))
    if not kinds:
        yield _finding(texts["nothing"], function.op.span(source))


def _not_allowed(op: Operation, resolved: ResolvedModule) -> str | None:
    """The text of `isa/units.toml` about an operation that a helper must not have."""
    if op.has("section"):
        return "section"
    if op.traits & {"sync", "cross_core", "orders_pipes"}:
        return "sync"
    if op.has("call"):
        callee = resolved.functions.get(op.bound.get("callee", ""))
        return "call" if callee is not None and HELPER in callee.op.attrs else None
    row = op.definition
    if row is not None and row.family.startswith(SIMT):
        return None if op.has("launches") else "threads"
    if row is None or op.regions or op.has("tile_address"):
        return None
    if op.has("makes_storage") or any(isinstance(t, _TILES) for t in _types(op)):
        return "makes_storage"
    is_move = op.bound and pipe_of(op, resolved.target) in _MOVERS
    return "moves" if row.family.startswith("micro") and is_move else None


_MOVERS = frozenset(("MTE1", "MTE2", "MTE3", "FIX"))
_TILES = (TileType, AbstractTileType, ViewType)


def _types(op: Operation) -> list[Type | None]:
    return [*(v.type for v in op.results), *(o.type for _, o in op.operands())]


def _reads_argument(op: Operation, function: Function) -> bool:
    return all(value in function.args for value in op.operand_values())


def _finding(text: str, span: Span) -> Diagnostic:
    return finding(
        "PTO1027",
        text,
        span,
        notes=("a helper is called as one operation on tiles that its caller owns",),
        help="leave that to the function that calls the helper",
    )
