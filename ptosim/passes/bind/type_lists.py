"""The lists of an operation in the text: a type for each operand, a comma between each two."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, finding
from ptosim.ground.ir.core import Node, Operation
from ptosim.ground.ir.token import Tok
from ptosim.ground.source import Source, Span
from ptosim.passes.bind.written import count_indices, count_values, is_literal, type_tokens


def check_type_lists(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report lists with more or fewer types than operands, as the assembler's parser does.

    A list may leave out the types of literals, of indices (`%v[%i, %j] : V`) and of named operands
    (`key = %v`). A list without any type is a short form of PTO-AS lines and is read elsewhere.
    """
    for what, entries, types in _typed_lists(op):
        written = [entry for entry in entries if entry.__class__ is not dict]
        values = sum(1 for e in written if e.__class__ is Node or e.type == "SSA")
        if types and len(types) not in (len(written), values):
            yield _mismatch(op, source, what, values, types)
    if op.form != "items" or not _in_parentheses(op):
        return
    types = type_tokens(op)
    values = sum(map(count_values, op.items))
    named = sum(count_values(item) for item in op.items if getattr(item, "kind", "") == "keyword")
    indices = sum(map(count_indices, op.items))
    literals = sum(map(is_literal, op.items))
    if len(types) not in (values, values - indices, values - named, values + literals):
        yield _mismatch(op, source, "operand", values, types)


def check_commas(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report two values in a row without a comma between them.

    The grammar leaves the comma open because words and clauses follow operands without one.
    """
    entries = op.items if op.form == "items" else op.ins if op.form == "line" else ()
    for left, right in itertools.pairwise(entries):
        if not (_is_value(left) and (_is_value(right) or _is_indexed(right))):
            continue
        if "," in source.text[left.end : right.start]:
            continue
        here = Span(source, left.end, left.end)
        yield finding(
            "PTO0002",
            f"expected `,` between `{left.value}` and the next operand",
            Span(source, right.start, right.start + 1),
            notes=("operands are separated by commas",),
            help=f"write `{left.value},`",
            fixes=(Fix(here, ","),),
        )


def _typed_lists(op: Operation) -> Iterator[tuple[str, Sequence[Any], Sequence[Tok]]]:
    if op.form == "dps":
        yield "input", op.ins, op.ins_types
        if op.outs:
            yield "output", op.outs, op.outs_types
    elif op.form == "generic":
        yield "operand", op.ins, op.ins_types
    elif op.form == "line":
        yield "operand", op.ins, op.types


def _in_parentheses(op: Operation) -> bool:
    """True for `(T, T) -> T`, the form in which each operand has a type."""
    kinds = [part.kind for part in op.type_list if part.__class__ is Node]
    return op.arrow is not None and kinds == ["paren_types"]


def _mismatch(
    op: Operation, source: Source, what: str, values: int, types: Sequence[Tok]
) -> Diagnostic:
    words = f"{values} {what}{'s' * (values != 1)} but {len(types)} type{'s' * (len(types) != 1)}"
    place = Span(source, types[0].start, types[-1].end) if types else None
    return finding(
        "PTO1014",
        f"'{op.name}' op has {words}",
        place or Span(source, op.start, op.name_end),
        notes=("the types after `:` stand in the order of the operands, one for each",),
        help=f"write one type for each {what}",
    )


def _is_value(item: Any) -> bool:
    return item.__class__ is Tok and item.type == "SSA"


def _is_indexed(item: Any) -> bool:
    return item.__class__ is Node and item.kind == "indexed"
