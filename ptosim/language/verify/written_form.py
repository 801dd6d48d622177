"""Checks of what is written around the operands: regions and dictionaries where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.core import Node, Operation
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.source import Source

_WITH_REGIONS = frozenset(
    ("vector_region", "simt_region", "section", "fusion", "branch", "once", "loop", "counted")
)
"""Traits of operations that execute what is in a region of theirs."""
_BRACKETS = frozenset(("list", "paren", "clause", "keyword", "indexed"))
_MAYBE = frozenset(("function", "unit"))
"""Traits of operations that may have a body: a function that is only declared has none."""


def check_regions(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report an operation without the region that it executes, and a region of one that has
    none (MLIR's verifier holds every operation to the number of its regions)."""
    has = not _WITH_REGIONS.isdisjoint(definition.traits)
    if has and not op.regions:
        yield finding(
            "PTO1100",
            f"'{op.name}' op requires one region",
            op.span(source),
            help="write what it executes in braces after it",
        )
    if op.regions and not has and _MAYBE.isdisjoint(definition.traits):
        yield finding(
            "PTO1101",
            f"'{op.name}' op requires zero regions",
            op.span(source),
            help="the operations in its braces belong in front of it or after it",
        )


def check_named(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report a tile operation whose result has a type and no name: nothing could hold it."""
    if definition.form == "dps" and op.form == "items" and op.arrow and not op.result_tokens:
        yield finding(
            "PTO1004",
            f"'{op.name}' op gives the type of a result and names none",
            op.span(source),
            help=f"name it: `%d = {op.name} …`",
        )


def check_dictionaries(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report attributes inside of brackets, where no operation reads them."""
    if any(_has_dictionary(part) for part in (*op.items, *op.ins, *op.outs, *op.clauses)):
        yield finding(
            "PTO1102",
            f"'{op.name}' op: attributes between operands in brackets",
            op.span(source),
            help="write the dictionary `{…}` after the operands",
        )


def _has_dictionary(item: Any) -> bool:
    """True for brackets with a dictionary in them, at any depth."""
    if not isinstance(item, Node) or item.kind not in _BRACKETS:
        return False
    return any(isinstance(part, dict) or _has_dictionary(part) for part in item.parts)
