"""Checks of operands as they are written: commas, types, words, lists, results; their places."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, finding
from ptosim.ground.ir.attributes import Enum
from ptosim.ground.ir.core import Clause, Node, Operand, Operation, Tok, Value
from ptosim.ground.ir.types import MemRefType, VectorType, ViewType
from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.schema import OpDef, OperandDef, enums
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest
from ptosim.language.bind.bind import operand_kinds
from ptosim.language.bind.written import (
    count_indices,
    count_values,
    is_literal,
    is_named,
    type_tokens,
)
from ptosim.machine.effects.storage import is_memory


def enum_member(operand: Operand, definition: OperandDef) -> str | None:
    """Return the member that a word names, in its canonical spelling; None if it is none."""
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


def check_words(op: Operation, source: Source, date: str | None) -> Iterator[Diagnostic]:
    """Report words that are not members of the enums that their operands name, at a date (None:
    at any)."""
    for definition, operand in _word_operands(op):
        free = "string" in definition.kinds or "word" in definition.kinds
        if free:
            continue
        member = enum_member(operand, definition)
        if member is None:
            yield _unknown_member(op, definition, operand, source)
            continue
        other = other_date(op, definition.enums, member, _place(op, operand, source), date)
        if other is not None:
            yield other


def _word_operands(op: Operation) -> Iterator[tuple[OperandDef, Operand]]:
    for definition in op.variant.operands if op.variant is not None else ():
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
    span = _place(op, operand, source)
    value = operand.const
    if isinstance(value, Enum) and value.kind not in (None, "enum", *definition.enums):
        what = f"'{definition.name}'"
        return other_enum(op, what, definition.enums, value, span, f"<{value.member}>")
    return no_member(op, definition.enums, value, span)


def _place(op: Operation, operand: Operand, source: Source) -> Span:
    tok = operand.tok
    return tok.span(source) if isinstance(tok, Tok) else op.span(source)


def other_date(
    op: Operation, names: Sequence[str], member: str, span: Span, date: str | None
) -> Diagnostic | None:
    """Return the finding that no enum has a member at a date (None: at any date), if so."""
    having = [
        enums()[name] for name in names if name in enums() and member in enums()[name].members
    ]
    rows = [enum.dates_of(member) for enum in having]
    if date is None or not rows or any(holds(row, date) for row in rows):
        return None
    since = rows[0].get("since")
    return finding(
        "PTO2004",
        f"'{op.name}' op: `{member}` of {having[0].name} "
        + (f"needs PTOAS {since}" if since else f"is not in PTOAS {date}"),
        span,
        notes=(f"members: {', '.join(having[0].members_at(date))}",),
        help=f"run with `--compat {since}`" if since else None,
    )


def other_enum(
    op: Operation, what: str, names: Sequence[str], value: Enum, span: Span, cure: str
) -> Diagnostic:
    """Return the finding that a member of another enum is given."""
    return finding(
        "PTO2006",
        f"'{op.name}' op expects {what} to be a {' or '.join(names)}, not a {value.kind}",
        span,
        help=f"write `{cure}`",
    )


def no_member(op: Operation, names: Sequence[str], value: Any, span: Span) -> Diagnostic:
    """Return the finding that a word is a member of none of the enums."""
    text = value.member if isinstance(value, Enum) else str(value)
    members = [m for name in names if name in enums() for m in enums()[name].members]
    return finding(
        "PTO2004",
        f"'{op.name}' op: `{text}` is not a member of {' or '.join(names)}",
        span,
        notes=(f"members: {', '.join(members)}",),
        help=nearest(text, members),
    )


def check_results(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report results that the row does not have, or has with another kind of value; and a result
    that is written as an operand: what an operation makes is a value, not storage that is given."""
    if definition.form != "dps" and op.bound.get("result") is not None:
        yield finding(
            "PTO2023",
            f"'{op.name}' op makes a value and takes none to write it to",
            op.span(source),
            help=f"write `%… = {op.name} …`",
        )
        return
    quoted = op.form == "generic"
    can_be_tensors = quoted and definition.form == "dps"
    if quoted and not can_be_tensors and len(op.arrow or ()) < _results_of(op, definition):
        yield _missing_results(op, definition, source)
        return
    is_strict = definition.unlisted is not None
    says_types = quoted or op.form in ("items", "line")
    if not (is_strict or (says_types and (op.bound or op.results))):
        return
    outs = op.free_outputs()
    if not outs:
        if op.results and definition.result_type is None:
            yield finding(
                "PTO2023",
                f"'{op.name}' op has no result",
                op.span(source),
                help=f"write `{op.name} …` without `%… =`",
            )
        return
    if outs and outs[-1].variadic:
        outs = [*outs, *[outs[-1]] * (len(op.results) - len(outs))]
    for result, value in zip(outs, op.results, strict=False):
        is_tensor = can_be_tensors and isinstance(value.type, VectorType)
        if not is_tensor and _is_another_kind(result, value):
            kind = " or ".join(result.kinds)
            yield finding(
                "PTO2024",
                f"'{op.name}' op expects result '{result.name}' to be a {kind}",
                value.span(source),
                label=f"it has type {value.type}",
            )


