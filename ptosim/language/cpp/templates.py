"""Templates of the file: arguments, deduced, given or by default; specialisations; instances."""

from __future__ import annotations

from typing import Any

from ptosim.language.cpp import library
from ptosim.language.cpp.arithmetic import Arithmetic
from ptosim.language.cpp.declared import (
    Collector,
    Declared,
    default_of,
    field_of,
    has_word,
    inner,
    name_node,
    named,
    text,
)
from ptosim.language.cpp.kinds import (
    BOOL,
    SCALARS,
    ArrayType,
    Member,
    Num,
    Pointer,
    Scalar,
    StructType,
)
from ptosim.language.cpp.state import DEEPEST_CALLS, CppError, Scope, refused

SILENT = frozenset(("std", "pto", "comm", "cce", "kernel_utils", "pto_comm"))
"""Namespaces of the libraries: their names are built in."""


class Templates(Arithmetic):
    """Instances of templates."""

    def argument(self, part: Any) -> Any:
        """Return one argument of a template."""
        raise NotImplementedError

    def entity(self, node: Any) -> Any:
        """Return a type, variable, function, template or value by the node of its name."""
        raise NotImplementedError

    def declared_type(self, type_node: Any, declarator: Any) -> Any:
        """Return a type with the pointers and brackets of a declarator."""
        raise NotImplementedError

    def sized(self, type_: Any, declarator: Any, count: int) -> Any:
        """Return the type of an array that has as many elements as values are given."""
        found = None
        while (declarator := inner(declarator, "array_declarator")) is not None:
            found, declarator = declarator, field_of(declarator, "declarator")
        is_open = found is not None and field_of(found, "size") is None
        return ArrayType(type_, count) if is_open else type_

    def instance(self, found: Declared, args: tuple[Any, ...], node: Any) -> Any:
        """Return an alias, variable or struct template with its arguments."""
        key = _key(args)
        if key in found.made:
            made = found.made[key]
            if made is None:
                raise refused(node, found.name, "it is defined by itself", "break the circle")
            return made
        found.made[key] = None
        depth = len(found.made)
        if depth > 20_000:
            raise CppError(node, f"`{found.name}` has more than 20,000 instantiations")
        self.depth += 1
        deep, self.deep = self.deep, 0
        try:
            if self.depth > DEEPEST_CALLS:
                raise CppError(
                    node,
                    f"templates are nested too deeply at `{found.name}`",
                    "a template that instantiates itself needs an end",
                )
            found.made[key] = self._instance(found, args, node)
        except CppError:
            del found.made[key]
            raise
        finally:
            self.depth -= 1
            self.deep = deep
        return found.made[key]

    depth = deep = 0

    def _instance(self, found: Declared, args: tuple[Any, ...], node: Any) -> Any:
        target, params, bound = self._chosen(found, args, node)
        with self.scoped(found.scope, found.name) as scope:
            scope.names.update(bound if bound is not None else self.bound(params, args, node))
            if found.kind == "alias":
                return self._aliased(target)
            if found.kind == "struct":
                return self._structure(found, target, args, scope)
            return self._variable(target)

    def _aliased(self, node: Any) -> Any:
        if node.type == "type_descriptor" and field_of(node, "declarator") is None:
            return self.type_of(field_of(node, "type"))
        return self.type_of(node)

    def _variable(self, parts: Any) -> Any:
        declaration, child = parts
        value = default_of(declaration, child)
        declarator = field_of(child, "declarator") if child.type == "init_declarator" else child
        type_ = self.declared_type(field_of(declaration, "type"), declarator)
        if value is None:
            raise CppError(declaration, "a variable of the file needs a value")
        self.static += 1
        try:
            if value.type == "initializer_list":
                type_ = self.sized(type_, declarator, len(named(value)))
            return self.initialised(type_, value, declaration)
        finally:
            self.static -= 1

    static = 0

    def initialised(self, type_: Any, value: Any, node: Any) -> Any:
        """Return what a variable of a type has, from the node of its value."""
        raise NotImplementedError

    def _structure(self, found: Declared, node: Any, args: tuple[Any, ...], scope: Scope) -> Any:
        if field_of(node, "body") is None:
            raise CppError(node, f"`{found.name}` is declared, and not defined for these arguments")
        made = StructType(found.name, node, scope, args)
        scope.names[found.name] = made
        for part in named(node):
            if part.type == "base_class_clause":
                made.bases += [self.type_of(b) for b in named(part) if b.type != "access_specifier"]
        for base in made.bases:
            if isinstance(base, StructType):
                scope.using.append(base.scope)
        collector = Collector(())
        for part in named(field_of(node, "body")):
            if part.type == "field_declaration" and not _is_static(part):
                collector.types_in(field_of(part, "type"), scope)
                continue
            collector.collect([part], scope)
        for check, inside in collector.asserts:
            with self.scoped(inside):
                self.assert_static(check)
        return made

    def assert_static(self, node: Any) -> None:
        """Ask a static assertion."""
        condition, message = field_of(node, "condition"), field_of(node, "message")
        self.static += 1
        value = self.ev(condition)
        self.static -= 1
        if not self.known(self.num(value, node), condition, "a static assertion"):
            words = text(message).strip('"') if message is not None else text(condition)
            raise CppError(node, f"static assertion: {words}")

    def _chosen(self, found: Declared, args: tuple[Any, ...], node: Any) -> Any:
        """Return the specialisation that fits, or the template itself."""
        full = args
        if found.special and found.params is not None:
            with self.scoped(found.scope):
                bound = self.bound(found.params, args, node)
            full = tuple(bound.values())
        for pattern, target, params in reversed(found.special):
            with self.scoped(found.scope):
                fits = self.matched(pattern, full, params)
            if fits is not None:
                return target, params, fits
        return found.node, found.params or [], None

    def matched(self, pattern: list[Any], args: Any, params: list[Any]) -> dict[str, Any] | None:
        """Return the parameters of a specialisation where its pattern fits, else None."""
        free = {w for p in params if (w := param_name(p))}
        bound: dict[str, Any] = {}
        args = [a for value in args for a in (value if isinstance(value, tuple) else (value,))]
        if pattern and pattern[-1].type == "parameter_pack_expansion":
            *pattern, last = pattern
            bound[text(field_of(last, "pattern"))] = tuple(args[len(pattern) :])
            args = args[: len(pattern)]
        if len(pattern) != len(args):
            return None
        later = [(part, value) for part, value in zip(pattern, args, strict=True)
                 if not self.deduce(part, value, free, bound)]  # fmt: skip
        return bound if all(self._follows(*pair, free, bound) for pair in later) else None

    def _follows(self, part: Any, value: Any, free: set[str], bound: dict[str, Any]) -> bool:
        """Is a part that names nothing by itself (`std::enable_if_t<…>`) what it has to be, with
        what the other parts name?"""
        words = _words(part) & free
        if not words or words - bound.keys():
            return False
        try:
            with self.scoped() as scope:
                scope.names.update(bound)
                return _key((self.argument(part),)) == _key((value,))
        except CppError:
            return False

    def deduce(self, part: Any, value: Any, free: set[str], bound: dict[str, Any]) -> bool:
        """Match a type or value with the node of a pattern; enter what its free names are."""
        if part.type == "type_descriptor":
            inside = field_of(part, "declarator")
            while inside is not None and "pointer" in inside.type:
                if not isinstance(value, Pointer):
                    return False
                value = value.to
                inside = next((c for c in named(inside) if "declarator" in c.type), None)
            part = field_of(part, "type")
        while part.type == "qualified_identifier" and text(field_of(part, "scope")) in SILENT:
            part = field_of(part, "name")
        word = text(part)
        if word in free:
            if word in bound:
                return _key((bound[word],)) == _key((value,))
            bound[word] = value
            return True
        if part.type == "template_type" and any(w in free for w in _words(part)):
            return self._deduce_inside(part, value, free, bound)
        try:
            own = self.argument(part)
        except CppError:
            return False
        return _key((own,)) == _key((value,))

    def _deduce_inside(self, part: Any, value: Any, free: set[str], bound: Any) -> bool:
        name, args = library.arguments_of(value)
        if isinstance(value, StructType):
            name, args = value.name, value.args
        word = text(field_of(part, "name"))
        if (word, name) == ("index_sequence", "integer_sequence"):
            name, args = word, args[1:]
        if word != name and word not in free:
            return False
        patterns = named(field_of(part, "arguments"))
        last = patterns[-1] if patterns else None
        if last is not None and last.type == "parameter_pack_expansion":
            pack = text(field_of(last, "pattern"))
            bound[pack] = tuple(args[len(patterns) - 1 :])
            patterns = patterns[:-1]
        return all(self.deduce(p, a, free, bound) for p, a in zip(patterns, args, strict=False))

    def bound(self, params: list[Any] | None, args: Any, node: Any) -> dict[str, Any]:
        """Return template parameters with their arguments or defaults; in the scope of the
        template."""
        made: dict[str, Any] = {}
        left = list(args)
        for param in params or ():
            word = param_name(param) or f"__{len(made)}"
            if "variadic" in param.type:
                is_packed = bool(left) and isinstance(left[0], tuple)
                made[word], left = (left[0], left[1:]) if is_packed else (tuple(left), [])
                continue
            made[word] = self.given(param, left.pop(0)) if left else self._default(param, node)
            self.scope.names[word] = made[word]
        if left:
            raise CppError(node, f"{len(left)} template arguments too many")
        return made

    def given(self, param: Any, value: Any) -> Any:
        """Return a template argument in the type of its parameter."""
        type_node = field_of(param, "type")
        if isinstance(value, Num) and type_node is not None:
            type_ = self.type_of(type_node)
            return self.cast(value, type_, param) if isinstance(type_, Scalar) else value
        return value

    def _default(self, param: Any, node: Any) -> Any:
        default = field_of(param, "default_value") or field_of(param, "default_type")
        if default is None:
            raise CppError(
                node,
                f"template parameter `{param_name(param)}` is not given",
                "write it: `name<…>`",
            )
        if default.type in (
            "type_descriptor",
            "template_type",
            "type_identifier",
            "primitive_type",
            "qualified_identifier",
            "dependent_type",
        ):
            found = self.argument(default) if default.type == "type_descriptor" else None
            return found if found is not None else self.given(param, self.entity(default))
        return self.given(param, self.argument(default))


