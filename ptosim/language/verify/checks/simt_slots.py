"""Words that threads keep from one launch to the next: where they are resumed and kept in a SIMT
function (PTO micro-instruction specification, SIMT)."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Block, Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.source import Source

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
