"""Operands to the names of the op's row: which variant is meant, which operand is which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ptosim.diagnostics.model import Sink, error
from ptosim.ir.attributes import attr_value, token_value
from ptosim.ir.core import Node, Operand, Operation
from ptosim.ir.types import (
    AbstractTileType,
    ErrorType,
    HandleType,
    MaskType,
    MemRefType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    VectorType,
    ViewType,
    VRegType,
)
from ptosim.isa.schema import OpDef, OperandDef, Variant
from ptosim.passes.clauses import NamedBinder, WrittenClause, shown, without_flags
from ptosim.source import Source, Span
from ptosim.syntax.token import Tok

Use = Callable[[Any, Type | None], Operand]


class Written:
    """The operands of an operation as written: inputs, outputs (DPS only), and named ones."""

    __slots__ = ("ins", "named", "outs", "types")

    def __init__(self) -> None:
        self.ins: list[Operand] = []
        self.outs: list[Operand] | None = None
        self.named: dict[str, Any] = {}
        self.types: list[Type] = []


def collect(op: Operation, use: Use, type_of: Callable[[Tok], Type]) -> Written:
    """Return the operands of an op in the order of the text, each with its declared type."""
    written = Written()
    if op.form == "dps":
        written.ins = _typed(op.ins, op.ins_types, use, type_of)
        written.outs = _typed(op.outs, op.outs_types, use, type_of)
        for clause in op.clauses:
            _dps_clause(clause, written, use, type_of)
        return written
    if op.form == "generic":
        written.ins = _typed(op.ins, op.ins_types, use, type_of)
        return written
    if op.form == "line":
        written.ins = _typed(op.ins, op.types, use, type_of)
        return written
    types = [type_of(t) for t in _type_tokens(op)]
    written.types = types
    _Items(written, use, types, types_end_here=not op.arrow).add_all(op.items)
    return written


def _type_tokens(op: Operation) -> list[Tok]:
    tokens = [t for t in op.types if t.__class__ is Tok and t.type == "TYPE"]
    for item in op.items:
        if item.__class__ is Node and item.kind == "paren":
            tokens.extend(t for t in item.parts if t.__class__ is Tok and t.type == "TYPE")
    return tokens


def _typed(
    entries: Any, types: Any, use: Use, type_of: Callable[[Tok], Type]
) -> list[Operand]:
    declared = [type_of(t) for t in types]
    operands: list[Operand] = []
    position = 0
    for entry in entries:
        if entry.__class__ is dict:
            continue
        takes_type = entry.__class__ is Node or entry.type == "SSA"
        type_ = declared[position] if position < len(declared) else None
        if takes_type or len(declared) == len(entries):
            position += 1
        operands.append(use(entry, type_))
    return operands


def _dps_clause(
    clause: Node, written: Written, use: Use, type_of: Callable[[Tok], Type]
) -> None:
    key, value = clause.parts[0].value, clause.parts[1]
    type_ = type_of(clause.parts[2]) if len(clause.parts) > 2 else None
    if value.__class__ is Tok and value.type != "SSA":
        written.named[key] = Operand(value, None, type_, token_value(value))
    elif value.__class__ is Tok:
        written.named[key] = use(value, type_)
    else:
        written.named[key] = Operand(clause.parts[0], None, type_, attr_value(value))


class _Items:
    """Flattens the items of an op; the types of the type list go to its values in order where there is
    one for each, or one for each that is not an index (`%p[%i], %v : P, V`)."""

    def __init__(
        self, written: Written, use: Use, types: list[Type], *, types_end_here: bool
    ) -> None:
        self._types_end_here = types_end_here
        self._written = written
        self._use = use
        self._types = types
        self._next = 0
        self._one_each = False
        self._with_indices = True

    def add_all(self, given: Any) -> None:
        items = [i for i in given if not _is_keyword(i)]
        count = sum(map(_count_values, items))
        indices = sum(map(_count_indices, items))
        self._with_indices = len(self._types) == count
        self._one_each = self._with_indices or len(self._types) == count - indices
        if self._types_end_here and len(items) < len(given):
            self._one_each = False  # the type behind keywords is the result's
        previous: Any = None
        for item in given:
            self._add(item, previous)
            previous = item

    def _add(self, item: Any, previous: Any, *, typed: bool = False) -> None:
        """`previous` is the item before; a keyword takes a type only inside parentheses, where each
        value is followed by its own (`addr = %a : T` types the result)."""
        written = self._written
        if item.__class__ is dict:
            return
        if item.__class__ is Tok:
            written.ins.append(self._operand(item))
            return
        kind = item.kind
        if kind == "indexed":
            written.ins.extend(self._indexed(item))
        elif kind == "paren":
            written.ins.extend(self._operands(item.parts))
        elif kind == "symbol":
            written.ins.append(self._use(item, None))
        elif kind == "list":
            values = self._operands(item.parts)
            if previous.__class__ is Tok and previous.type == "BARE_ID":
                written.ins.pop()
                written.named[previous.value] = values
            else:
                written.ins.extend(values)
        elif kind == "clause":
            written.named.setdefault(item.parts[0].value, []).append(self._clause(item))
        elif kind == "keyword":
            value = item.parts[1]
            key = item.parts[0].value
            is_list = value.__class__ is Node
            one_each, self._one_each = self._one_each, self._one_each and typed
            written.named[key] = self._operands(value.parts) if is_list else self._operand(value)
            self._one_each = one_each

    def _clause(self, item: Node) -> WrittenClause:
        word, paren = item.parts
        keywords: dict[str, Operand] = {}
        values: list[Operand] = []
        for part in paren.parts:
            if part.__class__ is Node and part.kind == "keyword" and part.parts[1].__class__ is Tok:
                keywords[part.parts[0].value] = self._operand(part.parts[1])
            else:
                values.extend(self._operands((part,)))
        return WrittenClause(word, values, keywords)

    def _operands(self, parts: Any) -> list[Operand]:
        found: list[Operand] = []
        for part in parts:
            if part.__class__ is Tok and part.type not in ("TYPE", "COLON", "ARROW"):
                found.append(self._operand(part))
            elif part.__class__ is Node and part.kind == "indexed":
                found.extend(self._indexed(part))
            elif part.__class__ is Node and part.kind in ("list", "paren"):
                found.extend(self._operands(part.parts))
            elif part.__class__ is Node and part.kind == "keyword":
                self._add(part, None, typed=True)
        return found

    def _indexed(self, item: Node) -> list[Operand]:
        base, *indices = item.parts
        if self._with_indices:
            return [self._operand(base), *map(self._operand, indices)]
        return [self._operand(base), *(self._use(index, None) for index in indices)]

    def _operand(self, tok: Tok) -> Operand:
        if tok.type != "SSA":
            return self._use(tok, None)
        type_ = None
        if self._one_each:
            type_ = self._types[self._next]
            self._next += 1
        return self._use(tok, type_)


def _is_keyword(item: Any) -> bool:
    return item.__class__ is Node and item.kind == "keyword"


def _count_values(item: Any) -> int:
    if item.__class__ is Tok:
        return item.type == "SSA"
    if item.__class__ is Node:
        return sum(map(_count_values, item.parts))
    return 0


def _count_indices(item: Any) -> int:
    if item.__class__ is not Node:
        return 0
    if item.kind == "indexed":
        return sum(1 for part in item.parts[1:] if part.type == "SSA")
    return sum(map(_count_indices, item.parts))


_TYPE_KINDS: tuple[tuple[type[Type], frozenset[str]], ...] = (
    (TileType, frozenset(("tile",))),
    (AbstractTileType, frozenset(("tile",))),
    (ViewType, frozenset(("view",))),
    (MemRefType, frozenset(("memref", "tile", "view", "ptr"))),
    (PtrType, frozenset(("ptr",))),
    (VRegType, frozenset(("vreg",))),
    (MaskType, frozenset(("mask",))),
    (VectorType, frozenset(("vector", "tile"))),
)
_TOKEN_KINDS = {
    "INT": frozenset(("index", "int", "scalar", "float")),
    "HEX": frozenset(("index", "int", "scalar", "float")),
    "FLOAT": frozenset(("float", "scalar")),
    "TRUE": frozenset(("bool", "scalar")),
    "FALSE": frozenset(("bool", "scalar")),
    "STRING": frozenset(("string", "enum")),
    "ATTR": frozenset(("enum", "any")),
    "ANGLE_ENUM": frozenset(("enum",)),
    "SYMBOL": frozenset(("symbol",)),
    "BARE_ID": frozenset(("word", "enum")),
    "TYPE": frozenset(("type",)),
}


def operand_kinds(operand: Operand) -> frozenset[str] | None:
    """Return the operand kinds that an operand can stand for, None for one already reported."""
    type_ = operand.type
    if operand.value is None:
        tok = operand.tok
        kind = tok.type if tok.__class__ is Tok else "SYMBOL"
        return _TOKEN_KINDS.get(kind, frozenset())
    if type_ is None or isinstance(type_, ErrorType):
        return None
    if isinstance(type_, ScalarType):
        return _scalar_kinds(type_)
    if isinstance(type_, HandleType):
        return frozenset((_HANDLE_KINDS[type_.kind],))
    for class_, kinds in _TYPE_KINDS:
        if isinstance(type_, class_):
            return kinds
    return frozenset()


_HANDLE_KINDS = {
    "pipe": "pipe",
    "align": "align",
    "async_session": "session",
    "async_event": "event",
    "eventid_array": "eventid_array",
}


def _scalar_kinds(type_: ScalarType) -> frozenset[str]:
    dtype = type_.dtype
    if dtype.name == "i1":
        return frozenset(("scalar", "bool", "int"))
    if dtype.name == "index":
        return frozenset(("scalar", "index", "int"))
    if dtype.is_integer:
        return frozenset(("scalar", "int", "index"))
    return frozenset(("scalar", "float"))


def choose(
    op: Operation, definition: OpDef, written: Written, holds: Callable[[Variant, str], bool]
) -> Variant | None:
    """Bind the operands to the variant that they fit and whose condition holds; return the variant,
    None if there is none. `holds` evaluates a condition when `op.bound` is set."""
    count = sum(n for _, n, _ in op.result_tokens)
    for variant in definition.variants:
        bound = bind(op, variant, written)
        if bound is None or not _fits_results(variant, written, count):
            continue
        op.variant, op.bound = variant, bound
        if variant.when is None or holds(variant, variant.when):
            return variant
    op.variant, op.bound = None, {}
    return None


def _fits_results(variant: Variant, written: Written, count: int) -> bool:
    """In the SSA form destinations are results: as many as the row has, optional ones left out."""
    if not count or not variant.outs or written.outs:
        return True
    required = sum(1 for o in variant.outs if not o.optional)
    return required <= count <= len(variant.outs)


def bind(op: Operation, variant: Variant, written: Written) -> dict[str, Any] | None:
    """Return the operand (or list of operands, or None) of each name of the variant; None if what is
    written does not fit."""
    if written.outs is None:
        return _assign_flat(variant, op, written.ins)
    ins = _assign(variant.ins, written.ins)
    outs = _assign(variant.outs, written.outs, allow_missing=bool(op.result_tokens))
    return None if ins is None or outs is None else {**ins, **outs}


def bind_named(
    op: Operation, definition: OpDef, variant: Variant, written: Written, source: Source, sink: Sink
) -> dict[str, Any]:
    """Return the clauses, keywords and flags of an op by name; wrong ones are reported."""
    if not variant.named and not written.named:
        return {}
    binder = NamedBinder(op, definition, source, sink, _assign, _fits)
    return binder.bind(variant, written.named, written.ins)


def _assign_flat(variant: Variant, op: Operation, values: list[Operand]) -> dict[str, Any] | None:
    """Operands in one list: inputs and, unless they are the results, outputs; flags are left out."""
    values = without_flags(variant, values)
    in_dict = _in_dictionary(variant, op)
    if in_dict:
        variant = replace(variant, ins=tuple(d for d in variant.ins if d.name not in in_dict))
    bound = _assign_written(variant, op, values)
    return None if bound is None else {**bound, **in_dict}


def _in_dictionary(variant: Variant, op: Operation) -> dict[str, Operand]:
    """Words that the op's row has as operands and the text has in the attribute dictionary, as the
    quoted form must."""
    found: dict[str, Operand] = {}
    if op.attrs:
        for definition in variant.ins:
            attr = op.attrs.get(definition.name) if definition.enums else None
            if attr is not None:
                tok = attr.atom if attr.atom.__class__ is Tok else attr.key
                found[definition.name] = Operand(tok, None, None, attr_value(attr))
    return found


def _assign_written(variant: Variant, op: Operation, values: list[Operand]) -> dict[str, Any] | None:
    """PTO-AS lines without a result put the destinations first; quoted ops put them last."""
    has_results = bool(op.result_tokens) or (op.form == "items" and bool(op.arrow))
    if has_results or not variant.outs:
        bound = _assign(variant.ins, values)
        return None if bound is None else {**bound, **dict.fromkeys(o.name for o in variant.outs)}
    if op.form == "line":
        for count in range(len(variant.outs), -1, -1):
            outs = _assign(variant.outs, values[:count])
            ins = _assign(variant.ins, values[count:])
            if outs is not None and ins is not None:
                return {**ins, **outs}
        return None
    segments = _segments(op)
    if segments is not None and len(segments) == len(variant.ins) + len(variant.outs):
        return _by_segments(variant, values, segments)
    for count in range(len(variant.outs), -1, -1):
        at = len(values) - count
        ins = _assign(variant.ins, values[:at])
        outs = _assign(variant.outs, values[at:])
        if outs is not None and ins is not None:
            return {**ins, **outs}
    return None


def _segments(op: Operation) -> list[int] | None:
    attr = op.attrs.get("operandSegmentSizes")
    text = getattr(attr.atom, "value", "") if attr is not None else ""
    _, colon, numbers = text.rstrip("> ").partition(":")
    return [int(n) for n in numbers.split(",")] if colon else None


def _by_segments(
    variant: Variant, values: list[Operand], segments: list[int]
) -> dict[str, Any] | None:
    bound: dict[str, Any] = {}
    at = 0
    for definition, count in zip((*variant.ins, *variant.outs), segments, strict=True):
        part = values[at : at + count]
        at += count
        if definition.variadic:
            bound[definition.name] = part
        else:
            bound[definition.name] = part[0] if part else None
    return bound if at == len(values) else None


def _assign(
    definitions: tuple[OperandDef, ...], values: list[Operand], *, allow_missing: bool = False
) -> dict[str, Any] | None:
    """Give values to names in order; an optional name whose kind does not fit is passed over.

    Returns None where the kinds or the number of values do not fit.
    """
    bound: dict[str, Any] = {}
    at = 0
    spare = len(values) - sum(1 for d in definitions if not d.optional and not d.variadic)
    for definition in definitions:
        if definition.variadic:
            taken = values[at : at + max(spare, 0)]
            bound[definition.name] = taken
            at += len(taken)
            continue
        value = values[at] if at < len(values) else None
        fits = value is not None and _fits(definition, value)
        if definition.optional:
            if fits and spare > 0:
                bound[definition.name] = value
                at += 1
                spare -= 1
            else:
                bound[definition.name] = None
            continue
        if not fits:
            if allow_missing and value is None:
                bound[definition.name] = None
                continue
            return None
        bound[definition.name] = value
        at += 1
    return bound if at == len(values) else None


def _fits(definition: OperandDef, value: Operand) -> bool:
    if "any" in definition.kinds:
        return True
    kinds = operand_kinds(value)
    return kinds is None or not kinds.isdisjoint(definition.kinds)


def report_mismatch(
    op: Operation, definition: OpDef, written: Written, source: Source, sink: Sink
) -> None:
    """Say what operands the op takes and what it was given."""
    if any(operand_kinds(v) is None for v in (*written.ins, *(written.outs or ()))):
        return  # an operand is wrong already; its own finding says more
    forms = [describe(v, definition) for v in definition.variants]
    given = f"given: {_given(written)}"
    what = definition.mismatch or "does not take these operands"
    sink.emit(
        error(
            "PTO2001",
            f"'{op.name}' op {what}",
            Span(source, op.start, op.name_end),
            label=given,
            notes=tuple(f"operands: {form}" for form in forms),
            help=f"see `ptosim ops {definition.mnemonic}`",
        )
    )


def describe(variant: Variant, definition: OpDef) -> str:
    """Return the operand lists of a variant in the notation of the language."""
    ins = ", ".join(map(_describe_operand, variant.ins))
    outs = ", ".join(map(_describe_operand, variant.outs))
    if definition.form == "dps":
        parts = [f"ins({ins})" if ins else "", f"outs({outs})" if outs else ""]
        return " ".join(filter(None, parts))
    named = ", ".join(map(shown, variant.named))
    return ", ".join(filter(None, (ins, named))) + (f" -> {outs}" if outs else "")


def _describe_operand(definition: OperandDef) -> str:
    text = f"%{definition.name}: {'|'.join(definition.kinds)}"
    if definition.variadic:
        return f"{text}…"
    return f"[{text}]" if definition.optional else text


def _given(written: Written) -> str:
    def words(values: list[Operand]) -> str:
        return ", ".join(str(v.type) if v.value is not None else _shown(v.tok) for v in values)

    if written.outs is None:
        return f"({words(written.ins)})"
    return f"ins({words(written.ins)}) outs({words(written.outs)})"


def _shown(tok: Any) -> str:
    return f"`{tok.value}`" if tok.__class__ is Tok else "a literal"
