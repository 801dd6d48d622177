"""Checks of an operation's attributes against its row, and of spellings that dates replaced."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, finding
from ptosim.ground.ir.attributes import Enum, TypeText, attr_value
from ptosim.ground.ir.core import Attr, Operand, Operation, Tok
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.conversions import conversion_name, conversions
from ptosim.ground.isa.schema import AttrDef, ElementRule, OpDef, Status, enums
from ptosim.ground.isa.targets import architecture
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest
from ptosim.language.verify.operands import no_member, other_date, other_enum
from ptosim.language.verify.rule_views import holds
from ptosim.language.verify.rules import low_precision_of

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
                fixes=_without(op, key, source) if _date_of(unknown) else (),
            )
        elif known is None and "." not in key and key not in _QUIET_KEYS and not _operand(op, key):
            yield finding(
                "PTO2003",
                f"unknown attribute `{key}` of {op.name} is kept and has no effect",
                attr.key.span(source) if attr.key is not None else op.span(source),
                help=nearest(key, definition.attrs),
            )


def _without(op: Operation, key: str, source: Source) -> tuple[Fix, ...]:
    """The edit that takes an attribute of one token out, with its comma or the braces around it."""
    keys = list(op.attrs)
    at, attr = keys.index(key), op.attrs[key]
    if attr.key is None or not isinstance(attr.atom, Tok):
        return ()
    start, end = attr.key.start, (attr.type or attr.atom).end
    text = source.text
    after = op.attrs[keys[at + 1]].key if at + 1 < len(keys) else None
    if after is not None:
        end = after.start
    elif at:
        start = text.rindex(",", 0, start)
    else:
        start = len(text[: text.rindex("{", 0, start)].rstrip())
        end = text.index("}", end) + 1
    return (Fix(Span(source, start, end), ""),)


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


# Element types that the row of an operation allows on a target.


def operand_labels(op: Operation, names: Iterable[str], source: Source) -> tuple[Label, ...]:
    """Return a label with its type for each operand or result of the names."""
    labels = []
    results = op.result_values
    for name in names:
        operand, result = op.bound.get(name), results.get(name)
        if isinstance(operand, Operand) and isinstance(operand.tok, Tok):
            labels.append(Label(operand.tok.span(source), f"{name}: {_brief(operand.type)}"))
        elif result is not None:
            labels.append(Label(result.span(source), f"{name}: {_brief(result.type)}"))
    return tuple(labels)


def rule_source(definition: OpDef) -> str:
    """Return the note that says where a rule comes from."""
    return f"rule of {definition.mnemonic}: {definition.source}"


def _brief(type_: Type | None) -> str:
    if not isinstance(type_, TileType):
        return str(type_)
    valid = ""
    if (type_.v_row, type_.v_col) != (type_.rows, type_.cols):
        row, col = ("?" if d is None else str(d) for d in (type_.v_row, type_.v_col))
        valid = f" valid {row}x{col}"
    layout = "" if type_.blayout == "row_major" else f" {type_.blayout}"
    box = "" if type_.slayout == "none_box" else f" box {type_.slayout}"
    return f"{type_.loc} {type_.rows}x{type_.cols}x{type_.dtype}{valid}{layout}{box}"


def wrong_elements(
    op: Operation,
    definition: OpDef,
    rule: ElementRule,
    names: dict[str, Any],
    target: str,
    source: Source,
) -> Diagnostic | None:
    """Return the finding that operands have types that a rule does not allow on a target."""
    if rule.when is not None and not holds(rule.when, names, absent=False):
        return None
    views: list[Any] = [names.get(name) for name in rule.operands]
    if any(v is None or v.dtype is None for v in views) or target not in rule.allowed:
        return None
    if _fits(views, rule.allowed[target]):
        return None
    allowed = rule.allowed[target]
    if all(len(entry) == 1 for entry in allowed):
        text = rule.text or "expects {arch} {op} element type to be {list}"
        listed = "/".join(_plain_name(entry[0]) for entry in allowed)
    else:
        text = rule.text or "expects ({names}) element types to match one of {list}"
        listed = " ".join(f"({', '.join(map(_plain_name, entry))})" for entry in allowed)
    message = text.format(
        arch=architecture(target).title,
        op=definition.mnemonic,
        list=listed,
        names=", ".join(rule.operands),
    )
    code = "PTO2013" if len(rule.operands) == 1 else "PTO2014"
    low = [n for n, v in zip(rule.operands, views, strict=True) if _is_low_precision(v)]
    if low:
        code = "PTO2131"
        message = f"{low[0]} type must not use low-precision vector element type; {message}"
    return finding(
        code,
        f"'{op.name}' op {message}",
        op.span(source),
        label=", ".join(f"{n} is {v.dtype}" for n, v in zip(rule.operands, views, strict=True)),
        more=operand_labels(op, rule.operands, source),
        rule=rule_source(definition),
        help=_by_conversion(views, rule, target),
        context=_told_of(rule, views, allowed, is_cpp=source.is_cpp),
    )


def _told_of(
    rule: ElementRule, views: list[Any], allowed: tuple[tuple[str, ...], ...], *, is_cpp: bool
) -> dict[str, str]:
    """Return what of a rule says that the headers of C++ have it, too: they compute with no element
    of low precision that the assembler does not take."""
    if _needs_bits(views, allowed):
        return {"needs": "int"}
    is_low = any(low_precision_of(v.type) for v in views if isinstance(v.type, TileType))
    return {"needs": "these"} if is_cpp and (rule.headers or is_low) else {}


def _needs_bits(views: list[Any], allowed: tuple[tuple[str, ...], ...]) -> bool:
    """Are only integers allowed, and some elements floats? No header has code for these either."""
    names = [_plain_name(name) for entry in allowed for name in entry]
    only_ints = all(name.lstrip("u").startswith("i") for name in names)
    return only_ints and any(not v.dtype.lstrip("u").startswith("i") for v in views)


def _fits(views: list[Any], allowed: tuple[tuple[str, ...], ...]) -> bool:
    if len(views) > 1 and all(len(entry) == 1 for entry in allowed):
        return all(any(_is(v, entry[0]) for entry in allowed) for v in views)
    return any(all(_is(v, name) for v, name in zip(views, e, strict=True)) for e in allowed)


def _by_conversion(views: list[Any], rule: ElementRule, target: str) -> str | None:
    """The way round for a type of tiles that only another target takes: a type of this target to
    which `tcvt` converts without loss of range."""
    others = [allowed for t, allowed in rule.allowed.items() if t != target]
    if not any(_fits(views, allowed) for allowed in others):
        return None
    view = next((v for v in views if v.kind == "tile"), None)
    if view is None:
        return None
    mine = conversion_name(view.type.dtype)
    for entry in rule.allowed[target]:
        pair = conversions().get((mine, _plain_name(entry[0])))
        back = conversions().get((_plain_name(entry[0]), mine))
        wide = _bits(entry[0]) > view.bits
        if pair and back and wide and target in pair.targets and target in back.targets:
            return (
                f"on {architecture(target).title} convert with `pto.tcvt` from {mine} to "
                f"{_plain_name(entry[0])} before, and back after"
            )
    return None


def _bits(name: str) -> int:
    digits = "".join(c for c in _plain_name(name) if c.isdigit())
    return int(digits) if digits else 0


def _is_low_precision(view: Any) -> bool:
    """True for a register of floats of 8 or 4 bits."""
    return view.kind == "vreg" and view.bits == 8 and not view.type.elem.is_integer


def _is(view: Any, name: str) -> bool:
    """`ui8!` means exactly that spelling, `si8` also the signless one, `i8` any 8-bit integer."""
    if name.endswith("!"):
        return view.dtype == name[:-1]
    if name.startswith("si") and view.dtype == name[1:]:
        return True
    return view.family == name or view.dtype == name


def _plain_name(name: str) -> str:
    return name.rstrip("!")


# Operations that the target does not have.

MICRO_CODE = "PTO3006"
VIRTUAL_CODE = "PTO2303"


def only_executed_there(
    op: Operation, definition: OpDef, target: str, source: Source, instead: str | None
) -> Diagnostic:
    """Return the finding that a target accepts an operation that another one executes; `instead` is
    the name of one that it has."""
    having = _having(definition)
    if op.has("virtual"):
        return finding(
            VIRTUAL_CODE,
            f"VMI needs the A5 vector unit: {architecture(target).title} does not execute "
            f"'{op.name}'",
            op.span(source),
            help="run with `--target a5`",
        )
    name = Span(source, op.name_end - len(op.name), op.name_end)
    cure = f"write `{instead}`" if instead else "use tile operations"
    return finding(
        MICRO_CODE,
        f"'{op.name}' is accepted on {architecture(target).title}, and only {_titles(having)} "
        "executes it",
        op.span(source),
        help=f"run with `--target {having[0]}`, or {cure}" if having else None,
        fixes=(Fix(name, instead),) if instead and op.form != "generic" else (),
    )


def absent(op: Operation, definition: OpDef, target: str, source: Source) -> Diagnostic:
    """Return the finding that a target refuses an operation, with what to write instead if the row
    says it."""
    having = _having(definition)
    text = definition.absent or f"{definition.mnemonic} is only supported on {_titles(having)}"
    title = architecture(target).title
    instead = replacement(op, definition)
    cure = f"run with `--target {having[0]}`, " if having else ""
    return finding(
        "PTO3001",
        f"'{op.name}' op {text}",
        op.span(source),
        notes=(f"the target is {title}",),
        help=f"{cure}or write on {title}\n{instead}"
        if instead
        else f"{cure}or use another operation",
    )


def replacement(op: Operation, definition: OpDef) -> str | None:
    """Return the text of the row's `elsewhere` with the operands as the program writes them."""
    if definition.elsewhere is None:
        return None
    return _PLACE.sub(lambda found: _written(op, found[1], found[2]), definition.elsewhere).rstrip()


_PLACE = re.compile(r"\{(\w+)(:type)?\}")


def _written(op: Operation, name: str, as_type: str | None) -> str:
    operand = op.bound.get(name)
    if not isinstance(operand, Operand) or operand.value is None:
        return "…" if as_type else f"%{name}"
    return _type_text(op, operand) if as_type else f"%{operand.value.name}"


def _type_text(op: Operation, operand: Operand) -> str:
    """The type in the program's own words, which may be shorter than the whole spelling."""
    for entries, types in ((op.ins, op.ins_types), (op.outs, op.outs_types)):
        values = [entry for entry in entries if not isinstance(entry, dict)]
        for entry, type_ in zip(values, types, strict=False):
            if entry is operand.tok:
                return type_.value
    return str(operand.type)


def _having(definition: OpDef) -> list[str]:
    return [target for target, s in definition.status.items() if s is not Status.ABSENT]


def _titles(targets: list[str]) -> str:
    return " and ".join(architecture(target).title for target in targets) or "no target"
