"""One operation in detail, as text: forms, element types, attributes, rules, status, sources."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.profiles import SwitchDef, switches
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.isa.schema import AttrDef, ConstraintDef, ElementRule, OpDef, Variant
from ptosim.language.bind.bind import describe


def card(definition: OpDef, width: int) -> str:
    """Return the card of an operation, wrapped to `width` columns."""
    lines = textwrap.wrap(f"{definition.name}: {definition.summary}", width)
    if definition.doc:
        lines += ["", *textwrap.wrap(definition.doc.strip(), width)]
    for part in (_status, _forms, _attributes, _rules, _switches, _notes):
        lines += ["", *(wrapped for line in part(definition) for wrapped in _wrap(line, width))]
    return "\n".join(_single_blank(lines)) + "\n"


def _wrap(line: str, width: int) -> list[str]:
    indent = len(line) - len(line.lstrip())
    return textwrap.wrap(line, width, subsequent_indent=" " * (indent + 2)) or [""]


def _single_blank(lines: list[str]) -> Iterator[str]:
    previous = ""
    for line in lines:
        if line or previous:
            yield line
        previous = line


def _status(definition: OpDef) -> Iterator[str]:
    per_target = " · ".join(f"{t} {definition.status[t]}" for t in TARGETS)
    pipes = ", ".join(p.pipe + (f" if {p.when}" if p.when else "") for p in definition.pipes)
    yield f"status  {per_target} ({f'by {definition.basis}' if definition.basis else 'no basis'})"
    yield f"family  {definition.family}"
    if definition.means:
        yield f"means   {definition.means}, of which it is an older spelling"
    if definition.form == "generic":
        yield f'syntax  the quoted form only, "{definition.name}"(…)'
    if pipes:
        yield f"pipe    {pipes}"
    yield f"source  {definition.source}"


def _forms(definition: OpDef) -> Iterator[str]:
    for variant in definition.variants:
        yield f"{variant.name or 'form'}  {definition.name} {describe(variant, definition)}"
        for rule in variant.elements:
            if applies(rule, variant):
                yield from _elements(rule)
        yield ""


def applies(rule: ElementRule, variant: Variant) -> bool:
    """A rule shared by all forms may name operands, or ask for one, that this form lacks."""
    named = {o.name for o in variant.operands}
    asked = (rule.when or "").split(" and ")[0]
    return named.issuperset(rule.operands) and (not asked.isidentifier() or asked in named)


def _elements(rule: ElementRule) -> Iterator[str]:
    operands = ", ".join(rule.operands)
    condition = f"   when {rule.when}" if rule.when else ""
    listed = {t: _types(rule, t) for t in TARGETS if t in rule.allowed}
    if len(listed) == len(TARGETS) and len(set(listed.values())) == 1:
        yield f"    {operands}: {next(iter(listed.values()))}{condition}"
        return
    for target, types in listed.items():
        yield f"    {operands} on {target}: {types or 'none'}{condition}"


def _types(rule: ElementRule, target: str) -> str:
    return " | ".join(" ".join(entry) for entry in rule.allowed[target])


def _attributes(definition: OpDef) -> Iterator[str]:
    if definition.attrs:
        yield "attributes"
    for attr in definition.attrs.values():
        yield f"    {attr.name}: {_attribute_type(attr)}{_default(attr)}"


def _attribute_type(attr: AttrDef) -> str:
    known = enums().get(attr.type)
    return f"{attr.type} ({', '.join(known.members)})" if known else attr.type


def _default(attr: AttrDef) -> str:
    if attr.required:
        return ", required"
    return f", default {attr.default}" if attr.default is not None else ""


def _rules(definition: OpDef) -> Iterator[str]:
    shown = dict.fromkeys(rule_text(r) for v in definition.variants for r in v.rules)
    if shown:
        yield "rules"
    yield from (f"    {text}" for text in shown)


def rule_text(rule: ConstraintDef) -> str:
    """Return a rule in words, with the targets and the condition that it holds for."""
    where = f" on {', '.join(rule.targets)}" if rule.targets else ""
    condition = f", when {rule.when}" if rule.when else ""
    return f"{rule.text or rule.expr}{where}{condition}"


def _switches(definition: OpDef) -> Iterator[str]:
    if definition.switches:
        yield "switches (--set NAME=VALUE)"
    for name in definition.switches:
        switch = switches()[name]
        yield f"    {name} = {' | '.join(switch.values)}{_switch_default(switch)}"
        yield f"        {switch.text}"


def _switch_default(switch: SwitchDef) -> str:
    defaults = [f"{v} on {t}" for t, v in switch.default.items()]
    same = len(set(switch.default.values())) == 1
    return (
        f", default {next(iter(switch.default.values()))}"
        if same
        else f", default {', '.join(defaults)}"
    )


def _notes(definition: OpDef) -> Iterator[str]:
    if definition.notes:
        yield "notes"
    yield from (f"    {note}" for note in definition.notes)
