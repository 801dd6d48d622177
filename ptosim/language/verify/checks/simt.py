"""What rules of `isa/structure.toml` ask about threads: launches and what they name, sections,
attributes of functions (PTO micro-instruction specification, SIMT)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Attr, Block, Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import MAX_THREADS, ScalarType, Type, VectorType
from ptosim.ground.records import NamedTuple
from ptosim.ground.source import Source
from ptosim.language.bind.units import SIMT_ENTRY
from ptosim.language.place.sides import SIMT, is_simt_entry

_LIMITS = {"pto.simt_max_threads": MAX_THREADS, "pto.simt_max_registers": 128}
_TRAITS = frozenset(
    ("launches", "simt_region", "sets_launch", "simt_only", "simt_entry_only", "atomic_update",
     "kept_slot")
)  # fmt: skip


class WrongLimit(NamedTuple):
    """An attribute of a function of threads, and what is wrong with it."""

    name: str
    attr: Attr
    fault: str


def is_for_threads(function: Function) -> bool:
    """True for a function of threads, and for one that launches them."""
    if function.implicit:
        return False
    return is_simt_entry(function.op) or any(op.traits & _TRAITS for op in function.ops)


def _of_kernel(op: Operation) -> bool:
    """True for an operation that threads may not execute, if it is one of registers or of pipes."""
    row = op.definition
    return row is not None and not op.has("launches") and not row.family.startswith(SIMT)


def _all_i32(operands: Sequence[Operand] | None) -> bool:
    return all(str(o.type) == "i32" for o in operands or () if o.value is not None)


def _launch_numbers(op: Operation) -> list[int] | None:
    """The launch dimensions of a section; None where they are no literals."""
    launch: list[Operand] = op.bound.get("launch") or []
    dims = [operand.const for operand in launch]
    if any(o.value is not None for o in launch) or not all(isinstance(d, int) for d in dims):
        return None
    return dims


def _is_one_block(op: Operation) -> bool:
    """True for regions of one block without arguments."""
    return not any(len(r.blocks) > 1 or any(b.args for b in r.blocks) for r in op.regions)


def _bits_of(type_: Type | None) -> int:
    """Bits of a number or a small vector; 0 for anything else."""
    if isinstance(type_, ScalarType):
        return type_.dtype.bits
    if isinstance(type_, VectorType) and None not in type_.dims:
        return type_.elem.bits * prod(d or 0 for d in type_.dims)
    return 0


def _wrong_limits(op: Operation) -> Iterator[WrongLimit]:
    """The attributes of a function that give no limit of threads or registers."""
    for name, limit in _LIMITS.items():
        attr = op.attrs.get(name)
        if attr is None:
            continue
        fault = _wrong_limit(attr, limit)
        if fault is None and not is_simt_entry(op):
            fault = f"is only allowed on functions marked '{SIMT_ENTRY}'"
        if fault is not None:
            yield WrongLimit(name, attr, fault)


def _wrong_limit(attr: Attr, limit: int) -> str | None:
    value = attr_value(attr)
    is_i32 = attr.type is not None and attr.type.value == "i32"
    if not isinstance(value, int) or isinstance(value, bool) or not is_i32:
        return "must be a signless i32 integer attribute"
    if value <= 0:
        return "must be a positive integer"
    return None if value <= limit else f"must be in range [1, {limit}]"


VERBS = {
    "is_for_threads": is_for_threads,
    "of_kernel": _of_kernel,
    "all_i32": _all_i32,
    "launch_numbers": _launch_numbers,
    "is_one_block": _is_one_block,
    "bits_of": _bits_of,
    "wrong_limits": _wrong_limits,
}
"""What rules can ask about threads."""


# -- words that threads keep from one launch to the next: where they are resumed and kept in a SIMT


CODE = "PTO2129"


def slots(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report resumes that are not the beginning of their block, keeps that are not its end, and
    words that are twice in such a group."""
    source = resolved.module.source
    for op in resolved.ops:
        for region in op.regions:
            for block in region.blocks:
                if any(inner.has("kept_slot") for inner in block.ops):
                    yield from _resumes(block, source)
                    yield from _keeps(block, source)


def _is_resume(op: Operation) -> bool:
    return op.has("kept_slot") and bool(op.results)


def _is_keep(op: Operation) -> bool:
    return op.has("kept_slot") and not op.results


def _resumes(block: Block, source: Source) -> Iterator[Diagnostic]:
    group: list[Operation] = []
    is_prologue = True
    for op in block.ops:
        if _is_resume(op):
            if is_prologue:
                group.append(op)
            else:
                yield _wrong(
                    op,
                    "must be in the contiguous SIMT resume prologue group after constant-like "
                    "operations",
                    source,
                )
        elif not op.has("constant"):
            is_prologue = False
    yield from _doubled(group, "resume prologue", source)


def _keeps(block: Block, source: Source) -> Iterator[Diagnostic]:
    keeps = [op for op in block.ops if _is_keep(op)]
    if not block.ops[-1].has("returns"):
        for op in keeps:
            yield _wrong(op, "must be placed in the SIMT epilogue before func.return", source)
        return
    group: list[Operation] = []
    for op in reversed(block.ops[:-1]):
        if _is_keep(op):
            group.insert(0, op)
        elif not op.has("simt_entry_only"):
            break
    for op in keeps:
        if op not in group:
            yield _wrong(
                op,
                "must be placed in the SIMT epilogue before func.return: it must be in the "
                "contiguous SIMT keep epilogue group",
                source,
            )
    yield from _doubled(group, "keep epilogue", source)


def _doubled(group: list[Operation], what: str, source: Source) -> Iterator[Diagnostic]:
    taken: set[int] = set()
    for op in group:
        slot = op.attributes.get("slot")
        if not isinstance(slot, int):
            continue
        words = {slot, slot + 1} if _bits(op) > 32 else {slot}
        if words & taken:
            text = f"duplicates an earlier slot {min(words & taken)} in the SIMT {what} group"
            yield _wrong(op, text, source)
        taken |= words


def _bits(op: Operation) -> int:
    type_ = op.results[0].type if op.results else getattr(op.bound.get("value"), "type", None)
    return getattr(getattr(type_, "dtype", None), "bits", 32)


def _wrong(op: Operation, text: str, source: Source) -> Diagnostic:
    return finding(CODE, f"'{op.name}' op {text}", op.span(source))
