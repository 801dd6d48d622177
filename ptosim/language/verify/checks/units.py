"""What modules and functions say of themselves: attributes of a few words (`isa/units.toml`), and
references between units."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import Enum, attribute_of
from ptosim.ground.ir.core import Attr, Operand, Operation
from ptosim.ground.ir.program import LOGICAL_NAME, Function, ResolvedModule, Unit
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.targets import WordRule, unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.place.scopes import Segment, covered, escaping, infers, segments
from ptosim.language.place.sides import CUBE, OPEN, VECTOR, votes


def attributes(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report attributes whose text is none of their words, and reserved ones."""
    rules, source = unit_rules(resolved.date), resolved.module.source
    for op in resolved.ops:
        if not op.attrs:
            continue
        for rule in rules.words:
            if not rule.late:
                yield from _word(op, rule, source)
        for name in rules.reserved.keys() & op.attrs.keys():
            yield finding(
                "PTO1022",
                rules.reserved[name],
                _place(op.attrs[name], op, source),
                help="remove the attribute: the planner writes it",
            )


def late_attributes(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report attributes whose text is none of their words, of those that are read after pipes."""
    rules = [rule for rule in unit_rules(resolved.date).words if rule.late]
    for op in resolved.ops:
        for rule in rules if op.attrs else ():
            yield from _word(op, rule, resolved.module.source)


def _word(op: Operation, rule: WordRule, source: Source) -> Iterator[Diagnostic]:
    if rule.where not in op.traits or rule.attribute not in op.attrs:
        return
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


# -- inferred sections: operations of which nothing says the kind of core, values that leave one ---


_BOTH = frozenset((CUBE, VECTOR))


def uncovered(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report operations outside of sections of which nothing says the one kind of core that
    executes them, and values that leave an inferred section."""
    rules = unit_rules(resolved.date)
    for function in resolved.functions.values():
        if infers(function, resolved):
            parts = segments(function, resolved.target)
            for part in parts:
                yield from _segment(part, rules.rules, resolved)
            yield from _escaping(function, parts, rules.rules, resolved)


def _segment(
    part: Segment, rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    target = resolved.target
    mixed = next((op for op in part.ops if covered(op)), None)
    if mixed is not None and votes((mixed,), target):
        yield _uncovered(rules["mixed_nesting"], mixed, resolved)
    elif part.sides >= _BOTH:
        op = next(op for op in part.ops if votes((op,), target) >= _BOTH)
        text = "saw both vector-like and cube-like ops in the same segment"
        yield _uncovered(f"{rules['uncovered_segment']}; {text}", op, resolved)
    elif part.side is None and OPEN in part.sides:
        found = [o for op in part.ops for o in op.walk() if OPEN in votes((o,), target)]
        names = dict.fromkeys(f"'{o.name}'" for o in found if not o.regions)
        text = f"ambiguous op(s): {', '.join(names)}"
        yield _uncovered(f"{rules['uncovered_segment']}; {text}", found[-1], resolved)


def _uncovered(text: str, op: Operation, resolved: ResolvedModule) -> Diagnostic:
    name = next(f.symbol for f in resolved.functions.values() if f.op is op.function)
    return finding(
        "PTO5070",
        f"`@{name}` {text}; wrap the ambiguous region in pto.section.cube or pto.section.vector",
        op.span(resolved.module.source),
        notes=("each core executes what is of its kind, and a segment is of one kind",),
        help="put each part into its section, or name the kernel kind of the function",
    )


def _escaping(
    function: Function, parts: list[Segment], rules: dict[str, str], resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    source = resolved.module.source
    for value, user, side in escaping(function, parts, resolved.target):
        text = rules["section_value"].replace("{section}", f"pto.section.{side}")
        yield finding(
            "PTO5071",
            f"'{user.name}' op uses `%{value.name}`: {text}",
            user.span(source),
            more=(Label(value.span(source), f"defined in an inferred pto.section.{side}"),),
            notes=("another core makes it",),
            help="hand it on through memory, a pipe between the cores, or compute it before",
        )


# -- what rules ask --------------------------------------------------------------------------------


def _is_f8(type_: Type) -> bool:
    """True for 8-bit floats, and vectors and tiles of them."""
    elem = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return elem is not None and elem.is_float and elem.bits == 8


def _is_mixed(function: Function) -> bool:
    """True for a function without sections and kernel kind that computes on both kinds of core."""
    ops = function.ops
    if function.kernel_kind is not None or any("section" in op.traits for op in ops):
        return False
    return any(_runs_on(op, "M") for op in ops) and any(map(_is_vector, ops))


def _runs_on(op: Operation, pipe: str) -> bool:
    return op.definition is not None and any(p.pipe == pipe for p in op.definition.pipes)


def _is_vector(op: Operation) -> bool:
    out = op.bound.get("dst") if _runs_on(op, "V") else None
    return isinstance(out, Operand) and isinstance(out.type, TileType) and out.type.loc == "vec"


VERBS = {"is_f8": _is_f8, "is_mixed": _is_mixed}
