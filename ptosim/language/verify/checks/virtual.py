"""Vectors of any length, as a program may have them: without what the assembler's passes add, in
operations that may carry them, in functions that are defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.attributes import Dense, TypeText, attr_value
from ptosim.ground.ir.core import Operation, Tok, Value
from ptosim.ground.ir.lane_layout import CONTIGUOUS, parse_layout
from ptosim.ground.ir.lane_layout import PREFIX as LAYOUT
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ScalarType, Type, VectorType, VirtualMaskType, VirtualVRegType
from ptosim.ground.source import Source, Span
from ptosim.language.bind.structured import constant_value
from ptosim.language.place.sides import VIRTUAL
from ptosim.language.syntax.type_parts import TypeFault
from ptosim.language.syntax.types import parse_type
from ptosim.language.syntax.virtual_types import layout

PREFIX = "VMI-PASS-INVARIANT: "


# -- what the passes add ---------------------------------------------------------------------------


def boundary(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report layouts, granularities of masks and helpers of the assembler's passes, unless the text
    went through them."""
    if resolved.settings.dump or not _mentions_vectors(resolved):
        return
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


def _mentions_vectors(resolved: ResolvedModule) -> bool:
    """False for most programs, which are not gone through then."""
    return "!pto.vmi." in resolved.module.source.text


def _values(resolved: ResolvedModule) -> Iterator[Value]:
    """Every value of a module where it is defined."""
    for function in resolved.functions.values():
        yield from function.args
    for op in resolved.ops:
        yield from op.results
        for region in op.regions:
            own = region.blocks[:1] if op.has("function") else ()  # its arguments are given above
            for block in region.blocks:
                yield from block.values if block not in own else ()


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


# -- who may carry vectors -------------------------------------------------------------------------


