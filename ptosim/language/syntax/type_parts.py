"""Pieces of type texts: dimensions, spaces, element types, and what a date says of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from ptosim.ground.ir.types import (
    SPACE_SYNONYMS,
    Dim,
    DType,
    ErrorType,
    ScalarType,
    Type,
    VectorType,
)
from ptosim.ground.isa.data import TomlTable, read_toml
from ptosim.ground.isa.dtypes import dtypes, packed_vector
from ptosim.ground.nearest import nearest
from ptosim.ground.records import NamedTuple

TILE_SPACES = tuple(SPACE_SYNONYMS)
_SPACES = {word: space for space, word in SPACE_SYNONYMS.items()} | {"zero": "gm"}
_MOST_ELEMENTS = (1 << 63) - 1


class TypeFault(Exception):
    """A type text that names nothing; the message says why, `hint` what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class DatedPart(NamedTuple):
    """A part of a type text that not every date has: what it is, the row with `since` and `until`,
    and the sentence that refuses it (None: its name and the date that has it)."""

    what: str
    row: Mapping[str, Any]
    refusal: str | None = None


def type_rows(name: str) -> TomlTable:
    """Return a table of `isa/types.toml`."""
    return read_toml("types.toml")[name]


def known(word: str, words: Collection[str]) -> str | None:
    """Return a hint for a wrong word: the nearest right one, or all of them."""
    return nearest(word, words, f"known: {', '.join(words)}")


def dim(text: str) -> Dim:
    """Return a dimension: None for `?`."""
    return None if text == "?" else extent(text)


def extent(text: str) -> int:
    """Return a number of elements; what 64 bits don't hold is no type's."""
    if (number := int(text)) <= _MOST_ELEMENTS:
        return number
    raise TypeFault(f"`{text[:24]}` is more elements than 64 bits count", "write a smaller number")


def extents(text: str) -> tuple[Dim, ...]:
    """Return the dimensions of a view, which may denote more elements than anything has."""
    return tuple(dim(d.strip()) for d in text.split("x") if d.strip())


def dims(text: str) -> tuple[Dim, ...]:
    """Return the dimensions of `4x?x16x`, which 64 bits count the elements of. Raises TypeFault for
    more: their number may have more digits than Python prints."""
    found = extents(text)
    if prod(d for d in found if d is not None) > _MOST_ELEMENTS:
        shown = f"{text[:24]}…" if len(text) > 24 else text
        raise TypeFault(f"`{shown}` is more elements than 64 bits count", "write smaller numbers")
    return found


def tile_space(word: str) -> str:
    """Return the space that a word names, of those that hold tiles."""
    space = _SPACES.get(word, word)
    if space not in TILE_SPACES:
        raise TypeFault(f"unknown loc `{word}`", known(word, TILE_SPACES))
    return space


def space(text: str) -> str:
    """Return the space that a word or `#pto.address_space<word>` names."""
    word = text[text.index("<") + 1 : -1].split()[-1] if "<" in text else text
    found = _SPACES.get(word, word)
    if found != "gm" and found not in TILE_SPACES:
        words = ("gm", *(w for pair in SPACE_SYNONYMS.items() for w in pair))
        raise TypeFault(
            f"unknown memory space `{word}`: address space must be one of {', '.join(words)}",
            known(word, words),
        )
    return found


def scalar(name: str) -> DType:
    """Return the element type of a spelling."""
    found = dtypes().get(name)
    if found is None:
        raise TypeFault(f"unknown element type `{name}`", known(name, dtypes()))
    return found


_BUILTIN_INT = re.compile(r"([su]?)i([1-9][0-9]*)")
_WIDEST = 64


def builtin(type_: Type) -> Type:
    """Return a builtin type of MLIR that PTO has no element type for: an integer of any width up to
    64, a float of the quant dialect's table. Values and tensors have them, tiles do not."""
    if not isinstance(type_, ErrorType):
        return type_
    text = type_.text
    found = _BUILTIN_INT.fullmatch(text)
    if found is not None and int(found[2]) <= _WIDEST:
        bits = int(found[2])
        sign = "u" if found[1] == "u" else ""
        held = next(size for size in (8, 16, 32, 64) if bits <= size)
        kind = "uint" if sign else "int"
        return ScalarType(DType(text, bits, kind, f"i{bits}", f"{sign}int{held}"))
    row = read_toml("quant/mlir.toml")["float"].get(text)
    if row is None:
        return type_
    return ScalarType(DType(text, row["bits"], "float", text, row.get("array", "codes")))


def element(type_: Type) -> DType:
    """Return the element type that a type is."""
    if isinstance(type_, ErrorType):
        raise TypeFault(f"unknown element type `{type_}`", known(type_.text, dtypes()))
    if not isinstance(type_, ScalarType):
        raise TypeFault(f"an element type is a scalar, not `{type_}`")
    return type_.dtype


def pointed(type_: Type) -> DType:
    """Return the element type that a pointer may have: a scalar or a small vector."""
    if not isinstance(type_, VectorType) or type_.kind != "vector":
        return element(type_)
    count = type_.dims[0] if len(type_.dims) == 1 else None
    found = None if count is None else packed_vector(type_.elem, count)
    if found is None:
        raise TypeFault(f"a pointer has no elements of type `{type_}`", _packed_words())
    return found


def _packed_words() -> str:
    rows = type_rows("packed_vector")
    return "; ".join(f"vector<{n}xT>: T is one of {', '.join(words)}" for n, words in rows.items())


def quantised(text: str) -> DType:
    """Return a type of the `quant` dialect as an element type, named as MLIR prints it."""
    from ptosim.machine.quant.mlir.cursor import MlirFault
    from ptosim.machine.quant.mlir.parser import parse_type as parse_quant

    try:
        found: Any = parse_quant(text).element
    except MlirFault as fault:
        raise TypeFault("; ".join(fault.messages)) from fault
    spec = found.storage
    if spec is None:  # a calibrated type: nothing is stored
        return DType(str(found), 32, "quant", str(found), "float32")
    bits = next(b for b in (4, 8, 16, 32) if spec.bits == b or (spec.bits < b and b > 4))
    array = dtypes()[spec.word].array if spec.is_float else f"{'' if spec.signed else 'u'}int{bits}"
    return DType(str(found), bits, "quant", str(found), array)
