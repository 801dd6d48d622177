"""Entries of a file: which there are, which is meant, its arguments as values of the program."""

from __future__ import annotations

import re
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.ground.words import few
from ptosim.language.cpp.declared import (
    Declared,
    Overloads,
    field_of,
    identifiers,
    name_node,
    named,
    text,
)
from ptosim.language.cpp.kinds import SCALARS, Num, Pointer, Scalar, StructType, wrap
from ptosim.language.cpp.preprocess import expand
from ptosim.language.cpp.state import CppError, Scope
from ptosim.language.cpp.tree import parsed


def entries_of(file: Any) -> list[str]:
    """Return the entries that a file offers: explicit instantiations, then kernels and launch
    wrappers that are no templates."""
    listed = [" ".join(i.name.split()) for i in file.collector.instantiations]
    plain = [
        f.name
        for f in file.collector.functions
        if not f.params and (f.is_kernel or launches(f)) and f.name not in listed
    ]
    return list(dict.fromkeys([*listed, *plain]))


def launches(function: Declared) -> bool:
    return b"__launch__" in field_of(function.node, "body").text


def chosen(file: Any, entry: str | None) -> str:
    if entry is not None:
        return entry.removeprefix("@")
    found = entries_of(file)
    if not found:
        functions = file.collector.functions
        found = [f.name for f in functions if f.is_kernel or b"TLOAD" in f.node.text]
        found = found or [f.name for f in functions if not f.params and f.name != "main"]
        found = [n for n in found if n not in _called_inside(file)] or found
    if len(found) > 1:
        found = _without_kernels_of_wrappers(file, found)
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError("the file has no kernel", help="a kernel is `__global__ AICORE void f(…)`")
    raise UsageError(f"the file has {len(found)} entries; name one with --entry",
                     help=f"entries: {few(found)}")  # fmt: skip


def _called_inside(file: Any) -> set[str]:
    names = {f.name for f in file.collector.functions}
    found = set()
    for function in file.collector.functions:
        words = re.findall(r"\w+", field_of(function.node, "body").string)
        found |= (names & set(words)) - {function.name}
    return found


def _without_kernels_of_wrappers(file: Any, found: list[str]) -> list[str]:
    """A plain kernel that the only wrapper launches is meant by the wrapper's own name alone."""
    kernels = {f.name for f in file.collector.functions if f.is_kernel}
    only = [n for n in found if n.split("<")[0] in kernels]
    return only if len(only) == 1 else found


def found_entry(follower: Any, file: Any, name: str) -> Any:
    """Return the function that an entry names, and the scope of its template arguments."""
    plain = name.partition("<")[0].strip()
    call = parsed(f"void __entry() {{ {name}(); }}")
    while call.type != "call_expression":
        inside = named(call)
        if not inside or call.type == "ERROR":
            raise UsageError(f"`{name}` is no entry", help=_help(file))
        call = inside[-1]
    found: Any = file.scope
    for word in plain.split("::"):
        found = found.find(word) if isinstance(found, Scope) else None
    if not isinstance(found, Overloads):
        found = _anywhere(file, plain.rpartition("::")[2])
    if not isinstance(found, Overloads):
        raise UsageError(f"there is no entry `{name}`", help=_help(file))
    node = field_of(call, "function")
    while node.type == "qualified_identifier":
        node = field_of(node, "name")
    targs = follower.arguments(node) if node.type == "template_function" else []
    return _instantiated(follower, found, targs, node, name, file)


def _anywhere(file: Any, word: str) -> Overloads | None:
    functions = [f for f in file.collector.functions if f.name == word]
    return Overloads(word, functions) if functions else None


def _instantiated(
    follower: Any, found: Overloads, targs: list[Any], node: Any, name: str, file: Any
) -> Any:
    why: CppError | None = None
    for function in found.functions:
        scope = Scope(function.scope, function.name)
        before, follower.scope = follower.scope, scope
        try:
            if function.special:
                continue
            scope.names.update(follower.bound(function.params, targs, node))
            return found, targs, function, scope
        except CppError as fault:
            why = fault
        finally:
            follower.scope = before
    detail = why.message if why is not None else "no function of this name fits"
    raise UsageError(f"`{name}` cannot be an entry: {detail}", help=_help(file))


