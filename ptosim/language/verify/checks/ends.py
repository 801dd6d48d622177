"""How blocks, functions and fusion regions end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operation, Region
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ErrorType, Type
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.source import Source
from ptosim.language.bind.names import compatible
from ptosim.language.bind.units import kernel_kind_of

_END = {"returns": "function", "ends_fusion": "fusion"}
"""What ends something, by trait, and the trait of what it ends."""


def blocks(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report blocks that end without saying where it goes on, what comes after such an end, and
    ends of something else than what they are in."""
    source = resolved.module.source
    for op in resolved.ops:
        for region in op.regions:
            yield from _ends(op, region, source)
        for trait, wanted in _END.items():
            if op.has(trait) and op.parent is not None and not op.parent.has(wanted):
                row = isa(resolved.date).having(wanted)[0]
                yield finding(
                    "PTO3040",
                    f"'{op.name}' op expects parent op '{row.name}'",
                    op.span(source),
                    help=f"write it directly in {row.name}",
                )


def _ends(op: Operation, region: Region, source: Source) -> Iterator[Diagnostic]:
    is_function = op.has("function") and op.inside("function") is None
    needs_end = is_function or len(region.blocks) > 1
    for block in region.blocks:
        place = block.label.span(source) if block.label is not None else op.span(source)
        if needs_end and not (block.ops and _is_end(block.ops[-1])):
            yield finding(
                "PTO1031",
                "the block has no end: block with no terminator",
                place,
                notes=("nothing falls through from one block to the next",),
                help="end it with `return`, `cf.br`, `cf.cond_br` or `scf.yield`",
            )
        for inner in block.ops[:-1]:
            if _is_end(inner):
                text = (
                    f"'{inner.name}' ends its block: must be the last operation in the parent block"
                )
                yield finding("PTO1031", text, inner.span(source))


def _is_end(op: Operation) -> bool:
    return op.has("jumps") or op.has("yields") or op.has("returns")


# -- functions of one kind of core ----------------------------------------------------------------


def wrapped(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report functions of several blocks that name a kind of core: their body goes into a section,
    and a section has one block."""
    text, source = unit_rules(resolved.date).rules.get("one_block"), resolved.module.source
    for function in resolved.functions.values() if text is not None else ():
        if _is_wrapped(function):
            second = function.op.regions[0].blocks[1]
            yield finding(
                "PTO5050",
                f"'{function.op.name}' op {text}",
                function.op.span(source),
                more=(Label(second.label.span(source), "its second block"),)
                if second.label is not None
                else (),
                help="leave the kernel kind out, or write the branches as scf.if and scf.while",
            )


def _is_wrapped(function: Function) -> bool:
    if not function.has_body or function.implicit or function.unit.backend == "vpto":
        return False
    is_split = len(function.op.regions[0].blocks) > 1
    names_kind = kernel_kind_of(function.op) is not None
    return is_split and names_kind and not any(op.has("section") for op in function.ops)


# -- fusion regions -------------------------------------------------------------------------------


def fusion(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report fusion regions that have arguments, or do not end with the values that they give."""
    source = resolved.module.source
    for op in resolved.ops:
        if op.has("fusion"):
            for region in op.regions:
                yield from _fused(op, region, source)


def _fused(op: Operation, region: Region, source: Source) -> Iterator[Diagnostic]:
    block = region.blocks[0] if region.blocks else None
    if len(region.blocks) > 1 or (block is not None and block.args):
        yield _of_fusion(op, "expects body to have one block without arguments", source)
        return
    last = block.ops[-1] if block is not None and block.ops else None
    if last is None or not last.has("ends_fusion"):
        yield _of_fusion(op, "expects body to terminate with pto.yield", source)
        return
    given = [operand.type for operand in last.bound.get("values", ())]
    text = _difference(given, [value.type for value in op.results])
    if text is not None:
        yield _of_fusion(op, text, source, last)


def _difference(given: Sequence[Type | None], wanted: Sequence[Type]) -> str | None:
    if len(given) != len(wanted):
        return f"expects pto.yield to return {len(wanted)} values, not {len(given)}"
    for number, (type_, result) in enumerate(zip(given, wanted, strict=True)):
        if isinstance(result, ErrorType) or type_ is None:
            continue
        if not compatible(type_, result):
            return f"expects yielded value #{number} to have type {result}, not {type_}"
    return None


def _of_fusion(
    op: Operation, text: str, source: Source, place: Operation | None = None
) -> Diagnostic:
    return finding(
        "PTO3041",
        f"'{op.name}' op {text}",
        (place or op).span(source),
        help="end it with `pto.yield(%values) : (types) -> ()`, one value for each result",
    )
