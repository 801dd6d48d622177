"""The quant dialect: what a cast demands of its types, in MLIR's words, and zero points that do not
fit their storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ErrorType, ScalarType, TileType, Type, VectorType
from ptosim.ground.source import Source
from ptosim.machine.effects.row import access_entry


def casts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report casts that the dialect's verifier rejects, and zero points that will wrap."""
    source = resolved.module.source
    for op in resolved.ops:
        if op.definition is not None and op.definition.family == "quant" and op.bound:
            yield from _operation(op, source)


def headers(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report types of arguments and results whose parameters do not fit what holds them."""
    for function in resolved.functions.values():
        if not function.implicit:
            yield from _header(function, resolved.module.source)


def _header(function: Function, source: Source) -> Iterator[Diagnostic]:
    """The dialect demands it everywhere, and its verifier looks at casts alone."""
    named = [(f"argument `{v.name}`", v.type, v.span(source)) for v in function.args]
    named += [
        (f"result {i}", type_, function.op.span(source)) for i, type_ in enumerate(function.results)
    ]
    for what, type_, span in named:
        wrong = _misfit(type_) if _holds_quant(type_) else None
        if wrong is not None:
            yield finding(
                "PTO7211",
                f"{what} of `{function.name}`: {wrong}",
                span,
                notes=(f"type {type_}",),
                help="give the type the parameters that fit the tensor",
            )


def _misfit(type_: Type) -> str | None:
    from ptosim.machine.quant.mlir.ops import integrity

    container = _container(type_)
    return integrity(container) if container is not None else None


def _holds_quant(type_: Type) -> bool:
    dtype = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return dtype is not None and dtype.kind == "quant"


def reused(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report sources that are read again after an operation that overwrites them on this target,
    where the row has a note on it. A run says whether what is read was lost (PTO7103)."""
    if not any(_spoils(op, resolved.target) for op in resolved.ops):
        return
    for op in (op for function in resolved.functions.values() for op in function.ops):
        for region in op.regions:
            for block in region.blocks:
                yield from _reused(block.ops, resolved.target, resolved.module.source)


def _spoils(op: Operation, target: str) -> Mapping[str, str] | None:
    """The row's entry on sources that the library destroys, where it has a note on them."""
    row = op.definition
    if row is None or "clobbers" not in row.access:
        return None
    entry = access_entry(op, "clobbers", target)
    return entry if entry is not None and "note" in entry else None


def _reused(ops: Sequence[Operation], target: str, source: Source) -> Iterator[Diagnostic]:
    spoiled: dict[int, tuple[Operation, str]] = {}
    for op in ops:
        if op.variant is None or not op.bound or "places" in op.traits:
            continue
        for definition in op.variant.ins:
            found = spoiled.pop(_value(op.bound.get(definition.name)), None)
            if found is not None:
                writer, why = found
                yield finding(
                    "PTO7210",
                    f"'{op.name}' reads a tile that '{writer.name}' has overwritten",
                    op.span(source),
                    more=(Label(writer.span(source), "overwrites its source"),),
                    notes=(why,),
                    help="copy the tile before (`pto.tmov`), or load it again",
                )
        for definition in op.variant.outs:
            spoiled.pop(_value(op.bound.get(definition.name)), None)
        entry = _spoils(op, target)
        if entry is not None:
            for name in entry["of"].split():
                spoiled[_value(op.bound.get(name))] = op, entry["note"]


def _value(operand: Any) -> int:
    return id(getattr(operand, "value", None) or operand)


def _operation(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("input")
    out = op.bound.get("dst")
    result = out.type if out is not None else op.results[0].type if op.results else None
    if operand is not None and result is not None and "quant_cast" in op.traits:
        yield from _cast(op, operand.type, result, source)
    yield from _scheme(op, source)


def _cast(op: Operation, held: Type, made: Type, source: Source) -> Iterator[Diagnostic]:
    from ptosim.machine.quant.mlir.ops import verify_cast

    before, after = _container(held), _container(made)
    if before is None or after is None:
        return
    wrong = verify_cast(op.name, before, after)
    if wrong is not None:
        yield finding(
            "PTO2213",
            wrong if op.name in wrong else f"'{op.name}' op {wrong}",
            op.span(source),
            notes=(f"from {held}", f"to {made}"),
        )
        return
    for type_ in (before, after):
        yield from _zero_points(op, type_.element, source)


def _zero_points(op: Operation, element: Any, source: Source) -> Iterator[Diagnostic]:
    from ptosim.machine.quant.mlir.types import UniformType

    if not isinstance(element, UniformType):
        return
    low, high = element.storage.low, element.storage.high
    outside = [z for z in element.zeros if not low <= z <= high]
    if outside:
        yield finding(
            "PTO7204",
            f"zero point {outside[0]} is outside the storage range [{low}, {high}]",
            op.span(source),
            notes=(
                "MLIR does not check it; its lowering wraps the zero point to the storage width",
                "real zero has no stored value then",
            ),
            help="choose a zero point in the range",
        )


def _scheme(op: Operation, source: Source) -> Iterator[Diagnostic]:
    name = op.attributes.get("scheme")
    if not isinstance(name, str):
        return  # there is none, or it is reported already
    from ptosim.machine.quant.schemes import schemes

    if name not in schemes():
        yield finding(
            "PTO2214",
            f"'{op.name}' op names the unknown scheme `{name}`",
            op.span(source),
            help=f"known: {', '.join(schemes())}",
        )


def _container(type_: Type) -> Any:
    """Return a type as the quant dialect sees it; None for one that it has no word for."""
    from ptosim.machine.quant.mlir.types import Builtin, Container

    if isinstance(type_, ScalarType):
        return Container("", (), _element(type_.dtype))
    if isinstance(type_, TileType):
        return Container("tile", (type_.rows, type_.cols), _element(type_.dtype))
    if isinstance(type_, VectorType):
        dims = None if type_.is_unranked else type_.dims
        return Container(type_.kind, dims, _element(type_.elem))
    return None if isinstance(type_, ErrorType) else Container("memref", (), Builtin(str(type_)))


def _element(dtype: Any) -> Any:
    from ptosim.machine.quant.mlir.parser import parse_type
    from ptosim.machine.quant.mlir.types import Builtin

    return parse_type(dtype.name).element if dtype.kind == "quant" else Builtin(dtype.name)
