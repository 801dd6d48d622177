"""Windows of views: what constant offsets and sizes say before the program runs."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import Dim, ViewType
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import constant, operand_span


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report constant windows that are empty, negative, or larger than their view."""
    source = resolved.module.source
    for op in resolved.module.walk():
        if op.name == "pto.partition_view" and op.bound and op.results:
            sink.extend(_window(op, source))


def _window(op: Operation, source: Source) -> Iterator[Diagnostic]:
    offsets, sizes = op.bound.get("offsets") or [], op.bound.get("sizes") or []
    whole, result = _dims(op.bound["source"].type), _dims(op.results[0].type)
    for dim, operand in enumerate(offsets):
        offset = constant(operand)
        if offset is not None and offset < 0:
            yield _fault(op, operand, f"offset {offset} at dim {dim} must be non-negative", source)
    for dim, operand in enumerate(sizes):
        size = constant(operand)
        if size is None:
            continue
        if size <= 0:
            yield _fault(op, operand, f"size {size} at dim {dim} must be positive", source)
            continue
        expected = result[dim] if len(result) == len(sizes) else None
        if expected is not None and expected != size:
            text = f"size/result mismatch at dim {dim}: size {size}, result type {expected}"
            yield _fault(op, operand, text, source)
        offset = constant(offsets[dim]) if dim < len(offsets) else None
        limit = whole[dim] if len(whole) == len(sizes) else None
        if limit is not None and offset is not None and offset >= 0 and offset + size > limit:
            text = f"offset {offset} + size {size} exceeds static source dim ({limit}) at dim {dim}"
            yield _fault(op, operand, text, source)


def _dims(type_: object) -> tuple[Dim, ...]:
    return type_.dims if isinstance(type_, ViewType) else ()


def _fault(op: Operation, operand: Operand, text: str, source: Source) -> Diagnostic:
    return finding(
        "PTO2026",
        f"'{op.name}' op {text}",
        operand_span(operand, op, source),
        notes=("a window lies inside its view",),
    )
