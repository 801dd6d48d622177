"""Modules in modules and what modules and functions say of themselves: attributes of a few words,
marks of entries, kinds of cores, references between units (`isa/units.toml`)."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import Enum, attribute_of
from ptosim.ground.ir.core import Attr, Operation
from ptosim.ground.ir.program import LOGICAL_NAME, Function, ResolvedModule, Unit
from ptosim.ground.isa.units import UnitRules, WordRule, unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.bind.units import mark_of
from ptosim.language.place.sides import OPEN, votes


def attributes(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report attributes whose text is none of their words, and reserved ones."""
    rules, source = unit_rules(resolved.date), resolved.module.source
    for op in resolved.ops:
        if not op.attrs:
            continue
        for rule in rules.words:
            if rule.where in op.traits and rule.attribute in op.attrs:
                yield from _word(op, rule, source)
        for name in rules.reserved.keys() & op.attrs.keys():
            yield finding(
                "PTO1022",
                rules.reserved[name],
                _place(op.attrs[name], op, source),
                help="remove the attribute: the planner writes it",
            )


def _word(op: Operation, rule: WordRule, source: Source) -> Iterator[Diagnostic]:
    word = _written_word(op, rule)
    if word is not None and rule.holds(word):
        return
    is_other = word is None and not rule.enum
    what = "Expected string value" if is_other else rule.text.replace("{word}", word or "")
    yield finding(
        "PTO1021",
        what,
        _place(op.attrs[rule.attribute], op, source),
        notes=(f"`{rule.attribute}` is one of: {', '.join(rule.words)}",),
    )


def _written_word(op: Operation, rule: WordRule) -> str | None:
    """The text or the member of the enum that an attribute is; None where it is neither."""
    value = attribute_of(op, rule.attribute)
    if not rule.enum:
        return value if isinstance(value, str) else None
    return value.member if isinstance(value, Enum) and value.kind in (rule.enum, None) else None


def _place(attr: Attr, op: Operation, source: Source) -> Span:
    return attr.key.span(source) if attr.key is not None else op.span(source)


def marks(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report declarations that are marked as entries."""
    rules, source = unit_rules(resolved.date), resolved.module.source
    text = rules.rules.get("marked_declaration")
    for function in resolved.functions.values() if text is not None else ():
        mark = mark_of(function.op, rules)
        if mark is not None and not function.has_body:
            yield finding(
                "PTO1023",
                str(text).replace("{mark}", mark),
                function.op.span(source),
                help="mark the function where it has its body",
            )


# -- references between units ---------------------------------------------------------------------


def references(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report declarations that stand for several functions of another unit, and for functions that
    need others of theirs, in containers of more than one module."""
    rules = unit_rules(resolved.date).rules
    for unit in resolved.unit.walk():
        if len(unit.children) < 2 or not unit.is_container:
            continue
        for child in unit.children:
            for function in child.functions.values():
                if not function.has_body:
                    yield from _ambiguous(function, unit, rules, resolved)
                    yield from _transitive(function, rules, resolved)


def _ambiguous(
    function: Function, unit: Unit, rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    text = rules.get("ambiguous_reference")
    if text is None or resolved.visible(function.unit, function.symbol) is not function:
        return
    for child in unit.children:
        meant = [f for f in child.functions.values() if _is_called(f, function.symbol)]
        if child is not function.unit and len(meant) > 1:
            source = resolved.module.source
            yield finding(
                "PTO1024",
                text.replace("{name}", function.symbol),
                function.op.span(source),
                more=tuple(Label(f.op.span(source), "one of them") for f in meant),
                help="give each public function of a module its own logical name",
            )


def _is_called(function: Function, name: str) -> bool:
    is_public = function.has_body and not function.private
    return is_public and attribute_of(function.op, LOGICAL_NAME) == name


def _transitive(
    function: Function, rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    text = rules.get("transitive_closure")
    meant = resolved.visible(function.unit, function.symbol)
    if text is None or meant is None or meant is function:
        return
    for op in meant.ops:
        callee = resolved.functions.get(op.bound.get("callee", "")) if "call" in op.traits else None
        if callee is not None and callee.unit is meant.unit and callee.has_body:
            source = resolved.module.source
            yield finding(
                "PTO1024",
                text.replace("{name}", meant.symbol).replace("{callee}", callee.symbol),
                function.op.span(source),
                more=(Label(op.span(source), "the call"),),
                help="move what the function calls into its own body",
            )
            return


# -- containers -----------------------------------------------------------------------------------


def containers(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report functions beside modules of several back ends, and modules for the micro back end of
    which nothing says the kind of core."""
    rules, source = unit_rules(resolved.date), resolved.module.source
    for unit in resolved.unit.walk():
        yield from _mixed(unit, rules, source)
        parent = unit.parent
        is_member = parent is not None and parent.is_container and parent.op is not None
        if is_member and unit.backend == "vpto" and unit.kernel_kind is None and not unit.children:
            yield from _without_kind(unit, rules, resolved.target, source)


def _mixed(unit: Unit, rules: UnitRules, source: Source) -> Iterator[Diagnostic]:
    """Functions beside the modules of a container."""
    is_mixed = len({child.backend for child in unit.children}) > 1
    name = "only_kernels" if unit.backend == "vpto" else "mixed_container" if is_mixed else ""
    text = rules.rules.get(name)
    if text is not None and unit.functions and unit.children:
        first = next(iter(unit.functions.values()))
        yield finding(
            "PTO1025",
            text,
            first.op.span(source),
            help="move the function into a module of its own",
        )


def _without_kind(
    unit: Unit, rules: UnitRules, target: str, source: Source
) -> Iterator[Diagnostic]:
    text = rules.rules.get("member_kind")
    bodies = [f for f in unit.functions.values() if f.has_body]
    if text is None or unit.op is None or any(f.kernel_kind is not None for f in bodies):
        return
    if any(votes(f.body, target) - {OPEN} or _has_sections(f) for f in bodies):
        return
    yield finding(
        "PTO1026",
        text,
        unit.op.span(source),
        notes=("no operation of its functions says which kind of core executes them",),
        help="add `pto.kernel_kind = #pto.kernel_kind<vector>` (or cube) to the module",
    )


def _has_sections(function: Function) -> bool:
    return any(op.has("section") for op in function.ops)