def _help(file: Any) -> str:
    return f"entries: {few(entries_of(file)) or 'none'}"


_STREAMS = ("aclrtStream",)
FFTS = "ffts"
"""In the name of an argument: the base address of flags, which a launch here does not need."""


def _is_stream(word: str, function: Declared) -> bool:
    """Is a parameter of a launch wrapper only the third word of launches?"""
    body = text(field_of(function.node, "body"))
    launch = rf"__launch__\((?:[^()]|\([^()]*\))*?,\s*{re.escape(word)}\s*\)"
    others, count = re.subn(launch, "", body)
    return count > 0 and re.search(rf"\b{re.escape(word)}\b", others) is None


def argument_of(follower: Any, param: Any, names: list[str], function: Declared) -> Any:
    """Return the value of a parameter of the entry: a value of the program."""
    declarator = field_of(param, "declarator")
    type_ = follower.declared_type(field_of(param, "type"), declarator)
    name = name_node(declarator)
    word = text(name) if name is not None else f"arg{len(names)}"
    is_open = type_ == Pointer(SCALARS["void"])
    is_stream = is_open and ("stream" in word.lower() or _is_stream(word, function))
    if is_stream or text(field_of(param, "type")) in _STREAMS:
        return Num(Pointer(SCALARS["void"]), 0)
    if not isinstance(type_, (Scalar, Pointer)):
        raise CppError(
            param,
            f"parameter `{word}` is no number and no pointer to global memory",
            "a kernel takes numbers and pointers",
        )
    if isinstance(type_, Pointer) and not isinstance(type_.to, (Scalar, StructType)):
        raise CppError(param, f"parameter `{word}` is a pointer to what is no number")
    at = sum(FFTS not in n.lower() for n in names)
    if FFTS not in word.lower() and at < len(follower.renamed):
        word = follower.renamed[at]
    names.append(word)
    if isinstance(type_, Pointer):
        follower.argument_types[word] = type_.value
        return Num(type_, None, f"%{word}")
    follower.argument_types[word] = type_.stored
    default = field_of(param, "default_value")
    if default is not None:
        value = follower.cast(follower.num(follower.ev(default), default), type_, default)
        follower.defaults[word] = follower.known(value, default, "a default argument")
    if word in (follower.scalars or ()):
        return follower.cast(Num(type_, wrap(follower.scalars[word], type_)), type_, param)
    made = follower.from_memory(f"%{word}", type_)
    follower.argument_values[made.name or ""] = word
    return made


def host_code(file: Any) -> list[tuple[str, int]]:
    """Return what is not executed, with its place in the file: functions that no kernel, helper of
    one or launch wrapper is, and the statements of a wrapper that launch nothing."""
    collected = file.collector.functions
    bodies = {f: field_of(f.node, "body").string for f in collected}
    listed = {i.name.partition("<")[0].strip() for i in file.collector.instantiations}
    device = {f for f in collected if f.name in listed or f.is_kernel or _is_marked(f, file)}
    device.update(f for f in collected if launches(f))
    device = device or {f for f in collected if "TLOAD" in bodies[f]}
    waiting = list(device)
    while waiting:
        words = set(re.findall(r"\w+", bodies[waiting.pop()]))
        called = [f for f in collected if f.name in words and f not in device and f.name != "main"]
        device.update(called)
        waiting += called
    found = [(f.name, f.node) for f in collected if f not in device]
    names = {f.name for f in collected}
    for wrapper in filter(launches, collected):
        for part in named(field_of(wrapper.node, "body")):
            words = set(identifiers(part))
            if part.type == "expression_statement" and not words & (names | {"__launch__"}):
                found.append((" ".join(part.string.split())[:40], part))
    return sorted(((word, file.expanded.place(node.start_byte)) for word, node in found),
                  key=lambda one: one[1])  # fmt: skip


