"""What modules and functions say of themselves: attributes of a few words (`isa/units.toml`), and
references between units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import Enum, attribute_of
from ptosim.ground.ir.core import Attr, Operand, Operation
from ptosim.ground.ir.program import LOGICAL_NAME, Function, ResolvedModule, Unit
from ptosim.ground.ir.types import TileType, Type
from ptosim.ground.isa.schema import ScratchDef, ScratchUse
from ptosim.ground.isa.targets import WordRule, unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.place.scopes import Segment, covered, escaping, infers, segments
from ptosim.language.place.sides import CUBE, OPEN, VECTOR, votes
from ptosim.language.verify.operands import memref_for_tile
from ptosim.language.verify.rule_views import OperandView, environment, holds
from ptosim.machine.effects.storage import access_entry


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


# Scratch of operations: which entry of `isa/scratch.toml` holds for each, and what the assembler
# says where a program leaves it out; and sources that operations overwrite.
#
# Levels 1 and 2 place it after the tiles, for which its extents must be known. Level 3 places
# nothing: the program has to give it. Where nobody asked for that level a run takes bytes of its
# own.

_NONE: Mapping[str, ScratchUse] = MappingProxyType({})


def decide(resolved: ResolvedModule) -> None:
    """Keep with each operation what its scratch means on the target of the program."""
    for op in resolved.ops:
        if op.definition is not None and op.definition.scratch:
            op.scratch = _uses(op, op.definition.scratch, resolved.target)


def _uses(op: Operation, entries: tuple[ScratchDef, ...], target: str) -> Mapping[str, ScratchUse]:
    if op.variant is None or memref_for_tile(op) is not None:
        return _NONE
    names = environment(op, target)
    if any(isinstance(v, OperandView) and v.kind == "error" for v in names.values()):
        return _NONE
    found: dict[str, ScratchUse] = {}
    for entry in entries:
        if entry.name in found or entry.target not in (None, target):
            continue
        if entry.variant is not None and op.variant.name not in entry.variant.split():
            continue
        if entry.when is None or holds(entry.when, names, absent=False):
            found[entry.name] = ScratchUse(entry, _is_lacking(entry, names))
    return found


def _is_lacking(entry: ScratchDef, names: Mapping[str, Any]) -> bool:
    if names.get(entry.name) is not None or not (entry.bytes or entry.hidden):
        return False
    return entry.needed is None or holds(entry.needed, names, absent=False)


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report scratch that is left out where it must not be."""
    is_inferred = "level" not in resolved.settings.given
    for op in resolved.ops:
        for use in (op.scratch or {}).values():
            if use.is_lacking and op.form in ("dps", "generic"):
                text = _complaint(op, use.definition, level, resolved.target)
                if text is not None:
                    is_note = level == 3 and is_inferred and not use.definition.strict
                    yield _finding(op, text, resolved, is_note=is_note)


def _complaint(op: Operation, entry: ScratchDef, level: int, target: str) -> str | None:
    if level == 3:
        return entry.missing
    names = environment(op, target)
    views = [names[name] for name in entry.static]
    if not any(view.dyn_row or view.dyn_col for view in views):
        return None
    mnemonic = op.name.removeprefix("pto.")
    return f"requires static tile_buf {entry.shapes} to materialize implicit {mnemonic} tmp"


def _finding(op: Operation, text: str, resolved: ResolvedModule, *, is_note: bool) -> Diagnostic:
    source = resolved.module.source
    if is_note:
        return finding(
            "PTO2080",
            f"'{op.name}' has no scratch tile and gets bytes of the simulator's own",
            op.span(source),
            notes=(f"at an explicit level 3 the assembler says: {text}",),
            help="give it one, or leave the addresses to the planner",
        )
    return finding(
        "PTO2081",
        f"'{op.name}' op {text}",
        op.span(source),
        help="write the scratch tile as an operand",
    )


# -- sources that operations overwrite -----------------------------------------------------------


def reused(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report sources that are read again after an operation that overwrites them on this target,
    where the row has a note on it. A run says whether what is read was lost (PTO7103)."""
    if not any(_spoils(op, resolved.target) for op in resolved.ops):
        return
    for op in (op for function in resolved.functions.values() for op in function.ops):
        for region in op.regions:
            for block in region.blocks:
                yield from _reused(block.ops, resolved.target, resolved.module.source)


def _spoils(op: Operation, target: str) -> Mapping[str, str] | None:
    """The row's entry on sources that the library destroys, where it has a note on them."""
    row = op.definition
    if row is None or "clobbers" not in row.access:
        return None
    entry = access_entry(op, "clobbers", target)
    return entry if entry is not None and "note" in entry else None


def _reused(ops: Sequence[Operation], target: str, source: Source) -> Iterator[Diagnostic]:
    spoiled: dict[int, tuple[Operation, str]] = {}
    for op in ops:
        if op.variant is None or not op.bound or "places" in op.traits:
            continue
        for definition in op.variant.ins:
            found = spoiled.pop(_value(op.bound.get(definition.name)), None)
            if found is not None:
                writer, why = found
                yield finding(
                    "PTO7210",
                    f"'{op.name}' reads a tile that '{writer.name}' has overwritten",
                    op.span(source),
                    more=(Label(writer.span(source), "overwrites its source"),),
                    notes=(why,),
                    help="copy the tile before (`pto.tmov`), or load it again",
                )
        for definition in op.variant.outs:
            spoiled.pop(_value(op.bound.get(definition.name)), None)
        entry = _spoils(op, target)
        if entry is not None:
            for name in entry["of"].split():
                spoiled[_value(op.bound.get(name))] = op, entry["note"]


def _value(operand: Any) -> int:
    return id(getattr(operand, "value", None) or operand)
