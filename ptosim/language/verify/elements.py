"""Element types that the row of an operation allows on a target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.conversions import conversion_name, conversions
from ptosim.ground.isa.schema import ElementRule, OpDef
from ptosim.ground.isa.targets import architecture
from ptosim.ground.source import Source
from ptosim.language.verify.rule_views import holds


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
        listed = "/".join(_shown(entry[0]) for entry in allowed)
    else:
        text = rule.text or "expects ({names}) element types to match one of {list}"
        listed = " ".join(f"({', '.join(map(_shown, entry))})" for entry in allowed)
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
    )


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
        pair = conversions().get((mine, _shown(entry[0])))
        back = conversions().get((_shown(entry[0]), mine))
        wide = _bits(entry[0]) > view.bits
        if pair and back and wide and target in pair.targets and target in back.targets:
            return (
                f"on {architecture(target).title} convert with `pto.tcvt` from {mine} to "
                f"{_shown(entry[0])} before, and back after"
            )
    return None


def _bits(name: str) -> int:
    digits = "".join(c for c in _shown(name) if c.isdigit())
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


def _shown(name: str) -> str:
    return name.rstrip("!")
