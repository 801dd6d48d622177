"""The table-driven verifier: every constraint of an op's row, for one target.

As in the assembler the rules look at tile types: an op with a memref where the row has a tile is
accepted as it is. Dimensions known only at run time agree with everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.core import Node, Operand, Operation, Tok, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import (
    AbstractTileType,
    ErrorType,
    MemRefType,
    TileType,
    Type,
    VectorType,
)
from ptosim.ground.isa.schema import ConstraintDef, OpDef, Status, Variant, compile_expr
from ptosim.ground.isa.targets import architecture, unit_rules
from ptosim.ground.source import Source, Span
from ptosim.language.bind.clauses import is_complete
from ptosim.language.verify.attributes import (
    MICRO_CODE,
    VIRTUAL_CODE,
    absent,
    legacy_spelling,
    notes_on_attributes,
    only_executed_there,
    operand_labels,
    rule_source,
    wrong_attributes,
    wrong_elements,
)
from ptosim.language.verify.operands import (
    check_commas,
    check_form,
    check_lists,
    check_results,
    check_type_lists,
    check_words,
    operand_span,
)
from ptosim.language.verify.rule_views import Asked, environment, evaluate, holds
from ptosim.language.verify.rules import PREDICATES, Fault, low_precision_of

# Checks of what is written around the operands: regions and dictionaries where they belong.

_WITH_REGIONS = frozenset(
    ("vector_region", "simt_region", "section", "fusion", "branch", "once", "loop", "counted")
)
"""Traits of operations that execute what is in a region of theirs."""
_BRACKETS = frozenset(("list", "paren", "clause", "keyword", "indexed"))
_MAYBE = frozenset(("function", "unit"))
"""Traits of operations that may have a body: a function that is only declared has none."""


def check_regions(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report an operation without the region that it executes, and a region of one that has
    none (MLIR's verifier holds every operation to the number of its regions)."""
    has = not _WITH_REGIONS.isdisjoint(definition.traits)
    if has and not op.regions:
        yield finding(
            "PTO1100",
            f"'{op.name}' op requires one region",
            op.span(source),
            help="write what it executes in braces after it",
        )
    if op.regions and not has and _MAYBE.isdisjoint(definition.traits):
        yield finding(
            "PTO1101",
            f"'{op.name}' op requires zero regions",
            op.span(source),
            help="the operations in its braces belong in front of it or after it",
        )


def check_named(op: Operation, definition: OpDef, source: Source) -> Iterator[Diagnostic]:
    """Report a tile operation whose result has a type and no name: nothing could hold it."""
    if definition.form == "dps" and op.form == "items" and op.arrow and not op.result_tokens:
        yield finding(
            "PTO1004",
            f"'{op.name}' op gives the type of a result and names none",
            op.span(source),
            help=f"name it: `%d = {op.name} …`",
        )


