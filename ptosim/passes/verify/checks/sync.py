"""Synchronisation between cores, and operations that rule out automatic synchronisation."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import TileType
from ptosim.ground.source import Source
from ptosim.passes.verify.checks.placements import name_span

_CROSS_CORE = ("pto.sync.set", "pto.sync.wait")
_CUBE = ("pto.tmatmul", "pto.tgemv")
_SECTIONS = ("pto.section.cube", "pto.section.vector")


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report cross-core signals without a flag base (A2/A3) and bodies for both kinds of core."""
    source = resolved.module.source
    for function in resolved.functions.values():
        if function.has_body:
            sink.extend(_function(function, resolved.target, source))


def _function(function: Function, target: str, source: Source) -> Iterator[Diagnostic]:
    signals = [op for op in function.op.walk() if op.name in _CROSS_CORE]
    if not signals:
        return
    if _is_mixed(function):
        yield finding(
            "PTO0010",
            "legacy spelling: mixed cube/vector body without sections",
            name_span(function.op, source),
            notes=("cube and vector cores run different code; signals between them need both",),
            help="put the parts into `pto.section.cube { … }` and `pto.section.vector { … }`",
        )
        return
    has_base = any(op.name == "pto.set_ffts" for op in function.op.walk())
    if target == "a2a3" and not has_base and not function.implicit:
        yield finding(
            "PTO5010",
            f"'{signals[0].name}' op A3 inter-core sync requires explicit `pto.set_ffts` in the "
            "same function when using `pto.sync.set`/`pto.sync.wait`",
            name_span(signals[0], source),
            notes=("A2/A3 cross-core flags lie at an address that the program sets",),
            help="begin the function with `pto.set_ffts %flags : memref<…xi64>`",
        )


def _is_mixed(function: Function) -> bool:
    """True for a function without sections and kernel kind that computes on both kinds of core."""
    ops = list(function.op.walk())
    if function.kernel_kind is not None or any(op.name in _SECTIONS for op in ops):
        return False
    return any(op.name.startswith(_CUBE) for op in ops) and any(map(_is_vector, ops))


def _is_vector(op: Operation) -> bool:
    if op.definition is None or all(choice.pipe != "V" for choice in op.definition.pipes):
        return False
    out = op.bound.get("dst")
    return isinstance(out, Operand) and isinstance(out.type, TileType) and out.type.loc == "vec"
