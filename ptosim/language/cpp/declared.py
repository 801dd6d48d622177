"""What a file declares: functions, templates, aliases, structs, enumerations, by scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.records import dataclass, field
from ptosim.language.cpp.kinds import (
    ArrayType,
    Enum,
    Pointer,
    Scalar,
    StructType,
)
from ptosim.language.cpp.state import Scope, refused


@dataclass(slots=True, eq=False)
class Declared:
    """A declaration: its node, its template parameters (None for no template), its scope, and the
    specialisations of a struct or variable."""

    kind: str  # function, alias, variable, struct
    name: str
    node: Any
    params: list[Any] | None
    scope: Scope
    special: list[tuple[list[Any], Any, list[Any]]] = field(default_factory=list)
    made: dict[Any, Any] = field(default_factory=dict)
    is_kernel: bool = False


@dataclass(slots=True, eq=False)
class Overloads:
    """The functions of a name."""

    name: str
    functions: list[Declared] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Instantiation:
    """`template void f<float, 64>(…);`: the name as it is written and without spaces, and its
    node."""

    name: str
    plain: str
    node: Any


def text(node: Any) -> str:
    """Return what a node is in the text."""
    return node.string


def field_of(node: Any, name: str) -> Any:
    """Return a child by its field, None if it has none."""
    return node.child_by_field_name(name)


def named(node: Any) -> list[Any]:
    """Return the children that are no punctuation or comment."""
    return list(node.named)


def default_of(declaration: Any, declarator: Any) -> Any:
    """Return the value that a declaration gives to one of its names, None if it gives none."""
    found = field_of(declarator, "value")
    is_after = False
    for i, child in enumerate(declaration.children):
        word = declaration.field_name_for_child(i)
        if word == "declarator":
            is_after = child.id == declarator.id
        elif word == "default_value" and is_after:
            return child
    return found


def identifiers(node: Any) -> set[str]:
    """Return the names in a part of the text."""
    found, waiting = set(), [node]
    while waiting:
        part = waiting.pop()
        if part.type == "identifier":
            found.add(text(part))
        waiting.extend(named(part))
    return found


def inner(declarator: Any, kind: str) -> Any:
    """Return the declarator of a kind inside pointers, references and brackets."""
    while declarator is not None and declarator.type != kind:
        found = field_of(declarator, "declarator")
        if found is None:
            rest = [c for c in named(declarator) if c.type.endswith("declarator")]
            found = rest[-1] if rest else None
        declarator = found
    return declarator


_NAMES = frozenset(
    [
        "identifier",
        "field_identifier",
        "type_identifier",
        "qualified_identifier",
        "template_function",
        "operator_name",
        "destructor_name",
        "structured_binding_declarator",
    ]
)


def name_node(declarator: Any) -> Any:
    """Return the name in a declarator, None for an abstract one."""
    while declarator is not None and declarator.type not in _NAMES:
        found = field_of(declarator, "declarator")
        if found is None:
            rest = [c for c in named(declarator) if "declarator" in c.type or c.type in _NAMES]
            found = rest[0] if rest else None
        declarator = found
    return declarator


_STRUCTS = ("struct_specifier", "class_specifier", "union_specifier")


def struct_name(node: Any) -> str:
    """Return the name of a struct, also of one without a name."""
    name = field_of(node, "name")
    return text(name) if name is not None else f"unnamed at {node.start_byte}"


def has_word(node: Any, *words: str) -> bool:
    """Is one of these words among what a declaration begins with?"""
    return any(
        (c.type in words) or (c.type in _SPECIFIERS and text(c) in words) for c in node.children
    )


_SPECIFIERS = (
    "type_qualifier",
    "storage_class_specifier",
    "virtual",
    "explicit_function_specifier",
)


CONVERSION = "operator()cast"
"""The name of what makes a number of an object: `operator float() const`."""


class Collector:
    """Enters the declarations of a file into scopes."""

    def __init__(
        self, kernels: Sequence[int], instantiations: list[Instantiation] | None = None
    ) -> None:
        self._is_first = instantiations is None
        """Is the tree gone through for the first time? It is for each instantiation again."""
        self.instantiations = [] if instantiations is None else instantiations
        self.functions: list[Declared] = []
        self.kernels = list(kernels)
        self.asserts: list[tuple[Any, Scope]] = []

    def collect(self, nodes: Sequence[Any], scope: Scope) -> None:
        """Enter the declarations among nodes."""
        for node in nodes:
            getattr(self, f"_{node.type}", self._other)(node, scope, None)

    def _other(self, node: Any, scope: Scope, params: Any) -> None:
        """Anything else says nothing here."""

    def _linkage_specification(self, node: Any, scope: Scope, params: Any) -> None:
        body = field_of(node, "body")
        inside = named(body) if body.type == "declaration_list" else [body]
        for part in inside:
            getattr(self, f"_{part.type}", self._other)(part, scope, params)

    def _namespace_definition(self, node: Any, scope: Scope, params: Any) -> None:
        name, body = field_of(node, "name"), field_of(node, "body")
        inside = scope
        for word in text(name).split("::") if name is not None else ():
            known = inside.names.get(word)
            if not isinstance(known, Scope):
                known = inside.names[word] = Scope(inside, word)
            inside = known
        if inside not in scope.using and any(c.type == "inline" for c in node.children):
            scope.using.append(inside)
        self.collect(named(body), inside)

    def _template_declaration(self, node: Any, scope: Scope, params: Any) -> None:
        given = named(field_of(node, "parameters"))
        own = named(node)[-1]
        getattr(self, f"_{own.type}", self._other)(own, scope, [*(params or ()), *given])

    def _template_instantiation(self, node: Any, scope: Scope, params: Any) -> None:
        if not self._is_first:
            return
        name = name_node(inner(field_of(node, "declarator"), "function_declarator"))
        if name is not None:
            self.instantiations.append(Instantiation(text(name), "".join(text(name).split()), name))

    def _function_definition(self, node: Any, scope: Scope, params: Any) -> None:
        declarator = inner(field_of(node, "declarator"), "function_declarator")
        name = name_node(declarator)
        body = field_of(node, "body")
        if field_of(node, "declarator") is not None and declarator is None:
            declarator = name = inner(field_of(node, "declarator"), "operator_cast")
        if name is None or body is None:
            return
        word = CONVERSION if name.type == "operator_cast" else text(name)
        word = "".join(word.split()) if word.startswith("operator") else word
        if name.type == "template_function":
            word = text(field_of(name, "name"))
        elif name.type == "qualified_identifier":
            word = f"{word.partition('<')[0].partition('::')[0]}::{word.rpartition('::')[2]}"
        if word == scope.label and field_of(node, "type") is None:
            return  # a constructor: the name is that of the struct
        known = scope.names.get(word)
        if not isinstance(known, Overloads):
            known = scope.names[word] = Overloads(word)
        made = Declared("function", word, node, params, scope)
        if name.type == "template_function":
            made.special = [([], name, [])]
        made.is_kernel = self._is_kernel(node)
        known.functions.append(made)
        self.functions.append(made)

    def _is_kernel(self, node: Any) -> bool:
        start = node.start_byte
        body = field_of(node, "body").start_byte
        before = node.parent
        while before is not None and before.type in (
            "template_declaration",
            "linkage_specification",
        ):
            start = before.start_byte
            before = before.parent
        return any(start - 200 <= at <= body and self._nearest(at, start) for at in self.kernels)

    def _nearest(self, at: int, start: int) -> bool:
        """A marker directly in front of what it marks is outside of its node."""
        return at >= start or not self._between(at, start).strip()

    def _between(self, at: int, start: int) -> str:
        return self.text[at:start] if at < start else ""

    text = ""

    def _declaration(self, node: Any, scope: Scope, params: Any) -> None:
        type_ = field_of(node, "type")
        self.types_in(type_, scope, params)
        for child in node.children_by_field_name("declarator"):
            name = name_node(child)
            if name is None or inner(child, "function_declarator") is not None:
                continue
            word = text(name)
            if name.type == "template_function":
                word = text(field_of(name, "name"))
                known = scope.names.get(word)
                if isinstance(known, Declared):
                    pattern = named(field_of(name, "arguments"))
                    known.special.append((pattern, (node, child), params or []))
                continue
            scope.names[word] = Declared("variable", word, (node, child), params, scope)

    _field_declaration = _declaration

    def types_in(self, type_: Any, scope: Scope, params: Any = None) -> None:
        """Enter what the type of a declaration defines itself."""
        if type_ is not None and type_.type == "enum_specifier":
            self._enum_specifier(type_, scope, params)
        elif type_ is not None and type_.type in _STRUCTS:
            self._struct(type_, scope, params)

    def _alias_declaration(self, node: Any, scope: Scope, params: Any) -> None:
        word = text(field_of(node, "name"))
        scope.names[word] = Declared("alias", word, field_of(node, "type"), params, scope)

    def _type_definition(self, node: Any, scope: Scope, params: Any) -> None:
        self.types_in(field_of(node, "type"), scope)
        for child in node.children_by_field_name("declarator"):
            name = name_node(child)
            if name is not None:
                scope.names[text(name)] = Declared(
                    "alias", text(name), field_of(node, "type"), params, scope
                )

    def _struct(self, node: Any, scope: Scope, params: Any) -> None:
        name, body = field_of(node, "name"), field_of(node, "body")
        if body is None:
            if params and name is not None and name.type == "type_identifier":
                made = Declared("struct", text(name), node, params, scope)
                scope.names.setdefault(text(name), made)  # what specialisations belong to
            return
        if name is not None and name.type == "template_type":
            word = text(field_of(name, "name"))
            known = scope.names.get(word)
            if isinstance(known, Declared):
                known.special.append((named(field_of(name, "arguments")), node, params or []))
            return
        for part in named(body):
            if part.type == "friend_declaration":  # a function of the namespace
                self.collect([c for c in named(part) if field_of(c, "body") is not None], scope)
        word = struct_name(node)
        known = scope.names.get(word)
        special = known.special if isinstance(known, Declared) else []
        if params and isinstance(known, Declared) and known.params:
            given = {text(p).partition("=")[0].strip(): p for p in known.params}
            params = [given.get(text(p).strip(), p) for p in params]  # with the defaults before
        scope.names[word] = Declared("struct", word, node, params, scope, special)

    _struct_specifier = _class_specifier = _union_specifier = _struct

    def _enum_specifier(self, node: Any, scope: Scope, params: Any) -> None:
        name, body = field_of(node, "name"), field_of(node, "body")
        if body is None:
            return
        inside = Scope(scope, text(name) if name is not None else "")
        last: Any = None
        for part in named(body):
            if part.type != "enumerator":
                continue
            word = text(field_of(part, "name"))
            inside.names[word] = Declared("enumerator", word, (part, last), None, inside)
            last = inside.names[word]
        is_scoped = any(c.type in ("class", "struct") for c in node.children)
        if name is not None:
            scope.names[text(name)] = Declared("enum", text(name), node, None, inside)
        if not is_scoped:
            scope.names.update(inside.names)

    def _using_declaration(self, node: Any, scope: Scope, params: Any) -> None:
        found: Any = scope
        is_enum = any(c.type == "enum" for c in node.children)
        target = text(named(node)[-1])
        for word in target.split("::"):
            found = found.find(word) if isinstance(found, Scope) else None
        if isinstance(found, Scope):
            scope.using.append(found)
        elif is_enum and isinstance(found, Declared):
            scope.names.update(found.scope.names)
        elif found is not None:
            scope.names[target.rpartition("::")[2]] = found

    def _namespace_alias_definition(self, node: Any, scope: Scope, params: Any) -> None:
        name, target = text(field_of(node, "name")), text(named(node)[-1])
        found: Any = scope
        for word in target.split("::"):
            found = found.find(word) if isinstance(found, Scope) else None
        scope.names[name] = found if isinstance(found, Scope) else Scope(None, target)

    def _static_assert_declaration(self, node: Any, scope: Scope, params: Any) -> None:
        self.asserts.append((node, scope))

    def _declaration_list(self, node: Any, scope: Scope, params: Any) -> None:
        self.collect(named(node), scope)

    def _expression_statement(self, node: Any, scope: Scope, params: Any) -> None:
        """A struct may be followed by a lone semicolon."""


def parameters(node: Any) -> list[Any]:
    """Return the parameters of a function definition."""
    declarator = inner(field_of(node, "declarator"), "function_declarator")
    found = named(field_of(declarator, "parameters"))
    if len(found) == 1 and field_of(found[0], "declarator") is None and text(found[0]) == "void":
        return []
    return found


# Structs in global memory: where the fields of one are, by the alignment of C++.


def fields_of(follower: Any, type_: StructType) -> dict[str, tuple[int, Any]]:
    """Return the byte offset and the type of each field. Raises CppError for a field that is no
    number and no array of numbers."""
    found: dict[str, tuple[int, Any]] = {}
    at = 0
    for word, kind, part in fields_in(follower, type_):
        size, align = _measured(kind, word, part)
        at = -(-at // align) * align
        found[word] = at, kind
        at += size
    return found


def layout_of(follower: Any, type_: StructType, node: Any) -> tuple[int, int]:
    """Return the bytes of an object and its alignment. Raises CppError where its fields do not say
    them."""
    at, align = 0, 1
    for base in type_.bases:
        size, own = layout_of(follower, base, node)
        at, align = at + size, max(align, own)
    is_union = type_.node.type == "union_specifier"
    for _, kind, _ in fields_in(follower, type_):
        size, own = size_of(follower, kind, node)
        at = max(at, size) if is_union else -(-at // own) * own + size
        align = max(align, own)
    return max(-(-at // align) * align, 1), align


def size_of(follower: Any, kind: Any, node: Any) -> tuple[int, int]:
    """Return the bytes of a type and its alignment."""
    if isinstance(kind, StructType):
        return layout_of(follower, kind, node)
    if isinstance(kind, ArrayType):
        size, align = size_of(follower, kind.of, node)
        return size * kind.count, align
    if isinstance(kind, (Scalar, Pointer, Enum)):
        size = 8 if isinstance(kind, Pointer) else 4 if isinstance(kind, Enum) else kind.size
        return size, size
    why = "how many bytes an object of the library has, only its compiler knows"
    cure = "`T::Numel * sizeof(typename T::DType)` is what a tile holds"
    raise refused(node, text(node)[:40], why, cure)


def fields_in(follower: Any, type_: StructType) -> list[tuple[str, Any, Any]]:
    """Return the name, the type and the declaration of each field."""
    found = []
    with follower.scoped(type_.scope):
        for part in named(field_of(type_.node, "body")):
            if part.type != "field_declaration" or has_word(part, "static"):
                continue
            for child in part.children_by_field_name("declarator"):
                name = name_node(child)
                if name is None or inner(child, "function_declarator") is not None:
                    continue
                kind = follower.declared_type(field_of(part, "type"), child)
                found.append((text(name), kind, part))
    return found


def _measured(kind: Any, word: str, node: Any) -> tuple[int, int]:
    """Return the bytes of a field and its alignment."""
    if isinstance(kind, Scalar):
        return kind.size, kind.size
    if isinstance(kind, ArrayType) and isinstance(kind.of, Scalar):
        return kind.count * kind.of.size, kind.of.size
    raise refused(
        node, word, "a struct in global memory has a field that is no number", "use plain numbers"
    )
