"""Vectors of any length: what rules of `isa/structure.toml` ask about them, and layouts and
constants as texts have them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic, finding
from ptosim.ground.ir.attributes import Dense, TypeText, attr_value
from ptosim.ground.ir.core import Operation, Tok
from ptosim.ground.ir.lane_layout import CONTIGUOUS, parse_layout
from ptosim.ground.ir.lane_layout import PREFIX as LAYOUT
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ScalarType, Type, VectorType, VirtualMaskType, VirtualVRegType
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.records import NamedTuple
from ptosim.language.bind.structured import constant_value
from ptosim.language.place.sides import VIRTUAL
from ptosim.language.syntax.parser import parse_type
from ptosim.language.syntax.tile_types import TypeFault, layout
from ptosim.language.verify.rule_views import environment, evaluate


def is_surface(type_: Type) -> bool:
    """True for a type as a program has it: without layout, of a mask without granularity."""
    if isinstance(type_, VirtualVRegType):
        return type_.layout is None
    return not isinstance(type_, VirtualMaskType) or (
        type_.layout is None and type_.granule == "pred"
    )


def _vector_attribute(op: Operation) -> str | None:
    """The first attribute with the type of a vector in it."""
    return next((k for k, a in op.attrs.items() if _has_virtual_type(attr_value(a))), None)


def _has_virtual_type(value: Any) -> bool:
    if isinstance(value, TypeText):
        return "!pto.vmi." in value.text
    if isinstance(value, dict):
        return any(map(_has_virtual_type, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_has_virtual_type, value))


def names_vectors(op: Operation, resolved: ResolvedModule) -> bool:
    """True if an operand or result is a vector, or the text says so where nothing was bound."""
    if any(isinstance(v.type, VIRTUAL) for v in (*op.results, *op.operand_values())):
        return True
    written = (*op.types, *op.ins_types, *op.outs_types, *(op.arrow or ()))
    return any("!pto.vmi." in resolved.module.spelled_out(tok.value) for tok in written)


def has_vectors(function: Function) -> bool:
    """True for a function that takes or returns vectors of any length."""
    types = [*(value.type for value in function.args), *function.results]
    return any(isinstance(type_, VIRTUAL) for type_ in types)


# -- registers -------------------------------------------------------------------------------------


def _first_vector(op: Operation) -> Type | None:
    values = [*op.operand_values(), *op.results]
    return next((v.type for v in values if isinstance(v.type, VIRTUAL)), None)


def _count_parts(op: Operation) -> int:
    """The operands and results that are no vectors of any length."""
    values = [*op.operand_values(), *op.results]
    return sum(1 for v in values if not isinstance(v.type, VIRTUAL))


def _registers_of(type_: Type) -> int | None:
    """The registers of a vector in its layout, None where the layout does not say it."""
    bits = 0
    if isinstance(type_, VirtualVRegType):
        bits = type_.elem.bits
    elif isinstance(type_, VirtualMaskType) and type_.granule != "pred":
        bits = int(type_.granule[1:])
    if not bits or not isinstance(type_, VIRTUAL):
        return None
    assigned = parse_layout(type_.layout) if type_.layout is not None else CONTIGUOUS
    try:
        return assigned.registers(type_.lanes, bits)
    except ValueError:
        return None


VERBS = {
    "is_surface": is_surface,
    "names_vectors": names_vectors,
    "vector_attribute": _vector_attribute,
    "has_vectors": has_vectors,
    "first_vector": _first_vector,
    "count_parts": _count_parts,
    "registers_of": _registers_of,
}
"""What rules can ask about vectors of any length."""


# -- layouts and constants -------------------------------------------------------------------------


def layouts(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report layouts that are wrong in aliases and attributes; those of types are said there."""
    if LAYOUT not in resolved.module.source.text:
        return
    module = resolved.module
    attrs = [*module.attr_aliases.values(), *(a for op in resolved.ops for a in op.attrs.values())]
    for attr in attrs:
        token = attr.atom
        if not isinstance(token, Tok) or not token.value.startswith(f"{LAYOUT}<"):
            continue
        try:
            layout(token.value)
        except TypeFault as fault:
            yield finding("PTO1006", str(fault), token.span(module.source))


