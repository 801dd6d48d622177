"""Packs of values and types: an expansion (`f(a)...`) is its pattern once for each
element."""

from __future__ import annotations

from typing import Any

from ptosim.language.cpp.declared import field_of, named, text
from ptosim.language.cpp.errors import CppError
from ptosim.language.cpp.kinds import BOOL, SCALARS, Num
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


def fold(follower: Any, node: Any) -> Any:
    """Return `(pattern op ...)`."""
    sides = (field_of(node, "left"), field_of(node, "right"))
    left, right = (None if s is None or text(s) == "..." else s for s in sides)
    op = text(field_of(node, "operator"))
    is_pack = [
        part is not None and pack_in(part, follower.scope) is not None for part in (left, right)
    ]
    pattern = left if is_pack[0] else right
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