def packed(params: list[Any] | None, args: list[Any]) -> list[Any]:
    """Return template arguments with those of a pack as one; parameters after it are deduced."""
    at = next((i for i, p in enumerate(params or ()) if "variadic" in p.type), len(args))
    return [*args[:at], tuple(args[at:])] if len(args) > at else list(args)


def param_name(param: Any) -> str:
    """Return the name of a template parameter, "" if it has none."""
    if param.type in ("type_parameter_declaration", "optional_type_parameter_declaration",
                      "variadic_type_parameter_declaration"):  # fmt: skip
        found = field_of(param, "name")
        found = found or next((c for c in named(param) if c.type == "type_identifier"), None)
        return text(found) if found is not None else ""
    if param.type == "template_template_parameter_declaration":
        return param_name(named(param)[-1])
    found = name_node(field_of(param, "declarator"))
    return text(found) if found is not None else ""


def _words(node: Any) -> set[str]:
    found = set()
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if not part.children:
            found.add(text(part))
        waiting.extend(part.children)
    return found


def instance_name(function: Declared, scope: Scope) -> str:
    """Return a function with its template arguments: `add<float, 64>`."""
    if not function.params:
        return function.name
    args = (scope.names.get(param_name(p)) for p in function.params)
    return f"{function.name}<{', '.join(map(_told_argument, args))}>"


