"""The quant dialect: what a cast demands of its types, in MLIR's words, and zero points that do not
fit their storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ErrorType, ScalarType, TileType, Type, VectorType
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import name_span
from ptosim.passes.verify.rule_views import attribute

_CASTS = ("quant.qcast", "quant.dcast", "quant.scast")


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report casts that the dialect's verifier rejects, and zero points that will wrap."""
    source = resolved.module.source
    for function in resolved.functions.values():
        for op in function.op.walk() if function.has_body else ():
            if op.name.startswith("quant.") and op.bound:
                sink.extend(_operation(op, source))
            if resolved.target == "a2a3":
                for region in op.regions:
                    for block in region.blocks:
                        sink.extend(_reused(block.ops, source))


def _reused(ops: list[Operation], source: Source) -> Iterator[Diagnostic]:
    """Sources that are read again after TQUANT to INT8, which overwrites them on A2/A3. A note: a
    run says whether what is read was lost (PTO7103)."""
    spoiled: dict[int, Operation] = {}
    for op in ops:
        if op.variant is None or not op.bound or op.name == "pto.tassign":
            continue
        for definition in op.variant.ins:
            quantised = spoiled.pop(_value(op.bound.get(definition.name)), None)
            if quantised is not None:
                yield finding(
                    "PTO7210",
                    f"'{op.name}' reads a tile that '{quantised.name}' has overwritten",
                    name_span(op, source),
                    more=(Label(name_span(quantised, source), "overwrites its source"),),
                    notes=("A2/A3 scales the source of an INT8 TQUANT in place; A5 does not",),
                    help="copy the tile before (`pto.tmov`), or load it again",
                )
        for definition in op.variant.outs:
            spoiled.pop(_value(op.bound.get(definition.name)), None)
        if op.name == "pto.tquant" and op.variant.name == "int8":
            spoiled[_value(op.bound.get("src"))] = op


def _value(operand: Any) -> int:
    return id(getattr(operand, "value", None) or operand)


def _operation(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("input")
    out = op.bound.get("dst")
    result = out.type if out is not None else op.results[0].type if op.results else None
    if op.name in _CASTS and operand is not None and result is not None:
        yield from _cast(op, operand.type, result, source)
    yield from _scheme(op, source)


def _cast(op: Operation, held: Type, made: Type, source: Source) -> Iterator[Diagnostic]:
    from ptosim.quant.mlir.ops import verify_cast

    before, after = _container(held), _container(made)
    if before is None or after is None:
        return
    wrong = verify_cast(op.name, before, after)
    if wrong is not None:
        yield finding(
            "PTO2213",
            wrong if op.name in wrong else f"'{op.name}' op {wrong}",
            name_span(op, source),
            notes=(f"from {held}", f"to {made}"),
        )
        return
    for type_ in (before, after):
        yield from _zero_points(op, type_.element, source)


def _zero_points(op: Operation, element: Any, source: Source) -> Iterator[Diagnostic]:
    from ptosim.quant.mlir.types import UniformType

    if not isinstance(element, UniformType):
        return
    low, high = element.storage.low, element.storage.high
    outside = [z for z in element.zeros if not low <= z <= high]
    if outside:
        yield finding(
            "PTO7204",
            f"zero point {outside[0]} is outside the storage range [{low}, {high}]",
            name_span(op, source),
            notes=(
                "MLIR does not check it; its lowering wraps the zero point to the storage width",
                "real zero has no stored value then",
            ),
            help="choose a zero point in the range",
        )


def _scheme(op: Operation, source: Source) -> Iterator[Diagnostic]:
    definition = op.definition.attrs.get("scheme") if op.definition is not None else None
    name = attribute(op, definition) if definition is not None else None
    if name is None:
        return
    from ptosim.quant.schemes import schemes

    if name not in schemes():
        yield finding(
            "PTO2214",
            f"'{op.name}' op names the unknown scheme `{name}`",
            name_span(op, source),
            help=f"known: {', '.join(schemes())}",
        )


def _container(type_: Type) -> Any:
    """Return a type as the quant dialect sees it; None for one that it has no word for."""
    from ptosim.quant.mlir.types import Builtin, Container

    if isinstance(type_, ScalarType):
        return Container("", (), _element(type_.dtype))
    if isinstance(type_, TileType):
        return Container("tile", (type_.rows, type_.cols), _element(type_.dtype))
    if isinstance(type_, VectorType):
        return Container(type_.kind, type_.dims, _element(type_.elem))
    return None if isinstance(type_, ErrorType) else Container("memref", (), Builtin(str(type_)))


def _element(dtype: Any) -> Any:
    from ptosim.quant.mlir.parser import parse_type
    from ptosim.quant.mlir.types import Builtin

    return parse_type(dtype.name).element if dtype.kind == "quant" else Builtin(dtype.name)
