"""Structs in global memory: where the fields of one are, by the alignment of C++."""

from __future__ import annotations

from typing import Any

from ptosim.language.cpp.declared import field_of, has_word, inner, name_node, named, text
from ptosim.language.cpp.errors import refused
from ptosim.language.cpp.kinds import ArrayType, Scalar, StructType


def fields_of(follower: Any, type_: StructType) -> dict[str, tuple[int, Any]]:
    """Return the byte offset and the type of each field. Raises CppError for a field that is no
    number and no array of numbers."""
    found: dict[str, tuple[int, Any]] = {}
    at = 0
    with follower.scoped(type_.scope):
        for part in named(field_of(type_.node, "body")):
            if part.type != "field_declaration" or has_word(part, "static"):
                continue
            for child in part.children_by_field_name("declarator"):
                name = name_node(child)
                if name is None or inner(child, "function_declarator") is not None:
                    continue
                kind = follower.declared_type(field_of(part, "type"), child)
                size, align = _measured(kind, text(name), part)
                at = -(-at // align) * align
                found[text(name)] = at, kind
                at += size
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
