"""Calls: functions of the file are followed where they are called; members, lambdas, conversions
and the few functions of the standard library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ptosim.language.cpp.communication import GROUP, new_group
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    field_of,
    has_word,
    identifiers,
    inner,
    name_node,
    named,
    parameters,
    text,
)
from ptosim.language.cpp.kinds import (
    BOOL,
    INT,
    SCALARS,
    UNKNOWN,
    Array,
    ArrayType,
    Cell,
    Chosen,
    Dims,
    Enum,
    Global,
    Lambda,
    Member,
    Named,
    Num,
    Place,
    Pointer,
    Scalar,
    Struct,
    Tile,
    Viewed,
    number,
)
from ptosim.language.cpp.library import is_numeric
from ptosim.language.cpp.names import is_type
from ptosim.language.cpp.repeats import Repeats
from ptosim.language.cpp.state import (
    DEEPEST_CALLS,
    MOST_RECURSIVE,
    CppError,
    Scope,
    enough,
    refused,
)
from ptosim.language.cpp.statements import Frame
from ptosim.language.cpp.templates import SILENT, instance_name, packed, param_name, spread

_CASTS = frozenset(("static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"))
_KNOWN_MATH = {"sqrt": math.sqrt, "sqrtf": math.sqrt, "exp": math.exp, "log2": math.log2,
               "log": math.log, "pow": math.pow, "ceil": math.ceil, "floor": math.floor,
               "expf": math.exp, "powf": math.pow}  # fmt: skip


_ONE = frozenset(("bit_cast", "abs", "move", "forward", "ref", "as_const", "get"))
"""Functions of the standard library with one argument."""
_SURELY = 16
"""Calls in a row after which a function that calls itself with a pack goes on doing so."""


_CAPTURED = (Num, Struct, Array, Lambda, Tile, Global)


class Calls(Repeats):
    """Following calls."""

    def _e_call_expression(self, node: Any) -> Any:
        function = field_of(node, "function")
        args = spread(named(field_of(node, "arguments")), self.scope)
        while function.type == "parenthesized_expression":
            function = named(function)[0]
        if function.type == "field_expression":
            return self.method(function, args, node)
        if function.type == "template_function" and text(field_of(function, "name")) in _CASTS:
            return self._named_cast(function, args, node)
        return self._call_of(function, args, node)

    def _call_of(self, function: Any, args: list[Any], node: Any) -> Any:
        called = self._called(function)
        if isinstance(called, tuple):
            name, targs = called
            if isinstance(name, Overloads):
                return self.call(self._of_object(name, function), targs, args, node)
            return self.library_call(name, targs, args, node)
        if isinstance(called, Overloads):
            return self.call(self._of_object(called, function), None, args, node)
        if isinstance(called, Lambda):
            return self.lambda_call(called, args, node)
        if is_type(called):
            return self._construction(called, args, node)
        if isinstance(called, Struct):
            return self.member_call(called, "operator()", [], args, node)
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
            return Lambda(None, self.qualified(function))
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
            return Lambda(None, self.qualified(function))
        known = self.built_in(word, function) if not targs else None
        if not is_comm and is_type(known):
            return known
        if not is_comm and targs:
            return self.library_template(word, targs, function)
        return (f"comm.{word}" if is_comm else word, targs)

    def _named_cast(self, function: Any, args: list[Any], node: Any) -> Any:
        target = named(field_of(function, "arguments"))[0]
        type_ = self.type_of(target) if target.type == "type_descriptor" else self.argument(target)
        if b"&" in target.text and isinstance(type_, Scalar):
            place = self.lv(args[0])
            is_other = isinstance(place, Cell) and isinstance(place.type, Scalar)
            return Viewed(place, type_) if is_other and place.type != type_ else place
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

    def _of_object(self, found: Overloads, function: Any) -> Overloads:
        """Inside a member function the names of others are theirs of the same object."""
        is_path = function.type == "qualified_identifier"
        if not is_path and function.type not in ("identifier", "template_function"):
            return found
        this = self.scope.find("this")
        return self.own(found, this, is_path=is_path) if isinstance(this, Struct) else found

    def _e_lambda_expression(self, node: Any) -> Lambda:
        scope = Scope(self.scope, "lambda")
        referred: dict[str, Any] = {}
        captures = field_of(node, "captures")
        for part in named(captures):
            before = part.prev_sibling
            if part.type == "identifier":
                if before is None or before.type != "&":
                    self._captured(text(part), scope, part)
            elif part.type == "lambda_capture_initializer" or field_of(part, "right") is not None:
                left, right = field_of(part, "left"), field_of(part, "right")
                if part.text.lstrip().startswith(b"&") or (
                    before is not None and before.type == "&"
                ):
                    referred[text(left)] = self.lv(right)
                    continue
                value = self.copied(self.ev(right))
                held = value.type if isinstance(value, Num) else None
                scope.names[text(left)] = self.cell(value, held)
        if b"=" in captures.text and captures.text.lstrip(b"[ ").startswith(b"="):
            for word in identifiers(field_of(node, "body")):
                self._captured(word, scope, node)
        own = frozenset(scope.names)
        scope.names.update(referred)
        return Lambda(node, scope, own)

    def _captured(self, word: str, scope: Scope, node: Any) -> None:
        """What a lambda captures by its value stays what it is now; a field is captured with its
        object, by `this`."""
        found, this = self.scope.find(word), self.scope.find("this")
        if isinstance(this, Struct) and this.fields.get(word) is found:
            return
        if isinstance(found, (Place, Chosen, Viewed)):
            value = self.taken(found, node)
            scope.names[word] = self.cell(value, getattr(value, "type", None))
        elif isinstance(found, Cell) and isinstance(found.value, _CAPTURED):
            scope.names[word] = self.copied_cell(found)

    copied_cell: Any

    def lambda_call(
        self, called: Lambda, args: list[Any], node: Any, targs: Sequence[Any] = ()
    ) -> Any:
        """Call a lambda; one with template parameters may be given their arguments."""
        if called.node is None:
            return called.scope  # `std::numeric_limits<T>::max()`
        declarator = field_of(called.node, "declarator")
        params = named(field_of(declarator, "parameters")) if declarator is not None else []
        values = [self.lv(a) for a in args]
        free = field_of(called.node, "template_parameters")
        with self.scoped(called.scope, "lambda") as scope:
            if free is not None:
                made = Declared("function", "lambda", called.node, named(free), called.scope)
                deduced = self._deduced(made, params, list(targs), values)
                full = [*targs, *(deduced[n] for n in map(param_name, named(free)) if n in deduced)]
                scope.names.update(self.bound(named(free), full, node))
            self.bind(params, values, scope, node)
            return self._followed(field_of(called.node, "body"), None, "lambda", node)

    # -- functions of the file ---------------------------------------------------------------------

    def call(self, overloads: Overloads, targs: Any, args: list[Any], node: Any) -> Any:
        """Call the function of a name that fits the arguments."""
        if args and args[0].type == "call_expression" and args[0].text.startswith(b"__launch__"):
            self.ev(args[0])
            values = [self.lv(a) for a in args[1:]]
            before, self.host = self.host, False
            try:
                return self.call_with(overloads, targs, values, node)
            finally:
                self.host = before
        return self.call_with(overloads, targs, [self.lv(a) for a in args], node)

    def call_with(self, overloads: Overloads, targs: Any, values: list[Any], node: Any) -> Any:
        """Call a function with values."""
        best, scope, why = None, None, None
        most = -1
        self.values += len(values)  # they are copied, a pack element by element
        for function in overloads.functions:
            try:
                is_alone = len(overloads.functions) == 1
                found = self._fitting(function, targs or [], values, node, is_alone=is_alone)
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

    def _fitting(
        self, function: Declared, targs: list[Any], values: list[Any], node: Any, *, is_alone: bool
    ) -> Any:
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
            targs = packed(function.params, targs)
            deduced = self._deduced(function, params, targs, values)
            scope.names.update(deduced)
            full = [*targs]
            for param in (function.params or [])[len(targs) :]:
                word = param_name(param)
                if "variadic" in param.type:
                    full.append(deduced.get(word) or ())
                    continue
                if word in deduced:
                    full.append(deduced[word])
                else:
                    full.append(self._default_after(param, function, full, scope, node))
                scope.names[word] = full[-1]
            scope.names.update(self.bound(function.params, full, node))
            score += self._likeness(params, values, is_alone=is_alone)
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
        for at, (param, value) in enumerate(zip(params, values, strict=False)):
            type_node = field_of(param, "type")
            if not free or type_node is None:
                continue
            if "variadic" in param.type and text(type_node) in free:
                bound[text(type_node)] = tuple(self._type_passed(v) for v in values[at:])
                continue
            type_ = self._type_passed(value)
            declarator = field_of(param, "declarator")
            while declarator is not None:
                if "pointer" in declarator.type and isinstance(type_, Pointer):
                    type_ = type_.to
                size = field_of(declarator, "size")
                if size is not None and isinstance(type_, ArrayType):
                    self.deduce(size, number(type_.count), free, bound)
                    type_ = type_.of
                declarator = next((c for c in named(declarator) if "declarator" in c.type), None)
            if type_ is not None:
                self.deduce(type_node, type_, free, bound)
        return bound

    def _type_passed(self, value: Any) -> Any:
        if isinstance(value, Place):
            return value.pointer.type.to
        if isinstance(value, Chosen):
            return self._type_passed(value.cells[0])
        if isinstance(value, Cell):
            value = value.enum or value.value
        if isinstance(value, Lambda):
            return Named("lambda")
        return getattr(value, "type", None) if not is_type(value) else value

    def _likeness(self, params: list[Any], values: list[Any], *, is_alone: bool) -> int:
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
            elif is_alone and isinstance(wanted, Enum) and have == INT:
                continue  # a number that was chosen among its members
            elif isinstance(wanted, Scalar) != isinstance(have, Scalar) and not isinstance(
                value, Member
            ):
                score -= 0 if wanted == Named("auto") or isinstance(wanted, Declared) else 1000
        return score

    def follow(self, function: Declared, scope: Scope, values: list[Any], node: Any) -> Any:
        """Follow a function: its parameters are variables, its statements are executed here."""
        if len(self.calls) >= DEEPEST_CALLS:
            raise refused(
                node,
                function.name,
                f"calls are nested more than {DEEPEST_CALLS:,} deep: recursion",
                "write a loop",
            )
        self.step(node)
        self.idle_from -= 2  # it takes as long as three statements
        self._refuse_long_way(function, scope, node)
        again = self.inside.get(function.node.id, -1) + 1
        if again > MOST_RECURSIVE:
            why = f"it calls itself more than {MOST_RECURSIVE:,} times before the run"
            raise refused(node, function.name, why, "write a loop")
        self.inside[function.node.id] = again
        body = field_of(function.node, "body")
        is_static = has_word(function.node, "constexpr", "consteval") and all(
            map(_is_known, values)
        )
        self.calls.append((instance_name(function, scope), node.start_byte))
        before, self.scope = self.scope, scope
        deep, self.deep = self.deep, 0
        self.static += is_static
        try:
            self.bind(parameters(function.node), values, scope, node)
            ref = inner(field_of(function.node, "declarator"), "reference_declarator")
            type_ = None if ref is not None else self._returned(function)
            return self._followed(body, type_, function.name, node, ref)
        except CppError as fault:
            fault.calls = fault.calls or tuple(self.calls)
            raise
        finally:
            self.static -= is_static
            self.scope, self.deep = before, deep
            self.calls.pop()
            if not again:
                del self.inside[function.node.id]

    def _refuse_long_way(self, function: Declared, scope: Scope, node: Any) -> None:
        """A function that calls itself with the rest of a pack which is longer than calls may be
        deep: each call would copy what is left, only to end at the limit."""
        longest = max((len(v) for v in scope.names.values() if isinstance(v, tuple)), default=0)
        if longest <= DEEPEST_CALLS - len(self.calls) or len(self.calls) < _SURELY:
            return
        if all(name.partition("<")[0] == function.name for name, _ in self.calls[-_SURELY:]):
            raise refused(
                node,
                function.name,
                f"it calls itself with {longest:,} elements of a pack that are left, and calls are "
                f"nested at most {DEEPEST_CALLS:,} deep",
                "write `(f(args), ...)`, or a loop",
            )

    def _returned(self, function: Declared) -> Any:
        type_node = field_of(function.node, "type")
        if type_node is None or type_node.type == "placeholder_type_specifier":
            return None
        declarator = field_of(function.node, "declarator")
        outer = declarator if declarator.type == "pointer_declarator" else None
        made = self.type_of(type_node)
        return Pointer(made) if outer is not None else made

    def bind(self, params: list[Any], values: list[Any], scope: Scope, node: Any) -> None:
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
        if is_reference and self.is_bound(type_, value, is_const=is_const):
            return value
        if is_reference and not is_const and isinstance(value, Num) and _is_left(declarator):
            self.no_number(value, declarator)
        found = self.taken(value, node)
        if isinstance(found, list):
            found = self.constructed(type_, found, node)
        if isinstance(found, Array) and is_reference:
            return self.cell(found)
        if is_numeric(found) and isinstance(type_, (Scalar, Pointer)):
            found = self.as_type(found, type_, node)
        if not is_reference and not isinstance(type_, Pointer):
            found = self.copied(found)
        held = type_ if isinstance(type_, (Scalar, Pointer)) else getattr(found, "type", None)
        held = held if isinstance(held, (Scalar, Pointer)) else None
        return self.variable_of_type(type_, found, held)

    def _followed(self, body: Any, type_: Any, name: str, node: Any, ref: Any = None) -> Any:
        if body.has_error and body.children[-1].is_missing:
            raise CppError(body, "this `{` is not closed: a `}` is missing")
        outer, rounds = getattr(self, "frame", None), getattr(self, "rounds", [])
        self.frame = Frame(
            self.cell(Num(BOOL, False), BOOL), self.cell(None), type_, ref is not None
        )
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

    # -- what the room of structs has --------------------------------------------------------------

    def method(self, function: Any, args: list[Any], node: Any) -> Any:
        """Call a member function, by the node of its name."""
        raise NotImplementedError

    def member_call(
        self, owner: Any, word: str, targs: list[Any], args: list[Any], node: Any
    ) -> Any:
        """Call a member function of an object."""
        raise NotImplementedError

    def own(self, found: Overloads, this: Struct, *, is_path: bool = False) -> Overloads:
        """Return functions with the object whose members they are."""
        raise NotImplementedError

    # -- the library -------------------------------------------------------------------------------

    def library_call(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Call a function of the library by its name."""
        if word in _ONE or word in _KNOWN_MATH:
            enough(word, args, 2 if word.startswith("pow") else 1, node)
        if word in ("min", "max", "fmin", "fmax"):
            return self._least_of(word[-3:], [self.ev(x) for x in args], node, targs)
        if word == "clamp" and len(args) == 3:
            a, low, high = (self.ev(x) for x in args)
            at_least = self._least_of("max", [a, low], node, targs)
            return self._least_of("min", [at_least, high], node, targs)
        if word == "bit_cast" and targs and isinstance(targs[0], Scalar):
            return self.punned(self.num(self.ev(args[0]), node), targs[0], node)
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

    def _least_of(self, word: str, values: list[Any], node: Any, targs: list[Any]) -> Num:
        """Return std::min or std::max, of numbers of the type that is named, if one is."""
        if len(values) == 1 and isinstance(values[0], list):
            values = values[0]
        if len(values) < 2:
            raise CppError(node, f"`{word}` takes two numbers")
        self.here(node)
        found, *others = (self.num(value, node) for value in values)
        if targs and isinstance(targs[0], Scalar):
            found, *others = (self.cast(n, targs[0], node) for n in (found, *others))
        for other in others:
            found = self.least(word, found, other, node)
        return found

    def instruction(self, word: str, targs: list[Any], args: list[Any], node: Any) -> Any:
        """Lower an instruction of the library."""
        raise NotImplementedError


def _is_known(value: Any) -> bool:
    if isinstance(value, Cell):
        value = value.value
    return isinstance(value, Member) or (isinstance(value, Num) and value.is_known)


def _is_left(declarator: Any) -> bool:
    """Is it a reference to a variable, not one that takes any value?"""
    return not text(declarator).startswith("&&")
