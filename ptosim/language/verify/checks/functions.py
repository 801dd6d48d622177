"""Calls in circles, and control flow: what regions hand on, how loops count."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operand, Operation, Region
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ErrorType, ScalarType, Type
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.bind.names import compatible
from ptosim.language.verify.operands import constant, operand_span


def recursion(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report recursive calls."""
    calls = {f.name: callees_of(f) for f in resolved.functions.values() if f.has_body}
    yield from _recursion(calls, resolved.module.source)


def callees_of(function: Function) -> list[tuple[str, Operation]]:
    """The calls of a function, each with the name of what it calls."""
    return [(op.bound["callee"], op) for op in function.ops if "call" in op.traits and op.bound]


def _recursion(
    calls: dict[str, list[tuple[str, Operation]]], source: Source
) -> Iterator[Diagnostic]:
    done: set[str] = set()
    for root in calls:
        path: list[str] = []
        stack = [(root, iter(calls[root]))] if root not in done else []
        path = [root]
        while stack:
            name, callees = stack[-1]
            step = next(callees, None)
            if step is None:
                done.add(name)
                stack.pop()
                path.pop()
                continue
            callee, op = step
            if callee in path:
                yield _recursive(op, callee, source)
            elif callee in calls and callee not in done:
                stack.append((callee, iter(calls[callee])))
                path.append(callee)


def _recursive(op: Operation, callee: str, source: Source):
    return finding(
        "PTO1012",
        f"recursive function calls are not supported for EmitC C++ emission (call of `@{callee}`)",
        Span(source, op.start, op.end),
        notes=("a device function has no call stack of its own",),
        help="write the recursion as a loop",
    )


_WITH_REGIONS = ("scf.if", "scf.execute_region", "scf.index_switch", "scf.for", "scf.while")
_WORDS = {"scf.yield": "yields", "scf.condition": "passes on"}


def regions(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report regions that end without the values that their operation gives, or with others,
    conditions that are no i1, and constant steps that do not count up."""
    source, rules = resolved.module.source, unit_rules(resolved.date).rules
    for op in resolved.ops:
        if op.name in ("scf.if", "scf.condition"):
            yield from _truth(op, source)
        if op.name == "scf.for":
            yield from _bounds(op, source)
            yield from _step(op, source, refused="constant_step" in rules)
        if op.name in _WITH_REGIONS:
            yield from _regions(op, source)


def _truth(op: Operation, source: Source) -> Iterator[Diagnostic]:
    operand = op.bound.get("condition")
    type_ = operand.type if isinstance(operand, Operand) else None
    is_known = isinstance(operand, Operand) and type_ is not None
    if is_known and not isinstance(type_, ErrorType) and str(type_) != "i1":
        yield finding(
            "PTO1015",
            f"the condition of '{op.name}' has type {type_}, not i1",
            operand_span(operand, op, source),
            help="compare it: `arith.cmpi ne, %value, %zero`",
        )


def _bounds(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report bounds and steps that are no whole numbers, or of several types (MLIR's verifier)."""
    operands = [op.bound.get(name) for name in ("lower", "upper", "step")]
    types: list[Type] = []
    for number, operand in enumerate(operands):
        type_ = operand.type if isinstance(operand, Operand) else None
        if type_ is None or isinstance(type_, ErrorType):
            return
        types.append(type_)
        if not isinstance(type_, ScalarType) or type_.dtype.is_float:
            yield finding(
                "PTO1103",
                f"'scf.for' op operand #{number} must be signless integer or index, "
                f"but got '{type_}'",
                operand_span(operand, op, source),
                help="count in whole numbers, and compute other values from the loop's variable",
            )
            return
    if len(set(map(str, types))) > 1:
        yield finding(
            "PTO1103",
            "'scf.for' op failed to verify that all of {lowerBound, upperBound, step} have same "
            f"type: {', '.join(map(str, types))}",
            op.span(source),
            help="convert them to one type with arith.index_cast",
        )


def _step(op: Operation, source: Source, *, refused: bool) -> Iterator[Diagnostic]:
    operand = op.bound.get("step")
    step = constant(operand)
    if step is not None and step <= 0:
        yield finding(
            "PTO1032" if refused else "PTO6006",
            f"'scf.for' op constant step operand must be positive, not {step}",
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
            op.span(source),
            help="add `else { scf.yield … }` with the values for the other case",
        )
    for region in op.regions:
        yield from _end(op, region, "scf.yield", results, source)


def _end(
    op: Operation, region: Region, word: str, types: Sequence[Type | None], source: Source
) -> Iterator[Diagnostic]:
    """Compare what the last operation of a region hands on with what is wanted."""
    for block in region.blocks or (None,):
        last = block.ops[-1] if block is not None and block.ops else None
        if last is None or not last.jumps:
            yield from _handed_on(op, last, word, types, source)


def _handed_on(
    op: Operation, last: Operation | None, word: str, types: Sequence[Type | None], source: Source
) -> Iterator[Diagnostic]:
    found = last is not None and last.name == word
    values = last.bound.get("values", ()) if last is not None and found else ()
    given = [operand.type for operand in values]
    fits = len(given) == len(types) and all(
        g is None or t is None or compatible(g, t) for g, t in zip(given, types, strict=False)
    )
    if (fits and (found or word != "scf.condition")) or any(
        isinstance(t, ErrorType) for t in types
    ):
        return  # the types of the results are reported already
    wanted = ", ".join(map(str, types)) or "nothing"
    yield finding(
        "PTO1015",
        f"a region of '{op.name}' {_WORDS[word]} {', '.join(map(str, given)) or 'nothing'}, "
        f"where it needs {wanted}",
        (last if last is not None and found else op).span(source),
        more=(Label(op.span(source), f"needs {wanted}"),) if found else (),
        help=f"end the region with `{word}` and values of type {wanted}",
    )
