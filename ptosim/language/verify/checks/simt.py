"""SIMT: launches and what they name, sections, attributes of functions, and what is only possible
in SIMT code (PTO micro-instruction specification, SIMT)."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.attributes import attr_value
from ptosim.ground.ir.core import Attr, Operand, Operation
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ScalarType, Type, VectorType
from ptosim.ground.source import Source
from ptosim.language.bind.names import compatible
from ptosim.language.place.sides import SIMT, has_registers
from ptosim.machine.simt import MAX_THREADS

ENTRY = "pto.simt_entry"
_OF_KERNELS = frozenset(("micro_dma", "micro_cube", "memory", "matmul", "elementwise", "pipes"))
"""Families of operations that no thread executes."""
_OF_CORES = frozenset(("section", "vector_region", "flag", "barrier"))
_LIMITS = {"pto.simt_max_threads": MAX_THREADS, "pto.simt_max_registers": 128}
_TRAITS = frozenset(
    ("launches", "simt_region", "sets_launch", "simt_only", "simt_entry_only", "atomic_update",
     "kept_slot")
)  # fmt: skip


def check(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report wrong launches, sections and attributes, and operations at a wrong place."""
    source = resolved.module.source
    for function in resolved.functions.values():
        if any(name in function.op.attrs for name in _LIMITS):
            yield from _attributes(function.op, source)
        concerned = is_entry(function.op) or any(op.traits & _TRAITS for op in function.ops)
        if not function.implicit and concerned:
            for op in function.body:
                yield from _visit(op, function.op, None, resolved)


def is_entry(op: Operation | None) -> bool:
    """True for a function that launches execute."""
    return op is not None and ENTRY in op.attrs


def _visit(
    op: Operation, function: Operation, section: Operation | None, resolved: ResolvedModule
) -> Iterator[Diagnostic]:
    source = resolved.module.source
    if op.traits & _TRAITS:
        yield from _place(op, function, section, source)
    if op.has("launches"):
        yield from _callee(op, resolved)
    if op.has("simt_region"):
        yield from _section(op, source)
        section = op
    elif is_entry(function) or section is not None:
        yield from _not_of_threads(op, source)
    if op.has("atomic_update"):
        yield from _packed_update(op, source, inside=is_entry(function) or section is not None)
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _visit(inner, function, section, resolved)


# -- places ----------------------------------------------------------------------------------------


_INSIDE = f"must not appear inside a function marked with '{ENTRY}'"
_OUTSIDE = f"must appear inside a function marked with '{ENTRY}'"
_MARK = f"mark the function with `attributes {{{ENTRY}}}`"


def _place(
    op: Operation, function: Operation, section: Operation | None, source: Source
) -> Iterator[Diagnostic]:
    entry = is_entry(function)
    found = _wrong_place(op, entry, section is not None)
    if found is None:
        return
    text, help = found
    more = (Label(section.span(source), "the section around it"),) if section else ()
    yield finding("PTO2122", f"'{op.name}' op {text}", op.span(source), more=more, help=help)


def _wrong_place(op: Operation, entry: bool, in_section: bool) -> tuple[str, str] | None:
    """What is wrong with the place of an operation, and the cure."""
    if op.has("simt_region"):
        cure = "put the inner code into the section, or into a function that it calls"
        if in_section:
            return "nested pto.section.simt is not allowed", cure
        return (_INSIDE, cure) if entry else None
    if op.has("launches") or op.has("sets_launch"):
        cure = "launch from ordinary code; threads call plain functions"
        return (_INSIDE, cure) if entry or in_section else None
    if op.has("kept_slot"):
        return None if entry else (_OUTSIDE, _MARK)
    if entry or in_section or op.has("atomic_update"):
        return None
    if op.has("simt_entry_only"):
        return _OUTSIDE, _MARK
    return "must be inside a pto.simt_entry function or pto.section.simt", _MARK


def _not_of_threads(op: Operation, source: Source) -> Iterator[Diagnostic]:
    """Registers, copies, the cube and synchronisation of pipes belong to the kernel."""
    row = op.definition
    if row is None or op.has("launches") or row.family.startswith(SIMT):
        return
    if has_registers(op) or op.traits & _OF_CORES:
        what = "has no part in SIMT code, which is executed by many threads"
    elif row.family in _OF_KERNELS:
        what = "is an operation of the kernel, not of its threads"
    else:
        return
    yield finding(
        "PTO2181",
        f"'{op.name}' op {what}: it must be outside pto.simt_entry functions and pto.section.simt",
        op.span(source),
        help="move it in front of the launch or after it",
    )


# -- launches --------------------------------------------------------------------------------------


def _callee(op: Operation, resolved: ResolvedModule) -> Iterator[Diagnostic]:
    if "values" not in op.bound:
        return  # its operands are reported
    source = resolved.module.source
    function = resolved.functions.get(op.bound["callee"])
    text = None
    more: tuple[Label, ...] = ()
    if any(str(o.type) != "i32" for o in op.bound.get("launch") or () if o.value is not None):
        text = "expects launch dimensions of type i32"
    elif function is None:
        text = f"'{op.bound['callee']}' does not reference a valid function"
    else:
        more = (Label(function.op.span(source), "defined here"),)
        text = _wrong(op, function)
    if text is not None:
        yield finding(
            "PTO2123",
            f"'{op.name}' op {text}",
            op.span(source),
            more=more,
            help=f"a launch names a function with `{ENTRY}`, and gives it its arguments",
        )


