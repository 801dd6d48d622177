"""The C++ forms of instructions, from the rows and `isa/cpp.toml`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, OperandDef, Variant, enums
from ptosim.language.cpp.kinds import UNKNOWN, Cell, Global, Member, Num, Pointer, Struct, Tile


@lru_cache(maxsize=1)
def table() -> dict[str, Any]:
    """Return what the data say about C++."""
    return read_toml("cpp.toml")


@lru_cache(maxsize=1)
def pipes_of_ops() -> dict[str, str]:
    """Return the pipe of an operation that an Event names, where it is not V."""
    return {op: pipe for pipe, ops in table()["pipes"].items() for op in ops.split()}


@lru_cache(maxsize=1)
def silent() -> frozenset[str]:
    """Return the calls that have no effect on values."""
    return frozenset(table()["nothing"]["words"].split())


@lru_cache(maxsize=1)
def raw() -> frozenset[str]:
    """Return the intrinsics on the memory of the core."""
    return frozenset(table()["raw"]["words"].split())


def refusal(word: str) -> tuple[str, str] | None:
    """Return why a name of another interface is not read, and what to do; None for other names."""
    patterns = table()["refused"].items()
    return next((tuple(why) for name, why in patterns if re.fullmatch(name, word)), None)


def row_of(word: str) -> OpDef | None:
    """Return the row of an instruction by its C++ name, None if there is none."""
    name = table()["names"].get(word)
    if name is None:
        if not re.fullmatch(r"M?T?[A-Z][A-Z0-9_]*", word):
            return None
        name = word.lower()
    return isa().get(f"pto.{name}")


def is_of_kind(value: Any, operand: OperandDef) -> bool:
    """Can a value be this operand?"""
    kinds = operand.kinds
    if isinstance(value, Tile):
        return "tile" in kinds or "any" in kinds
    if isinstance(value, Global):
        return "view" in kinds or "any" in kinds
    if isinstance(value, Num):
        if isinstance(value.type, Pointer):
            return "ptr" in kinds or "any" in kinds
        return bool({"scalar", "int", "index", "float", "any"} & set(kinds))
    return isinstance(value, Struct) and "vector" in kinds


Matched = tuple[Variant, dict[str, Any], dict[str, Any]]


def match(word: str, row: OpDef, values: list[Any]) -> Matched | None:
    """Return the operand list that arguments fit, the operands by name, and attributes."""
    orders = table()["orders"].get(word)
    for variant in row.variants:
        if variant.name == "refused" or variant.name == "mx_page":
            continue
        for order in orders or ():
            found = _by_order(order.split(), variant, values)
            if found is not None:
                return found
        found = None if orders else _in_turn(variant, values)
        if found is not None:
            return variant, found, {}
    return None


def _by_order(words: list[str], variant: Variant, values: list[Any]) -> Matched | None:
    if len(words) != len(values):
        return None
    known = {d.name: d for d in variant.operands}
    operands: dict[str, Any] = {}
    attrs: dict[str, Any] = {}
    for word, value in zip(words, values, strict=True):
        if word.startswith("@"):
            if not isinstance(value, Num):
                return None
            attrs[word[1:]] = value
            continue
        for name in word.split("="):
            if name not in known or not is_of_kind(value, known[name]):
                return None
            operands[name] = value
    needed = {d.name for d in (*variant.ins, *variant.outs) if not d.optional}
    return (variant, operands, attrs) if needed <= operands.keys() else None


def _in_turn(variant: Variant, values: list[Any]) -> dict[str, Any] | None:
    """Destinations first, then the inputs in the order of the row; optional ones may be left
    out."""
    defs = [*variant.outs, *variant.ins, *(d for d in variant.operands if d.keyword)]
    operands: dict[str, Any] = {}
    rest = list(values)
    for operand in defs:
        if operand.is_flag:
            continue
        if operand.variadic:
            operands[operand.name], rest = rest, []
        elif rest and is_of_kind(rest[0], operand):
            operands[operand.name] = rest.pop(0)
        elif not operand.optional and operand in (*variant.outs, *variant.ins):
            return None
    return None if rest else operands


def cure_of_arguments(word: str, values: list[Any], targs: list[Any]) -> str | None:
    """Return how an instruction without a row is called, None where it is called like that."""
    orders = table()["takes"].get(word)
    if orders is None:
        return None
    free = orders[0].count("<")
    given = [*targs[:free], *values]
    for order in orders:
        kinds = [part.rpartition(":")[2] for part in order.split()]
        if len(kinds) == len(given) and len(targs) >= free and all(map(_is_kind, kinds, given)):
            return None
    return f"write {' or '.join(_call_text(word, order) for order in orders)}"


def _is_kind(kind: str, value: Any) -> bool:
    if kind == "tile":
        return isinstance(value, Tile)
    is_word = isinstance(value, Member)
    if kind == "pipe":
        return is_word and value.enum == "pipe"
    return is_word or (isinstance(value, Num) and not isinstance(value.type, Pointer))


def _call_text(word: str, order: str) -> str:
    """Return how a call is written: `TSUBVIEW(dst, src, row, col)`."""
    names = [part.partition(":")[0] for part in order.split()]
    types = ", ".join(n.strip("<") for n in names if n.startswith("<"))
    values = ", ".join(n for n in names if not n.startswith("<"))
    return f"`{word}<{types}>({values})`" if types else f"`{word}({values})`"


def said_of_scales(member: Member) -> list[Member]:
    """Return what a member of MxQuantAlg says, a format and how scales are found; else itself."""
    if member.enum != "MxQuantAlg":
        return [member]
    return [Member(*word.split(".")) for word in table()["scales"].get(member.name, "").split()]


def _snake(word: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()


def attribute(row: OpDef, member: Member) -> tuple[str, str] | None:
    """Return the attribute that a member of an enumeration is, and how it is written; None where
    the row has none for it."""
    kind = table()["enums"].get(member.enum)
    if kind == "":
        return None
    wanted = kind or _snake(member.enum)
    for attr in row.attrs.values():
        is_algorithm = member.enum.endswith("Algorithm") and attr.name == "precisionType"
        if attr.type != wanted and not is_algorithm:
            continue
        known = enums().get(attr.type)
        for word in (member.name.removeprefix("CAST_"), member.name, _snake(member.name),
                     member.name.lower()):  # fmt: skip
            found = known.member(word) if known is not None else None
            if found is not None:
                return attr.name, f"#pto<{attr.type} {found}>"
    return None


def is_event(value: Any) -> bool:
    """Is it an object to wait for?"""
    from ptosim.language.cpp.kinds import Event

    return isinstance(value, Event)


__all__ = ["UNKNOWN", "Cell", "attribute", "match", "row_of"]