def _is_marked(function: Declared, file: Any) -> bool:
    """Is a function one of the device: `AICORE`, which expansion takes out?"""
    start, body = function.node.start_byte, field_of(function.node, "body").start_byte
    first = file.expanded.text.rfind("\n", 0, start) + 1
    places = file.expanded.place(first), file.expanded.place(body)
    return (
        re.search(r"aicore", file.expanded.source.text[slice(*places)], re.IGNORECASE) is not None
    )


# -- names, for editors ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    """A name in the file; where it is declared, from where to where it can be used."""

    text: str
    start: int
    begin: int = 0
    end: int = 0

    @property
    def is_declared(self) -> bool:
        """Is it declared here?"""
        return self.end > 0


def names_of(source: Source, arch: str) -> list[Name]:
    """Return the names that are written in a file, as it is for a target, in the order of the text.
    Raises CppError for directives that cannot be read, UsageError without the extra."""
    expanded = expand(source, arch, None)
    found: dict[int, Name] = {}
    waiting = [parsed(expanded.text)]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.type not in _NAMES:
            continue
        word, at = text(node), expanded.place(node.start_byte)
        if source.text.startswith(word, at):
            scope = _scope_of_declared(node)
            span = () if scope is None else _extent(scope, at, expanded)
            if at not in found or span:
                found[at] = Name(word, at, *span)
    for macro in _MACRO.finditer(source.text):
        whole = len(source.text) + 1
        for use in re.finditer(rf"\b{macro[1]}\b", source.text):
            is_own = use.start() == macro.start(1)
            found[use.start()] = Name(macro[1], use.start(), *((0, whole) if is_own else ()))
    return [found[at] for at in sorted(found)]


_NAMES = frozenset(("identifier", "type_identifier", "field_identifier", "namespace_identifier"))
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_DECLARATORS = frozenset(
    ("init_declarator", "pointer_declarator", "reference_declarator", "array_declarator",
     "function_declarator", "structured_binding_declarator", "variadic_declarator")
)  # fmt: skip
_DECLARATIONS = frozenset(
    ("declaration", "parameter_declaration", "optional_parameter_declaration", "field_declaration",
     "for_range_loop", "function_definition", "variadic_parameter_declaration",
     "type_parameter_declaration", "variadic_type_parameter_declaration")
)  # fmt: skip
_NAMED = frozenset(
    ("alias_declaration", "struct_specifier", "class_specifier", "union_specifier",
     "enum_specifier", "enumerator", "namespace_definition", "optional_type_parameter_declaration")
)  # fmt: skip
_SCOPES = frozenset(
    ("compound_statement", "for_statement", "for_range_loop", "function_definition",
     "lambda_expression", "template_declaration", "translation_unit")
)  # fmt: skip


def _scope_of_declared(node: Any) -> Any:
    """Return what a name that is declared here can be used in; None if it is only used."""
    part, parent = node, node.parent
    while parent is not None and parent.type in _DECLARATORS:
        if parent.type != "reference_declarator" and field_of(parent, "declarator") not in (
            part, None,
        ):  # fmt: skip
            return None
        part, parent = parent, parent.parent
    if parent is None:
        return None
    if parent.type in _NAMED:
        if field_of(parent, "name") != part and field_of(parent, "default_type") in (part, None):
            return None
    elif parent.type not in _DECLARATIONS or not _is_declarator(parent, part):
        return None
    outer = parent.type in ("function_definition", *_NAMED) and "parameter" not in parent.type
    scope = parent.parent if outer else parent
    while scope.type not in _SCOPES or (outer and scope.type == "template_declaration"):
        if scope.type in ("field_declaration_list", "enumerator_list"):
            outer = True
        scope = scope.parent
    return scope


def _is_declarator(parent: Any, part: Any) -> bool:
    if "type_parameter" in parent.type:
        return True
    return part in parent.children_by_field_name("declarator")


def _extent(scope: Any, at: int, expanded: Any) -> tuple[int, int]:
    """Return from where to where a name can be used, in the file."""
    if scope.type == "translation_unit":
        return 0, len(expanded.source.text) + 1
    end = expanded.place(max(scope.end_byte - 1, 0)) + 1
    return (at if scope.type == "compound_statement" else expanded.place(scope.start_byte)), end