_MOST_TOLD = 8
"""Elements of a pack that are told of an instance."""


def _told_argument(value: Any) -> str:
    if isinstance(value, tuple):
        rest = ["…"] if len(value) > _MOST_TOLD else []
        return ", ".join([*map(_told_argument, value[:_MOST_TOLD]), *rest])
    if isinstance(value, Num) and value.is_known:
        return str(value.const).lower()
    return getattr(value, "name", None) or type(value).__name__.removesuffix("Type")


def _key(args: Any) -> Any:
    """Arguments as what tells instances apart."""
    return tuple(
        (a.const, a.name) if isinstance(a, Num) else ("m", a.enum, a.name) if isinstance(a, Member)
        else id(a) if isinstance(a, (StructType, Declared)) else a
        for a in args
    )  # fmt: skip


def _is_static(part: Any) -> bool:
    if inner(field_of(part, "declarator"), "function_declarator") is not None:
        return False
    return has_word(part, "static", "constexpr")


# Packs of values and types: an expansion (`f(a)...`) is its pattern once for each element.


class PackElement:
    """A pattern of an expansion for one element; it is a node in the place of the expansion."""

    type = "pack_element"

    def __init__(self, pattern: Any, name: str, value: Any, *, is_plain: bool = False) -> None:
        self.pattern, self.name, self.value = pattern, name, value
        self.is_plain = is_plain  # the pattern is the name of the pack and nothing else

    def __getattr__(self, word: str) -> Any:
        return getattr(self.pattern, word)


