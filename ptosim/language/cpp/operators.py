"""Operators: of numbers and places, and those that structs of the file define, as members or beside
them; objects that are numbers; arguments of their templates that are left out."""

from __future__ import annotations

import re
from typing import Any

from ptosim.language.cpp.declared import (
    CONVERSION,
    Declared,
    Overloads,
    field_of,
    name_node,
    named,
    parameters,
    text,
)
from ptosim.language.cpp.kinds import (
    INT,
    LONG,
    Address,
    Array,
    Cell,
    Global,
    Num,
    Place,
    Pointer,
    Scalar,
    Struct,
    StructType,
    Tile,
    number,
    wrap,
)
from ptosim.language.cpp.state import CppError, refused
from ptosim.language.cpp.structs import Structs, in_scope
from ptosim.language.cpp.templates import param_name
from ptosim.language.cpp.types_of import CHANGES

_ARRAY_REFERENCE = re.compile(r"\w+\s*\(\s*&\s*(\w+)\s*\)\s*\[[^\]]*\]")
"""`int (&r)[3] = a`, which the grammar takes for an assignment."""
_NAMED = frozenset(("identifier", "field_expression", "this"))


class Operators(Structs):
    """What operators do with objects."""

    def operated(self, op: str, owner: Struct, values: list[Any], node: Any) -> Any:
        """Call an operator that a struct of the file defines; raises CppError if it has none."""
        found = self._find_method(owner.type, f"operator{op}")
        if found is not None:
            scope = self._object_scope(owner)
            moved = Overloads(found.name, [in_scope(f, scope) for f in found.functions])
            return self.call_with(moved, None, values, node)
        free = self._beside(owner, op, len(values) + 1)
        if free is None:
            raise CppError(node, f"`{owner.type.name}` has no operator `{op}`")
        return self.call_with(free, None, [owner, *values], node)

    def _has(self, value: Any, op: str, others: int) -> bool:
        """Does the struct of an object define an operator with so many other operands?"""
        if not isinstance(value, Struct) or not isinstance(value.type, StructType):
            return False
        own = self._find_method(value.type, f"operator{op}")
        if own is not None and any(len(parameters(f.node)) == others for f in own.functions):
            return True
        return self._beside(value, op, others + 1) is not None

    def _beside(self, value: Struct, op: str, count: int) -> Overloads | None:
        """Return the operators with so many operands that are no members."""
        word = f"operator{op}"
        for found in (self.scope.find(word), value.type.scope.find(word)):
            functions = found.functions if isinstance(found, Overloads) else []
            fitting = [f for f in functions if len(parameters(f.node)) == count]
            if fitting:
                return Overloads(word, fitting)
        return None

    def binary(self, op: str, a: Any, b: Any, node: Any) -> Any:
        """Return `a op b`, of an object by its own operator."""
        if a.__class__ is Num is b.__class__:
            return super().binary(op, a, b, node)
        if self._has(a, op, 1):
            return self.operated(op, a, [b], node)
        if self._has(b, op, 1) and (free := self._beside(b, op, 2)) is not None:
            return self.call_with(free, None, [a, b], node)
        return super().binary(op, a, b, node)

    def library_call(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Call a function by a name that is not known here; where its first argument is an object,
        it may be one of the namespace of its struct."""
        plain = args[:1] if args and args[0].type == "identifier" else []
        held = self.scope.find(text(plain[0])) if plain else None
        owner = held.value if isinstance(held, Cell) else held
        if isinstance(owner, Struct) and isinstance(owner.type, StructType):
            found = owner.type.scope.find(word)
            if isinstance(found, Overloads):
                return self.call(found, targs or None, args, node)
        return super().library_call(word, targs, args, node)

    def _s_for_range_loop(self, node: Any) -> None:
        """`for (auto v : object)`: from its `begin()` to its `end()`, where these are known."""
        whole = self.ev(field_of(node, "right"))
        name = name_node(field_of(node, "declarator"))
        has_ends = isinstance(whole, Struct) and isinstance(whole.type, StructType)
        if not has_ends or name is None or self._find_method(whole.type, "begin") is None:
            return super()._s_for_range_loop(node)
        at = self.copied(self.member_call(whole, "begin", [], [], node))
        end = self.member_call(whole, "end", [], [], node)
        while self.known(self.truth(self.binary("!=", at, end, node), node), node, "the end"):
            self.step(node)
            with self.scoped() as scope:
                value = self.operated("*", at, [], node)
                scope.names[text(name)] = self.cell(value, getattr(value, "type", None))
                left = self._followed_round(field_of(node, "body"))
            if self.known(left, node, "whether the loop is left"):
                return None
            self.operated("++", at, [], node)
        return None

    def num(self, value: Any, node: Any) -> Num:
        """Return a value that must be a number; an object may say which one it is."""
        if value.__class__ is Num:
            return value
        return super().num(self.as_number(value, node), node)

    def as_number(self, value: Any, node: Any) -> Any:
        """Return what the conversion operator of an object makes of it; other values unchanged."""
        if not isinstance(value, Struct) or not isinstance(value.type, StructType):
            return value
        found = self._find_method(value.type, CONVERSION)
        if found is None:
            return value
        function = found.functions[0].node
        with self.scoped(self._object_scope(value)):
            type_ = self.type_of(field_of(field_of(function, "declarator"), "type"))
            return self._followed(field_of(function, "body"), type_, value.type.name, node)

    def as_type(self, value: Any, type_: Any, node: Any) -> Any:
        """Return a value in another type."""
        if isinstance(type_, (Scalar, Pointer)):
            value = self.as_number(value, node)
        return super().as_type(value, type_, node)

    def _e_unary_expression(self, node: Any) -> Any:
        op = text(field_of(node, "operator"))
        owner = self.ev(field_of(node, "argument"))
        if self._has(owner, op, 0):
            return self.operated(op, owner, [], node)
        value = self.num(owner, node)
        self.here(node)
        if op in ("!", "not"):
            return self.negated(self.truth(value, node))
        is_short = isinstance(value.type, Scalar) and value.type.kind != "float"
        if is_short and value.type.bits < 32:
            value = self.cast(value, INT, node)
        if op == "-":
            return self.negative(value, node)
        if op == "~":
            return self.binary("^", value, Num(value.type, wrap(-1, value.type)), node)
        return value

    def _e_update_expression(self, node: Any) -> Any:
        target = self.variable(field_of(node, "argument"))
        before, is_prefix = self.taken(target, node), node.children[0].type in ("++", "--")
        op = text(field_of(node, "operator"))
        if self._has(before, op, 0 if is_prefix else 1):
            return self.operated(op, before, [] if is_prefix else [number(0)], node)
        self.here(node)
        after = self.binary(op[0], before, number(1), node)
        self.assign(target, after, node)
        return target if is_prefix else before

    def _e_pointer_expression(self, node: Any) -> Any:
        op, inside = text(field_of(node, "operator")), field_of(node, "argument")
        if op == "&":
            return self.address(inside, node)
        value = self.ev(inside)
        if inside.type != "this" and self._has(value, op, 0):
            return self.operated(op, value, [], node)
        if isinstance(value, Address):
            return value.cell
        if isinstance(value, Array) and value.cells:
            return value.cells[0]
        if isinstance(value, Num) and isinstance(value.type, Pointer):
            return Place(value, number(0, LONG))
        if isinstance(value, (Struct, Tile, Global)):
            return value
        raise CppError(node, "what `*` is applied to is no pointer")

    def _e_assignment_expression(self, node: Any) -> Any:
        op, left = text(field_of(node, "operator")), field_of(node, "left")
        if op == "=" and (word := _ARRAY_REFERENCE.fullmatch(text(left))) is not None:
            made = self.scope.names[word[1]] = self.cell(self.ev(field_of(node, "right")))
            return made
        right = field_of(node, "right")
        # The right side is done first (C++17), which shows where one of them changes something.
        is_later = left.type != "identifier" and CHANGES.search(node.text) is not None
        value = self.ev(right) if is_later else None
        target = self.variable(left)
        value = value if is_later else self.ev(right)
        owner = target.value if isinstance(target, Cell) else target
        if self._has(owner, op, 1):
            return self.operated(op, owner, [value], node)
        self.here(node)
        if isinstance(value, list):
            value = self.constructed(self.type_of_value(target, node), value, node)
        if op != "=":
            value = self.binary(op[:-1], self.taken(target, node), value, node)
        self.assign(target, value, node)
        return target

    def _e_field_expression(self, node: Any) -> Any:
        if text(field_of(node, "operator")) == "->" and field_of(node, "argument").type in _NAMED:
            owner = self.ev(field_of(node, "argument"))
            if self._has(owner, "->", 0):
                found = self.operated("->", owner, [], node)
                owner = self.taken(found.cell, node) if isinstance(found, Address) else found
                return owner.fields[text(field_of(node, "field"))]
        return super()._e_field_expression(node)

    def _e_subscript_expression(self, node: Any) -> Any:
        inside = field_of(node, "argument")
        owner = self.ev(inside) if inside.type in _NAMED else None
        if isinstance(owner, Struct) and isinstance(owner.type, StructType):
            return self.operated("[]", owner, [self.ev(named(field_of(node, "indices"))[0])], node)
        return super()._e_subscript_expression(node)

    def template_of(self, found: Declared, args: list[Any], node: Any) -> Any:
        """Return the struct that a template is for what an object is made with: its arguments are
        deduced from a constructor, or from the fields."""
        body = field_of(found.node, "body")
        inside = named(body) if body is not None else []
        lists = [parameters(p) for p in inside if p.type == "function_definition" and
                 field_of(p, "type") is None and text(name_node(field_of(p, "declarator"))
                 or p) == found.name]  # fmt: skip
        lists.append([p for p in inside if p.type == "field_declaration"])
        names = [param_name(p) for p in found.params or ()]
        for params in lists:
            bound = self._deduced(
                Declared("function", found.name, found.node, found.params, found.scope),
                params, [], args,
            )  # fmt: skip
            if len(params) >= len(args) and all(n in bound for n in names):
                return self.instance(found, tuple(bound[n] for n in names), node)
        raise refused(node, found.name, "arguments of the template are left out here",
                      "write them: `name<…> object`")  # fmt: skip
