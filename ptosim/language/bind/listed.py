"""Type lists that leave out some operands by their names (`unlisted` of a row): the operands have
to be bound before their types can be told apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ptosim.ground.ir.core import Operand, Operation, Tok
from ptosim.ground.ir.types import ErrorType, ScalarType, Type, VectorType
from ptosim.ground.isa.dtypes import dtype
from ptosim.ground.isa.rows import Isa
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.source import Span
from ptosim.language.bind.names import Naming, compatible
from ptosim.language.bind.written import Written, type_tokens


class Listed(Naming):
    """Adds the types of operands whose list leaves some out."""

    def _listed_types(self, op: Operation, definition: OpDef) -> None:
        if definition.unlisted is None or op.variant is None:
            return
        for name, word in definition.unlisted.items():
            operand = op.bound.get(name)
            if isinstance(operand, Operand):
                self._has_type(operand, ScalarType(dtype(word)))
        if op.form != "items" or definition.form == "generic":
            return
        self._brackets(op, definition)
        operands = list(_listed(op, definition))
        tokens = type_tokens(op)
        in_list = definition.result_type == "last" and op.arrow is None
        count = len(operands) + (len(op.variant.outs) if in_list else 0)
        if len(tokens) != count:
            self._wrong_list(op, tokens, f"expected {count} type{'s' * (count != 1)}")
            return
        if op.variant.outs and not in_list and op.arrow is None:
            self._wrong_list(op, tokens, "expected '->' and the type of each result")
        for operand, token in zip(operands, tokens, strict=False):
            self._has_type(operand, self.type_of(token))

    def _one_type(self, op: Operation, definition: OpDef, written: Written) -> None:
        """Of operations whose list is the one type of all operands (`arith.addi %a, %b : i32`)
        report an operand of another; the condition of a choice is no part of it."""
        is_scalar = op.name.startswith(("arith.", "math.")) and op.form == "items"
        if not is_scalar or len(written.types) != 1 or op.variant is None or op.arrow is not None:
            return
        declared = written.types[0]
        if isinstance(declared, VectorType) and None in declared.dims:
            return  # what its extents are only the run knows
        for operand in written.ins[1 if "selects" in definition.traits else 0 :]:
            value, token = operand.value, operand.tok
            if value is None or not isinstance(token, Tok):
                continue
            if not compatible(value.type, declared):
                self._report_use(value, declared, token)
                operand.type = ErrorType()

    def _brackets(self, op: Operation, definition: OpDef) -> None:
        """Report an index outside of brackets, and brackets where the operation has none."""
        if any(operand.variadic for operand in op.variant.ins) if op.variant is not None else True:
            return
        indexed = [item for item in op.items if getattr(item, "kind", "") == "indexed"]
        wanted = 0 if definition.brackets is None else 1
        fits = len(indexed) == wanted and all(
            len(item.parts) == 2 and item.parts[1].type == "SSA" for item in indexed
        )
        if not fits:
            what = f"%base[%{definition.brackets}]" if wanted else "no operand in brackets"
            self._wrong_list(op, [], f"expected {what}")

    def _has_type(self, operand: Operand, declared: Type) -> None:
        """Report an operand of another type, to the letter (no text of the date that has these
        operations leaves out a space); an undefined one of a snippet takes it."""
        value, token = operand.value, operand.tok
        if value is None or not isinstance(token, Tok):
            return
        if value.is_argument and isinstance(value.type, ErrorType) and value.owner is None:
            value.type = operand.type = declared
        elif value.type != declared and not isinstance(value.type, ErrorType):
            self._report_use(value, declared, token)
            operand.type = ErrorType()
        elif value.type == declared:
            operand.type = declared  # of a second mention too, made before the first had its type

    def _wrong_list(self, op: Operation, tokens: list[Tok], problem: str) -> None:
        end = tokens[-1].end if tokens else op.name_end
        start = tokens[0].start if tokens else op.start
        self.sink.report(
            "PTO2301",
            f"'{op.name}' op: {problem}",
            Span(self.source, start, end),
            notes=("the list has the types of the operands in order, without indices and strides",),
            help=f"see `ptosim ops {op.name.removeprefix('pto.')}`",
        )


def _listed(op: Operation, definition: OpDef) -> Iterator[Operand]:
    """The operands that have a type in the list, in the order of the row."""
    for name, operand in op.operands():
        is_input = op.variant is not None and any(d.name == name for d in op.variant.ins)
        if is_input and operand.value is not None and name not in (definition.unlisted or ()):
            yield operand


# -- several spellings of one operation: what a spelling says is found under the names of the ------


def take_meaning(op: Operation, definition: OpDef, isa: Isa) -> None:
    """Give an operation the attributes and the names of operands of the one that its row `means`;
    operands that it has no word for are left out."""
    for name, value in definition.sets.items():
        said = _said(op, value)
        if said is not None:
            op.attributes[name] = said
    meant = isa.get(definition.means) if definition.means is not None else None
    if meant is None or op.variant is None:
        return
    for attr in meant.attrs.values():
        op.attributes.setdefault(attr.name, attr.default)
    for variant in meant.variants:
        for operand in variant.operands:
            op.bound.setdefault(operand.name, None)


def _said(op: Operation, value: Any) -> Any:
    """`@name`: what the text says of an attribute, else the constant of an operand or of a list."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    name = value[1:]
    said = op.attributes.get(name)
    if said is not None:
        return said
    bound = op.bound.get(name)
    if isinstance(bound, list):
        return [operand.const for operand in bound] or None
    return bound.const if isinstance(bound, Operand) else None
