"""Checks of an operation's attributes against its row, and of spellings that dates replaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, finding
from ptosim.ground.ir.attributes import Enum, TypeText, attr_value
from ptosim.ground.ir.core import Attr, Operation, Tok
from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.schema import AttrDef, OpDef
from ptosim.ground.nearest import nearest
from ptosim.ground.source import Source, Span
from ptosim.language.verify.operands import no_member, other_date, other_enum

_QUIET_KEYS = frozenset(("operandSegmentSizes", "resultSegmentSizes", "operand_segment_sizes"))


def notes_on_attributes(
    op: Operation, definition: OpDef, source: Source, date: str
) -> Iterator[Diagnostic]:
    """Report attributes in a form that is kept, and those that the row does not have."""
    for key, attr in op.attrs.items():
        known = definition.attrs.get(key)
        if known is not None and key in definition.kept:
            yield finding(
                "PTO0012",
                f"'{op.name}' op: attribute '{key}' is an older form that is still read",
                _span(op, attr, source),
            )
        unknown = _unknown_enum(attr, date) if known is None else None
        if unknown is not None:
            yield finding(
                "PTO1028",
                f"unknown attribute `#pto.{unknown}` in the dialect",
                _span(op, attr, source),
                notes=(f"PTOAS {date} has no such attribute",),
                help=_date_of(unknown),
            )
        elif known is None and "." not in key and key not in _QUIET_KEYS and not _operand(op, key):
            yield finding(
                "PTO2003",
                f"unknown attribute `{key}` of {op.name} is kept and has no effect",
                attr.key.span(source) if attr.key is not None else op.span(source),
                help=nearest(key, definition.attrs),
            )


def _unknown_enum(attr: Attr, date: str) -> str | None:
    """The name of an enum that an attribute has a member of and the date does not have."""
    value = attr_value(attr)
    if not isinstance(value, Enum) or value.kind in (None, "enum"):
        return None
    known = enums().get(str(value.kind))
    return None if known is not None and known.members_at(date) else value.kind


def _date_of(name: str) -> str | None:
    known = enums().get(name)
    since = known.dates.get("since") if known is not None else None
    return f"run with `--compat {since}`" if since is not None else None


def wrong_attributes(
    op: Operation, definition: OpDef, source: Source, date: str | None
) -> Iterator[Diagnostic]:
    """Report attributes without which no rule can be judged: of another type, with no member of
    their enum at a date (None: at any), missing."""
    for key, attr in op.attrs.items():
        known = definition.attrs.get(key)
        found = _wrong(op, known, attr, source, date) if known is not None else None
        if found is not None:
            yield found
    for known in definition.attrs.values():
        if known.required and known.name not in op.attrs:
            yield finding(
                "PTO2005",
                f"'{op.name}' op requires attribute '{known.name}'",
                op.span(source),
                help=f"add `{{{known.name} = {_example(known)}}}`",
            )


def legacy_spelling(op: Operation, what: str, source: Source, date: str) -> Diagnostic:
    """Return the finding that a date has no operation of this name; `what` is the row's sentence,
    and after a semicolon what to write."""
    old, _, modern = what.partition("; ")
    name = op.variant.modern if op.variant is not None else None
    span = Span(source, op.name_end - len(op.name), op.name_end)
    return finding(
        "PTO0010",
        f"legacy spelling: {old}",
        op.span(source),
        notes=(f"PTOAS {date} does not read this spelling",),
        help=modern or None,
        fixes=(Fix(span, name),) if name is not None and op.form != "generic" else (),
    )


def _wrong(
    op: Operation, known: AttrDef, attr: Attr, source: Source, date: str | None
) -> Diagnostic | None:
    value = attr_value(attr)
    enum = enums().get(known.type)
    span = _span(op, attr, source)
    if enum is not None:
        if isinstance(value, Enum) and value.kind not in (None, "enum", enum.name):
            what, cure = f"attribute '{known.name}'", f"#pto<{known.type} {value.member}>"
            return other_enum(op, what, (known.type,), value, span, cure)
        member = op.attributes[known.name]
        if member is None:
            return no_member(op, (known.type,), value, span)
        return other_date(op, (known.type,), str(member), span, date)
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return finding("PTO1008", f"attribute '{known.name}' does not fit 64 bits", span)
    if _has_type(value, known.type):
        return None
    type_ = _TYPE_WORDS.get(known.type, f"a {known.type}")
    return finding(
        "PTO2006", f"'{op.name}' op expects attribute '{known.name}' to be {type_}", span
    )


def _span(op: Operation, attr: Attr, source: Source) -> Span:
    tok = attr.atom if isinstance(attr.atom, Tok) else attr.key
    return tok.span(source) if tok is not None else op.span(source)


def _operand(op: Operation, key: str) -> bool:
    """True for an operand written as an attribute, and for ops that take any attribute."""
    return op.bound.get(key) is not None or (
        op.definition is not None and op.definition.form == "core"
    )


def _example(known: AttrDef) -> str:
    enum = enums().get(known.type)
    if enum is not None:
        return f"#pto<{enum.name} {next(iter(enum.members))}>"
    return {"int": "1 : i32", "bool": "true", "str": '"text"'}.get(known.type, "…")


_TYPE_WORDS = {"int": "an integer", "bool": "true or false", "str": "a string", "float": "a number"}


def _has_type(value: Any, type_: str) -> bool:
    if type_ == "int":
        return isinstance(value, int) and not isinstance(value, bool)
    if type_ == "bool":
        return isinstance(value, bool) or value in (0, 1)
    if type_ == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if type_ == "str":
        return isinstance(value, str)
    return not isinstance(value, TypeText)