def _wrong(op: Operation, function: Function) -> str | None:
    values: list[Operand] = op.bound["values"]
    if not is_entry(function.op):
        return f"callee '{function.symbol}' must be marked with '{ENTRY}'"
    if function.results:
        return "requires a callee with no results"
    if len(values) != len(function.args):
        return (
            f"incorrect number of operands for callee: {len(values)}, where "
            f"'{function.symbol}' takes {len(function.args)}"
        )
    for number, (operand, argument) in enumerate(zip(values, function.args, strict=True)):
        if operand.type is not None and not compatible(operand.type, argument.type):
            return (
                f"operand type mismatch: expected operand type '{argument.type}', but provided "
                f"'{operand.type}' for operand number {number}"
            )
    return None


# -- sections --------------------------------------------------------------------------------------


def _section(op: Operation, source: Source) -> Iterator[Diagnostic]:
    if op.form == "generic" and op.bound.get("launch") is None:  # elsewhere the clause is asked for
        yield finding(
            "PTO2008",
            f"'{op.name}' op requires `launch`: expected three launch dimensions",
            op.span(source),
            help=f"write `{op.name}<<<32, 1, 1>>> {{ … }}`: the quoted form has no place for them",
        )
        return
    launch: list[Operand] = op.bound.get("launch") or []
    dims = [operand.const for operand in launch]
    text = None
    if any(o.value is not None for o in launch) or not all(isinstance(d, int) for d in dims):
        text = "expects three integer literals as launch dimensions"
    elif any(d < 0 for d in dims):
        text = f"launch dimensions must be non-negative, got ({', '.join(map(str, dims))})"
    elif len(dims) == 3 and not 0 < prod(dims) <= MAX_THREADS:
        text = (
            f"SIMT launch dimensions must have a positive product no greater than {MAX_THREADS}, "
            f"got ({', '.join(map(str, dims))})"
        )
    elif any(len(r.blocks) > 1 or any(b.args for b in r.blocks) for r in op.regions):
        text = "expects one block without arguments"
    if text is not None:
        yield finding("PTO2120", f"'{op.name}' op {text}", op.span(source))


# -- operations of packed values -------------------------------------------------------------------


def _packed_update(op: Operation, source: Source, *, inside: bool) -> Iterator[Diagnostic]:
    """Pairs are updated by threads only, and nobody gets the old ones."""
    value = op.bound.get("value")
    if not isinstance(value, Operand) or not isinstance(value.type, VectorType):
        return
    text = None
    if not inside:
        text = "requires packed atomics to be inside a pto.simt_entry function or pto.section.simt"
    elif op.results and op.results[0].uses:
        text = "does not support using the old value result for packed atomics"
    if text is not None:
        yield finding("PTO2125", f"'{op.name}' op {text}", op.span(source))


def constants(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report constants of 8-bit floats in functions of the micro back end, which has none."""
    source = resolved.module.source
    for function in resolved.functions.values():
        unit = function.unit
        if not (unit.kernel_kind or unit.backend == "vpto" or is_entry(function.op)):
            continue
        for op in function.ops:
            if op.has("constant") and op.results and _is_f8(op.results[0].type):
                yield finding(
                    "PTO2128",
                    f"'{op.name}' op does not support directly constructed FP8 constants in the "
                    "VPTO backend; produce FP8 values with pto.convert",
                    op.span(source),
                )


def bitcasts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report casts that keep the bits, between types of several sizes."""
    for op in resolved.ops:
        if not op.has("keeps_bits") or "operand" not in op.bound or not op.results:
            continue
        before, after = _bits(op.bound["operand"].type), _bits(op.results[0].type)
        if before and after and before != after:
            yield finding(
                "PTO2182",
                f"'{op.name}' op expects types of the same size, not of {before} and {after} bits",
                op.span(resolved.module.source),
                help="extend or truncate it before",
            )


def _bits(type_: Type | None) -> int:
    """Bits of a number or a small vector; 0 for anything else."""
    if isinstance(type_, ScalarType):
        return type_.dtype.bits
    if isinstance(type_, VectorType) and None not in type_.dims:
        return type_.elem.bits * prod(d or 0 for d in type_.dims)
    return 0


def _is_f8(type_: Type) -> bool:
    elem = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return elem is not None and elem.is_float and elem.bits == 8


# -- attributes ------------------------------------------------------------------------------------


def _attributes(op: Operation, source: Source) -> Iterator[Diagnostic]:
    for name, limit in _LIMITS.items():
        attr = op.attrs.get(name)
        text = _wrong_limit(attr, limit) if attr is not None else None
        if attr is not None and text is None and not is_entry(op):
            text = f"is only allowed on functions marked '{ENTRY}'"
        if attr is not None and text is not None:
            span = attr.key.span(source) if attr.key is not None else op.span(source)
            yield finding("PTO2124", f"'{name}' {text}", span)


def _wrong_limit(attr: Attr, limit: int) -> str | None:
    value = attr_value(attr)
    is_i32 = attr.type is not None and attr.type.value == "i32"
    if not isinstance(value, int) or isinstance(value, bool) or not is_i32:
        return "must be a signless i32 integer attribute"
    if value <= 0:
        return "must be a positive integer"
    return None if value <= limit else f"must be in range [1, {limit}]"
