"""Tile types from the fields of their spellings."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from math import prod
from typing import Any

from ptosim.ground.ir.core import Tok
from ptosim.ground.ir.types import (
    SPACE_SYNONYMS,
    AbstractTileType,
    Dim,
    DType,
    ErrorType,
    ScalarType,
    TileType,
    Type,
    VectorType,
)
from ptosim.ground.isa.cache import TomlTable, read_toml
from ptosim.ground.isa.schema import dtypes, packed_vector
from ptosim.ground.records import NamedTuple
from ptosim.ground.words import nearest, whole

# Pieces of type texts: dimensions, spaces, element types, and what a date says of them.

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


@lru_cache(maxsize=32)
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
    from ptosim.machine.quant.mlir.readers import parse_type as parse_quant
    from ptosim.machine.quant.mlir.types import MlirFault

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


Fields = dict[str, Any]
"""What the body of a tile type says, by the keys of TILE_KEYS; `dtype` is a DType."""

_WORDS = {
    "blayout": ("row_major", "col_major"),
    "slayout": ("none_box", "row_major", "col_major"),
}
_NUMBERS = ("fractal", "pad", "compact")
TILE_KEYS = ("loc", "dtype", "rows", "cols", "v_row", "v_col", *_WORDS, *_NUMBERS, "valid")
MULTI_KEY = "count"
_LAYOUTS = {"RowMajor": "row_major", "ColMajor": "col_major"}
_DOC_WORDS: dict[str, dict[str, Any]] = {
    "blayout": _LAYOUTS,
    "slayout": {**_LAYOUTS, "NoneBox": "none_box"},
    "pad": {"Null": 0, "Zero": 1, "Max": 2, "Min": 3},
}


def pair(key: str, token: Tok) -> tuple[str, Any]:
    """Return a key of a tile type with its value."""
    if key not in TILE_KEYS and key != MULTI_KEY:
        raise TypeFault(f"unknown key `{key}` in tile_buf", known(key, TILE_KEYS))
    return key, _value(key, token)


def _value(key: str, token: Tok) -> Any:
    text = token.value
    if key == "dtype":
        return quantised(text) if token.type == "QUANT" else scalar(text)
    if key == "valid":
        row, _, col = text.partition("x")
        return (None, None) if text == "?" else (_valid(row), _valid(col))
    if key in _WORDS:
        if text not in _WORDS[key]:
            raise TypeFault(f"unknown {key} `{text}`", known(text, _WORDS[key]))
        return text
    if key == "loc":
        return text
    if key in ("v_row", "v_col"):
        return _valid(text)
    if token.type != "INT":
        raise TypeFault(f"{key} takes a number, not `{text}`")
    return extent(text) if key in ("rows", "cols") else int(text)


def _valid(text: str) -> Dim:
    if text in ("?", "-1"):
        return None
    number = whole(text)
    if number is None:
        raise TypeFault(f"valid extent {text[:24]} must be '?', -1, or a non-negative integer")
    return number


def unique(pairs: list[tuple[str, Any]], where: str = "") -> Fields:
    """Return the keys of a body, `valid` as the two that it means; none may be there twice."""
    fields: Fields = {}
    for key, value in pairs:
        parts = {"v_row": value[0], "v_col": value[1]} if key == "valid" else {key: value}
        if not fields.keys().isdisjoint(parts):
            raise TypeFault(f"duplicate {key} in tile_buf{where}")
        fields |= parts
    return fields


def in_order(fields: Fields) -> bool:
    """True if the keys come as the assembler wants them; raises TypeFault for a missing one."""
    missing = [k for k in TILE_KEYS[:6] if k not in fields]
    if missing:
        raise TypeFault(f"tile_buf misses {', '.join(f'`{k}`' for k in missing)}")
    return list(fields) == [k for k in (*TILE_KEYS, MULTI_KEY) if k in fields]


def shaped(dims: tuple[Dim, ...], dtype: DType) -> Fields:
    """Return the fields that `16x64xf32` says."""
    if len(dims) != 2 or None in dims:
        raise TypeFault("a tile has two static dimensions, as in `16x64xf32`")
    return {"rows": dims[0], "cols": dims[1], "dtype": dtype}


def documented(parts: list[Any]) -> Fields:
    """Return the fields of the documentation's form: words in a fixed order."""
    fields: Fields = {
        parts[0][0]: parts[0][1],
        "dtype": element(parts[1]),
        "rows": extent(parts[2].value),
        "cols": extent(parts[3].value),
    }
    for key, token in zip(("blayout", "slayout", "fractal", "pad"), parts[4:], strict=False):
        word = token.value
        if key == "fractal":
            continue
        words = _DOC_WORDS[key]
        if word not in words:
            raise TypeFault(f"unknown word `{word}` in tile", known(word, words))
        fields[key] = words[word]
    return fields


def tile(fields: Fields, *, ssa: bool) -> Type:
    """Return the tile type that fields describe, an abstract one for none."""
    if not fields:
        return AbstractTileType("tile" if ssa else "tile_buf")
    if MULTI_KEY in fields:
        raise TypeFault(f"unknown key `{MULTI_KEY}` in tile_buf", "a multi_tile_buf has it")
    rows, cols = fields["rows"], fields["cols"]
    if rows <= 0 or cols <= 0:
        raise TypeFault("tile_buf rows/cols must be positive")
    column = ssa and cols == 1 and rows > 1
    for key in _NUMBERS:
        _check_number(key, fields.get(key))
    return TileType(
        tile_space(str(fields.get("loc", "vec"))),
        fields["dtype"],
        rows,
        cols,
        fields.get("v_row", rows),
        fields.get("v_col", cols),
        fields.get("blayout", "col_major" if column else "row_major"),
        fields.get("slayout", "none_box"),
        fields.get("fractal", 512),
        fields.get("pad", 0),
        fields.get("compact", 0),
        ssa,
    )


