"""Calls: functions of the file are followed where they are called; members, lambdas, conversions
and the few functions of the standard library."""

from __future__ import annotations

import math
from typing import Any

from ptosim.language.cpp.communication import GROUP, new_group
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    field_of,
    has_word,
    inner,
    name_node,
    named,
    text,
)
from ptosim.language.cpp.errors import CppError, refused
from ptosim.language.cpp.evaluate import Place
from ptosim.language.cpp.kinds import (
    BOOL,
    SCALARS,
    UNKNOWN,
    Address,
    Array,
    ArrayType,
    Cell,
    Dims,
    Event,
    Global,
    Lambda,
    Member,
    Named,
    Num,
    Pointer,
    Scalar,
    Struct,
    StructType,
    Tile,
    number,
)
from ptosim.language.cpp.layouts import fields_of
from ptosim.language.cpp.loops import Loops
from ptosim.language.cpp.names import SILENT, is_type, param_name
from ptosim.language.cpp.packs import spread
from ptosim.language.cpp.state import DEEPEST, Scope
from ptosim.language.cpp.statements import Frame

_NAMED = frozenset(("identifier", "field_expression", "this"))
_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast", "bit_cast"))
_KNOWN_MATH = {"sqrt": math.sqrt, "sqrtf": math.sqrt, "exp": math.exp, "log2": math.log2,
               "log": math.log, "pow": math.pow, "ceil": math.ceil, "floor": math.floor,
               "expf": math.exp, "powf": math.pow}  # fmt: skip


