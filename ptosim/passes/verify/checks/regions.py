"""Control flow: what a region yields fits the results, a condition is a truth value, a loop counts
up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink, finding
from ptosim.ground.ir.core import Operand, Operation, Region
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import ErrorType, ScalarType, Type
from ptosim.ground.source import Source
from ptosim.passes.bind.type_rules import compatible
from ptosim.passes.verify.checks.placements import constant, name_span, operand_span

_ONCE = ("scf.if", "scf.execute_region", "scf.index_switch")
_WORDS = {"scf.yield": "yields", "scf.condition": "passes on"}


def check(resolved: ResolvedModule, level: int, sink: Sink) -> None:
    """Report regions that end without the values that their operation gives, or with others,
    conditions that are no i1, and constant steps that do not count up."""
    source = resolved.module.source
    for op in resolved.module.walk():
        if op.name in ("scf.if", "scf.condition"):
            sink.extend(_truth(op, source))
        if op.name == "scf.for":
            sink.extend(_step(op, source))
        if op.name in _ONCE or op.name in ("scf.for", "scf.while"):
            sink.extend(_regions(op, source))


def _truth(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("condition")
    type_ = operand.type if isinstance(operand, Operand) else None
    if isinstance(operand, Operand) and isinstance(type_, ScalarType) and type_.dtype.name != "i1":
        yield finding(
            "PTO1015",
            f"the condition of '{op.name}' has type {type_}, not i1",
            operand_span(operand, op, source),
            help="compare it: `arith.cmpi ne, %value, %zero`",
        )


def _step(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("step")
    step = constant(operand)
    if step is not None and step <= 0:
        yield finding(
            "PTO6006",
            f"the step of scf.for is {step}; it must be positive",
            operand_span(operand, op, source),
            help="count up, and compute the descending number from the loop's variable",
        )


def _regions(op: Operation, source: Source) -> Iterator[Diagnostic]:
    results = [value.type for value in op.results]
    if op.name == "scf.while":
        initial = [operand.type for operand in op.bound.get("init", ())]
        for region, word, types in zip(
            op.regions, ("scf.condition", "scf.yield"), (results, initial), strict=False
        ):
            yield from _end(op, region, word, types, source)
        return
    if op.name == "scf.if" and results and len(op.regions) < 2:
        yield finding(
            "PTO1015",
            "'scf.if' with results has no `else`",
            name_span(op, source),
            help="add `else { scf.yield … }` with the values for the other case",
        )
    for region in op.regions:
        yield from _end(op, region, "scf.yield", results, source)


def _end(
    op: Operation, region: Region, word: str, types: Sequence[Type | None], source: Source
) -> Iterator[Diagnostic]:
    """Compare what the last operation of a region hands on with what is wanted."""
    last = region.ops[-1] if region.ops else None
    found = last is not None and last.name == word
    values = last.bound.get("values", ()) if last is not None and found else ()
    given = [operand.type for operand in values]
    fits = len(given) == len(types) and all(
        g is None or t is None or compatible(g, t) for g, t in zip(given, types, strict=False)
    )
    if fits or any(isinstance(t, ErrorType) for t in types):
        return  # the types of the results are reported already
    wanted = ", ".join(map(str, types)) or "nothing"
    yield finding(
        "PTO1015",
        f"a region of '{op.name}' {_WORDS[word]} {', '.join(map(str, given)) or 'nothing'}, "
        f"where it needs {wanted}",
        name_span(last if last is not None and found else op, source),
        more=(Label(name_span(op, source), f"needs {wanted}"),) if found else (),
        help=f"end the region with `{word}` and values of type {wanted}",
    )