def constants(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report constants whose elements do not fit the vector."""
    for op in resolved.ops:
        if op.has("dense") and op.results and op.attrs.get("value") is not None:
            fault = _wrong_constant(op, op.results[0].type)
            if fault is not None:
                yield finding("PTO2330", f"'{op.name}' op {fault}", op.span(resolved.module.source))


def _wrong_constant(op: Operation, type_: Type) -> str | None:
    attr = op.attrs["value"]
    shaped = parse_type(attr.type.value).type if attr.type is not None else None
    value = attr_value(attr)
    if not isinstance(value, Dense) or not isinstance(shaped, VectorType):
        return "requires dense elements constant attribute"
    literals = value.of([d or 0 for d in shaped.dims], shaped.elem.bits)
    if literals is None:
        return f"requires dense elements that fit {shaped}"
    element = ScalarType(shaped.elem)
    odd = next((tok for tok in literals if constant_value(tok, element) is None), None)
    if odd is not None:
        return f"requires dense elements that fit {shaped}; `{odd.value}` is no {shaped.elem}"
    if not isinstance(type_, VIRTUAL):
        return None  # said where the operands are bound
    count = 1
    for dim in shaped.dims:
        count *= dim or 0
    if count != type_.lanes:
        return (
            "requires dense constant element count to match result logical lane count: "
            f"{count} elements, {type_.lanes} lanes"
        )
    wanted = type_.elem.name if isinstance(type_, VirtualVRegType) else "i1"
    if shaped.elem.name != wanted:
        return (
            "requires dense constant element type to match result element type: "
            f"{shaped.elem}, not {wanted}"
        )
    return None


# What the assembler accepts and cannot lower (`isa/unlowered.toml`): a warning, the verdict stays.
#
# A run executes most of it; registers and instructions there are none.

ASSEMBLER = "not lowered by the assembler of 2026-08-21"


class Case(NamedTuple):
    """A row of the file: operations, the condition, the code, how the message begins, its text, and
    if no source says what is meant."""

    of: frozenset[str]
    without: frozenset[str]
    when: str
    code: str
    prefix: str
    text: str
    is_open: bool

    def is_about(self, op: Operation) -> bool:
        """True for an operation that the condition can be asked of."""
        name = op.meaning.removeprefix("pto.")
        return ("*" in self.of or name in self.of) and name not in self.without


@lru_cache(maxsize=1)
def cases() -> list[Case]:
    """Return every case of the file."""
    content = read_toml("unlowered.toml")
    return [
        Case(
            frozenset(row["of"].split()), frozenset(row.get("not", "").split()), row["when"],
            row["code"], content["prefix"][row["code"]], row["text"],
            row.get("open", False),
        )
        for row in content["case"]
    ]  # fmt: skip


def reason(op: Operation, *, is_open: bool = False) -> tuple[str, str] | None:
    """Return the code and the words of the first case that an operation falls under; with `is_open`
    of those only whose meaning no source gives."""
    names: dict[str, Any] | None = None
    for case in cases():
        if not case.is_about(op) or (is_open and not case.is_open):
            continue
        if names is None:
            names = defaultdict(lambda: None, environment(op, "a5"))
        if _holds(case.when, names):
            return case.code, f"{case.prefix}: {_filled(case.text, names)}"
    return None


def _holds(when: str, names: dict[str, Any]) -> bool:
    try:
        return bool(evaluate(when, names))
    except (AttributeError, TypeError, ZeroDivisionError):
        return False  # an operand that it asks about is left out


def _filled(text: str, names: dict[str, Any]) -> str:
    head, brace, rest = text.partition("{")
    if not brace:
        return text
    inner, _, tail = rest.partition("}")
    return f"{head}{evaluate(inner, names)}{_filled(tail, names)}"


def unlowered(resolved: ResolvedModule, refused: set[int]) -> Iterator[Diagnostic]:
    """Report each operation that the assembler would give up on, but those that begin where it
    refuses the text."""
    source = resolved.module.source
    for op in resolved.ops:
        if not op.has("virtual") or op.variant is None or op.start in refused:
            continue
        found = reason(op)
        if found is not None:
            code, words = found
            yield finding(
                code,
                f"'{op.name}' op is {ASSEMBLER}: {words}",
                op.span(source),
            )
