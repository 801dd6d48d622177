"""Checks of operands that a row's types alone decide: words, and the results of an operation."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, error
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.ir.token import Tok
from ptosim.ground.isa.enums import EnumDef, enums
from ptosim.ground.isa.schema import OpDef, OperandDef
from ptosim.ground.source import Source, Span
from ptosim.passes.bind.bind import operand_kinds
from ptosim.passes.bind.clauses import Clause


def enum_member(operand: Operand, definition: OperandDef) -> str | None:
    """Return the member that a word stands for, in its canonical spelling; None if it is none."""
    value = operand.const
    for name in definition.enums:
        enum = enums().get(name)
        if enum is None or (isinstance(value, Enum) and value.kind not in (None, "enum", name)):
            continue
        found = enum.member(value.member if isinstance(value, Enum) else str(value))
        if found is not None:
            return found
    return None


def is_word(operand: Operand) -> bool:
    """True for an operand written as a word, a string or an attribute."""
    return operand.value is None and isinstance(operand.const, (str, Enum))


def check_words(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report words that are not members of the enums that their operands name."""
    for definition, operand in _word_operands(op):
        free = "string" in definition.kinds or "word" in definition.kinds
        if not free and enum_member(operand, definition) is None:
            yield _unknown_member(op, definition, operand, source)


def _word_operands(op: Operation) -> Iterator[tuple[OperandDef, Operand]]:
    for definition in op.variant.operands:
        bound: Any = op.bound.get(definition.name)
        if bound is None or bound is True:
            continue
        for one in bound if isinstance(bound, list) else (bound,):
            if isinstance(one, Clause):
                for param in definition.params:
                    operand = one.operands.get(param.name)
                    if param.enums and operand is not None and is_word(operand):
                        yield param, operand
            elif definition.enums and isinstance(one, Operand) and is_word(one):
                yield definition, one


def _unknown_member(
    op: Operation, definition: OperandDef, operand: Operand, source: Source
) -> Diagnostic:
    value = operand.const
    text = value.member if isinstance(value, Enum) else str(value)
    known: list[EnumDef] = [enums()[n] for n in definition.enums if n in enums()]
    members = [m for enum in known for m in enum.members]
    close = difflib.get_close_matches(text, members, n=1)
    names = " or ".join(definition.enums)
    tok = operand.tok
    span = Span(source, tok.start, tok.end) if tok.__class__ is Tok else _name(op, source)
    if isinstance(value, Enum) and value.kind not in (None, "enum", *definition.enums):
        message = f"'{op.name}' op expects '{definition.name}' to be a {names}, not a {value.kind}"
        return error("PTO2006", message, span, help=f"write `<{value.member}>`")
    return error(
        "PTO2004",
        f"'{op.name}' op: `{text}` is not a member of {names}",
        span,
        notes=(f"members: {', '.join(members)}",),
        help=f"did you mean `{close[0]}`?" if close else None,
    )


def check_results(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report results that the row does not have, or has with another kind of value."""
    if op.form not in ("items", "line") or not op.bound:
        return
    outs = op.free_outputs()
    if not outs:
        if op.results and definition.result_type is None:
            yield error(
                "PTO2023",
                f"'{op.name}' op has no result",
                _name(op, source),
                help=f"write `{op.name} …` without `%… =`",
            )
        return
    for result, value in zip(outs, op.results, strict=False):
        kinds = operand_kinds(Operand(None, value, value.type))
        if kinds is not None and "any" not in result.kinds and kinds.isdisjoint(result.kinds):
            kind = " or ".join(result.kinds)
            yield error(
                "PTO2024",
                f"'{op.name}' op expects result '{result.name}' to be a {kind}",
                Span(source, value.start, value.start + len(value.name) + 1),
                label=f"it has type {value.type}",
            )


def check_lists(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report entries of lists (sizes, strides, offsets) that are no integers."""
    for definition in op.variant.operands:
        bound: Any = op.bound.get(definition.name)
        if "list" not in definition.kinds or not isinstance(bound, list):
            continue
        for entry in bound:
            kinds = operand_kinds(entry)
            if kinds is None or "int" in kinds or "index" in kinds:
                continue
            tok = entry.tok
            yield error(
                "PTO2036",
                f"'{op.name}' op expects '{definition.name}' to list integers",
                Span(source, tok.start, tok.end) if tok.__class__ is Tok else _name(op, source),
                label=f"it has type {entry.type}" if entry.value is not None else "",
                help="write values of type index, or integers",
            )


def _name(op: Operation, source: Source) -> Span:
    return Span(source, op.start, op.name_end)
