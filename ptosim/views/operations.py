"""Operations as reports: one as a card, all as a table, and their reference as Markdown."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from ptosim.ground import __version__
from ptosim.ground.diagnostics.boards import BoardRule, changed
from ptosim.ground.isa.cache import programs_directory
from ptosim.ground.isa.dates import DEFAULT_DATE, SwitchDef, switches
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import TARGETS
from ptosim.ground.isa.schema import (
    AttrDef,
    ConstraintDef,
    ElementRule,
    OpDef,
    OperandDef,
    Role,
    Variant,
    enums,
)
from ptosim.ground.records import NamedTuple
from ptosim.ground.words import few
from ptosim.language.bind.clauses import describe
from ptosim.language.verify.wording import condition_words, rule_words
from ptosim.views.report import Line, Part, Report, Verbatim, one_section
from ptosim.views.table import number, table

_WIDE = 400
"""Columns of the list in a pipe or a file: more than the longest line. One line for each operation
is for grep; a screen cuts what it is to what fits."""


def operation_report(definition: OpDef, date: str | None = None) -> Report:
    """Return what is known of one operation, with what a later date changes."""
    rule = changed(date).get(definition.mnemonic) if date is not None else None
    told = f"\n{date}, {_sure(rule)}: {rule.title}\n" if rule is not None else ""
    return one_section(
        lambda room: [Verbatim(card(definition, room.width) + told)],
        lambda: {**_facts(definition), **_certainty(_sure(rule) if rule is not None else None)},
        own={"markdown": lambda: "\n".join(section(definition)) + "\n"},
    )


def example_report(definition: OpDef) -> Report:
    """Return the program that shows an operation, ready for a file."""
    example = example_of(definition)
    assert example is not None  # a test asks it of every row
    head = [f"// {definition.name}: {definition.summary}"]
    head += [f"// Read with --compat {example.compat}."] if example.compat else []
    head += [f"// ptosim run FILE {example.run}"] if example.run else []
    head += [f"// Not executed alone: {example.not_run}."] if example.not_run else []
    text = "\n".join(head) + f"\n{example.program}"
    return one_section([Verbatim(text)], lambda: _facts(definition), own={"markdown": lambda: text})


class ExampleCost(NamedTuple):
    """What an operation takes in its example: cycles of the operation (None where a region or a
    launch has it) and of the whole program, how sure that is, and why there is none."""

    target: str
    cycles: float | None
    program: float | None
    confidence: str
    why: str


def costs_report(definition: OpDef, costs: Sequence[ExampleCost]) -> Report:
    """Return what the example of an operation takes on each target."""
    columns = ("target", number("cycles", ","), number("program", ","), "confidence", "note")
    example = example_of(definition)
    line = [Line(example.line)] if example is not None else []
    return one_section(
        [*line, table("", columns, costs)],
        lambda: {"name": definition.name, "costs": [c._asdict() for c in costs]},
    )


def operations_report(rows: list[OpDef], date: str | None = None) -> Report:
    """Return the table of operations; of a date that no tree shows, with how certain each is."""
    sure = _certainties(rows, date)
    return one_section(
        lambda _: _table(rows, sure, date),
        lambda: [{**_facts(d), **_certainty(sure.get(d.mnemonic))} for d in rows],
        own={"markdown": lambda: reference(rows)},
    )


def _certainties(rows: list[OpDef], date: str | None) -> dict[str, str]:
    """How certain the row of a date that no tree shows is, by the rule that changes it; as the
    default date has it if none does. Nothing for other dates."""
    rules = changed(date) if date is not None else {}
    if not rules:
        return {}
    found = ((d.mnemonic, rules.get(d.mnemonic)) for d in rows)
    return {name: _sure(rule) if rule else f"as {DEFAULT_DATE}" for name, rule in found}


def _sure(rule: BoardRule) -> str:
    return f"{'open' if rule.certainty == 'open' else 'certain'} ({rule.id})"


def _certainty(word: str | None) -> dict[str, str]:
    return {"certainty": word} if word is not None else {}


def _facts(definition: OpDef) -> dict[str, object]:
    return {
        "name": definition.name,
        "family": definition.family,
        "summary": definition.summary,
        **definition.dates,
        **({"means": definition.means} if definition.means else {}),
        "status": {t: str(definition.status[t]) for t in TARGETS},
        "basis": definition.basis,
        "forms": [describe(v, definition) for v in definition.variants],
        **_example_facts(definition),
        "rules": rule_texts(definition),
        "attributes": {
            a.name: {"type": a.type, "required": a.required, "default": a.default}
            for a in definition.attrs.values()
        },
        "elements": [
            {
                "operands": list(e.operands),
                **{t: [" ".join(x) for x in e.allowed.get(t, ())] for t in TARGETS},
            }
            for v in definition.variants
            for e in v.elements
        ],
        "pipe": [
            {"pipe": p.pipe, "when": condition_words(p.when) if p.when else None}
            for p in definition.pipes
        ],
        "switches": list(definition.switches),
        "notes": list(definition.notes),
        "source": definition.source,
    }


def _example_facts(definition: OpDef) -> dict[str, object]:
    example = example_of(definition)
    if example is None:
        return {}
    return {"example": example.line, "program": example.program, "used_by": _used_by(definition)}


def _table(rows: list[OpDef], sure: dict[str, str], date: str | None) -> list[Part]:
    cells = [
        (d.mnemonic, d.family, _both(d), d.basis or "",
         "/".join(dict.fromkeys(p.pipe for p in d.pipes)),
         *([sure[d.mnemonic]] if sure else ()), d.summary)
        for d in rows
    ]  # fmt: skip
    counts = []
    for target in TARGETS:
        number = Counter(str(d.status[target]) for d in rows)
        counts.append(f"{target}: " + ", ".join(f"{n} {s}" for s, n in sorted(number.items())))
    columns = (
        "operation",
        "family",
        "status",
        "basis",
        "pipe",
        *([date or ""] if sure else ()),
        "what",
    )
    essential, drop = ["operation", "status"], ["pipe", "basis", "family"]
    made = table("", columns, cells, essential=essential, drop=drop, cut=True, pipe=_WIDE)
    return [made, Line("; ".join(counts))]


def _both(definition: OpDef) -> str:
    """The status on all targets: once where it is the same, and only where there is one."""
    known = {t: str(definition.status[t]) for t in TARGETS}
    if len(set(known.values())) == 1:
        return known[TARGETS[0]]
    return ", ".join(f"{t} {status}" for t, status in known.items() if status != "absent")


# -- a card ----------------------------------------------------------------------------------------


def card(definition: OpDef, width: int) -> str:
    """Return the card of an operation, wrapped to `width` columns."""
    lines = textwrap.wrap(f"{definition.name}: {definition.summary}", width)
    if definition.doc:
        lines += ["", *textwrap.wrap(definition.doc.strip(), width)]
    for part in (_status, _example_lines, _forms, _attributes, _rules, _switches, _notes):
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
    pipes = _pipes(definition)
    yield f"status  {per_target} ({f'by {definition.basis}' if definition.basis else 'no basis'})"
    yield f"family  {definition.family}"
    if definition.means:
        yield f"means   {definition.means}, of which it is an older spelling"
    if definition.form == "generic":
        yield f'syntax  the quoted form only, "{definition.name}"(…)'
    if pipes:
        yield f"pipe    {pipes}"
    yield f"source  {definition.source}"


def _example_lines(definition: OpDef) -> Iterator[str]:
    """The operation in real syntax, and the shipped programs that have it."""
    example = example_of(definition)
    if example is not None:
        dated = f" (--compat {example.compat})" if example.compat else ""
        yield f"example{dated}: `ptosim ops {definition.mnemonic} --example` prints a program"
        yield f"    {example.line}"
    users = _used_by(definition)
    if users:
        yield f"in use in {few(users, _USERS)}"


_USERS = 4


@lru_cache(maxsize=1)
def _words_of_programs() -> dict[str, frozenset[str]]:
    """The words of each shipped program that is right, by its name."""
    root = programs_directory()
    paths = sorted(p for p in root.glob("*/*.pto") if p.parent.name != "broken")
    return {
        f"@{p.relative_to(root).with_suffix('').as_posix()}": frozenset(
            re.findall(r"[\w.]+", p.read_text(encoding="utf-8"))
        )
        for p in paths
    }


def _used_by(definition: OpDef) -> list[str]:
    return [name for name, words in _words_of_programs().items() if definition.name in words]


def _pipes(definition: OpDef) -> str:
    """The pipes that it runs on, those of a condition with it."""
    shown = (
        p.pipe + (f" if {condition_words(p.when)}" if p.when else "") for p in definition.pipes
    )
    return "; ".join(shown)


def _forms(definition: OpDef) -> Iterator[str]:
    for variant in definition.variants:
        operands = describe(variant, definition)
        yield f"{variant.name or 'form'}  {definition.name} {operands}".rstrip()
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
    condition = f"   when {condition_words(rule.when)}" if rule.when else ""
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
    shown = rule_texts(definition)
    if shown:
        yield "rules"
    yield from (f"    {text}" for text in shown)


def rule_texts(definition: OpDef) -> list[str]:
    """Return the rules of an operation in words, each once."""
    rules = (r for v in definition.variants for r in v.rules)
    return list(dict.fromkeys(_rule_text(r, definition) for r in rules))


def _rule_text(rule: ConstraintDef, definition: OpDef) -> str:
    """A rule in words, with the targets and the condition that it holds for."""
    where = f" on {', '.join(rule.targets)}" if rule.targets else ""
    condition = f", when {condition_words(rule.when)}" if rule.when else ""
    return f"{rule_words(rule, definition)}{where}{condition}"


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


# -- the reference ---------------------------------------------------------------------------------

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
    yield from ("", *_grid(("", *TARGETS), _per_target(definition)))
    example = example_of(definition)
    if example is not None:
        yield from ("", "```mlir", example.line, "```")
    for variant in definition.variants:
        yield from ("", *_form(definition, variant))
    attributes = [_attribute_row(a) for a in definition.attrs.values()]
    if attributes:
        yield from ("", *_grid(("attribute", "type", "default"), attributes))
    yield from _list("Rules", [_prose(text) for text in rule_texts(definition)])
    yield from _list("Switches", [_switch_text(name) for name in definition.switches])
    yield from _list("Notes", [_prose(note) for note in definition.notes])
    yield from ("", f"Basis: {definition.basis or 'none'}. Source: {_prose(definition.source)}.")


def _per_target(definition: OpDef) -> list[tuple[str, ...]]:
    pipes = _prose(_pipes(definition))
    rows = [("status", *(str(definition.status[t]) for t in TARGETS))]
    return [*rows, ("pipe", *[pipes] * len(TARGETS))] if pipes else rows


def _form(definition: OpDef, variant: Variant) -> Iterator[str]:
    title = f"Form {variant.name}" if variant.name else "Form"
    yield f"{title}: `{definition.name} {describe(variant, definition)}`"
    operands = [_operand(o) for o in variant.operands]
    if operands:
        yield from ("", *_grid(("operand", "kind", "is", "needed"), operands))
    elements = [_element_row(e) for e in variant.elements if applies(e, variant)]
    if elements:
        yield from ("", *_grid(("elements of", *TARGETS, "when"), elements))


def _operand(operand: OperandDef) -> tuple[str, ...]:
    needed = "no" if operand.optional else "any number" if operand.variadic else "yes"
    return f"`{operand.name}`", " or ".join(operand.kinds), _DOES[operand.role], needed


def _element_row(rule: ElementRule) -> tuple[str, ...]:
    allowed = [" or ".join(" ".join(e) for e in rule.allowed.get(t, ())) or "none" for t in TARGETS]
    return (
        ", ".join(rule.operands),
        *allowed,
        _prose(condition_words(rule.when)) if rule.when else "",
    )


def _attribute_row(attr: AttrDef) -> tuple[str, ...]:
    known = enums().get(attr.type)
    kind = f"{attr.type}: {', '.join(known.members)}" if known else attr.type
    default = "required" if attr.required else "" if attr.default is None else str(attr.default)
    return f"`{attr.name}`", kind, default


def _switch_text(name: str) -> str:
    switch = switches()[name]
    return f"`{name}` ({', '.join(switch.values)}): {_prose(switch.text)}"


def _list(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield from ("", f"{title}:", "", *(f"- {item}" for item in items))


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (header, ["---"] * len(header), *rows):
        yield "| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |"


def _prose(text: str) -> str:
    """Return text in which nothing outside of backticks is read as Markdown."""
    parts = text.split("`")
    return "`".join(p if n % 2 else p.translate(_NO_MEANING) for n, p in enumerate(parts))