def foreign(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report vectors in operations that may not carry them, and their types in attributes."""
    if not _mentions_vectors(resolved):
        return
    source = resolved.module.source
    for op in resolved.ops:
        attr = next((k for k, a in op.attrs.items() if _has_virtual_type(attr_value(a))), None)
        if attr is not None and not (op.has("function") and attr == "function_type"):
            yield finding(
                "PTO2308",
                f"{PREFIX}'{op.name}' op has a VMI type in the non-signature attribute '{attr}'",
                op.span(source),
            )
        if op.definition is None or op.traits & {"virtual", "carries", "function"}:
            continue
        if _names_vectors(op, resolved):
            yield finding(
                "PTO2307",
                f"{PREFIX}VMI value is used by a non-VMI semantic op '{op.name}'",
                op.span(source),
                notes=("only pto.vmi, func, scf and cf operations carry vectors of any length",),
            )


def _names_vectors(op: Operation, resolved: ResolvedModule) -> bool:
    """True if an operand or result is a vector, or the text says so where nothing was bound."""
    if any(isinstance(v.type, VIRTUAL) for v in (*op.results, *op.operand_values())):
        return True
    written = (*op.types, *op.ins_types, *op.outs_types, *(op.arrow or ()))
    return any("!pto.vmi." in resolved.module.spelled_out(tok.value) for tok in written)


def layouts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report layouts that are wrong in aliases and attributes; those of types are said there."""
    if LAYOUT not in resolved.module.source.text:
        return
    module = resolved.module
    attrs = [*module.attr_aliases.values(), *(a for op in resolved.ops for a in op.attrs.values())]
    for attr in attrs:
        token = attr.atom
        if not isinstance(token, Tok) or not token.value.startswith(f"{LAYOUT}<"):
            continue
        try:
            layout(token.value)
        except TypeFault as fault:
            yield finding("PTO1006", str(fault), token.span(module.source))


def _has_virtual_type(value: Any) -> bool:
    if isinstance(value, TypeText):
        return "!pto.vmi." in value.text
    if isinstance(value, dict):
        return any(map(_has_virtual_type, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_virtual_type, value))


def functions(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report functions with vectors that have no body, and those that are public."""
    source = resolved.module.source
    for function in resolved.functions.values():
        if function.implicit or not has_vectors(function):
            continue
        if not function.has_body:
            yield finding(
                "PTO2305",
                f"VMI-LAYOUT-CONTRACT: declaration of `@{function.name}` with VMI types requires "
                "an explicit external ABI",
                function.op.span(source),
                help="give it a body: it is inlined where it is called",
            )
        elif not function.private:
            yield finding(
                "PTO2306",
                f"`@{function.name}` has VMI types: it cannot be called from the host",
                function.op.span(source),
                help="make it `private`",
            )


def has_vectors(function: Function) -> bool:
    """True for a function that takes or returns vectors of any length."""
    types = [*(value.type for value in function.args), *function.results]
    return any(isinstance(type_, VIRTUAL) for type_ in types)


# -- constants and helpers -------------------------------------------------------------------------


def constants(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report constants whose elements do not fit the vector."""
    for op in resolved.ops:
        if op.has("dense") and op.results and op.attrs.get("value") is not None:
            fault = _wrong_constant(op, op.results[0].type)
            if fault is not None:
                yield finding("PTO2330", f"'{op.name}' op {fault}", op.span(resolved.module.source))


def _wrong_constant(op: Operation, type_: Type) -> str | None:
    attr = op.attrs["value"]
    shaped = parse_type(attr.type.value).type if attr.type is not None else None
    value = attr_value(attr)
    if not isinstance(value, Dense) or not isinstance(shaped, VectorType):
        return "requires dense elements constant attribute"
    literals = value.of([d or 0 for d in shaped.dims], shaped.elem.bits)
    if literals is None:
        return f"requires dense elements that fit {shaped}"
    element = ScalarType(shaped.elem)
    odd = next((tok for tok in literals if constant_value(tok, element) is None), None)
    if odd is not None:
        return f"requires dense elements that fit {shaped}; `{odd.value}` is no {shaped.elem}"
    if not isinstance(type_, VIRTUAL):
        return None  # said where the operands are bound
    count = 1
    for dim in shaped.dims:
        count *= dim or 0
    if count != type_.lanes:
        return (
            "requires dense constant element count to match result logical lane count: "
            f"{count} elements, {type_.lanes} lanes"
        )
    wanted = type_.elem.name if isinstance(type_, VirtualVRegType) else "i1"
    if shaped.elem.name != wanted:
        return (
            "requires dense constant element type to match result element type: "
            f"{shaped.elem}, not {wanted}"
        )
    return None


def repacked(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report vectors in more or fewer registers than their layout needs."""
    for op in resolved.ops:
        if op.has("repacks") and op.variant is not None:
            yield from _wrong_parts(op, resolved.module.source)


def _wrong_parts(op: Operation, source: Source) -> Iterator[Diagnostic]:
    values = [*op.operand_values(), *op.results]
    whole = next((v.type for v in values if isinstance(v.type, VIRTUAL)), None)
    given = sum(1 for v in values if not isinstance(v.type, VIRTUAL))
    needed = _registers(whole) if whole is not None else None
    if needed is not None and needed != given:
        yield finding(
            "PTO2329",
            f"'{op.name}' op requires {needed} physical values for {whole}, not {given}",
            op.span(source),
        )


def _registers(type_: Type) -> int | None:
    """The registers of a vector in its layout, None where the layout does not say it."""
    bits = 0
    if isinstance(type_, VirtualVRegType):
        bits = type_.elem.bits
    elif isinstance(type_, VirtualMaskType) and type_.granule != "pred":
        bits = int(type_.granule[1:])
    if not bits or not isinstance(type_, VIRTUAL):
        return None
    assigned = parse_layout(type_.layout) if type_.layout is not None else CONTIGUOUS
    try:
        return assigned.registers(type_.lanes, bits)
    except ValueError:
        return None
