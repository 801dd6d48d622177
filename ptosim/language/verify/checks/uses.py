"""What may be used in some places only: pointers made of numbers, records on the stack; keys."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MultiTileType, StructType
from ptosim.ground.source import Source
from ptosim.language.verify.operands import operand_span


def dereferenced(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report uses of pointers that are made of numbers beside loads and stores of scalars."""
    source = resolved.module.source
    for op in resolved.ops:
        for name, operand in op.operands():
            owner = operand.value.owner if operand.value is not None else None
            if owner is None or not owner.has("only_dereferenced") or _accesses(op, name):
                continue
            yield finding(
                "PTO1060",
                f"'{owner.name}' op result may only be used as the pointer operand of "
                f"pto.load_scalar or pto.store_scalar, not in '{op.name}'",
                operand_span(operand, op, source),
                help="load or store single elements, or pass the pointer as an argument",
            )


def keys(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report keys that a dictionary has twice; the ends of FIFOs say so themselves."""
    source = resolved.module.source
    headers = [op for op in resolved.ops if op.definition and op.definition.fifo == "open"]
    for key in resolved.module.repeated:
        if not any(op.start <= key.start < op.end for op in headers):
            text = f"duplicate key '{key.value}' in dictionary attribute"
            yield finding("PTO2053", text, key.span(source), help="keep one of the two")


def _accesses(op: Operation, name: str) -> bool:
    return name == "ptr" and (op.has("reads_memory") or op.has("writes_memory"))


def slots(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report slots of multi buffers that something hands on."""
    source = resolved.module.source
    for op in resolved.ops:
        buffer = op.bound.get("source") if op.has("picks_slot") else None
        value = getattr(buffer, "value", None)
        if buffer is not None and isinstance(buffer.type, MultiTileType) and not _allocated(value):
            yield finding(
                "PTO1062",
                f"'{op.name}' op currently requires a direct pto.alloc_multi_tile source",
                operand_span(buffer, op, source),
                help="pick the slot where the buffer is allocated, and hand on the tile",
            )


def _allocated(value: Value | None) -> bool:
    owner = value.owner if value is not None else None
    return owner is not None and owner.has("makes_storage")


def records(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report records that leave the function that declares them and those of other origin."""
    source = resolved.module.source
    for function in resolved.functions.values():
        yield from _signature(function, source)
    for op in resolved.ops:
        declares = op.has("on_stack")
        for _, operand in op.operands():
            value = operand.value
            if value is not None and isinstance(value.type, StructType) and not declares:
                yield _escapes(op, value, source)
        for value in op.results:
            if isinstance(value.type, StructType) and not declares:
                yield finding(
                    "PTO1061",
                    f"'{op.name}' op: only 'pto.declare_struct' may produce a !pto.struct result",
                    value.span(source),
                )


def _escapes(op: Operation, value: Value, source: Source) -> Diagnostic:
    return finding(
        "PTO1061",
        f"'{op.name}' op: stack-local struct must not escape the scope that declares it",
        op.span(source),
        notes=(f"%{value.name} may be used by pto.struct_get and pto.struct_set only",),
        help="hand on its fields",
    )


def _signature(function: Function, source: Source) -> Iterator[Diagnostic]:
    for value in function.args:
        if isinstance(value.type, StructType):
            yield finding(
                "PTO1061",
                "a stack-local struct must not be a function argument",
                value.span(source),
                help="pass its fields",
            )
    for type_ in function.results:
        if isinstance(type_, StructType):
            yield finding(
                "PTO1061",
                "a stack-local struct must not be returned",
                function.op.span(source),
                help="return its fields",
            )
