"""The table-driven verifier: every constraint of an op's row, for one target.

As in the assembler the rules look at tile types: an op with a memref where the row has a tile is
accepted as it is. Dimensions known only at run time agree with everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Fix, Label, Sink, finding
from ptosim.ground.ir.attributes import Enum, TypeText, attr_value
from ptosim.ground.ir.core import Attr, Operand, Operation, Tok, Value
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.ir.types import (
    AbstractTileType,
    ErrorType,
    MemRefType,
    TileType,
    Type,
    VectorType,
)
from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.expr import compile_expr
from ptosim.ground.isa.schema import (
    AttrDef,
    ConstraintDef,
    ElementRule,
    OpDef,
    Status,
    Variant,
)
from ptosim.ground.isa.units import unit_rules
from ptosim.ground.nearest import nearest
from ptosim.ground.source import Source, Span
from ptosim.passes.bind.clauses import is_complete
from ptosim.passes.verify.operands import (
    check_commas,
    check_lists,
    check_results,
    check_type_lists,
    check_words,
    no_member,
    operand_span,
    other_date,
    other_enum,
)
from ptosim.passes.verify.rule_views import OperandView, environment, evaluate, holds
from ptosim.passes.verify.rules import PREDICATES, Fault, low_precision_of

MICRO_CODE = "PTO3006"
ARCH = {"a2a3": "A2/A3", "a5": "A5"}
_WITH_CLAUSES = frozenset(("micro_dma", "micro_cube"))
_ALL_STAND_INS = {"memref": ("tile", "view")}  # bare operations are read alike at every date
_QUIET_KEYS = frozenset(("operandSegmentSizes", "resultSegmentSizes", "operand_segment_sizes"))


def verify(resolved: ResolvedModule, sink: Sink) -> None:
    """Check every operation of a module against its row; findings go to `sink`."""
    checker = _Verifier(resolved)
    for op in resolved.ops:
        if op.definition is not None:
            checker.check(op, op.definition)
    sink.extend(checker.found)


class _Verifier:
    def __init__(self, resolved: ResolvedModule) -> None:
        self.target = resolved.target
        self.date = resolved.date
        snippet = resolved.module.kind == "snippet"
        self.word_date = None if snippet else resolved.date  # a snippet reads words of any date
        self.source: Source = resolved.module.source
        self.facts = resolved.facts
        self.units = {f.op: f.unit for f in resolved.functions.values()}
        is_module = resolved.module.kind == "module"
        rules = unit_rules(resolved.date)
        self.takes_micro = is_module and "micro_on_every_target" in rules.rules
        self.stand_ins = rules.stand_ins if is_module else _ALL_STAND_INS
        self.low_text = rules.rules.get("low_precision", "")
        self.low_families = rules.families.get("low_precision", frozenset())
        self.found: list[Diagnostic] = []

    def check(self, op: Operation, definition: OpDef) -> None:
        if definition.status[self.target] is Status.ABSENT:
            if not self._is_micro(definition):
                self._absent(op, definition)
                return
            self._only_there(op, definition)
        self.found.extend(check_commas(op, self.source))
        self.found.extend(check_type_lists(op, self.source, in_full=self._lists_all(definition)))
        attributes_fit = self._attributes(op, definition)
        self._tile_types(op)
        if definition.legacy is not None:
            self._legacy(op, definition.legacy)
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
        if faults or not attributes_fit or not is_complete(op):
            return
        if only_types and "memref_elements" not in op.traits:
            return
        if not (op.variant.elements or op.variant.rules):
            return
        names = environment(op, self.target) | self.facts | self._facts_of_unit(op)
        if any(isinstance(v, OperandView) and v.kind == "error" for v in names.values()):
            return
        if not self._low_precision(op, definition):
            self._rules(op, definition, op.variant, names, only_types=only_types)

    def _rules(
        self,
        op: Operation,
        definition: OpDef,
        variant: Variant,
        names: dict[str, Any],
        *,
        only_types: bool,
    ) -> None:
        for element in variant.elements:
            self._element_rule(op, definition, element, names)
        if only_types:
            return
        skipped = _skipped(definition, names)
        stops = "first_rule" in op.traits
        for rule in variant.rules:
            if skipped and _code(rule) in skipped:
                continue
            if not self._constraint(op, definition, rule, names) and stops:
                return

    def _low_precision(self, op: Operation, definition: OpDef) -> bool:
        """Report a tile of low precision that the operation does not take; True if there is one."""
        if self.target in definition.low_precision or definition.family not in self.low_families:
            return False
        types = [o.type for _, o in op.operands()] + [v.type for v in op.result_values.values()]
        found = (low_precision_of(t) for t in types if isinstance(t, TileType))
        dtype = next((d for d in found if d is not None), None)
        if dtype is not None:
            text = self.low_text.format(dtype=dtype)
            self._report("PTO2013", f"'{op.name}' op {text}", op.span(self.source))
        return dtype is not None

    def _facts_of_unit(self, op: Operation) -> dict[str, Any]:
        """The back end that a module names, and whether it is that of the micro level: a module of
        one kind of core is for that one where it names none."""
        unit = self.units.get(op.function) if op.function is not None else None
        backend = unit.backend if unit is not None else None
        kind = unit.kernel_kind if unit is not None else None
        is_micro = backend == "vpto" or (backend is None and kind is not None)
        return {"backend": backend, "micro_backend": is_micro}

    def _report(self, code: str, message: str, span: Span, **details: Any) -> None:
        self.found.append(finding(code, message, span, **details))

    def _is_micro(self, definition: OpDef) -> bool:
        """True for an operation that no verifier of the date ties to a target."""
        return self.takes_micro and definition.family.startswith("micro")

    def _lists_all(self, definition: OpDef) -> bool:
        """True for an operation of registers or threads: its list has the type of each operand."""
        return self._is_micro(definition) and definition.family not in _WITH_CLAUSES

    def _only_there(self, op: Operation, definition: OpDef) -> None:
        others = [ARCH[t] for t, s in definition.status.items() if s is not Status.ABSENT]
        self._report(
            MICRO_CODE,
            f"'{op.name}' is accepted on {ARCH[self.target]}, and only {_archs_with(definition)} "
            "executes it",
            op.span(self.source),
            help=f"run with `--target {_target_of(others)}`, or use tile operations",
        )

    def _absent(self, op: Operation, definition: OpDef) -> None:
        others = [ARCH[t] for t, s in definition.status.items() if s is not Status.ABSENT]
        where = _archs_with(definition)
        text = definition.absent or f"{definition.mnemonic} is only supported on {where}"
        self._report(
            "PTO3001",
            f"'{op.name}' op {text}",
            op.span(self.source),
            notes=(f"the target is {ARCH[self.target]}",),
            help=f"use another operation, or run with `--target {_target_of(others)}`",
        )

    def _legacy(self, op: Operation, what: str) -> None:
        old, _, modern = what.partition("; ")
        name = op.variant.modern if op.variant is not None else None
        span = Span(self.source, op.name_end - len(op.name), op.name_end)
        self._report(
            "PTO0010",
            f"legacy spelling: {old}",
            op.span(self.source),
            notes=(f"PTOAS {self.date} does not read this spelling",),
            help=modern or None,
            fixes=(Fix(span, name),) if name is not None and op.form != "generic" else (),
        )

    def _kept(self, op: Operation, key: str, attr: Attr) -> None:
        self._report(
            "PTO0012",
            f"'{op.name}' op: attribute '{key}' is an older form that is still read",
            self._attr_span(op, attr),
        )

    # -- attributes -----------------------------------------------------------------------------

    def _attributes(self, op: Operation, definition: OpDef) -> bool:
        """Report wrong attributes; False if there are any, so that no rule reads them."""
        fit = True
        for key, attr in op.attrs.items():
            known = definition.attrs.get(key)
            if known is not None and key in definition.kept:
                self._kept(op, key, attr)
            if known is not None:
                fit = self._attribute(op, known, attr) and fit
            elif "." not in key and key not in _QUIET_KEYS and not _has_operand(op, key):
                self._unknown_attribute(op, definition, key, attr)
        for known in definition.attrs.values():
            if known.required and known.name not in op.attrs:
                fit = False
                self._report(
                    "PTO2005",
                    f"'{op.name}' op requires attribute '{known.name}'",
                    op.span(self.source),
                    help=f"add `{{{known.name} = {_example(known)}}}`",
                )
        return fit

    def _unknown_attribute(self, op: Operation, definition: OpDef, key: str, attr: Any) -> None:
        tok = attr.key
        self._report(
            "PTO2003",
            f"unknown attribute `{key}` of {op.name} is kept and has no effect",
            tok.span(self.source) if tok is not None else op.span(self.source),
            help=nearest(key, definition.attrs),
        )

    def _attribute(self, op: Operation, known: AttrDef, attr: Any) -> bool:
        value = attr_value(attr)
        enum = enums().get(known.type)
        span = self._attr_span(op, attr)
        if enum is not None:
            if isinstance(value, Enum) and value.kind not in (None, "enum", enum.name):
                what, cure = f"attribute '{known.name}'", f"#pto<{known.type} {value.member}>"
                self.found.append(other_enum(op, what, (known.type,), value, span, cure))
                return False
            if op.attributes[known.name] is None:
                self.found.append(no_member(op, (known.type,), value, span))
                return False
            other = other_date(
                op, (known.type,), str(op.attributes[known.name]), span, self.word_date
            )
            if other is not None:
                self.found.append(other)
                return False
        elif not _has_type(value, known.type):
            self._report(
                "PTO2006",
                f"'{op.name}' op expects attribute '{known.name}' to be {_article(known.type)}",
                span,
            )
            return False
        return True

    def _attr_span(self, op: Operation, attr: Any) -> Span:
        tok = attr.atom if isinstance(attr.atom, Tok) else attr.key
        return tok.span(self.source) if tok is not None else op.span(self.source)

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

    def _element_rule(
        self, op: Operation, definition: OpDef, rule: ElementRule, names: dict[str, Any]
    ) -> None:
        if rule.when is not None and not holds(rule.when, names, absent=False):
            return
        views = [names.get(name) for name in rule.operands]
        if any(v is None or v.dtype is None for v in views) or self.target not in rule.allowed:
            return
        allowed = rule.allowed[self.target]
        if len(views) > 1 and all(len(entry) == 1 for entry in allowed):
            fits = all(_has_dtype(v, [e[0] for e in allowed]) for v in views)
        else:
            fits = any(
                all(_is_dtype(v, name) for v, name in zip(views, entry, strict=True))
                for entry in allowed
            )
        if not fits:
            self._report_elements(op, definition, rule, views)

    def _report_elements(
        self, op: Operation, definition: OpDef, rule: ElementRule, views: list[Any]
    ) -> None:
        allowed = rule.allowed[self.target]
        arch = ARCH[self.target]
        if all(len(entry) == 1 for entry in allowed):
            text = rule.text or "expects {arch} {op} element type to be {list}"
            listed = "/".join(_shown_dtype(entry[0]) for entry in allowed)
        else:
            text = rule.text or "expects ({names}) element types to match one of {list}"
            listed = " ".join(f"({', '.join(map(_shown_dtype, entry))})" for entry in allowed)
        message = text.format(
            arch=arch, op=definition.mnemonic, list=listed, names=", ".join(rule.operands)
        )
        found = ", ".join(f"{n} is {v.dtype}" for n, v in zip(rule.operands, views, strict=True))
        code = "PTO2013" if len(rule.operands) == 1 else "PTO2014"
        low = [n for n, v in zip(rule.operands, views, strict=True) if _is_low_precision(v)]
        if low:
            code = "PTO2131"
            message = f"{low[0]} type must not use low-precision vector element type; {message}"
        self._report(
            code,
            f"'{op.name}' op {message}",
            op.span(self.source),
            label=found,
            more=self._operand_labels(op, rule.operands),
            rule=rule_source(definition),
        )

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
        self.found.append(self._violation(op, definition, rule, names))
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
            .replace("{arch}", ARCH[self.target])
            .replace("{op}", definition.mnemonic)
            .replace("{0}", last[1] if len(last) == 3 else "")
        )
        message = _FIELD.sub(lambda found: _field(names, found), message)
        message = _COMPUTED.sub(lambda found: str(evaluate(found[1], names)), message)
        return finding(
            code,
            f"'{op.name}' op {message}",
            op.span(self.source),
            more=self._operand_labels(op, operands),
            rule=rule_source(definition),
            help=rule.help,
        )

    def _operand_labels(self, op: Operation, names: Any) -> tuple[Label, ...]:
        labels = []
        results = op.result_values
        for name in names:
            operand, result = op.bound.get(name), results.get(name)
            if isinstance(operand, Operand) and isinstance(operand.tok, Tok):
                span = operand.tok.span(self.source)
                labels.append(Label(span, f"{name}: {_brief(operand.type)}"))
            elif result is not None:
                span = result.span(self.source)
                labels.append(Label(span, f"{name}: {_brief(result.type)}"))
        return tuple(labels)


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


def _looked_into(type_: Type | None, kinds: tuple[str, ...]) -> bool:
    """False for a memref or tensor in the place of a tile, and for types that are not known."""
    if isinstance(type_, MemRefType):
        return "memref" in kinds
    if isinstance(type_, VectorType):
        return "vector" in kinds
    if kinds == ("tile",):
        return isinstance(type_, TileType)
    return not isinstance(type_, (ErrorType, AbstractTileType))


def _has_operand(op: Operation, key: str) -> bool:
    """True for an operand written as an attribute, and for ops that take any attribute."""
    return op.bound.get(key) is not None or (
        op.definition is not None and op.definition.form == "core"
    )


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


def rule_source(definition: OpDef) -> str:
    """Return the note that says where a rule comes from."""
    return f"rule of {definition.mnemonic}: {definition.source}"


def _listed(operands: list[str], op: Operation) -> list[str]:
    names = operands or [o.name for o in (op.variant.outs if op.variant is not None else ())]
    return names if len(names) <= 2 else [", ".join(names[:-1]), names[-1]]


def _is_low_precision(view: Any) -> bool:
    """True for a register of floats of 8 or 4 bits."""
    return view.kind == "vreg" and view.bits == 8 and not view.type.elem.is_integer


def _has_dtype(view: Any, allowed: list[str]) -> bool:
    return any(_is_dtype(view, name) for name in allowed)


def _is_dtype(view: Any, name: str) -> bool:
    """`ui8!` means exactly that spelling, `si8` also the signless one, `i8` any 8-bit integer."""
    if name.endswith("!"):
        return view.dtype == name[:-1]
    if name.startswith("si") and view.dtype == name[1:]:
        return True
    return view.family == name or view.dtype == name


def _shown_dtype(name: str) -> str:
    return name.rstrip("!")


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


def _archs_with(definition: OpDef) -> str:
    has = [ARCH[t] for t, s in definition.status.items() if s is not Status.ABSENT]
    return " and ".join(has) or "no target"


def _target_of(archs: list[str]) -> str:
    return next((t for t, name in ARCH.items() if name in archs), "a5")


def _example(known: AttrDef) -> str:
    enum = enums().get(known.type)
    if enum is not None:
        return f"#pto<{enum.name} {next(iter(enum.members))}>"
    return {"int": "1 : i32", "bool": "true", "str": '"text"'}.get(known.type, "…")


_TYPE_WORDS = {"int": "an integer", "bool": "true or false", "str": "a string", "float": "a number"}


def _article(word: str) -> str:
    return _TYPE_WORDS.get(word, f"a {word}")


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
