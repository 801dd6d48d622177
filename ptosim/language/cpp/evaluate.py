"""Expressions: what they are, and which place they name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any

from ptosim.language.cpp import library
from ptosim.language.cpp.arithmetic import literal
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    field_of,
    named,
    size_of,
    text,
)
from ptosim.language.cpp.kinds import (
    BOOL,
    SCALARS,
    ULONG,
    Address,
    Array,
    ArrayType,
    Cell,
    Chosen,
    Designated,
    DimsValue,
    Member,
    Named,
    Num,
    Place,
    Pointer,
    Scalar,
    Struct,
    StructType,
    Tile,
    TileType,
    Viewed,
    number,
)
from ptosim.language.cpp.names import is_type, unknown
from ptosim.language.cpp.references import References
from ptosim.language.cpp.state import (
    DEEPEST,
    MOST_VALUES,
    CppError,
    Extent,
    NeedsConstant,
    has_numbers,
    refused,
)
from ptosim.language.cpp.templates import fold, pack_in

_NUMBER = re.compile(
    r"(?P<digits>0[xX][\da-fA-F']+|0[bB][01']+|[\d'.]+(?:[eE][+-]?\d+)?)(?P<suffix>\w*)$"
)
_HEX = frozenset("xX")


_MOST_CHOSEN = 64
"""Elements of an array among which a value of the run may choose."""
_EXTENTS = {"RowMaskInternal": 0, "ColMaskInternal": 1}


def _are_equal(one: Member, two: Member) -> bool:
    """Two names of a file may have one number; of words of the library each is another one."""
    if one.is_own and two.is_own:
        return one.const == two.const
    return (one.enum, one.name) == (two.enum, two.name)


class Expressions(References):
    """Evaluation of expressions."""

    def ev(self, node: Any) -> Any:
        """Return what an expression is: a number, an object, a type."""
        handler = getattr(self, f"_e_{node.type}", None)
        if handler is None:
            raise refused(
                node,
                text(node)[:40],
                f"a {node.type.replace('_', ' ')} has no form in the IR",
                "write it with what the manual page `From C++` lists",
            )
        self.deep += 1
        self.values += 1
        try:
            if self.deep > DEEPEST:
                raise CppError(node, "the expression is nested too deeply")
            if self.values > MOST_VALUES:
                raise CppError(
                    node,
                    f"more than {MOST_VALUES:,} expressions are evaluated before the run",
                    "a loop without an end?",
                )
            return self.taken(handler(node), node)
        finally:
            self.deep -= 1

    values = 0

    def taken(self, value: Any, node: Any) -> Any:
        """Return what is in a cell or an element of memory."""
        if isinstance(value, Cell):
            return self.read(value, node, f"`{text(node)[:30]}`")
        if isinstance(value, Place):
            return self.loaded(value, node)
        if isinstance(value, Viewed):
            held = self.num(self.read(value.cell, node, f"`{text(node)[:30]}`"), node)
            return self.punned(held, value.type, node)
        if isinstance(value, Chosen):
            values = [self.taken(c, node) for c in value.cells]
            return self.selected(values, value.at, node, self.choose)
        return value

    def lv(self, node: Any) -> Any:
        """Return the cell, the element of memory or the object that an expression names."""
        kind = node.type
        if kind == "parenthesized_expression":
            return self.lv(named(node)[0])
        if kind in ("identifier", "qualified_identifier", "this", "subscript_expression",
                    "field_expression", "conditional_expression", "call_expression",
                    "pack_element"):  # fmt: skip
            return getattr(self, f"_e_{kind}")(node)
        if kind == "pointer_expression" and text(field_of(node, "operator")) == "*":
            return getattr(self, f"_e_{kind}")(node)
        return self.ev(node)

    # -- atoms -------------------------------------------------------------------------------------

    def _e_identifier(self, node: Any) -> Any:
        word = text(node)
        found = self.look(word, node)
        if found is None and word in ("block_idx", "block_num"):
            return self.grid(f"get_{word}", node)
        if found is None:
            raise unknown(node, "nothing of that name is known")
        return found

    _e_type_identifier = _e_namespace_identifier = _e_field_identifier = _e_identifier

    def grid(self, word: str, node: Any) -> Num:
        """Return the number of this block, or how many there are."""
        raise NotImplementedError

    def _e_qualified_identifier(self, node: Any) -> Any:
        found = self.qualified(node)
        if found is None:
            raise unknown(node, "nothing of that name is known")
        return found

    def _e_template_function(self, node: Any) -> Any:
        return self.template(node)

    def _e_template_type(self, node: Any) -> Any:
        return self.template(node)

    def _e_primitive_type(self, node: Any) -> Any:
        return self.type_of(node)

    def _e_dependent_type(self, node: Any) -> Any:
        return self.type_of(node)

    _e_sized_type_specifier = _e_primitive_type

    def _e_type_descriptor(self, node: Any) -> Any:
        return self.argument(node)

    def _e_number_literal(self, node: Any) -> Num:
        return literal(text(node), node)

    def _e_true(self, node: Any) -> Num:
        return Num(BOOL, True)

    def _e_false(self, node: Any) -> Num:
        return Num(BOOL, False)

    def _e_null(self, node: Any) -> Num:
        return Num(Pointer(SCALARS["void"]), 0)

    _e_nullptr = _e_null

    def _e_char_literal(self, node: Any) -> Num:
        return number(ord(ast.literal_eval(text(node))), SCALARS["int8_t"])

    def _e_string_literal(self, node: Any) -> str:
        return text(node)

    _e_concatenated_string = _e_string_literal

    def _e_this(self, node: Any) -> Any:
        found = self.scope.find("this")
        if found is None:
            raise CppError(node, "`this` outside of a member function")
        return found

    def _e_parenthesized_expression(self, node: Any) -> Any:
        return self.ev(named(node)[0])

    def _e_condition_clause(self, node: Any) -> Any:
        return self.ev(field_of(node, "value"))

    def _e_comma_expression(self, node: Any) -> Any:
        parts = named(node)
        for part in parts[:-1]:
            self.ev(part)
        return self.ev(parts[-1])

    def _e_initializer_list(self, node: Any) -> list[Any]:
        return [self.ev(part) for part in named(node)]

    def _e_initializer_pair(self, node: Any) -> Designated:
        designator = field_of(node, "designator")
        if designator.type != "field_designator":
            raise refused(node, text(node)[:40], "an element is named", "write all elements")
        return Designated(text(named(designator)[0]), self.ev(field_of(node, "value")))

    def _e_compound_literal_expression(self, node: Any) -> Any:
        type_ = self.type_of(field_of(node, "type"))
        return self.constructed(type_, self._e_initializer_list(field_of(node, "value")), node)

    def constructed(self, type_: Any, args: list[Any], node: Any, label: str = "") -> Any:
        """Return an object of a type made with arguments."""
        raise NotImplementedError

    # -- operators ---------------------------------------------------------------------------------

    def address(self, inside: Any, node: Any) -> Any:
        """Return `&inside`."""
        found = self.lv(inside)
        if isinstance(found, Viewed):
            return Address(found)
        if isinstance(found, Place):
            return self.binary("+", found.pointer, found.index, node)
        if isinstance(found, Cell) and isinstance(found.value, Num):
            return Address(found)
        return self.taken(found, node)

    def _e_binary_expression(self, node: Any) -> Any:
        op = text(field_of(node, "operator"))
        left, right = field_of(node, "left"), field_of(node, "right")
        first = self.ev(left)
        if op in ("&&", "||", "and", "or"):
            return self._logical({"and": "&&", "or": "||"}.get(op, op), first, right, node)
        second = self.ev(right)
        if isinstance(first, Member) and isinstance(second, Member) and op in ("==", "!="):
            return Num(BOOL, _are_equal(first, second) == (op == "=="))
        self.here(node)
        return self.binary(op, first, second, node)

    def _logical(self, op: str, first: Any, right: Any, node: Any) -> Num:
        a = self.truth(first, node)
        if a.is_known and bool(a.const) != (op == "&&"):
            return Num(BOOL, bool(a.const))
        b = self.apart_of(lambda: self.truth(self.ev(right), node))
        if b is None:  # what it does is only done where it is asked
            made = self.cell(Num(BOOL, op == "||"), BOOL)
            go = a if op == "&&" else self.negated(a)
            self.branch(go, lambda: made.set(self.truth(self.ev(right), node)), None)
            return made.value
        self.here(node)
        return self.both(op, a, b)

    branch: Any

    def apart_of(self, made: Callable[[], Any]) -> Any:
        """Return what an expression is that may not be asked; None, and nothing of it is left, if
        it changes a variable, or does more than to compute: a load may be outside of its buffer."""
        mark, before, length = len(self.journal.entries), self.journal.count, len(self.make.ops)
        cached = len(self.cache)
        value = made()
        done = self.make.ops[length:]
        is_quiet = all(op.result_tokens and "load" not in op.name for op in done)
        outside = any(cell is None for cell, _ in self.journal.entries[mark:])
        if is_quiet and not outside and not self.journal.written(mark, before):
            return value
        self.undo_to(mark, length, cached)
        return None

    def _e_conditional_expression(self, node: Any) -> Any:
        yes, no = field_of(node, "consequence"), field_of(node, "alternative")
        if yes is None:
            raise refused(node, "?:", "it is no C++", "write what is meant if it is true")
        condition = self.truth(self.ev(field_of(node, "condition")), node)
        if condition.is_known:
            return self._meant(*((yes, no) if condition.const else (no, yes)), node)
        both = self.apart_of(lambda: (self.ev(yes), self.ev(no)))
        self.here(node)
        if both is None:
            made = self.cell(None)
            type_ = self.scalar_of(node)
            self.branch(
                condition, *(lambda n=n: made.set(self._in_type(n, type_)) for n in (yes, no))
            )
            return made.value
        a, b = both
        if isinstance(a, Tile) and isinstance(b, Tile):
            return self.chosen_tile(condition, a, b, node)
        if isinstance(a, Member) and isinstance(b, Member) and a == b:
            return a
        if not isinstance(a, (Num, Member)) or not isinstance(b, (Num, Member)):
            raise NeedsConstant(node, "which object is meant depends on values of the run")
        return self.choose(condition, self.num(a, node), self.num(b, node), node)

    def variable(self, node: Any) -> Any:
        """Return the place that an expression names, which is changed."""
        found = self.named_place(node)
        return self.no_number(found, node)

    def no_number(self, found: Any, node: Any) -> Any:
        """Return what is changed; a number in its place was chosen by a value of the run."""
        if isinstance(found, Num) and not isinstance(found.type, Pointer):
            raise NeedsConstant(
                node, f"which variable `{text(node)[:30]}` names depends on values of the run",
                "write a branch for each",
            )  # fmt: skip
        return found

    def _meant(self, meant: Any, other: Any, node: Any) -> Any:
        """Return what a condition chooses before the run: a number in the type in which it meets
        the other one."""
        found = self.lv(meant)
        value = self.taken(found, meant) if isinstance(found, Cell) else found
        if not isinstance(value, Num) or not isinstance(value.type, Scalar):
            return found
        type_ = self.scalar_of(other)
        if type_ is None or type_ == value.type:
            return found
        return self.cast(value, self.common(value, Num(type_, 0)), node)

    def _in_type(self, node: Any, type_: Scalar | None) -> Num:
        value = self.num(self.ev(node), node)
        return value if type_ is None else self.cast(value, type_, node)

    def chosen_tile(self, condition: Num, a: Tile, b: Tile, node: Any) -> Tile:
        """Return one of two tiles, as a tile at the address that is selected."""
        raise NotImplementedError

    def assign(self, target: Any, value: Any, node: Any) -> None:
        """Give a variable, an element of memory or an object another value."""
        if isinstance(target, Place):
            self.stored(target, value, node)
        elif isinstance(target, Viewed):
            given = self.cast(self.num(value, node), target.type, node)
            target.cell.set(self.punned(given, target.cell.type, node))
        elif isinstance(target, Chosen):
            for i, cell in enumerate(target.cells):
                before = self.num(self.taken(cell, node), node)
                given = self.cast(self.num(value, node), before.type, node)
                same = self.compare("==", target.at, number(i, target.at.type), node)
                self.assign(cell, self.choose(same, given, before, node), node)
        elif isinstance(target, Cell):
            if isinstance(value, Num) and isinstance(target.type, (Scalar, Pointer)):
                value = self.cast(value, target.type, node)
            if isinstance(value, Member) and isinstance(target.type, Scalar):
                value = self.cast(self.num(value, node), target.type, node)
            if isinstance(value, Struct) and value is not target.value:
                self._filled(target, value, node)
            else:
                target.set(self.copied(value))
        else:
            self.assigned(target, value, node)

    def _filled(self, target: Cell, value: Struct, node: Any) -> None:
        """Give an object with fields those of another one; references to them stay."""
        own = target.value
        if (
            isinstance(own, Struct)
            and own.type == value.type
            and own.fields.keys() == value.fields.keys()
        ):
            self.assigned(own, value, node)
        else:
            target.set(self.copied(value))

    copied: Any

    def assigned(self, target: Any, value: Any, node: Any) -> None:
        """Give an object of the library another value."""
        raise NotImplementedError

    # -- members, elements, conversions ------------------------------------------------------------

    def _e_subscript_expression(self, node: Any) -> Any:
        owner = self.ev(field_of(node, "argument"))
        at = self.ev(named(field_of(node, "indices"))[0])
        if isinstance(owner, Array):
            return self.element(owner, self.num(at, node), node)
        if isinstance(owner, Named) and owner.name == "sizes":
            return owner.args[self.known(at, node, "the index")]
        if isinstance(owner, Num) and isinstance(owner.type, Pointer):
            return Place(owner, self.num(at, node))
        if isinstance(owner, Address) and isinstance(at, Num) and at.const == 0:
            return owner.cell
        raise CppError(node, "what is in front of `[` has no elements")

    def element(self, owner: Array, at: Num, node: Any) -> Any:
        """Return an element of an array; of tiles one at a selected address."""
        if at.is_known:
            if not 0 <= at.const < len(owner.cells):
                raise CppError(node, f"element {at.const} of an array of {len(owner.cells)}")
            return owner.cells[at.const]
        values = [self.taken(c, node) for c in owner.cells]
        self.here(node)
        if all(isinstance(v, Num) for v in values) and len(values) <= _MOST_CHOSEN:
            return Chosen(owner.cells, at)
        if all(isinstance(v, Tile) and v.address.value is not None for v in values):
            return self.selected(values, at, node, self.chosen_tile)
        if all(isinstance(v, Array) for v in values) and len(values) <= _MOST_CHOSEN:
            rows = zip(*(v.cells for v in values), strict=True)
            chosen: list[Any] = [Chosen(list(row), at) for row in rows]
            return Array(values[0].type, chosen)
        if all(has_numbers(v) for v in values) and len(values) <= _MOST_CHOSEN:
            names = values[0].fields
            fields = {n: Chosen([v.fields[n] for v in values], at) for n in names}
            return Struct(values[0].type, fields)
        raise NeedsConstant(node, "which element is meant depends on values of the run")

    def selected(self, values: list[Any], at: Num, node: Any, choose: Any) -> Any:
        """Return the one of some values that a number of the run chooses."""
        if len(values) > _MOST_CHOSEN:
            raise NeedsConstant(
                node, f"which of {len(values)} elements is meant differs by the run"
            )
        found = values[-1]
        for i in reversed(range(len(values) - 1)):
            condition = self.compare("==", at, number(i, at.type), node)
            found = choose(condition, values[i], found, node)
        return found

    def _e_field_expression(self, node: Any) -> Any:
        owner = self.ev(field_of(node, "argument"))
        name = field_of(node, "field")
        if name.type in ("template_method", "dependent_name"):
            name = named(name)[0] if name.type == "template_method" else named(name)[-1]
        word = text(field_of(name, "name") if name.type == "template_method" else name)
        if isinstance(owner, Address):
            owner = self.taken(owner.cell, node)
        if isinstance(owner, Tile) and word in _EXTENTS:
            return Extent(owner, _EXTENTS[word])
        if isinstance(owner, Struct):
            if word in owner.fields:
                return owner.fields[word]
            found = (
                self.static_member(owner.type, word, node)
                if isinstance(owner.type, StructType)
                else None
            )
            if found is not None:
                return found
        found = self.member(getattr(owner, "type", None), word, node)
        if found is None:
            raise CppError(node, f"there is no member `{word}` here")
        return found

    def _e_cast_expression(self, node: Any) -> Any:
        return self.converted_to(
            self.type_of(field_of(node, "type")), field_of(node, "value"), node
        )

    def converted_to(self, type_: Any, value_node: Any, node: Any) -> Any:
        """Return a value in another type, as a cast makes it."""
        value = self.ev(value_node)
        self.here(node)
        return self.as_type(value, type_, node)

    def as_type(self, value: Any, type_: Any, node: Any) -> Any:
        """Return a value in another type."""
        if library.is_numeric(value) and isinstance(type_, (Scalar, Pointer)):
            if type_ == SCALARS["void"]:
                return value
            return self.cast(self.num(value, node), type_, node)
        if isinstance(value, Address) and isinstance(type_, Pointer):
            return self._address_as(value, type_, node)
        return value

    def _address_as(self, value: Address, type_: Pointer, node: Any) -> Any:
        """Return the address of a variable as a pointer to another type."""
        cell = value.cell.cell if isinstance(value.cell, Viewed) else value.cell
        if not isinstance(type_.to, Scalar) or type_.to.kind == "void" or cell.type == type_.to:
            return Address(cell)
        if type_.to.bits > cell.type.bits:
            raise CppError(node, f"{type_.to.name} is wider than the variable that is pointed to")
        return Address(Viewed(cell, type_.to))

    def _e_sizeof_expression(self, node: Any) -> Num:
        inside = field_of(node, "type") or field_of(node, "value")
        if any(c.type == "..." for c in node.children):
            pack = pack_in(inside, self.scope)
            return number(len(pack[1]) if pack is not None else 0, ULONG)
        while inside.type == "parenthesized_expression":
            inside = named(inside)[0]
        found = self.type_of(inside) if inside.type == "type_descriptor" else self.lv(inside)
        type_ = found if is_type(found) else self._type_in(found, node)
        return number(size_of(self, type_, node)[0], ULONG)

    def _e_alignof_expression(self, node: Any) -> Num:
        type_ = self.type_of(field_of(node, "type"))
        return number(size_of(self, type_, node)[1], ULONG)

    def _e_pack_element(self, node: Any) -> Any:
        if node.is_plain:
            return node.value
        with self.scoped() as scope:
            scope.names[node.name] = node.value
            return self.lv(node.pattern)

    def _e_fold_expression(self, node: Any) -> Any:
        return fold(self, node)

    def _type_in(self, found: Any, node: Any) -> Any:
        if isinstance(found, Place):
            return found.pointer.type.to
        if isinstance(found, Cell) and found.type is not None:
            return found.type
        return self.type_of_value(found, node)

    def _e_new_expression(self, node: Any) -> Any:
        raise refused(node, text(node)[:40], "kernels have no heap", "declare the object")

    _e_delete_expression = _e_new_expression

    def _e_gnu_asm_expression(self, node: Any) -> Any:
        raise refused(node, "asm", "it is text for the compiler", "use the instructions on tiles")


__all__ = ["ArrayType", "Declared", "DimsValue", "Expressions", "Overloads", "Place", "TileType"]
