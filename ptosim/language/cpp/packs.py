"""Packs of values and types: an expansion (`f(a)...`) is its pattern once for each
element."""

from __future__ import annotations

from typing import Any

from ptosim.language.cpp.declared import field_of, named, text
from ptosim.language.cpp.errors import CppError
from ptosim.language.cpp.state import Scope


class PackElement:
    """A pattern of an expansion for one element; it is a node in the place of the expansion."""

    type = "pack_element"

    def __init__(self, pattern: Any, name: str, value: Any) -> None:
        self.pattern, self.name, self.value = pattern, name, value

    def __getattr__(self, word: str) -> Any:
        return getattr(self.pattern, word)


def pack_in(node: Any, scope: Scope) -> tuple[str, tuple[Any, ...]] | None:
    """Return the pack that is named inside, with its name; None if there is none."""
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part.type in ("identifier", "type_identifier"):
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
    return [PackElement(pattern, pack[0], value) for value in pack[1]]


def spread(nodes: list[Any], scope: Scope) -> list[Any]:
    """Return arguments with each expansion among them spread."""
    found: list[Any] = []
    for node in nodes:
        is_pack = node.type == "parameter_pack_expansion"
        found += elements(field_of(node, "pattern"), scope) if is_pack else [node]
    return found