class Calls(Loops):
    """Following calls."""

    def _e_call_expression(self, node: Any) -> Any:
        function = field_of(node, "function")
        args = spread(named(field_of(node, "arguments")), self.scope)
        while function.type == "parenthesized_expression":
            function = named(function)[0]
        if function.type == "field_expression":
            return self._method(function, args, node)
        if function.type == "template_function" and text(field_of(function, "name")) in _CASTS:
            return self._named_cast(function, args, node)
        called = self._called(function)
        if isinstance(called, tuple):
            name, targs = called
            if isinstance(name, Overloads):
                return self.call(name, targs, args, node)
            return self.library_call(name, targs, args, node)
        if isinstance(called, Overloads):
            return self.call(called, None, args, node)
        if isinstance(called, Lambda):
            return self._lambda(called, args, node)
        if is_type(called):
            return self._construction(called, args, node)
        if isinstance(called, Struct):
            return self._member_call(called, "operator()", [], args, node)
        raise refused(
            node,
            text(function),
            "what is called is no function that is known",
            "name the function; pointers to functions are not followed",
        )

    def _called(self, function: Any) -> Any:
        if function.type in ("identifier", "type_identifier"):
            word = text(function)
            found = self.scope.find(word)
            if found is None:
                known = self.built_in(word, function)
                return known if known is not None else (word, [])
            found = self.settled(found, function)
            return self.taken(found, function) if isinstance(found, Cell) else found
        if function.type == "primitive_type":
            return self.type_of(function)
        if function.type == "qualified_identifier":
            return self._qualified_call(function)
        if function.type == "template_function":
            return self.template(function)
        return self.ev(function)

    def _qualified_call(self, function: Any) -> Any:
        owner, name = field_of(function, "scope"), field_of(function, "name")
        path = text(function).split("<")[0].split("::")
        if b"numeric_limits" in function.text:
            return self._limit(function)
        if GROUP.encode() in function.text and function.text.endswith(b"::Create"):
            return (GROUP, [])
        if path[0] in SILENT or path[0] == "" or owner is None:
            return self._of_library(function, name, "comm" in path[:-1])
        found = self.qualified(function)
        if isinstance(found, (Num, Member)):
            return Lambda(None, found)
        return found

    def _of_library(self, function: Any, name: Any, is_comm: bool) -> Any:
        """Return what a name in a namespace of the libraries calls."""
        owner = field_of(function, "scope")
        while name.type == "qualified_identifier":
            name = field_of(name, "name")
        if name.type == "template_function":
            word, targs = text(field_of(name, "name")), self.arguments(name)
        else:
            word, targs = text(name), []
        found = self.scope.find(word)
        if isinstance(found, Overloads) and not is_comm:
            return (found, targs) if targs else found
        if owner is not None and owner.type == "template_type":
            return self._limit(function)
        known = self.built_in(word, function) if not targs else None
        if not is_comm and is_type(known):
            return known
        if not is_comm and targs:
            return self.library_template(word, targs, function)
        return (f"comm.{word}" if is_comm else word, targs)

    def _limit(self, function: Any) -> Any:
        return Lambda(None, self.qualified(function))

    def _named_cast(self, function: Any, args: list[Any], node: Any) -> Any:
        target = named(field_of(function, "arguments"))[0]
        type_ = self.type_of(target) if target.type == "type_descriptor" else self.argument(target)
        found = self.ev(args[0])
        self.here(node)
        if isinstance(found, Tile):
            return found
        return self.as_type(found, type_, node)

    def _construction(self, type_: Any, args: list[Any], node: Any) -> Any:
        values = [self.ev(a) for a in args]
        if type_ in (Named("Shape"), Named("Stride")):
            type_ = Dims(type_.name, (-1,) * 5)
        return self.constructed(type_, values, node)

    def _lambda(self, called: Lambda, args: list[Any], node: Any) -> Any:
        if called.node is None:
            return called.scope  # `std::numeric_limits<T>::max()`
        declarator = field_of(called.node, "declarator")
        params = named(field_of(declarator, "parameters")) if declarator is not None else []
        values = [self._passed(a, node) for a in args]
        with self.scoped(called.scope, "lambda") as scope:
            self._bind(params, values, scope, node)
            return self._followed(field_of(called.node, "body"), None, "lambda", node)

    # -- functions of the file ---------------------------------------------------------------------

    def call(self, overloads: Overloads, targs: Any, args: list[Any], node: Any) -> Any:
        """Call the function of a name that fits the arguments."""
        if args and args[0].type == "call_expression" and args[0].text.startswith(b"__launch__"):
            self.ev(args[0])
            args = args[1:]
        values = [self._passed(a, node) for a in args]
        return self.call_with(overloads, targs, values, node)

    def _passed(self, arg: Any, node: Any) -> Any:
        return self.lv(arg)

    def call_with(self, overloads: Overloads, targs: Any, values: list[Any], node: Any) -> Any:
        """Call a function with values."""
        best, scope, why = None, None, None
        most = -1
        for function in overloads.functions:
            try:
                found = self._fitting(function, targs or [], values, node)
            except CppError as problem:
                why = problem
                continue
            if found is not None and found[0] > most:
                most, best, scope = found[0], function, found[1]
        if best is None or scope is None:
            if why is not None and len(overloads.functions) == 1:
                raise why
            raise CppError(node, f"no `{overloads.name}` takes these {len(values)} arguments")
        return self.follow(best, scope, values, node)

    def _fitting(self, function: Declared, targs: list[Any], values: list[Any], node: Any) -> Any:
        params = parameters(function.node)
        least = sum(p.type == "parameter_declaration" for p in params)
        if not least <= len(values) <= len(params) and not any(
            "variadic" in p.type for p in params
        ):
            return None
        scope = Scope(function.scope, function.name)
        before, self.scope = self.scope, scope
        try:
            score = 0 if function.params else 1
            if function.special:
                pattern = named(field_of(function.special[0][1], "arguments"))
                if not targs or self.matched(pattern, targs[: len(pattern)], []) is None:
                    return None
                return 1000, scope
            deduced = self._deduced(function, params, targs, values)
            scope.names.update(deduced)
            full = [*targs]
            for param in (function.params or [])[len(targs) :]:
                word = param_name(param)
                if "variadic" in param.type:
                    break
                if word in deduced:
                    full.append(deduced[word])
                else:
                    full.append(self._default_after(param, function, full, scope, node))
                scope.names[word] = full[-1]
            scope.names.update(self.bound(function.params, full, node))
            score += self._likeness(params, values)
            return (score, scope) if score > -900 else None
        finally:
            self.scope = before

    def _default_after(
        self, param: Any, function: Declared, full: list[Any], scope: Scope, node: Any
    ) -> Any:
        for other, value in zip(function.params or [], full, strict=False):
            scope.names[param_name(other)] = value
        return self._default(param, node)

    def _deduced(
        self, function: Declared, params: list[Any], targs: list[Any], values: list[Any]
    ) -> dict[str, Any]:
        names = [param_name(p) for p in function.params or ()]
        free = set(names[len(targs) :])
        known = dict(zip(names, targs, strict=False))
        self.scope.names.update(known)
        bound: dict[str, Any] = {}
        for param, value in zip(params, values, strict=False):
            type_node = field_of(param, "type")
            if not free or type_node is None:
                continue
            type_ = self._type_passed(value)
            declarator = field_of(param, "declarator")
            while declarator is not None:
                if "pointer" in declarator.type and isinstance(type_, Pointer):
                    type_ = type_.to
                declarator = next((c for c in named(declarator) if "declarator" in c.type), None)
            if type_ is not None:
                self.deduce(type_node, type_, free, bound)
        return bound

    def _type_passed(self, value: Any) -> Any:
        if isinstance(value, Place):
            return value.pointer.type.to
        if isinstance(value, Cell):
            value = value.value
        if isinstance(value, Lambda):
            return Named("lambda")
        return getattr(value, "type", None) if not is_type(value) else value

    def _likeness(self, params: list[Any], values: list[Any]) -> int:
        score = 0
        for param, value in zip(params, values, strict=False):
            if "variadic" in param.type:
                continue
            try:
                wanted = self.declared_type(field_of(param, "type"), field_of(param, "declarator"))
            except CppError:
                return -1000
            have = self._type_passed(value)
            if wanted == have:
                score += 10
            elif isinstance(wanted, Scalar) != isinstance(have, Scalar) and not isinstance(
                value, Member
            ):
                score -= 0 if wanted == Named("auto") or isinstance(wanted, Declared) else 1000
        return score

    def follow(self, function: Declared, scope: Scope, values: list[Any], node: Any) -> Any:
        """Follow a function: its parameters are variables, its statements are executed here."""
        if len(self.calls) >= DEEPEST:
            raise refused(
                node,
                function.name,
                f"calls are nested more than {DEEPEST} deep: recursion",
                "write a loop",
            )
        body = field_of(function.node, "body")
        is_static = has_word(function.node, "constexpr", "consteval") and all(
            map(_is_known, values)
        )
        self.calls.append((function.name, node.start_byte))
        before, self.scope = self.scope, scope
        self.static += is_static
        try:
            self._bind(parameters(function.node), values, scope, node)
            type_ = self._returned(function)
            return self._followed(body, type_, function.name, node)
        finally:
            self.static -= is_static
            self.scope = before
            self.calls.pop()

    def _returned(self, function: Declared) -> Any:
        type_node = field_of(function.node, "type")
        if type_node is None or type_node.type == "placeholder_type_specifier":
            return None
        declarator = field_of(function.node, "declarator")
        outer = declarator if declarator.type == "pointer_declarator" else None
        made = self.type_of(type_node)
        return Pointer(made) if outer is not None else made

    def _bind(self, params: list[Any], values: list[Any], scope: Scope, node: Any) -> None:
        given = list(values)
        for param in params:
            declarator = field_of(param, "declarator")
            name = name_node(declarator)
            word = text(name) if name is not None else ""
            if "variadic" in param.type:
                scope.names[word] = tuple(given)
                return
            if given:
                value = given.pop(0)
            else:
                default = field_of(param, "default_value")
                if default is None:
                    raise CppError(node, f"argument `{word}` is not given")
                value = self.ev(default)
            scope.names[word] = self._variable_of(param, declarator, value, node)

    def _variable_of(self, param: Any, declarator: Any, value: Any, node: Any) -> Any:
        is_reference = (
            inner(declarator, "reference_declarator") is not None if declarator else False
        )
        is_const = has_word(param, "const")
        type_ = self.declared_type(field_of(param, "type"), declarator)
        if is_reference and isinstance(value, Cell) and not is_const:
            return value
        found = self.taken(value, node)
        if isinstance(found, Array) and is_reference:
            return self.cell(found)
        if isinstance(found, (Num, Member)) and isinstance(type_, (Scalar, Pointer)):
            found = self.as_type(found, type_, node)
        held = type_ if isinstance(type_, (Scalar, Pointer)) else getattr(found, "type", None)
        return self.cell(found, held if isinstance(held, (Scalar, Pointer)) else None)

    def _followed(self, body: Any, type_: Any, name: str, node: Any) -> Any:
        outer, rounds = getattr(self, "frame", None), getattr(self, "rounds", [])
        self.frame = Frame(self.cell(Num(BOOL, False), BOOL), self.cell(None), type_)
        if isinstance(type_, Scalar) and type_.kind in ("int", "float", "bool"):
            self.frame.value.value, self.frame.value.type = Num(type_, 0), type_
        self.rounds = []
        try:
            self.execute_all(named(body))
            value = self.frame.value.value
        finally:
            if outer is not None:
                self.frame = outer
            self.rounds = rounds
        if value is UNKNOWN:
            raise refused(
                node,
                name,
                "it returns different objects on different paths",
                "return a number, or take the object as an argument",
            )
        return value

    # -- structs -----------------------------------------------------------------------------------

    def new_struct(self, type_: StructType, args: list[Any], node: Any, label: str) -> Struct:
        """Return an object of a struct of the file."""
        made = Struct(type_, {})
        self._fields(type_, made, node)
        builder = type_.scope.names.get(type_.name)
        found = self._constructors(type_)
        if found is not None:
            self._construct(made, found, args, node)
        elif args and isinstance(builder, StructType):
            for key, value in zip(list(made.fields), args, strict=False):
                cell = made.fields[key]
                cell.set(self.as_type(value, cell.type, node) if cell.type else value)
        return made

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
        default = field_of(part, "default_value")
        for child in part.children_by_field_name("declarator"):
            name = name_node(child)
            if name is None or inner(child, "function_declarator") is not None:
                continue
            type_ = self.declared_type(field_of(part, "type"), child)
            if default is not None:
                value = self.initialised(type_, default, part)
            else:
                value = self.constructed(type_, [], part, text(name))
            held = type_ if isinstance(type_, (Scalar, Pointer)) else None
            made.fields[text(name)] = self.cell(value, held)

    def _construct(self, made: Struct, found: Overloads, args: list[Any], node: Any) -> None:
        fitting = [
            f
            for f in found.functions
            if len(parameters(f.node))
            >= len(args)
            >= sum(p.type == "parameter_declaration" for p in parameters(f.node))
        ]
        if not fitting:
            raise CppError(node, f"no constructor of `{found.name}` takes {len(args)} arguments")
        scope = self._object_scope(made)
        with self.scoped(scope):
            for part in named(fitting[0].node):
                if part.type == "field_initializer_list":
                    self._bind(parameters(fitting[0].node), args, self.scope, node)
                    for one in named(part):
                        self._first(made, one)
        self.follow(fitting[0], Scope(scope, found.name), args, node)

    def _first(self, made: Struct, one: Any) -> None:
        name, given = named(one)[0], named(one)[-1]
        cell = made.fields.get(text(name))
        if not isinstance(cell, Cell):
            return
        values = [self.ev(v) for v in named(given)]
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

    def _method(self, function: Any, args: list[Any], node: Any) -> Any:
        owner = self.ev(field_of(function, "argument"))
        name = field_of(function, "field")
        targs: list[Any] = []
        if name.type == "dependent_name":
            name = named(name)[-1]
        if name.type in ("template_method", "template_function"):
            targs, name = self.arguments(name), field_of(name, "name")
        word = text(name)
        if isinstance(owner, Address):
            owner = owner.cell.value
        return self._member_call(owner, word, targs, args, node)

    def _member_call(
        self, owner: Any, word: str, targs: list[Any], args: list[Any], node: Any
    ) -> Any:
        if isinstance(owner, Struct) and isinstance(owner.type, StructType):
            found = self._find_method(owner.type, word)
            if found is None:
                raise CppError(node, f"`{owner.type.name}` has no member function `{word}`")
            values = [self._passed(a, node) for a in args]
            scope = self._object_scope(owner)
            moved = Overloads(word, [_in_scope(f, scope) for f in found.functions])
            return self.call_with(moved, targs or None, values, node)
        values = [self.ev(a) for a in args]
        self.here(node)
        if isinstance(owner, Tile):
            return self.tile_member(owner, word, values, node)
        if isinstance(owner, Global):
            return self.global_member(owner, word, values, targs, node)
        if isinstance(owner, Event):
            return self.event_member(owner, word, values, targs, node)
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

    def operated(self, op: str, owner: Struct, values: list[Any], node: Any) -> Any:
        """Call an operator that a struct of the file defines; raises CppError if it has none."""
        found = self._find_method(owner.type, f"operator{op}")
        if found is None:
            raise CppError(node, f"`{owner.type.name}` has no operator `{op}`")
        scope = self._object_scope(owner)
        moved = Overloads(found.name, [_in_scope(f, scope) for f in found.functions])
        return self.call_with(moved, None, values, node)

    def binary(self, op: str, a: Any, b: Any, node: Any) -> Any:
        """Return `a op b`, of an object by its own operator."""
        if isinstance(a, Struct) and isinstance(a.type, StructType):
            return self.operated(op, a, [b], node)
        return super().binary(op, a, b, node)

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

    def _e_subscript_expression(self, node: Any) -> Any:
        inside = field_of(node, "argument")
        owner = self.ev(inside) if inside.type in _NAMED else None
        if isinstance(owner, Struct) and isinstance(owner.type, StructType):
            return self.operated("[]", owner, [self.ev(named(field_of(node, "indices"))[0])], node)
        return super()._e_subscript_expression(node)

    def event_member(
        self, event: Event, word: str, args: list[Any], targs: list[Any], node: Any
    ) -> Any:
        """Call a member function of an Event."""
        raise NotImplementedError

    # -- the library -------------------------------------------------------------------------------

    def library_call(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Call a function of the library by its name."""
        if word in ("min", "max", "fmin", "fmax"):
            a, b = (self.num(self.ev(x), x) for x in args[:2])
            self.here(node)
            return self.least(word[-3:], a, b, node)
        if word == "abs":
            a = self.num(self.ev(args[0]), node)
            below = self.compare("<", a, Num(a.type, 0), node)
            return self.choose(below, self.negative(a, node), a, node)
        if word in ("move", "forward", "ref", "as_const"):
            return self.lv(args[0])
        if word in _KNOWN_MATH:
            values = [self.known(self.ev(x), x, f"an argument of {word}") for x in args]
            return Num(SCALARS["double"], _KNOWN_MATH[word](*values))
        if word == GROUP:
            return new_group([self.ev(a) for a in args])
        return self.instruction(word, targs, args, node)

    def instruction(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Lower an instruction of the library."""
        raise NotImplementedError


def _in_scope(function: Declared, scope: Scope) -> Declared:
    return Declared(
        "function", function.name, function.node, function.params, scope, function.special
    )


def parameters(node: Any) -> list[Any]:
    """Return the parameters of a function definition."""
    declarator = inner(field_of(node, "declarator"), "function_declarator")
    found = named(field_of(declarator, "parameters"))
    if len(found) == 1 and field_of(found[0], "declarator") is None and text(found[0]) == "void":
        return []
    return found


def _is_known(value: Any) -> bool:
    if isinstance(value, Cell):
        value = value.value
    return isinstance(value, Member) or (isinstance(value, Num) and value.is_known)


__all__ = ["Calls", "parameters"]
