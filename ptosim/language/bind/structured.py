"""Operations with a syntax of their own: constants, control flow, calls, scopes."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from ptosim.ground.diagnostics.model import Label
from ptosim.ground.ir.attributes import LITERALS, Dense, attribute_of, token_value
from ptosim.ground.ir.core import Block, Jump, Node, Operand, Operation, Tok
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import ErrorType, ScalarType, Type, VectorType
from ptosim.ground.isa.schema import dtype
from ptosim.ground.source import Span
from ptosim.ground.words import nearest
from ptosim.language.bind.names import Naming, compatible
from ptosim.language.bind.units import jumps

WITHOUT_OPERAND_LISTS = frozenset(("arith.constant", "pto.fusion_region", "pto.yield"))
"""Operations with a handler of their own whatever the form in which they are written."""

_MOST_LANES = 1 << 16
"""Of the constant of a vector; programs have a few hundred."""

_REGION_OPS = ("pto.section.cube", "pto.section.vector", "pto.vecscope")


class Structured(Naming):
    """Adds the operations that are not just a list of operands."""

    @property
    def _structured(self) -> dict[str, Callable[[Operation], None]]:
        return {
            "arith.constant": self._constant,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.while": self._while,
            "scf.execute_region": self._if,
            "scf.index_switch": self._if,
            "scf.yield": self._values_only,
            "scf.condition": self._condition,
            "func.return": self._values_only,
            "func.call": self._call,
            "pto.fusion_region": self._fusion,
            "pto.yield": self._fused,
            "cf.br": self._jump,
            "cf.cond_br": self._jump,
            "cf.switch": self._jump,
            "memref.reinterpret_cast": self._reinterpret,
            "pto.strict_vecscope": self._strict,
            **dict.fromkeys(_REGION_OPS, self._regions_only),
        }

    def _constant(self, op: Operation) -> None:
        if op.form == "generic":
            value_attr = op.attrs.get("value")
            literal = value_attr.atom if value_attr is not None else None
            types = [self.type_of(t) for t in op.arrow or ()]
        else:
            literal = next(iter(op.items), None)
            types = [self.type_of(t) for t in op.types]
        if literal is None:
            self._without_literal(op)
            return
        type_ = types[0] if types else literal_type(literal)
        value = constant_value(literal, type_)
        if value is None:
            is_whole = isinstance(type_, ScalarType) and type_.dtype.is_float
            why = ": unexpected decimal integer literal for a floating point value"
            self.sink.report(
                "PTO1008",
                f"the literal does not fit type {type_}{why if is_whole else ''}",
                Span(self.source, op.start, op.end),
                help="write an integer of the type's range for an integer type, a decimal or "
                "0x… for a float",
            )
        self._results(op, [type_ if value is not None else ErrorType()])
        for result in op.results:
            result.const = value

    def _without_literal(self, op: Operation) -> None:
        self.sink.report(
            "PTO1008",
            "the constant has no literal",
            Span(self.source, op.start, op.end),
            help="write its value: `%c0 = arith.constant 0 : index`",
        )
        self._results(op, [ErrorType()])

    def _for(self, op: Operation) -> None:
        bounds = self._uses(op.ins)
        carried_types = [self.type_of(t) for t in op.arrow or ()]
        initial = [
            self.use(tok, carried_types[i] if i < len(carried_types) else None)
            for i, tok in enumerate(op.outs)
        ]
        op.bound = {"lower": bounds[0], "upper": bounds[1], "step": bounds[2], "init": initial}
        self._one_type_each(op, len(initial), len(carried_types))
        variable = bounds[0].type if not op.types else self.type_of(op.types[0])
        self._region(op.regions[0], [variable or ScalarType(dtype("index")), *carried_types])
        self._results(op, carried_types)

    def _if(self, op: Operation) -> None:
        operands = self._uses(op.ins)
        op.bound = {"condition": operands[0] if operands else None}
        for region in op.regions:
            self._region(region, [])
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _fusion(self, op: Operation) -> None:
        for region in op.regions:
            self._region(region, [])
        self._results(op, [self.type_of(t) for t in op.arrow or op.outs_types])

    def _fused(self, op: Operation) -> None:
        if op.form == "generic":
            self._values_only(op)
            return
        parts = [t for item in op.items if isinstance(item, Node) for t in item.parts]
        values = [t for t in parts if not isinstance(t, dict)]  # attributes are told elsewhere
        op.bound = {"values": self._uses(values, op.types)}

    def _while(self, op: Operation) -> None:
        op.bound = {"init": self._uses(op.ins, op.ins_types)}
        self._one_type_each(op, len(op.ins), len(op.ins_types))
        results = [self.type_of(t) for t in op.arrow or ()]
        self._region(op.regions[0], [o.type or ErrorType() for o in op.bound["init"]])
        if len(op.regions) > 1:
            self._region(op.regions[1], results)
        self._results(op, results)

    def _one_type_each(self, op: Operation, values: int, types: int) -> None:
        if values != types:
            self._count_mismatch(
                op,
                f"{values} initial value{'s' * (values != 1)} but {types} type{'s' * (types != 1)}",
                "give one type for each value that the loop carries",
            )

    def _values_only(self, op: Operation) -> None:
        op.bound = {"values": self._uses(op.ins, op.ins_types)}

    def _condition(self, op: Operation) -> None:
        op.bound = {
            "condition": self._uses(op.outs)[0],
            "values": self._uses(op.ins, op.ins_types),
        }

    def _jump(self, op: Operation) -> None:
        operands = self._uses(op.ins, op.ins_types)
        op.bound = {"condition": operands[0]} if operands else {}
        found: list[Jump] = []
        for clause in jumps(op):
            label, values, types = clause.parts
            given = self._uses(values, types)
            block = self.labels.get(label.value)
            if block is None:
                self._report_label(label, "there is no block with this label in the region")
            else:
                self._arguments(label, block, given)
                found.append(Jump(block, given))
        op.jumps = found
        op.bound["values"] = [operand for jump in found for operand in jump.values]

    def _arguments(self, label: Tok, block: Block, given: list[Operand]) -> None:
        wanted = [self.type_of(type_) for _, type_ in block.args if type_ is not None]
        fits = len(wanted) == len(given) and all(
            compatible(g.type or ErrorType(), w) for g, w in zip(given, wanted, strict=True)
        )
        if not fits:
            written = ", ".join(str(g.type) for g in given)
            takes = ", ".join(map(str, wanted))
            self._report_label(label, f"the block takes ({takes}), not ({written})")

    def _call(self, op: Operation) -> None:
        operands = self._uses(op.ins, op.ins_types)
        callee = _callee(op)
        function = self.resolved.visible(self.unit, callee)
        name = function.name if function is not None else callee
        op.bound = {"callee": name, "values": operands}
        if function is None:
            self._unknown_callee(op, callee)
        elif len(function.args) != len(operands):
            self._wrong_call(op, function, len(operands))
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _unknown_callee(self, op: Operation, callee: str) -> None:
        self.sink.report(
            "PTO1009",
            f"call of undefined function `@{callee}`",
            Span(self.source, op.start, op.end),
            help=nearest(callee, self.unit.functions, sign="@"),
        )

    def _wrong_call(self, op: Operation, function: Function, given: int) -> None:
        self.sink.report(
            "PTO1010",
            f"`@{function.name}` takes {len(function.args)} arguments, not {given}",
            Span(self.source, op.start, op.end),
            more=(Label(function.op.span(self.source), "defined here"),),
        )

    def _reinterpret(self, op: Operation) -> None:
        named: dict[str, Any] = {}
        for clause in op.clauses:
            parts = (t for t in clause.parts[1].parts if isinstance(t, Tok))
            named[clause.parts[0].value] = [self.use(t, None) for t in parts]
        op.bound = {**named, "source": self._uses(op.ins)[0]}  # a list of this name is no memref
        self._results(op, [self.type_of(t) for t in op.arrow or ()])

    def _regions_only(self, op: Operation) -> None:
        for region in op.regions:
            self._region(region, [])

    def _strict(self, op: Operation) -> None:
        captured = self._uses(op.ins, op.ins_types)
        op.bound = {"values": captured}
        outer = self.scope.isolate()
        self._region(op.regions[0], [o.type or ErrorType() for o in captured])
        self.scope.restore(outer)
        self._results(op, [self.type_of(t) for t in op.arrow or ()])


def _callee(op: Operation) -> str:
    if op.items:
        return getattr(token_value(op.items[0]), "name", "")
    return getattr(attribute_of(op, "callee"), "name", "")


def constant_value(literal: Any, type_: Type) -> Any:
    """Return the value of a literal in a scalar type, None if it does not fit.

    Integers may be written with or without sign: they fit if they are between the smallest signed
    and the largest unsigned number of the width (as MLIR has it), and are given with the type's
    sign. A hexadecimal literal of a float type is its bit pattern.
    """
    if isinstance(type_, VectorType):
        return _vector_constant(literal, type_)
    if not isinstance(type_, ScalarType) or literal.__class__ is not Tok:
        return None
    element = type_.dtype
    value = token_value(literal)
    if element.is_float:
        return None if literal.type == "INT" else _float_constant(value, literal, element)
    if isinstance(value, bool):
        return int(value) if element.name != "i1" else value
    if not isinstance(value, int):
        return None
    if element.name == "i1":
        return bool(value)
    if not -(1 << element.bits - 1) <= value < 1 << element.bits:
        return None
    wrapped = value & ((1 << element.bits) - 1)
    if element.kind == "int" and wrapped >> (element.bits - 1):
        wrapped -= 1 << element.bits
    return wrapped


def _vector_constant(literal: Any, type_: VectorType) -> Any:
    """The numbers of a vector in order; of a tensor the text."""
    if literal.__class__ is not Tok:
        return getattr(literal, "value", None)
    value = token_value(literal)
    if type_.kind != "vector":
        return literal.value if _fits(literal, value, type_) else None
    count = math.prod(d or 0 for d in type_.dims)
    literals = dense_literals(value, type_)
    if literals is None or count > _MOST_LANES:
        return None
    numbers = tuple(constant_value(tok, ScalarType(type_.elem)) for tok in literals)
    if None in numbers:
        return None
    return numbers * count if len(numbers) == 1 else numbers


def dense_literals(value: Any, type_: VectorType) -> tuple[Tok, ...] | None:
    """Return the literal of each element of a shaped type, or one for all; None where the value is
    no `Dense` of this shape, or the shape is not static."""
    if not isinstance(value, Dense) or type_.is_unranked or None in type_.dims:
        return None
    bits = 1 if type_.elem.name == "i1" else type_.elem.bits  # of them a byte has eight
    return value.of([d or 0 for d in type_.dims], bits)


def _fits(literal: Tok, value: Any, type_: VectorType) -> bool:
    """False for numbers that a tensor does not hold, or not as many."""
    element = type_.elem
    is_number = element.is_float or element.is_integer
    if literal.type != "DENSE" or not is_number:
        return literal.type not in LITERALS  # of a number, not of a tensor
    literals, scalar = dense_literals(value, type_), ScalarType(element)
    return literals is not None and all(constant_value(t, scalar) is not None for t in literals)


_FLOAT_PATTERNS = {16: ("<H", "<e"), 32: ("<I", "<f"), 64: ("<Q", "<d")}


def _float_constant(value: Any, literal: Tok, element: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if literal.type != "HEX" or isinstance(value, float):
        return float(value)
    if value < 0 or value >> element.bits:
        return None
    if element.family == "bf16":
        return struct.unpack("<f", struct.pack("<I", value << 16))[0]
    if element.bits not in _FLOAT_PATTERNS:
        return None
    integer, real = _FLOAT_PATTERNS[element.bits]
    return struct.unpack(real, struct.pack(integer, value))[0]


def literal_type(literal: Any) -> Type:
    """Return the type of a literal that names none."""
    kind = getattr(literal, "type", "")
    if kind in ("TRUE", "FALSE"):
        return ScalarType(dtype("i1"))
    if kind in ("INT", "HEX"):
        return ScalarType(dtype("i64"))
    return ScalarType(dtype("f64"))
