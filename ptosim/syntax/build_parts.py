"""Parts that several callbacks of the builder put together in the same way."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.core import Node, Operation, Region
from ptosim.ground.ir.token import Tok


def dps_part(op: Operation, part: Any, values: list[Any], types: list[Any]) -> None:
    """Add one part of a DPS operation: attributes, a clause, an arrow's types, or a value."""
    if part.__class__ is dict:
        op.attrs.update(part)
        if values is op.ins and not types:
            values.append(part)
    elif part.kind == "dps_clause":
        op.clauses = [*op.clauses, part]
    elif part.kind == "arrow":
        op.arrow = part.parts
    else:
        values.append(part)


def key(tok: Tok | None) -> str:
    """Return the name of an attribute without its quotes."""
    text = tok.value if tok is not None else ""
    return text[1:-1] if text.startswith('"') else text


def flatten(parts: list[Any]) -> list[Any]:
    """Return the parts with lists of types in their place."""
    flat: list[Any] = []
    for part in parts:
        if part.__class__ is Node and part.kind in ("paren_types", "word_types"):
            flat.extend(flatten(part.parts))
        else:
            flat.append(part)
    return flat


def typed(op: Operation, parts: list[Any]) -> None:
    """Add values with their types, or attributes."""
    for part in parts:
        if part.__class__ is dict:
            op.attrs.update(part)
        else:
            op.ins = [p for p in part.parts if p.type == "SSA"]
            op.ins_types = [p for p in part.parts if p.type == "TYPE"]


def regions_and_types(op: Operation, parts: list[Any]) -> None:
    """Add regions, attributes and result types."""
    for part in parts:
        kind = part.__class__
        if kind is Region:
            op.regions = [*op.regions, part]
        elif kind is dict:
            op.attrs.update(part)
        elif kind is Node:
            op.arrow = part.parts
        elif part.type == "TYPE":
            op.arrow = [part]


def split_results(results: Tok) -> list[tuple[str, int, int]]:
    """Return (name, count, offset) for each of `%a, %b:2 =`."""
    found: list[tuple[str, int, int]] = []
    at = results.start
    for piece in results.value[:-1].split(","):
        name = piece.strip()
        start = at + (len(piece) - len(piece.lstrip()))
        base, _, count = name.partition(":")
        found.append((base[1:], int(count) if count else 1, start))
        at += len(piece) + 1
    return found
