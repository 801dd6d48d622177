"""Calls: the types of arguments and results are those of the function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import Type
from ptosim.ground.source import Source, Span
from ptosim.passes.bind.type_rules import compatible
from ptosim.passes.verify.checks.placements import name_span, operand_span


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report arguments and results of calls whose types are not the function's."""
    source = resolved.module.source
    for op in resolved.module.walk():
        if op.name != "func.call":
            continue
        function = resolved.functions.get(op.bound.get("callee", ""))
        if function is not None:
            sink.extend(_arguments(op, function, source))
            sink.extend(_results(op, function, source))


def _arguments(op: Operation, function: Function, source: Source) -> Iterator[Diagnostic]:
    values = op.bound["values"]
    for number, (operand, argument) in enumerate(zip(values, function.args, strict=False)):
        if operand.type is not None and not compatible(operand.type, argument.type):
            yield finding(
                "PTO1013",
                f"argument {number} of `@{function.name}` has type {argument.type}, not "
                f"{operand.type}",
                operand_span(operand, op, source),
                more=(_definition(function, source),),
            )


def _results(op: Operation, function: Function, source: Source) -> Iterator[Diagnostic]:
    types: Sequence[Type] = [value.type for value in op.results]
    given = ", ".join(map(str, types)) or "nothing"
    wanted = ", ".join(map(str, function.results)) or "nothing"
    fits = len(types) in (0, len(function.results)) and all(
        compatible(t, r) for t, r in zip(types, function.results, strict=False)
    )
    if not fits:
        yield finding(
            "PTO1013",
            f"`@{function.name}` returns {wanted}, not {given}",
            name_span(op, source),
            more=(_definition(function, source),),
        )


def _definition(function: Function, source: Source) -> Label:
    start = function.op.start
    return Label(Span(source, start, start + len("func.func")), "defined here")
