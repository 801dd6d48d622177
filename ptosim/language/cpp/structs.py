"""Structs of the file: their fields and constructors, their member functions and operators; unions,
pairs and tuples, structured bindings."""

from __future__ import annotations

from typing import Any

from ptosim.language.cpp.calls import Calls
from ptosim.language.cpp.communication import conv_member, group_member, is_conv, is_group
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    default_of,
    field_of,
    fields_of,
    has_word,
    inner,
    name_node,
    named,
    parameters,
    text,
)
from ptosim.language.cpp.kinds import (
    SCALARS,
    Address,
    Array,
    ArrayType,
    Cell,
    Chosen,
    Designated,
    Event,
    Global,
    Lambda,
    Named,
    Num,
    Place,
    Pointer,
    Scalar,
    StandardArray,
    Struct,
    StructType,
    Tile,
    Viewed,
    number,
)
from ptosim.language.cpp.state import CppError, Scope, refused
from ptosim.language.cpp.templates import param_name

_REFERENCE = Named("reference")
"""The type of a field that is a reference, until a constructor binds it."""


class Structs(Calls):
    """Objects with fields."""

    def new_struct(self, type_: StructType, args: list[Any], node: Any, label: str) -> Struct:
        """Return an object of a struct of the file."""
        made = Struct(type_, {})
        self._fields(type_, made, node)
        if type_.node.type == "union_specifier":
            self._shared(made, node)
        found = self._constructors(type_)
        if found is not None and not any(isinstance(a, Designated) for a in args):
            self._construct(made, found, args, node)
            return made
        if len(args) > len(made.fields):
            raise CppError(node, f"`{type_.name}` has {len(made.fields)} fields, and {len(args)} "
                           "values are given")  # fmt: skip
        for key, value in zip(list(made.fields), args, strict=False):
            if isinstance(value, Designated):
                key, value = value.name, value.value
                if key not in made.fields:
                    raise CppError(node, f"`{type_.name}` has no field `{key}`")
            self._fill(made.fields[key], value, node)
        return made

    def _fill(self, cell: Any, value: Any, node: Any) -> None:
        """Give a field its first value."""
        if isinstance(cell, Cell) and cell.type == _REFERENCE and isinstance(value, Num):
            raise refused(node, text(node)[:40], "a field is a reference to a number",
                          "bind it in a constructor")  # fmt: skip
        if isinstance(cell, Viewed):
            self.assign(cell, value, node)
        elif isinstance(value, list):
            type_ = cell.type or self.type_of_value(cell, node)
            cell.set(self.constructed(type_, value, node))
        else:
            value = self.copied(value)
            cell.set(self.as_type(value, cell.type, node) if cell.type else value)

    def _shared(self, made: Struct, node: Any) -> None:
        """The fields of a union are views of the same bits."""
        types = [c.type for c in made.fields.values()]
        if not all(isinstance(t, Scalar) for t in types):
            raise refused(node, made.type.name or "union", "a field of the union is no number",
                          "use numbers, or a struct")  # fmt: skip
        widest = SCALARS[f"uint{max(t.bits for t in types)}_t"]
        cell = self.cell(Num(widest, 0), widest)
        made.fields = {key: Viewed(cell, c.type) for key, c in made.fields.items()}

    def copied(self, value: Any) -> Any:
        """Return an object with fields, or a lambda with what it has captured by value, as one of
        its own: C++ copies it."""
        if isinstance(value, Lambda) and value.node is not None:
            return self._copied_lambda(value)
        if isinstance(value, Array) and isinstance(value.type, StandardArray):
            return Array(value.type, [self.copied_cell(c) for c in value.cells])
        if not isinstance(value, Struct):
            return super().copied(value)
        made = Struct(value.type, {})
        cells: dict[int, Any] = {}
        for key, cell in value.fields.items():
            inside = cell.cell if isinstance(cell, Viewed) else cell
            if not isinstance(inside, Cell):
                made.fields[key] = self.copied_cell(cell) if isinstance(cell, Chosen) else cell
                continue
            own = cells.setdefault(id(inside), self.copied_cell(inside))
            made.fields[key] = Viewed(own, cell.type) if isinstance(cell, Viewed) else own
        return made

    def _copied_lambda(self, value: Lambda) -> Lambda:
        names = value.scope.names
        if b"mutable" not in value.node.text or not names:
            return value
        scope = Scope(value.scope.parent, value.scope.label)
        scope.names = {n: self.copied_cell(c) if n in value.own else c for n, c in names.items()}
        return Lambda(value.node, scope, value.own)

    def copied_cell(self, cell: Cell | Chosen) -> Cell:
        """Return a variable of its own with what another one holds, or the one that is chosen."""
        if isinstance(cell, Chosen):
            at, values = self.make.at, [c.value for c in cell.cells]
            value = self.selected(values, cell.at, at, self.choose)
            return self.cell(value, value.type)
        value = cell.value
        if isinstance(value, Array):
            value = Array(value.type, [self.copied_cell(c) for c in value.cells])
        made = self.cell(self.copied(value), cell.type, soft=cell.soft)
        made.enum = cell.enum
        return made

    # -- pairs, tuples, structured bindings --------------------------------------------------------

    def library_call(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Call a function of the library by its name."""
        if word in ("make_pair", "make_tuple", "pair", "tuple"):
            return self.grouped([self.ev(a) for a in args], word.removeprefix("make_"))
        if word == "get" and targs and args:
            owner = self.ev(args[0])
            at = self.known(self.num(targs[0], node), node, "the index")
            parts = self._parts(owner, node)
            if not 0 <= at < len(parts):
                raise CppError(node, f"element {at} of {len(parts)}")
            return parts[at]
        if word in ("swap", "exchange") and len(args) == 2:
            return self._exchanged(word, args, node)
        return super().library_call(word, targs, args, node)

    def _exchanged(self, word: str, args: list[Any], node: Any) -> Any:
        target = self.variable(args[0])
        other = self.variable(args[1]) if word == "swap" else self.ev(args[1])
        before, given = self.taken(target, node), self.taken(other, node)
        if isinstance(target, Cell) and not isinstance(before, Num):
            target.set(given)
        else:
            self.assign(target, given, node)
        if word == "exchange":
            return before
        if isinstance(other, Cell) and not isinstance(before, Num):
            other.set(before)
        else:
            self.assign(other, before, node)
        return None

    def grouped(self, values: list[Any], word: str = "tuple") -> Struct:
        """Return a pair or tuple of values."""
        names = ("first", "second") if word == "pair" else tuple(map(str, range(len(values))))
        types = tuple(getattr(v, "type", None) for v in values)
        cells = {n: self.cell(v, t if isinstance(t, (Scalar, Pointer)) else None)
                 for n, v, t in zip(names, values, types, strict=False)}  # fmt: skip
        return Struct(Named(word, types), cells)

    def _parts(self, owner: Any, node: Any) -> list[Any]:
        """Return the parts of an object, in order."""
        if isinstance(owner, Cell):
            owner = owner.value
        if isinstance(owner, Array):
            return list(owner.cells)
        if isinstance(owner, Struct):
            return list(owner.fields.values())
        raise CppError(node, "this has no parts to be named")

    def bind_parts(self, name: Any, value: Any, node: Any, *, is_reference: bool) -> None:
        """`auto [a, b] = object;`"""
        owner = self.lv(value)
        parts = self._parts(owner, node)
        words = [text(w) for w in named(name)]
        if len(words) != len(parts):
            raise CppError(node, f"{len(words)} names for {len(parts)} parts")
        for word, part in zip(words, parts, strict=True):
            own = part
            if not is_reference and isinstance(part, Cell):
                own = self.copied_cell(part)
            self.scope.names[word] = own

    def static_member(self, owner: StructType, word: str, node: Any) -> Any:
        """Return a static member of a struct, or of what it is derived from; a function may be
        defined outside of it."""
        found = super().static_member(owner, word, node)
        return found if found is not None else self._find_method(owner, word)

    def own(self, found: Overloads, this: Struct, *, is_path: bool = False) -> Overloads:
        """Return functions with the object whose members they are: `f`, or `Base::f` (a path)."""
        if not isinstance(this.type, StructType):
            return found
        bases = [b.scope for b in _bases_of(this.type)]
        method = self._find_method(this.type, found.name)
        if is_path:
            is_of_base = all(f.scope in bases for f in found.functions)
            method = found if is_of_base else None
        if method is None or not any(f in found.functions for f in method.functions):
            return found
        scope = self._object_scope(this)
        return Overloads(found.name, [in_scope(f, scope) for f in method.functions])

    def has_constructor(self, type_: StructType) -> bool:
        return self._constructors(type_) is not None

    def _constructors(self, type_: StructType) -> Overloads | None:
        key = f"~{type_.name}"
        if key not in type_.scope.names:
            found = Overloads(type_.name)
            for part in named(field_of(type_.node, "body")):
                if part.type != "function_definition" or field_of(part, "type") is not None:
                    continue
                name = name_node(field_of(part, "declarator"))
                if (
                    name is not None
                    and text(name) == type_.name
                    and field_of(part, "body") is not None
                ):
                    found.functions.append(
                        Declared("function", type_.name, part, None, type_.scope)
                    )
            type_.scope.names[key] = found
        found = type_.scope.names[key]
        return found if found.functions else None

    def _fields(self, type_: StructType, made: Struct, node: Any) -> None:
        for base in type_.bases:
            if isinstance(base, StructType):
                self._fields(base, made, node)
        with self.scoped(type_.scope):
            for part in named(field_of(type_.node, "body")):
                if part.type == "field_declaration" and not has_word(part, "static"):
                    self._field(part, made)

    def _field(self, part: Any, made: Struct) -> None:
        for child in part.children_by_field_name("declarator"):
            name = name_node(child)
            if name is None or inner(child, "function_declarator") is not None:
                continue
            if inner(child, "reference_declarator") is not None:
                made.fields[text(name)] = self.cell(None, _REFERENCE)
                continue
            type_ = self.declared_type(field_of(part, "type"), child)
            default = default_of(part, child)
            if default is not None:
                value = self.initialised(type_, default, part)
            else:
                value = self.constructed(type_, [], part, text(name))
            held = type_ if isinstance(type_, (Scalar, Pointer)) else None
            made.fields[text(name)] = self.variable_of_type(type_, value, held)

    def _construct(self, made: Struct, found: Overloads, args: list[Any], node: Any) -> None:
        fitting = [
            f
            for f in found.functions
            if len(parameters(f.node))
            >= len(args)
            >= sum(p.type == "parameter_declaration" for p in parameters(f.node))
        ]
        if not fitting and not args and b"= default" in made.type.node.text:
            return
        if not fitting:
            raise CppError(node, f"no constructor of `{found.name}` takes {len(args)} arguments")
        scope = self._object_scope(made)
        with self.scoped(scope):
            for part in named(fitting[0].node):
                if part.type == "field_initializer_list":
                    self.bind(parameters(fitting[0].node), args, self.scope, node)
                    for one in named(part):
                        self._first(made, one)
        self.follow(fitting[0], Scope(scope, found.name), args, node)

    def _first(self, made: Struct, one: Any) -> None:
        name, given = named(one)[0], named(one)[-1]
        cell = made.fields.get(text(name))
        if not isinstance(cell, Cell):
            word = text(name).partition("<")[0]
            bases = [b for b in _bases_of(made.type) if b.name == word]
            base = self._constructors(bases[0]) if bases else None
            if base is not None:
                self._construct(made, base, [self.lv(v) for v in named(given)], one)
            return
        values = [self.lv(v) for v in named(given)]
        if len(values) == 1 and cell.type == _REFERENCE:
            made.fields[text(name)] = values[0]
            return
        values = [self.taken(v, one) for v in values]
        if isinstance(cell.value, Num) or not values:
            cell.set(self.as_type(values[0], cell.type, one) if values else cell.value)
        else:
            type_ = getattr(cell.value, "type", None)
            cell.set(self.constructed(type_, values, one, text(name)))

    def _object_scope(self, owner: Struct) -> Scope:
        scope = Scope(owner.type.scope, owner.type.name)
        scope.names = owner.fields
        inside = Scope(scope, owner.type.name)
        inside.names["this"] = owner
        return inside

    def method(self, function: Any, args: list[Any], node: Any) -> Any:
        owner = self.ev(field_of(function, "argument"))
        name = field_of(function, "field")
        targs: list[Any] = []
        if name.type == "dependent_name":
            name = named(name)[-1]
        if name.type in ("template_method", "template_function"):
            targs, name = self.arguments(name), field_of(name, "name")
        word = text(name)
        if isinstance(owner, Address):
            owner = self.taken(owner.cell, node)
        return self.member_call(owner, word, targs, args, node)

    def member_call(
        self, owner: Any, word: str, targs: list[Any], args: list[Any], node: Any
    ) -> Any:
        if isinstance(owner, Struct) and isinstance(owner.type, StructType):
            found = self._find_method(owner.type, word)
            if found is None:
                raise CppError(node, f"`{owner.type.name}` has no member function `{word}`")
            values = [self.lv(a) for a in args]
            scope = self._object_scope(owner)
            moved = Overloads(word, [in_scope(f, scope) for f in found.functions])
            return self.call_with(moved, targs or None, values, node)
        if isinstance(owner, Lambda) and word == "operator()":
            return self.lambda_call(owner, args, node, targs)
        values = [self.ev(a) for a in args]
        self.here(node)
        if isinstance(owner, Tile):
            return self.tile_member(owner, word, values, node)
        if isinstance(owner, Global):
            return self.global_member(owner, word, values, targs, node)
        if isinstance(owner, Event):
            return self.event_member(owner, word, values, targs, node)
        if is_group(owner):
            return group_member(self, owner, word, values, node)
        if is_conv(owner):
            return conv_member(self, owner, word, values, targs, node)
        if isinstance(owner, Array) and word == "size":
            return number(len(owner.cells))
        raise refused(
            node,
            text(node)[:40],
            f"the member function `{word}` is not known",
            "use the instructions on tiles",
        )

    def _find_method(self, type_: StructType, word: str) -> Overloads | None:
        found = type_.scope.names.get(word)
        if isinstance(found, Overloads):
            return found
        found = type_.scope.find(f"{type_.name}::{word}")
        if isinstance(found, Overloads):
            return Overloads(word, [self._outside(f, type_) for f in found.functions])
        for base in type_.bases:
            found = self._find_method(base, word) if isinstance(base, StructType) else None
            if found is not None:
                return found
        return None

    def _outside(self, function: Declared, type_: StructType) -> Declared:
        """Return a member function that is defined outside of its struct; the parameters of the
        struct's template are known there."""
        params = function.params
        if type_.args and params is not None:
            params = [p for p in params if param_name(p) not in type_.scope.names] or None
        return Declared("function", function.name, function.node, params, type_.scope)

    def _e_field_expression(self, node: Any) -> Any:
        is_arrow = text(field_of(node, "operator")) == "->"
        owner = self.ev(field_of(node, "argument")) if is_arrow else None
        if not isinstance(owner, Num) or not isinstance(owner.type, Pointer):
            return super()._e_field_expression(node)
        type_ = owner.type
        if not isinstance(type_.to, StructType):
            return super()._e_field_expression(node)
        word = text(field_of(node, "field"))
        fields = fields_of(self, type_.to)
        if word not in fields:
            raise CppError(node, f"`{type_.to.name}` has no field `{word}`")
        at, kind = fields[word]
        self.here(node)
        base = Num(Pointer(SCALARS["uint8_t"]), owner.const, owner.name)
        place = self.binary("+", base, number(at), node)
        of = kind.of if isinstance(kind, ArrayType) else kind
        place = self.cast(place, Pointer(of), node)
        return place if isinstance(kind, ArrayType) else Place(place, number(0))

    def event_member(
        self, event: Event, word: str, args: list[Any], targs: list[Any], node: Any
    ) -> Any:
        """Call a member function of an Event."""
        raise NotImplementedError


def _bases_of(type_: StructType) -> list[StructType]:
    """Return the structs that one is derived from, and those that they are."""
    own = [b for b in type_.bases if isinstance(b, StructType)]
    return [*own, *(further for b in own for further in _bases_of(b))]


def in_scope(function: Declared, scope: Scope) -> Declared:
    """Return a function as it is in another scope."""
    return Declared(
        "function", function.name, function.node, function.params, scope, function.special
    )
