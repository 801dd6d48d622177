"""Another view of a memref (`memref.reinterpret_cast`): one offset, and for each dimension of the
result a size and a stride (https://mlir.llvm.org/docs/Dialects/MemRef/#memrefreinterpret_cast)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ErrorType, MemRefType
from ptosim.language.bind.bind import operand_kinds

_LISTS = ("offset", "sizes", "strides")


def reinterpreted(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report views that are none of a memref, and lists that are not of its dimensions."""
    for op in resolved.ops:
        fault = _fault(op) if op.has("reinterprets") and op.bound and op.results else None
        if fault is not None:
            span = op.span(resolved.module.source)
            yield finding("PTO2036", f"'{op.name}' op {fault}", span)


def _fault(op: Operation) -> str | None:
    source, result = op.bound["source"].type, op.results[0].type
    if any(isinstance(type_, ErrorType) for type_ in (source, result)):
        return None  # reported
    if not isinstance(source, MemRefType) or not isinstance(result, MemRefType):
        return "takes a memref, and gives one"
    words = [clause.parts[0].value for clause in op.clauses]
    if sorted(words) != sorted(_LISTS):
        return f"expects the lists {', '.join(_LISTS)}, each once"
    rank = len(result.dims)
    for clause, count in zip(
        op.clauses, (1 if w == "offset" else rank for w in words), strict=True
    ):
        name = clause.parts[0].value
        bound = op.bound[name]
        if not all(map(_is_number, bound)) or len(bound) != len(clause.parts[1].parts):
            return f"expects '{name}' to list integers"
        if len(bound) != count:
            return f"expects {count} in '{name}', not {len(bound)}"
    return None


def _is_number(entry: Any) -> bool:
    kinds = operand_kinds(entry) if isinstance(entry, Operand) else frozenset()
    return kinds is None or "index" in kinds