def memref_for_tile(op: Operation) -> str | None:
    """Return which operand or result is a memref where the row has a tile only: an operation that
    is in no function is accepted with one (`stand_ins`), and nothing can be said of its tile."""
    results = op.result_values
    for definition in op.variant.operands if op.variant is not None else ():
        bound = op.bound.get(definition.name)
        of = results.get(definition.name, bound if isinstance(bound, Operand) else None)
        if definition.kinds == ("tile",) and of is not None and isinstance(of.type, MemRefType):
            return definition.name
    return None


def _is_another_kind(result: OperandDef, value: Value) -> bool:
    kinds = operand_kinds(Operand(None, value, value.type))
    if isinstance(value.type, MemRefType):  # can be read as others are, and made by its own
        kinds = frozenset(("memref",))
    return kinds is not None and "any" not in result.kinds and kinds.isdisjoint(result.kinds)


def _missing_results(op: Operation, definition: OpDef, source: Source) -> Diagnostic:
    """In the quoted form no result has a type of its own: all are after the arrow."""
    wanted, given = _results_of(op, definition), len(op.arrow or ())
    return finding(
        "PTO2023",
        f"'{op.name}' op has {wanted} result{'s' if wanted > 1 else ''}, not {given}",
        op.span(source),
        help="name each result before `=` and write its type after `->`",
    )


def _results_of(op: Operation, definition: OpDef) -> int:
    """Return how many results an operation has at least, whatever is written."""
    if op.variant is None or op.variant.outs or definition.result_type is None:
        return sum(1 for output in op.free_outputs() if not output.optional)
    return 2 if definition.result_type in ("pair", "extended") else 1