def pack_in(node: Any, scope: Scope) -> tuple[str, tuple[Any, ...]] | None:
    """Return the pack that is named inside, with its name; None if there is none."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.type in ("identifier", "type_identifier", "namespace_identifier"):
            found = scope.find(text(part))
            if isinstance(found, tuple):
                return text(part), found
        waiting.extend(named(part))
    return None


def elements(pattern: Any, scope: Scope) -> list[Any]:
    """Return a pattern once for each element of its pack; raises CppError if it names none."""
    pack = pack_in(pattern, scope)
    if pack is None:
        raise CppError(pattern, "no pack is named here")
    is_plain = text(pattern) == pack[0]
    return [PackElement(pattern, pack[0], value, is_plain=is_plain) for value in pack[1]]


def spread(nodes: list[Any], scope: Scope) -> list[Any]:
    """Return arguments with each expansion among them spread."""
    found: list[Any] = []
    for node in nodes:
        is_pack = node.type == "parameter_pack_expansion"
        found += elements(field_of(node, "pattern"), scope) if is_pack else [node]
    return found


def fold(follower: Any, node: Any) -> Any:
    """Return `(pattern op ...)`."""
    sides = (field_of(node, "left"), field_of(node, "right"))
    left, right = (None if s is None or text(s) == "..." else s for s in sides)
    op = text(field_of(node, "operator"))
    is_pack = [
        part is not None and pack_in(part, follower.scope) is not None for part in (left, right)
    ]
    pattern = left if is_pack[0] else right
    if op == "," and None in (left, right) and follower.folded(pattern):
        return Num(SCALARS["void"], 0)
    values = [follower.lv(part) for part in elements(pattern, follower.scope)]
    first = right if is_pack[0] else left
    if first is not None:
        values = [*values, follower.ev(first)] if is_pack[0] else [follower.ev(first), *values]
    if op == ",":
        return values[-1] if values else Num(SCALARS["void"], 0)
    if not values:
        return Num(BOOL, op == "&&")
    return _folded_up(follower, op, values, node, from_right=is_pack[0])


def _folded_up(follower: Any, op: str, values: list[Any], node: Any, *, from_right: bool) -> Any:
    values = [follower.taken(v, node) for v in values]
    made = values.pop() if from_right else values.pop(0)
    while values:
        other = values.pop() if from_right else values.pop(0)
        pair = (other, made) if from_right else (made, other)
        if op in ("&&", "||"):
            made = follower.both(op, *(follower.truth(v, node) for v in pair))
        else:
            made = follower.binary(op, *pair, node)
    return made
