"""The list in `ins(…)`: its tokens sorted into values, their types, and words with a value.

One list takes every spelling, because no grammar with one token of lookahead keeps them apart:
`%a, %b {x} : A, B`, `%a : A, %b : B`, `%a, %b : %a : A, %b : B`, `%a : A fp %f : F`,
`%a, no_tmp : A`, `%a, fp %f : A, F`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptosim.ground.ir.core import Node, Tok

Sorted = list[list[Any]]


def sorted_list(parts: Sequence[Any]) -> Sorted:
    """Return the values (dictionaries, literals and bare words included), the types of those that
    have one, and the words that name a value (`ins_word`, each with its type if it has one)."""
    values: list[Any] = []
    types: list[Any] = []
    words: list[Any] = []
    waiting: Node | None = None  # a word whose type follows
    placed: list[tuple[Node, int]] = []  # words in front of the types, with their place among them
    repeats = False  # values after the colon repeat those in front of it
    previous = ""
    for part in parts:
        kind = part.type if part.__class__ is Tok else ""
        if kind == "TYPE" and (types or previous == "COLON"):
            if waiting is not None:
                waiting.parts.append(part)
            else:
                types.append(part)
            waiting = None
        elif kind == "SSA" and (repeats or previous == "COLON"):
            repeats = True
        elif part.__class__ is Node and part.kind == "ins_word":
            words.append(part)
            if types:
                waiting = part
            else:
                placed.append((part, sum(map(_is_typed, values)) + len(placed)))
        elif kind != "COLON":
            values.append(part)
        previous = kind
    _give_types(placed, types, sum(map(_is_typed, values)))
    return [values, types, words]


def _give_types(placed: Sequence[tuple[Node, int]], types: list[Any], count: int) -> None:
    """Words among the values have their types among those of the values."""
    if placed and len(types) == count + len(placed):
        for word, at in reversed(placed):
            word.parts.append(types.pop(at))


def _is_typed(value: Any) -> bool:
    return value.__class__ is Node or (value.__class__ is Tok and value.type == "SSA")