def _check_number(key: str, number: int | None) -> None:
    rows = type_rows("tile_buf")[key]
    if key == "pad" and number is not None and number >> 32 == 1:
        return  # bit 32 and the bits of an element: a padding value of the kernel's own
    if number is not None and all(number != row["value"] for row in rows):
        raise TypeFault(_refused_number(key, number, rows))


def _refused_number(key: str, number: int, rows: list[dict[str, Any]]) -> str:
    allowed = ", ".join(str(row["value"]) for row in rows)
    if key == "fractal":
        return f"unsupported s_fractal_size: {number}, must be one of {allowed}"
    return f"{key} must be one of {allowed}"


def dated_numbers(fields: Fields) -> list[DatedPart]:
    """Return the numbers of a tile type that not every date has."""
    found = []
    for key in _NUMBERS:
        rows = type_rows("tile_buf")[key]
        dated = [r for r in rows if len(r) > 1]
        for row in (r for r in dated if r["value"] == fields.get(key)):
            others = [r for r in rows if r not in dated]
            refusal = _refused_number(key, row["value"], others)
            found.append(DatedPart(f"{key}={row['value']}", row, refusal))
    return found


# -- checks of the types of the virtual vector level (`!pto.vmi.vreg`, `!pto.vmi.mask`) and of their


_PREFIX = "#pto.vmi.layout"
_GRANULES = ("pred", "b8", "b16", "b32")
_KINDS = {
    "contiguous": ("lane_stride",),
    "deinterleaved": ("lane_stride",),
    "block_deinterleaved": (),
    "num_groups": ("slots", "lane_stride"),
}
"""Words that a layout begins with, and those that may follow with a number."""
_OPTIONS = {
    "lane_stride": (1, "expected lane_stride to be positive"),
    "slots": (0, "expected slots to be omitted or positive"),
}
_BITS = (8, 16, 32)


def check_element(elem: DType) -> None:
    """Raise TypeFault for an element type that a vector of any length cannot hold."""
    if elem.kind not in ("int", "uint", "float", "packed", "scale"):
        raise TypeFault(
            "!pto.vmi.vreg: expected an integer, index, floating-point or PTO low-precision "
            f"element type, not {elem}"
        )
    if elem.bits not in _BITS or elem.name in ("i1", "index"):
        raise TypeFault(
            f"!pto.vmi.vreg: expected an 8-bit, 16-bit, or 32-bit logical element type, not {elem}"
        )


def check_granule(word: str) -> None:
    """Raise TypeFault for a word that is no granularity."""
    if word not in _GRANULES:
        raise TypeFault(
            f"!pto.vmi.mask: expected granularity to be one of {', '.join(_GRANULES)}, not `{word}`"
        )


def layout(text: str | None, *, lanes: int | None = None, granule: str = "") -> str | None:
    """Return the text of a layout with its white space put right, None for none. `lanes` are those
    of a vector, `granule` the word of a mask. Raises TypeFault."""
    if text is None:
        return None
    if not text.startswith(_PREFIX + "<"):
        raise TypeFault(f"expected {_PREFIX} attribute, not `{text}`")
    if granule == "pred":
        raise TypeFault("!pto.vmi.mask: a pred mask must not carry layout")
    kind, number, options = _read(text[len(_PREFIX) + 1 : -1])
    if kind in ("deinterleaved", "block_deinterleaved") and number not in (2, 4):
        raise TypeFault(f"{_PREFIX}: expected factor to be 2 or 4, not {number}")
    if kind == "num_groups" and (number or 0) <= 0:
        raise TypeFault(f"{_PREFIX}: expected num_groups to be positive, not {number}")
    if kind == "num_groups" and lanes is not None and lanes != number:
        raise TypeFault(
            "!pto.vmi.vreg: a num_groups layout has exactly one logical result lane per group: "
            f"{number} groups, {lanes} lanes"
        )
    head = kind if number is None else f"{kind} = {number}"
    return f"{_PREFIX}<{', '.join([head, *(f'{k} = {v}' for k, v in options.items())])}>"


def _read(body: str) -> tuple[str, int | None, dict[str, int]]:
    """Return the word that a layout begins with, its number, and the options after it."""
    first, *rest = (piece.strip() for piece in body.split(","))
    kind, number = _pair(first)
    if kind not in _KINDS or (number is None) != (kind == "contiguous"):
        raise TypeFault(f"{_PREFIX}: expected one of {', '.join(_KINDS)}, not `{first}`")
    options: dict[str, int] = {}
    for piece in rest:
        word, value = _pair(piece)
        if word not in _KINDS[kind] or value is None or word in options:
            wanted = " or ".join(f"'{w} = <integer>'" for w in _KINDS[kind]) or "nothing more"
            raise TypeFault(f"{_PREFIX}: expected {wanted}, not `{piece}`")
        least, text = _OPTIONS[word]
        if value < least:
            raise TypeFault(f"{_PREFIX}: {text}, not {value}")
        options[word] = value
    return kind, number, options


def _pair(piece: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\w+)\s*(?:=\s*(-?\d+))?", piece)
    if found is None:
        return piece, None
    return found[1], None if found[2] is None else int(found[2])