def check_lists(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report entries of lists (sizes, strides, offsets) that are no integers."""
    for definition in op.variant.operands if op.variant is not None else ():
        bound: Any = op.bound.get(definition.name)
        if "list" not in definition.kinds or definition.enums or definition.variadic:
            continue
        if not isinstance(bound, list):
            continue
        for entry in bound:
            kinds = operand_kinds(entry)
            if kinds is None or "index" in kinds:  # integers other than i1
                continue
            tok = entry.tok
            yield finding(
                "PTO2036",
                f"'{op.name}' op expects '{definition.name}' to list integers",
                tok.span(source) if isinstance(tok, Tok) else op.span(source),
                label=f"it has type {entry.type}" if entry.value is not None else "",
                help="write values of type index, or integers",
            )


def check_type_lists(
    op: Operation, source: Source, *, needs_types: bool, in_full: bool = False
) -> Iterator[Diagnostic]:
    """Report lists with more or fewer types than operands, as the assembler's parser does.

    A list may leave out the types of literals, of indices (`%v[%i, %j] : V`) and of named operands
    (`key = %v`); without parentheses of everything of type index. A list without any type is a
    short form of PTO-AS lines and of snippets; a program `needs_types`. `in_full`: of an operation
    whose list has a type for every operand, also without parentheses; a list without `->` of an
    operation with results has only theirs.
    """
    for what, entries, types in _typed_lists(op):
        written = [entry for entry in entries if entry.__class__ is not dict]
        values = sum(1 for e in written if e.__class__ is Node or e.type == "SSA")
        needs = types or (values and op.form == "dps" and needs_types)
        if needs and len(types) not in (len(written), values):
            yield _mismatch(op, source, what, values, types)
    if needs_types and _is_untyped(op):
        yield _mismatch(op, source, "operand", sum(map(count_values, op.items)), ())
    if op.form != "items":
        return
    types = type_tokens(op)
    values = sum(map(count_values, op.items))
    indices = sum(map(count_indices, op.items))
    literals = sum(map(is_literal, op.items))
    if op.has("typed_each"):
        fits = not types or len(types) == values
    elif _in_parentheses(op):
        named = sum(count_values(item) for item in op.items if is_named(item))
        fits = len(types) in (values, values - indices, values - named, values + literals)
    else:
        bracketed = sum(map(_indexing_literals, op.items))
        fits = not in_full or not _has_list(op) or "types_once" in op.traits
        counted = sum(1 for v in op.operand_values() if str(v.type) == "index")
        fits = fits or values - max(indices, counted) <= len(types) <= values + literals + bracketed
    if not fits:
        yield _mismatch(op, source, "operand", values, types)


def _has_list(op: Operation) -> bool:
    """True for a list of the types of operands."""
    return bool(op.types) and (op.arrow is not None or not op.results)


def _indexing_literals(item: Any) -> int:
    """Return how many indices of an item are numbers."""
    return sum(1 for part in item.parts[1:] if is_literal(part)) if _is_indexed(item) else 0


def check_form(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report an operation that has the quoted form only, and is written in another one; and words
    without quotes where the form has no words of its own."""
    if definition.form == "generic" and op.form != "generic":
        yield finding(
            "PTO2302",
            f"'{op.name}' op has no custom assembly form",
            op.span(source),
            help=f'write it as `"{op.name}"(%a, %b) {{…}} : (A, B) -> R`',
        )
    for key, attr in op.attrs.items() if definition.unlisted is not None else ():
        known = definition.attrs.get(key)
        is_word = isinstance(attr.atom, Tok) and attr.atom.type == "BARE_ID"
        if known is not None and known.type == "str" and is_word:
            yield finding(
                "PTO2006",
                f"'{op.name}' op expects attribute '{key}' to be a string, in quotes",
                attr.atom.span(source),
                help=f'write `{key} = "{attr.atom.value}"`',
            )


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
        if not source.text.startswith(left.value, left.start):
            continue  # the operation stands for a text of another kind
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


def _is_untyped(op: Operation) -> bool:
    """True for a list of operands without any type, though one is storage, whose type is needed."""
    if op.form != "items" or op.arrow is not None or type_tokens(op):
        return False
    values = op.operand_values()
    return any(is_memory(value) or isinstance(value.type, ViewType) for value in values)


def _in_parentheses(op: Operation) -> bool:
    """True for `(T, T) -> T`, the form in which each operand has a type."""
    kinds = [part.kind for part in op.type_list if isinstance(part, Node)]
    return op.arrow is not None and kinds == ["paren_types"]


def _mismatch(
    op: Operation, source: Source, what: str, values: int, types: Sequence[Tok]
) -> Diagnostic:
    words = f"{values} {what}{'s' * (values != 1)} but {len(types)} type{'s' * (len(types) != 1)}"
    place = Span(source, types[0].start, types[-1].end) if types else None
    which = "expects the number of outs operands to match the number of outs types: it "
    return finding(
        "PTO1014",
        f"'{op.name}' op {which if what == 'output' else ''}has {words}",
        place or op.span(source),
        notes=("the types after `:` are in the order of the operands, one for each",),
        help=f"write one type for each {what}",
    )


def _is_value(item: Any) -> bool:
    return item.__class__ is Tok and item.type == "SSA"


def _is_indexed(item: Any) -> bool:
    return item.__class__ is Node and item.kind == "indexed"


def operand_span(operand: Operand | None, op: Operation, source: Source) -> Span:
    """Return the place of an operand, of the operation's name where it has none."""
    tok = getattr(operand, "tok", None)
    if tok is None or not hasattr(tok, "end"):
        return op.span(source)
    return tok.span(source)


def constant(operand: Any) -> int | None:
    """Return the value of an operand that the text fixes, None for any other."""
    value = operand.const if isinstance(operand, Operand) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
