"""Vector regions: registers live and end in them, and tiles have no part in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import AbstractTileType, TileType, Type, ViewType
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.place.scopes import OF_REGISTERS, escapes, runs_of
from ptosim.language.place.sides import CUBE, VIRTUAL, has_registers, is_register, makes_registers


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report registers outside vector regions, and what must not be inside them."""
    rules, source = unit_rules(resolved.date).rules, resolved.module.source
    infers = "inferred_regions" in rules
    if not any(op.traits & OF_REGISTERS or makes_registers(op) for op in resolved.ops):
        return
    for function in resolved.functions.values():
        if not infers:
            yield from _signature(function, source)
        for op in function.ops if not function.implicit else ():
            scope = op.inside("vector_region")
            if "vector_region" in op.traits:
                yield from _scope(op, scope, rules, source)
            elif scope is not None:
                yield from _inside(op, scope, rules, source)
            elif not infers or _is_for_cube(op, function):
                yield from _outside(op, source)
        if infers and function.has_body and not function.implicit:
            yield from _escapes(function, rules["inferred_regions"], source)


def _is_for_cube(op: Operation, function: Function) -> bool:
    """True for a register operation that only a cube core would execute."""
    section = op.inside("section")
    side = section.definition.side if section is not None and section.definition else None
    return has_registers(op) and (side or function.kernel_kind) == CUBE


def _escapes(function: Function, text: str, source: Source) -> Iterator[Diagnostic]:
    runs = list(runs_of(function.op.regions[0].blocks))
    for value, user in escapes(function, runs):
        if isinstance(value.type, VIRTUAL):
            continue  # its regions are inferred when it has registers
        yield finding(
            "PTO3071",
            text.replace("{type}", str(value.type)),
            value.span(source),
            more=(Label(user.span(source), "used here, outside of the region that is inferred"),),
            notes=("a region ends at synchronisation, copies, calls and scalar memory accesses",),
            help="load or compute it again after what ends the region",
        )


# -- outside ------------------------------------------------------------------------------------


def _outside(op: Operation, source: Source) -> Iterator[Diagnostic]:
    if "tile_address" in op.traits:
        yield finding(
            "PTO3023",
            f"'{op.name}' op is only possible inside a vector region",
            op.span(source),
            notes=("outside a vector region a tile represents its address",),
            help="move it into `pto.vecscope { … }`",
        )
    elif op.regions or op.traits & {"call", "returns", "yields"}:
        return  # they hand on what another operation made
    elif has_registers(op):
        yield finding(
            "PTO3020",
            f"'{op.name}' op needs a vector region around it",
            op.span(source),
            notes=("vector registers, masks and align states exist only in a vector region",),
            help="put it into `pto.vecscope { … }`",
        )


def _signature(function: Function, source: Source) -> Iterator[Diagnostic]:
    for value in function.args:
        if is_register(value.type):
            yield _leaves(
                f"argument `%{value.name}` of `@{function.name}` is a register",
                value.span(source),
            )
    for type_ in function.results:
        if is_register(type_):
            yield _leaves(
                f"`@{function.name}` returns a register ({type_})",
                function.op.span(source),
            )


def _leaves(message: str, span: Span, more: tuple[Label, ...] = ()) -> Diagnostic:
    return finding(
        "PTO3022",
        f"{message}; registers do not leave a vector region",
        span,
        more=more,
        notes=("the vector unit keeps no register from one region to the next",),
        help="store it to UB and load it where it is needed",
    )


# -- inside -------------------------------------------------------------------------------------


def _inside(
    op: Operation, scope: Operation, rules: dict[str, str], source: Source
) -> Iterator[Diagnostic]:
    around = (Label(scope.span(source), "the vector region"),)
    span = op.span(source)
    if "region_sync" in rules and op.traits & {"sync", "cross_core", "orders_pipes"}:
        yield finding(
            "PTO3070",
            f"'{op.name}' op {rules['region_sync'].replace('{region}', scope.name)}",
            span,
            more=around,
            help="move it in front of the region or after it",
        )
    elif "scalar_in_region" in rules and op.traits & {"on_stack", "in_local_array", "entry_only"}:
        yield finding(
            "PTO2180",
            f"'{op.name}' op {rules['scalar_in_region'].replace('{region}', scope.name)}",
            span,
            more=around,
            help="move it in front of the region or after it",
        )
    elif "tile_address" not in op.traits and _is_tile_op(op):
        yield finding(
            "PTO3021",
            f"'{op.name}' op is a tile operation; a vector region takes only "
            "`pto.tile_buf_addr` of them",
            span,
            more=around,
            notes=("a tile operation is a vector region of its own",),
            help="move it out of the region, or load from the tile's address",
        )
    elif ("call" in op.traits or "returns" in op.traits) and _hands_on(op, rules):
        yield _leaves(f"'{op.name}' op passes a register on", span, around)


def _hands_on(op: Operation, rules: dict[str, str]) -> bool:
    """True where registers leave the region; a function that is called from it takes them."""
    allowed = "call" in op.traits and "inferred_regions" in rules
    return not allowed and any(is_register(v.type) for v in op.operand_values())


def _is_tile_op(op: Operation) -> bool:
    values = [*op.results, *op.operand_values()]
    return any(isinstance(v.type, (TileType, AbstractTileType, ViewType)) for v in values)


# -- regions ------------------------------------------------------------------------------------


def _scope(
    op: Operation, outer: Operation | None, rules: dict[str, str], source: Source
) -> Iterator[Diagnostic]:
    span = op.span(source)
    if outer is not None:
        yield finding(
            "PTO3024",
            f"'{op.name}' op {rules.get('nested_region', 'is inside another vector region')}",
            span,
            more=(Label(outer.span(source), "the region around it"),),
            notes=("vector regions do not nest",),
            help="remove the inner region; its operations can be in the outer one",
        )
    if op.results or op.arrow:
        yield _leaves(f"'{op.name}' op has results", span)
    if "values" in op.bound:  # it lists what it captures
        yield from _captures(op, span)


def _captures(op: Operation, span: Span) -> Iterator[Diagnostic]:
    captured = [o.type for o in op.bound.get("values", ())]
    block = op.regions[0].blocks[0] if op.regions and op.regions[0].blocks else None
    arguments = [v.type for v in block.values] if block is not None else []
    if captured == arguments:
        return
    yield finding(
        "PTO3025",
        f"'{op.name}' op lists {_types(captured)} but its block takes {_types(arguments)}",
        span,
        notes=("the block has one argument for each value of the list, of its type",),
        help="write `^bb0(%name: type, …):` with one argument for each value",
    )


def _types(types: Sequence[Type | None]) -> str:
    return f"({', '.join(map(str, types))})"