def check_dictionaries(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Report attributes inside of brackets, where no operation reads them."""
    if any(_has_dictionary(part) for part in (*op.items, *op.ins, *op.outs, *op.clauses)):
        yield finding(
            "PTO1102",
            f"'{op.name}' op: attributes between operands in brackets",
            op.span(source),
            help="write the dictionary `{…}` after the operands",
        )


def _has_dictionary(item: Any) -> bool:
    """True for brackets with a dictionary in them, at any depth."""
    if not isinstance(item, Node) or item.kind not in _BRACKETS:
        return False
    return any(isinstance(part, dict) or _has_dictionary(part) for part in item.parts)


_ALL_STAND_INS = {"memref": ("tile", "view")}  # bare operations are read alike at every date


def verify(resolved: ResolvedModule, sink: Sink) -> None:
    """Check every operation of a module against its row; findings go to `sink`."""
    checker = _Verifier(resolved)
    known = _known(resolved)
    clean: set[Operation] = set()
    fine: set[tuple[object, ...]] = set()
    for op in resolved.ops:
        if op in known:
            clean.add(op)
        elif op.definition is not None:
            said = _said(op)
            if said in fine:
                clean.add(op)
                continue
            found, begin = checker.found, len(checker.found)
            checker.check(op, op.definition)
            if checker.found is found and len(found) == begin:
                clean.add(op)
                if said is not None:
                    fine.add(said)
            else:
                _silence_kept(checker.found, begin, op, sink)
    if resolved.module.kept is not None:
        resolved.module.kept.clean = clean
    # What cannot be read stops the assembler's parser, before any operation is verified.
    sink.extend(sorted(checker.found, key=lambda found: found.code not in _UNREADABLE))


def _known(resolved: ResolvedModule) -> set[Operation]:
    """The operations that are as they were when the rules were asked before, and broke none."""
    kept, facts = resolved.module.kept, resolved.settings.facts
    if kept is None:
        return set()
    is_known, kept.facts = kept.facts == facts, facts
    return kept.clean & kept.same if is_known else set()


def _said(op: Operation) -> tuple[object, ...] | None:
    """All that the rules look at in an operation that names operands and nothing else, so that one
    that breaks none stands for those that say the same of the same values; None for others."""
    if op.attrs or op.clauses or op.regions or op.result_tokens or op.types or op.arrow is not None:
        return None
    if op.props or op.is_listed or op.form not in ("dps", "items"):
        return None
    words = (*op.ins, *op.ins_types, *op.outs, *op.outs_types, *op.items)
    said: list[tuple[str, str]] = []
    word: Any
    for word in words:
        if word.__class__ is Tok:
            if op.form == "items" and word.type == "SSA":
                return None  # of which the commas count
            said.append((word.type, word.value))
        elif word.__class__ is Node and _is_of_words(word):
            said += (
                (word.kind, str(len(word.parts))),
                *((part.type, part.value) for part in word.parts),
            )
        else:
            return None
    values = map(id, op.operand_values())
    return (
        op.name, op.form, id(op.variant), id(op.function), id(op.parent), len(op.ins), len(op.outs),
        *said, *values,
    )  # fmt: skip


def _is_of_words(node: Node) -> bool:
    """True for brackets with words and numbers in them and no value, as flags have."""
    parts = node.parts
    return all(part.__class__ is Tok and part.type != "SSA" for part in parts)


_UNREADABLE = ("PTO1028", "PTO2004")
_KEPT = "PTO2003"


def _silence_kept(found: list[Diagnostic], begin: int, op: Operation, sink: Sink) -> None:
    """Drop that an attribute is kept without effect where an error of the operation names it."""
    kept = [d for d in found[begin:] if d.code == _KEPT]
    if not kept:
        return
    before = [d for d in sink if d.span is not None and op.start <= d.span.start < op.end]
    errors = [d.message for d in (*before, *found[begin:]) if d.is_error]
    quiet = [d for d in kept if _is_named(d, errors)]
    found[begin:] = [d for d in found[begin:] if d not in quiet]


def _is_named(kept: Diagnostic, errors: list[str]) -> bool:
    key = kept.message.split("`")[1]
    return any(f"{mark}{key}{mark}" in message for mark in "`'" for message in errors)


class _Verifier:
    def __init__(self, resolved: ResolvedModule) -> None:
        self.target = resolved.target
        self.date = resolved.date
        self.ops = resolved.ops
        snippet = resolved.module.kind == "snippet"
        self.word_date = None if snippet else resolved.date  # a snippet reads words of any date
        self.source: Source = resolved.module.source
        self.facts = resolved.settings.facts
        self.units = {f.op: f.unit for f in resolved.functions.values()}
        is_module = self.is_program = resolved.module.kind == "module"
        rules = unit_rules(resolved.date)
        self.takes_micro = is_module and "micro_on_every_target" in rules.rules
        self.stand_ins = rules.stand_ins if is_module else _ALL_STAND_INS
        self.low_text = rules.rules.get("low_precision", "")
        self.in_full = rules.families.get("types_in_full", frozenset()) if is_module else ()
        self.low_families = rules.families.get("low_precision", frozenset())
        self._facts: dict[Operation | None, dict[str, Any]] = {}
        self.found: list[Diagnostic] = []
        self.has_virtual = False  # vectors of any length, on a target that does not have them

    def check(self, op: Operation, definition: OpDef) -> None:
        if definition.status[self.target] is Status.ABSENT:
            if not self._is_micro(definition):
                self.found.append(absent(op, definition, self.target, self.source))
                return
            instead = definition.elsewhere if self._is_only_renamed else None
            found = only_executed_there(op, definition, self.target, self.source, instead)
            self._executed_elsewhere(found)
        self._spelling(op, definition)
        wrong = [*wrong_attributes(op, definition, self.source, self.word_date)]
        self.found += [*notes_on_attributes(op, definition, self.source, self.date), *wrong]
        self._tile_types(op)
        if definition.legacy is not None:
            self.found.append(legacy_spelling(op, definition.legacy, self.source, self.date))
        if op.variant is None:
            return
        faults = [
            *self._unlisted(op),
            *check_words(op, self.source, self.word_date),
            *check_lists(op, self.source),
            *check_results(op, definition, self.source),
        ]
        self.found.extend(faults)
        only_types = not self._has_only_tiles(op)
        if faults or wrong or not is_complete(op):
            return
        if only_types and "memref_elements" not in op.traits:
            return
        if not (op.variant.elements or op.variant.rules):
            return
        if _has_unknown_type(op, op.variant):
            return
        names = environment(op, self.target, Asked.by(definition, op.variant))
        names |= self._facts_of(op.function)
        if not self._low_precision(op, definition):
            self._rules(op, definition, op.variant, names, only_types=only_types)

    def _spelling(self, op: Operation, definition: OpDef) -> None:
        """Ask how an operation is written, which is no question in C++: the reader built it."""
        if self.source.is_cpp:
            return
        self.found.extend(check_form(op, definition, self.source))
        self.found.extend(check_commas(op, self.source))
        self.found.extend(check_regions(op, definition, self.source))
        self.found.extend(check_dictionaries(op, self.source))
        self.found.extend(check_named(op, definition, self.source))
        in_full = definition.family in self.in_full and op.variant is not None  # else reported
        self.found.extend(
            check_type_lists(op, self.source, needs_types=self.is_program, in_full=in_full)
        )

    def _rules(
        self,
        op: Operation,
        definition: OpDef,
        variant: Variant,
        names: dict[str, Any],
        *,
        only_types: bool,
    ) -> None:
        target = self._judged_on(definition)
        for element in variant.elements:
            found = wrong_elements(op, definition, element, names, target, self.source)
            self.found += [found] if found is not None else []
        if only_types:
            return
        skipped = _skipped(definition, names)
        stops = "first_rule" in op.traits
        for rule in variant.rules:
            if skipped and _code(rule) in skipped:
                continue
            if not self._constraint(op, definition, rule, names) and stops:
                return

    def _judged_on(self, definition: OpDef) -> str:
        """The target whose types an operation takes: that of another one which alone executes it,
        as the assembler's verifiers of registers and micro operations ask for no target."""
        status = definition.status
        if status[self.target] is not Status.ABSENT:
            return self.target
        return next((t for t, s in status.items() if s is not Status.ABSENT), self.target)

    def _low_precision(self, op: Operation, definition: OpDef) -> bool:
        """Report a tile of low precision that the operation does not take; True if there is one,
        and nothing else is asked. Of the headers of C++ the rules of the row are asked, too."""
        if self.target in definition.low_precision or definition.family not in self.low_families:
            return False
        types = [o.type for _, o in op.operands()] + [v.type for v in op.result_values.values()]
        found = (low_precision_of(t) for t in types if isinstance(t, TileType))
        dtype = next((d for d in found if d is not None), None)
        if dtype is not None:
            text = self.low_text.format(dtype=dtype)
            self._report("PTO2013", f"'{op.name}' op {text}", op.span(self.source))
        return dtype is not None and not self.source.is_cpp

    def _facts_of(self, function: Operation | None) -> dict[str, Any]:
        """What is known of a module, and of the unit of a function: the back end that it names, and
        whether it is that of the micro level: a module of one kind of core is for that one where it
        names none."""
        known = self._facts.get(function)
        if known is not None:
            return known
        unit = self.units.get(function) if function is not None else None
        backend = unit.backend if unit is not None else None
        kind = unit.kernel_kind if unit is not None else None
        is_micro = backend == "vpto" or (backend is None and kind is not None)
        known = {**self.facts, "backend": backend, "micro_backend": is_micro}
        self._facts[function] = known
        return known

    def _report(self, code: str, message: str, span: Span, **details: Any) -> None:
        self.found.append(finding(code, message, span, **details))

    def _is_micro(self, definition: OpDef) -> bool:
        """True for an operation that no verifier of the date ties to a target."""
        is_virtual = definition.family.startswith("vmi")
        return is_virtual or (self.takes_micro and definition.family.startswith("micro"))

    @cached_property
    def _is_only_renamed(self) -> bool:
        """True if each operation that the target does not execute has another name there: threads
        and register code stay as they are."""
        rows = (op.definition for op in self.ops if op.definition is not None)
        return all(d.elsewhere for d in rows if d.status[self.target] is Status.ABSENT)

    def _executed_elsewhere(self, found: Diagnostic) -> None:
        """Of vectors of any length that is said once for the module, and of nothing else there."""
        if found.code == VIRTUAL_CODE and not self.has_virtual:
            self.has_virtual = True
            self.found = [d for d in self.found if d.code != MICRO_CODE]
            self.found.append(found)
        elif not self.has_virtual:
            self.found.append(found)

    # -- types ----------------------------------------------------------------------------------

    def _tile_types(self, op: Operation) -> None:
        for value in op.results:
            type_ = value.type
            if isinstance(type_, TileType):
                self._valid_within_shape(op, value, type_)

    def _valid_within_shape(self, op: Operation, value: Value, type_: TileType) -> None:
        for axis, valid, size in ((0, type_.v_row, type_.rows), (1, type_.v_col, type_.cols)):
            if valid is not None and not 0 <= valid <= size:
                self._report(
                    "PTO2017",
                    f"'{op.name}' op expects result to satisfy valid_shape[{axis}] <= "
                    f"shape[{axis}]: tile_buf valid_{('row', 'col')[axis]} ({valid}) exceeds "
                    f"{('rows', 'cols')[axis]} ({size})",
                    value.span(self.source),
                    label=f"valid {valid} of {size}",
                    notes=("the valid region is inside the static shape of the tile",),
                )

    def _unlisted(self, op: Operation) -> Iterator[Diagnostic]:
        """Report memrefs in the place of operands that the row does not have as such."""
        accepted = self.stand_ins.get("memref", ())
        for number, definition in enumerate(op.variant.operands if op.variant is not None else ()):
            operand = op.bound.get(definition.name)
            if not isinstance(operand, Operand) or not isinstance(operand.type, MemRefType):
                continue
            refused = {"tile", "view"}.difference(accepted)
            if refused.issuperset(definition.kinds):
                yield finding(
                    "PTO2047",
                    f"'{op.name}' op operand #{number} must be a {' or '.join(definition.kinds)}",
                    operand_span(operand, op, self.source),
                    label=f"it has type {operand.type}",
                )

    def _has_only_tiles(self, op: Operation) -> bool:
        """False where an operand of kind tile or view has a type that the rules do not look
        into."""
        results = op.result_values
        for definition in op.variant.operands if op.variant is not None else ():
            operand = op.bound.get(definition.name)
            type_ = operand.type if isinstance(operand, Operand) else None
            if definition.name in results:
                type_ = results[definition.name].type
            elif not isinstance(operand, Operand):
                continue
            if not _looked_into(type_, definition.kinds):
                return False
        return not any(isinstance(v.type, AbstractTileType) for v in op.results)

    # -- rules ----------------------------------------------------------------------------------

    def _constraint(
        self, op: Operation, definition: OpDef, rule: ConstraintDef, names: dict[str, Any]
    ) -> bool:
        """Report a condition that does not hold, and return False."""
        if rule.targets and self.target not in rule.targets:
            return True
        if rule.when is not None and not holds(rule.when, names, absent=False):
            return True
        if holds(rule.expr, names, absent=True):
            return True
        said = environment(op, self.target) | self._facts_of(op.function)
        self.found.append(self._violation(op, definition, rule, said))
        return False

    def _violation(
        self, op: Operation, definition: OpDef, rule: ConstraintDef, names: dict[str, Any]
    ) -> Diagnostic:
        _, used = compile_expr(rule.expr)
        operands = [n for n in op.bound if n in used and _is_operand(names.get(n))]
        predicate = next((PREDICATES[n] for n in PREDICATES if n in used), None)
        fault = evaluate(rule.expr, names)
        said = str(fault) if isinstance(fault, Fault) else None
        text = rule.text or said or (predicate.text if predicate else f"must satisfy {rule.expr}")
        code = rule.code or (predicate.code if predicate else "PTO2022")
        last = rule.expr.rsplit("'", 2)
        message = (
            text.replace("{names}", " and ".join(_listed(operands, op)))
            .replace("{arch}", architecture(self.target).title)
            .replace("{op}", definition.mnemonic)
            .replace("{0}", last[1] if len(last) == 3 else "")
        )
        message = _FIELD.sub(lambda found: _field(names, found), message)
        message = _COMPUTED.sub(lambda found: str(evaluate(found[1], names)), message)
        return finding(
            code,
            f"'{op.name}' op {message}",
            op.span(self.source),
            more=operand_labels(op, operands, self.source),
            rule=rule_source(definition),
            help=rule.help,
        )


def _skipped(definition: OpDef, names: dict[str, Any]) -> frozenset[str]:
    """The codes whose rules do not hold here."""
    return frozenset(
        code
        for when, codes in definition.skips
        if holds(when, names, absent=False)
        for code in codes
    )


def _code(rule: ConstraintDef) -> str | None:
    if rule.code is not None:
        return rule.code
    _, used = compile_expr(rule.expr)
    return next((PREDICATES[n].code for n in PREDICATES if n in used), None)


def _is_operand(view: Any) -> bool:
    """True for an operand and for a list of them."""
    return isinstance(view, tuple) or getattr(view, "kind", None) is not None


def _has_unknown_type(op: Operation, variant: Variant) -> bool:
    """True for an operand or result whose type is not known: that is reported where it is from."""
    is_list = bool(variant.outs) and variant.outs[-1].variadic
    results = op.results if is_list else op.result_values.values()
    types = (*(o.type for _, o in op.operands()), *(value.type for value in results))
    return any(isinstance(type_, ErrorType) for type_ in types)


def _looked_into(type_: Type | None, kinds: tuple[str, ...]) -> bool:
    """False for a memref or tensor in the place of a tile, and for types that are not known; a
    memref in the place of a pointer is one."""
    if isinstance(type_, MemRefType):
        return not {"memref", "ptr"}.isdisjoint(kinds)
    if isinstance(type_, VectorType):
        return "vector" in kinds
    if kinds == ("tile",):
        return isinstance(type_, TileType)
    return not isinstance(type_, (ErrorType, AbstractTileType))


_FIELD = re.compile(r"\{(\w+)\.(\w+)\}")
_COMPUTED = re.compile(r"\{=([^{}]+)\}")
"""`{=expression}` in a message: its value."""


def _field(names: dict[str, Any], found: re.Match[str]) -> str:
    """`{dst.count}` in a message: a field of an operand, the length of a list."""
    operand, field = found.groups()
    value = names.get(operand)
    if field == "len":
        return str(len(value or ()))
    return str(getattr(value, field, "?"))


def _listed(operands: list[str], op: Operation) -> list[str]:
    names = operands or [o.name for o in (op.variant.outs if op.variant is not None else ())]
    return names if len(names) <= 2 else [", ".join(names[:-1]), names[-1]]
