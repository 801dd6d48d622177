"""The reference of operations as Markdown: a section for each row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.profiles import switches
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.isa.schema import AttrDef, ElementRule, OpDef, OperandDef, Role, Variant
from ptosim.ground.version import __version__
from ptosim.language.bind.bind import describe
from ptosim.views.op_card import applies, rule_text

_DOES = {Role.IN: "read", Role.OUT: "written", Role.INOUT: "read, written", Role.SCRATCH: "scratch"}
_NO_MEANING = str.maketrans({"|": r"\|", "*": r"\*", "_": r"\_", "<": r"\<", "[": r"\["})


def reference(rows: Iterable[OpDef]) -> str:
    """Return the sections of the rows, family by family, each family under a heading."""
    lines = ["# Operations", "", f"Written by ptosim {__version__} from the rows of `isa/ops`."]
    ordered = sorted(rows, key=lambda d: (d.family, d.mnemonic))
    for family, members in groupby(ordered, key=lambda d: d.family):
        lines += ["", f"## Family {family}"]
        for definition in members:
            lines += ["", *section(definition)]
    return "\n".join(lines) + "\n"


def section(definition: OpDef) -> Iterator[str]:
    """Return the lines of one operation."""
    yield f"### `{definition.name}`"
    yield from ("", _prose(definition.summary))
    if definition.means:
        yield from ("", f"An older spelling of `{definition.means}`.")
    if definition.doc:
        yield from ("", _prose(" ".join(definition.doc.split())))
    yield from ("", *_table(("", *TARGETS), _per_target(definition)))
    for variant in definition.variants:
        yield from ("", *_form(definition, variant))
    attributes = [_attribute(a) for a in definition.attrs.values()]
    if attributes:
        yield from ("", *_table(("attribute", "type", "default"), attributes))
    yield from _list("Rules", _rules(definition))
    yield from _list("Switches", [_switch(name) for name in definition.switches])
    yield from _list("Notes", [_prose(note) for note in definition.notes])
    yield from ("", f"Basis: {definition.basis or 'none'}. Source: {_prose(definition.source)}.")


def _per_target(definition: OpDef) -> list[tuple[str, ...]]:
    pipes = ", ".join(p.pipe + (f" if `{p.when}`" if p.when else "") for p in definition.pipes)
    rows = [("status", *(str(definition.status[t]) for t in TARGETS))]
    return [*rows, ("pipe", *[pipes] * len(TARGETS))] if pipes else rows


def _form(definition: OpDef, variant: Variant) -> Iterator[str]:
    title = f"Form {variant.name}" if variant.name else "Form"
    yield f"{title}: `{definition.name} {describe(variant, definition)}`"
    operands = [_operand(o) for o in variant.operands]
    if operands:
        yield from ("", *_table(("operand", "kind", "is", "needed"), operands))
    elements = [_elements(e) for e in variant.elements if applies(e, variant)]
    if elements:
        yield from ("", *_table(("elements of", *TARGETS, "when"), elements))


def _operand(operand: OperandDef) -> tuple[str, ...]:
    needed = "no" if operand.optional else "any number" if operand.variadic else "yes"
    return f"`{operand.name}`", " or ".join(operand.kinds), _DOES[operand.role], needed


def _elements(rule: ElementRule) -> tuple[str, ...]:
    allowed = [" or ".join(" ".join(e) for e in rule.allowed.get(t, ())) or "none" for t in TARGETS]
    return ", ".join(rule.operands), *allowed, f"`{rule.when}`" if rule.when else ""


def _attribute(attr: AttrDef) -> tuple[str, ...]:
    known = enums().get(attr.type)
    kind = f"{attr.type}: {', '.join(known.members)}" if known else attr.type
    default = "required" if attr.required else "" if attr.default is None else str(attr.default)
    return f"`{attr.name}`", kind, default


def _rules(definition: OpDef) -> list[str]:
    return list(dict.fromkeys(_prose(rule_text(r)) for v in definition.variants for r in v.rules))


def _switch(name: str) -> str:
    switch = switches()[name]
    return f"`{name}` ({', '.join(switch.values)}): {_prose(switch.text)}"


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield from ("", f"{title}:", "", *(f"- {item}" for item in items))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"


def _prose(text: str) -> str:
    """Return text in which nothing outside of backticks is read as Markdown."""
    parts = text.split("`")
    return "`".join(p if n % 2 else p.translate(_NO_MEANING) for n, p in enumerate(parts))
