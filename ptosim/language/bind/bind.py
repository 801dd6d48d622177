"""Operands to the names of the op's row: which variant is meant, which operand is which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, Sink, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.types import (
    AbstractTileType,
    DType,
    ErrorType,
    HandleType,
    LocalArrayType,
    MaskType,
    MemRefType,
    MultiTileType,
    PtrType,
    ScalarType,
    StructType,
    TileType,
    Type,
    VectorType,
    ViewType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.schema import OpDef, OperandDef, Variant
from ptosim.ground.records import replace
from ptosim.ground.source import Source
from ptosim.language.bind.clauses import (
    NamedBinder,
    describe,
    describe_operand,
    quoted,
    without_flags,
)
from ptosim.language.bind.names import named_results
from ptosim.language.bind.written import Written
from ptosim.language.syntax.quoted import numbers

_TYPE_KINDS: tuple[tuple[type[Type], frozenset[str]], ...] = (
    (TileType, frozenset(("tile",))),
    (AbstractTileType, frozenset(("tile",))),
    (ViewType, frozenset(("view",))),
    (MemRefType, frozenset(("memref", "tile", "view", "ptr"))),
    (PtrType, frozenset(("ptr",))),
    (VRegType, frozenset(("vreg",))),
    (VirtualVRegType, frozenset(("vmi_vreg",))),
    (VirtualMaskType, frozenset(("vmi_mask",))),
    (MaskType, frozenset(("mask",))),
    (MultiTileType, frozenset(("multi_tile",))),
    (LocalArrayType, frozenset(("local_array",))),
    (StructType, frozenset(("struct",))),
)
_TOKEN_KINDS = {
    "INT": frozenset(("index", "int", "scalar", "float")),
    "HEX": frozenset(("index", "int", "scalar", "float")),
    "FLOAT": frozenset(("float", "scalar")),
    "TRUE": frozenset(("bool", "scalar", "enum")),
    "FALSE": frozenset(("bool", "scalar", "enum")),
    "STRING": frozenset(("string", "enum")),
    "ATTR": frozenset(("enum", "any")),
    "ANGLE_ENUM": frozenset(("enum",)),
    "SYMBOL": frozenset(("symbol",)),
    "BARE_ID": frozenset(("word", "enum")),
    "TYPE": frozenset(("type",)),
}


def operand_kinds(operand: Operand) -> frozenset[str] | None:
    """Return the operand kinds that an operand can represent, None for one already reported."""
    type_ = operand.type
    if operand.value is None:
        tok = operand.tok
        kind = tok.type if isinstance(tok, Tok) else "SYMBOL"
        return _TOKEN_KINDS.get(kind, frozenset())
    if type_ is None or isinstance(type_, ErrorType):
        return None
    if isinstance(type_, ScalarType):
        return _element_kinds(type_.dtype)
    if isinstance(type_, HandleType):
        return frozenset((_HANDLE_KINDS[type_.kind],))
    if isinstance(type_, VectorType):
        return frozenset(("vector", *(f"{kind}_vector" for kind in _element_kinds(type_.elem))))
    for class_, kinds in _TYPE_KINDS:
        if isinstance(type_, class_):
            return kinds
    return frozenset()


_HANDLE_KINDS = {
    "pipe": "pipe",
    "align": "align",
    "async_session": "session",
    "async_event": "event",
    "prefetch_async_context": "prefetch_context",
    "eventid_array": "eventid_array",
}


def _element_kinds(dtype: DType) -> frozenset[str]:
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
    count = named_results(op) or len(op.arrow or ())
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
    return required <= count and (count <= len(variant.outs) or variant.outs[-1].variadic)


def bind(op: Operation, variant: Variant, written: Written) -> dict[str, Any] | None:
    """Return the operand (or list of operands, or None) of each name of the variant; None if what
    is written does not fit."""
    words = {c.parts[0].value for c in op.clauses if c.kind == "ins_word"}
    if not _takes_words(op, variant, words if written.outs is not None else set(written.named)):
        return None
    if written.outs is None:
        return _assign_flat(variant, op, written.ins)
    given = {d.name: written.named[d.name] for d in variant.ins if d.name in written.named}
    if not all(_fits_by_name(d, given[d.name]) for d in variant.ins if d.name in given):
        return None
    rest = tuple(d for d in variant.ins if d.name not in given)
    ins = _assign(rest, without_flags(variant, written.ins))
    if ins is not None:
        ins |= given
    outs = _assign(variant.outs, written.outs, allow_missing=bool(op.result_tokens))
    return None if ins is None or outs is None else {**ins, **outs}


def _fits_by_name(definition: OperandDef, value: Any) -> bool:
    """True if `name = value` among the inputs can be the input of this name, which is one operand:
    no list, no dictionary and no clause."""
    if not isinstance(value, Operand) or isinstance(value.const, (list, dict)):
        return False
    return not definition.variadic and _fits(definition, value)


def _takes_words(op: Operation, variant: Variant, words: set[str]) -> bool:
    """True for a variant that has every word with a value, or none has."""
    others = op.definition.variants if words and op.definition is not None else ()
    return words <= _names(variant) or not any(words <= _names(other) for other in others)


def _names(variant: Variant) -> set[str]:
    return {d.name for d in (*variant.ins, *variant.named)}


def bind_named(
    op: Operation, definition: OpDef, variant: Variant, written: Written, source: Source, sink: Sink
) -> dict[str, Any]:
    """Return the clauses, keywords and flags of an op by name; wrong ones are reported."""
    if not variant.named and not written.named:
        return {}
    binder = NamedBinder(op, definition, source, sink, _assign, _fits)
    found = binder.bind(variant, written.named, written.ins)
    return {n: b for n, b in found.items() if b is not None or op.bound.get(n) is None}


def _assign_flat(variant: Variant, op: Operation, values: list[Operand]) -> dict[str, Any] | None:
    """Operands in one list: inputs and, unless they are results, outputs; flags are left out."""
    values = without_flags(variant, values)
    in_dict = _in_dictionary(variant, op)
    if in_dict:
        variant = replace(variant, ins=tuple(d for d in variant.ins if d.name not in in_dict))
    bound = _with_lists(variant, op, values) or _assign_written(variant, op, values)
    return None if bound is None else {**bound, **in_dict}


def _in_dictionary(variant: Variant, op: Operation) -> dict[str, Operand]:
    """Words that the op's row has as operands and the text has in the attribute dictionary, as the
    quoted form must."""
    found: dict[str, Operand] = {}
    if op.attrs:
        named = variant.named if op.form == "generic" else ()
        for definition in (*variant.ins, *(d for d in named if "list" not in d.kinds)):
            is_word = bool(definition.enums) or (
                op.form == "generic" and definition.kinds == ("string",)
            )
            attr = op.attrs.get(definition.name) if is_word else None
            if attr is not None:
                tok = attr.atom if attr.atom.__class__ is Tok else attr.key
                found[definition.name] = Operand(tok, None, None, attr_value(attr))
    return found


def _assign_written(
    variant: Variant, op: Operation, values: list[Operand]
) -> dict[str, Any] | None:
    """PTO-AS lines without a result put the destinations first; quoted ops put them last."""
    segments = _segments(op)
    quoted = op.definition.quoted if op.form == "generic" and op.definition is not None else ()
    if quoted and {d.name for d in variant.ins} <= {n for names in quoted for n in names}:
        return _in_quoted_order(op, variant, quoted, values, segments)
    has_results = bool(op.result_tokens) or (op.form != "line" and bool(op.arrow))
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
    if segments is not None and len(segments) == len(variant.ins) + len(variant.outs):
        return _by_segments((*variant.ins, *variant.outs), values, segments)
    for count in range(len(variant.outs), -1, -1):
        at = len(values) - count
        ins = _assign(variant.ins, values[:at])
        outs = _assign(variant.outs, values[at:])
        if outs is not None and ins is not None:
            return {**ins, **outs}
    if op.form == "items" and len(op.types) > sum(1 for v in values if v.value is not None):
        bound = _assign(variant.ins, values)  # the last type is that of a result without a name
        return None if bound is None else {**bound, **dict.fromkeys(o.name for o in variant.outs)}
    return None


def _with_lists(variant: Variant, op: Operation, values: list[Operand]) -> dict[str, Any] | None:
    """Operands of a quoted operation that the short form writes as lists: after the inputs."""
    lists = tuple(d for d in variant.named if "list" in d.kinds)
    outs = () if op.result_tokens or op.arrow else variant.outs
    segments, order = _segments(op), (*variant.ins, *lists, *outs)
    if op.form != "generic" or not lists or segments is None or len(segments) != len(order):
        return None
    bound = _by_segments(order, values, segments)
    return None if bound is None else {**dict.fromkeys(o.name for o in variant.outs), **bound}


def _segments(op: Operation) -> list[int] | None:
    return numbers(op.attrs.get("operandSegmentSizes") or op.attrs.get("operand_segment_sizes"))


def _in_quoted_order(
    op: Operation,
    variant: Variant,
    quoted: tuple[tuple[str, ...], ...],
    values: list[Operand],
    segments: list[int] | None,
) -> dict[str, Any] | None:
    """Operands in the order of the definition, which is not inputs before outputs; a name that the
    variant does not have is left out."""
    known = {d.name: d for d in variant.operands}
    order = [next((known[n] for n in names if n in known), None) for names in quoted]
    if segments is None:
        once = dict.fromkeys(d for d in order if d is not None)
        bound = _assign(tuple(once), values)
    elif len(segments) == len(order):
        bound = _by_segments(order, values, segments)
    elif op.definition is not None and op.definition.unlisted is not None:
        bound = _assign(variant.ins, values)  # the kinds tell operands apart that share a segment
    else:
        return None
    left_out = dict.fromkeys(d.name for d in (*variant.ins, *variant.outs))
    return None if bound is None else {**left_out, **bound}


def _by_segments(
    definitions: Sequence[OperandDef | None], values: list[Operand], segments: list[int]
) -> dict[str, Any] | None:
    bound: dict[str, Any] = {}
    at = 0
    for definition, count in zip(definitions, segments, strict=True):
        part = values[at : at + count]
        at += count
        if definition is None:
            if part:
                return None
            continue
        if definition.variadic or "list" in definition.kinds:  # an order can name one several times
            bound[definition.name] = [*(bound.get(definition.name) or ()), *part]
            continue
        if not (definition.optional if not part else _fits(definition, part[0])):
            return None
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
            is_list = "list" in definition.kinds  # of one clause, written out in the quoted form
            if not is_list and not all(_fits(definition, value) for value in taken):
                return None
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


def fits(op: Operation) -> bool:
    """True if each operand is of a kind that its place in the row takes, by the type it has now."""
    kinds = {d.name: d for d in op.variant.operands} if op.variant is not None else {}
    return all(_fits(kinds[name], operand) for name, operand in op.operands() if name in kinds)


def _fits(definition: OperandDef, value: Operand) -> bool:
    if "any" in definition.kinds:
        return True
    kinds = operand_kinds(value)
    return kinds is None or not kinds.isdisjoint(definition.kinds)


def report_repeated(op: Operation, written: Written, source: Source, sink: Sink) -> None:
    """Say which names are given in two ways, or twice with a value."""
    for tok in written.repeated:
        sink.report(
            "PTO2009",
            f"'{op.name}' op: `{tok.value}` occurs twice",
            tok.span(source),
            notes=(f"`{tok.value}` can be given once",),
            help="leave one of them out",
        )


def report_mismatch(
    op: Operation, definition: OpDef, written: Written, source: Source, sink: Sink
) -> None:
    """Say what operands the op takes and what it was given."""
    if any(operand_kinds(v) is None for v in (*written.ins, *(written.outs or ()))):
        return  # an operand is wrong already; its own finding says more
    stray = _statement_in(op, source)
    if stray is not None:
        sink.emit(stray)
        return
    forms = [describe(v, definition) for v in definition.variants]
    count = named_results(op) or len(op.arrow or ())
    fitting = [v for v in definition.variants if bind(op, v, written) is not None]
    if fitting and not any(_fits_results(v, written, count) for v in fitting):
        sink.emit(_wrong_results(op, fitting[0], source))
        return
    given = f"given: {_given(written)}"
    what = definition.mismatch or "does not take these operands"
    sink.report(
        "PTO2001",
        f"'{op.name}' op {what}{_wrong_class(definition, written)}",
        op.span(source),
        label=given,
        notes=tuple(f"operands: {form}" for form in forms),
        help=f"see `ptosim ops {definition.mnemonic}`",
    )


def _statement_in(op: Operation, source: Source) -> Diagnostic | None:
    """A word that begins a line is no operand: it is an operation without its dialect."""
    for item in op.items:
        if isinstance(item, Tok) and item.type == "BARE_ID":
            line = source.text.rfind("\n", op.start, item.start) + 1
            if line and not source.text[line : item.start].strip():
                hint = f"did you mean `pto.{item.value}`?"
                text = f"unknown operation `{item.value}`"
                return finding("PTO1003", text, item.span(source), help=hint)
    return None


def _wrong_class(definition: OpDef, written: Written) -> str:
    """Says which operand has a class that the op does not take there, the first one of the form
    that is nearest to what is written; or how many operands it takes."""
    named = _wrong_by_name(definition, written)
    if named is not None:
        is_operand = isinstance(written.named[named.name], Operand)
        clause = "" if is_operand else f", and is written `{named.name} = …`"
        return f": `{named.name}` must be {_kinds_of(named)}{clause}"
    values = [*written.ins, *(written.outs or ())]
    nearest_form: list[tuple[int, OperandDef]] = []
    for variant in definition.variants:
        wanted = (*variant.ins, *variant.outs)
        if len(wanted) != len(values):
            wanted = tuple(d for d in wanted if not d.optional)
        if len(wanted) != len(values) or any(d.variadic for d in wanted):
            continue
        wrong = [(k, d) for k, d in enumerate(wanted) if not _fits(d, values[k])]
        if wrong and not (0 < len(nearest_form) <= len(wrong)):
            nearest_form = wrong
    if not nearest_form:
        return _wrong_count(definition, len(written.ins))
    number, operand = nearest_form[0]
    return f": operand #{number} must be {_kinds_of(operand)}"


def _wrong_by_name(definition: OpDef, written: Written) -> OperandDef | None:
    """The input that is written by name and is something else in each variant that has the name."""
    if written.outs is None:
        return None
    for name, value in written.named.items():
        having = [d for v in definition.variants for d in v.ins if d.name == name]
        if having and not any(_fits_by_name(d, value) for d in having):
            return having[0]
    return None


def _kinds_of(operand: OperandDef) -> str:
    kinds = [kind for kind in operand.kinds if kind != "enum"]
    return " or ".join((*kinds, *operand.enums))


def _wrong_count(definition: OpDef, given: int) -> str:
    """Says how many inputs the op takes, if it takes a given number of them and no other."""
    counts = [len(v.ins) for v in definition.variants]
    least = min(sum(not d.optional for d in v.ins) for v in definition.variants)
    if any(d.variadic for v in definition.variants for d in v.ins) or least <= given <= max(counts):
        return ""
    most = max(counts)
    takes = str(most) if least == most else f"{least} to {most}"
    return f": it takes {takes} input{'s' if takes != '1' else ''}, not {given}"


def _wrong_results(op: Operation, variant: Variant, source: Source) -> Diagnostic:
    """The operands fit, so it is the number of results that does not."""
    required = sum(1 for o in variant.outs if not o.optional)
    most = len(variant.outs)
    count = named_results(op) or len(op.arrow or ())
    return finding(
        "PTO2023",
        f"'{op.name}' op has {required if required == most else f'{required} to {most}'} results, "
        f"not {count}",
        op.span(source),
        notes=(f"results: {', '.join(map(describe_operand, variant.outs))}",),
    )


def _given(written: Written) -> str:
    def words(values: list[Operand]) -> str:
        return ", ".join(str(v.type) if v.value is not None else quoted(v) for v in values)

    if written.outs is None:
        return f"({words(written.ins)})"
    return f"ins({words(written.ins)}) outs({words(written.outs)})"
