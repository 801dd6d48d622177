"""Who says where things are: addresses and levels, and the buffers that a function reserves."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import Symbol, attribute_of
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MemRefType, MultiTileType, TileType, Type
from ptosim.ground.isa.targets import machine
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source


def levels(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report addresses below level 3 and missing ones at level 3."""
    source = resolved.module.source
    if resolved.module.kind == "snippet":
        return
    allocations = [op for op in resolved.ops if "makes_storage" in op.traits and _has_address(op)]
    placed = next((op for op in allocations if op.bound.get("addr") is not None), None)
    why = (
        (Label(placed.span(source), "this address makes it level 3"),) if placed is not None else ()
    )
    for op in resolved.ops:
        if "makes_storage" in op.traits and _has_address(op):
            yield from _alloc(op, level, source, why)
        elif "places" in op.traits and level < 3:
            yield _placed(op, source)
        elif "places" in op.traits and resolved.settings.inserts_sync:
            yield _placed_with_sync(op, source)


def _has_address(op: Operation) -> bool:
    """True for storage that the program may place."""
    assert op.definition is not None
    return any(d.name == "addr" for v in op.definition.variants for d in v.named)


def _alloc(
    op: Operation, level: int, source: Source, why: tuple[Label, ...]
) -> Iterator[Diagnostic]:
    has_address = op.bound.get("addr") is not None
    if has_address and level < 3:
        yield finding(
            "PTO3010",
            f"'{op.name}' op unexpected 'addr' operand: only supported when --pto-level=level3",
            op.span(source),
            notes=("levels 1 and 2 plan memory themselves",),
            help="remove `addr = …`, or run with `--level 3`",
        )
    if not has_address and level == 3 and op.bound:
        several = op.results and isinstance(op.results[0].type, MultiTileType)
        who = f"{op.name} requires a base" if several else f"'{op.name}' op requires"
        yield finding(
            "PTO3011",
            f"{who} 'addr' operand when --pto-level=level3",
            op.span(source),
            more=why,
            notes=("at level 3 every address is the program's",),
            help="give the tile `addr = %address`, or run with `--level 2`",
        )


def _placed(op: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO3012",
        f"{op.name} is only supported when --pto-level=level3.",
        op.span(source),
        help="run with `--level 3`, or let the planner place the tile",
    )


def _placed_with_sync(op: Operation, source: Source) -> Diagnostic:
    return finding(
        "PTO3013",
        f"{op.name} requires --enable-insert-sync to be disabled",
        op.span(source),
        notes=("automatic synchronisation does not follow a tile to another address",),
        help="run with `--sync manual`",
    )


def buffers(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report buffers that repeat, that nobody reserves, or that the planner cannot honour."""
    source = resolved.module.source
    several = "pipe_ids" in unit_rules(resolved.date).rules
    for function in resolved.functions.values():
        reserved = [op for op in function.ops if "reserves" in op.traits]
        if several:
            yield from _unique(function, reserved, source)
        else:
            yield from _single(reserved, source)
        for op in function.ops:
            if "imports" in op.traits:
                yield from _import(op, resolved, source)
        fixed = [op for op in reserved if attribute_of(op, "auto") is False]
        if several and level == 3:
            yield from _inside(fixed, resolved.chip, source)
        if fixed and level < 3:
            yield from _not_planned(function, fixed[0], resolved)


def _single(reserved: list[Operation], source: Source) -> Iterator[Diagnostic]:
    for op in reserved[1:]:
        yield finding(
            "PTO5018",
            f"'{op.name}' op expects at most one per function",
            op.span(source),
            more=(Label(reserved[0].span(source), "the first one"),),
        )


def _unique(function: Function, reserved: list[Operation], source: Source) -> Iterator[Diagnostic]:
    """Names of the buffers that a function reserves, and of those that it imports, are unique."""
    imported = [op for op in function.ops if "imports" in op.traits]
    for ops, keys, text in (
        (reserved, ("name",), "requires 'name' to be unique within the function"),
        (imported, ("name", "peer_func"), "requires (name, peer_func) to be unique"),
    ):
        first: dict[tuple[str, ...], Operation] = {}
        for op in ops:
            key = tuple(str(attribute_of(op, k)) for k in keys)
            if key in first:
                yield finding(
                    "PTO5018",
                    f"'{op.name}' op {text}",
                    op.span(source),
                    more=(Label(first[key].span(source), "the first one"),),
                )
            first.setdefault(key, op)


_ALIGN = 256


def _inside(fixed: list[Operation], chip: str, source: Source) -> Iterator[Diagnostic]:
    """The program's buffers are aligned, and inside what the planner has of their space."""
    spaces = machine(chip).spaces
    for op in fixed:
        base, size = attribute_of(op, "base"), attribute_of(op, "size")
        location = op.attributes.get("location")
        if not isinstance(base, int) or not isinstance(size, int) or location not in spaces:
            continue
        if base % _ALIGN:
            text = f"expects 'base' to be aligned to {_ALIGN} bytes for {location}"
            yield finding("PTO4040", f"'{op.name}' op {text}", op.span(source))
        if base < 0 or base + size > spaces[location].planner:
            text = f"reserved range exceeds {location} capacity"
            yield finding(
                "PTO4041",
                f"'{op.name}' op {text}",
                op.span(source),
                label=f"it ends at {base + size}; there are {spaces[location].planner} bytes",
            )


def _import(op: Operation, resolved: ResolvedModule, source: Source) -> Iterator[Diagnostic]:
    symbol, name = attribute_of(op, "peer_func"), attribute_of(op, "name")
    if not isinstance(symbol, Symbol):
        return  # the attribute is reported already
    peer = resolved.peer(op)
    if peer is None:
        yield finding(
            "PTO5019",
            f"'{op.name}' op expects 'peer_func' to reference an existing func.func",
            op.span(source),
            label=f"there is no function {symbol}",
        )
    elif not any("reserves" in r.traits and attribute_of(r, "name") == name for r in peer.ops):
        yield finding(
            "PTO5019",
            f"'{op.name}' op expects matching peer reserve_buffer to exist",
            op.span(source),
            label=f'{symbol} reserves no buffer named "{name}"',
        )


_IN_APRIL = (
    "pto.reserve_buffer with explicit 'base' (auto = false) is not supported in PlanMemory; "
    "use --pto-level=level3 or set auto = true"
)


def _not_planned(
    function: Function, fixed: Operation, resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    """Below level 3 the planner places local memory and cannot leave room for a fixed buffer. Where
    nothing is to be placed, and nobody asked for that level, it does not matter."""
    source = resolved.module.source
    text = unit_rules(resolved.date).rules.get("fixed_buffer")
    asked = text is not None and "level" in resolved.settings.given
    made = [op for op in function.ops if "makes_storage" in op.traits and op.results]
    allocations = [op for op in made if _is_local(op.results[0].type)]
    tiles = any(isinstance(op.results[0].type, (TileType, MultiTileType)) for op in made)
    for op in allocations:
        yield finding(
            "PTO4002",
            f"'{op.name}' op cannot use pto.reserve_buffer with auto = false when local "
            "memref.alloc still requires PlanMemory allocation",
            op.span(source),
            more=(Label(fixed.span(source), "the buffer with a fixed address"),),
            help="set auto = true",
        )
    yield finding(
        "PTO4003" if allocations or tiles or asked else "PTO4004",
        text or _IN_APRIL,
        fixed.span(source),
        help="set auto = true, or run with `--level 3`",
    )


def _is_local(type_: Type) -> bool:
    return isinstance(type_, MemRefType) and type_.space != "gm"
