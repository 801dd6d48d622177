"""Tile types from the fields of their spellings."""

from __future__ import annotations

from typing import Any

from ptosim.ground.ir.core import Tok
from ptosim.ground.ir.types import AbstractTileType, Dim, DType, TileType, Type
from ptosim.ground.whole_numbers import whole
from ptosim.language.syntax.type_parts import (
    DatedPart,
    TypeFault,
    element,
    extent,
    known,
    quantised,
    scalar,
    tile_space,
    type_rows,
)

Fields = dict[str, Any]
"""What the body of a tile type says, by the keys of TILE_KEYS; `dtype` is a DType."""

_WORDS = {
    "blayout": ("row_major", "col_major"),
    "slayout": ("none_box", "row_major", "col_major"),
}
_NUMBERS = ("fractal", "pad", "compact")
TILE_KEYS = ("loc", "dtype", "rows", "cols", "v_row", "v_col", *_WORDS, *_NUMBERS, "valid")
MULTI_KEY = "count"
_DOC_WORDS = {
    "RowMajor": "row_major", "ColMajor": "col_major", "NoneBox": "none_box", "Null": 0, "Zero": 1,
    "Max": 2, "Min": 3,
}  # fmt: skip


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
        if word not in _DOC_WORDS:
            raise TypeFault(f"unknown word `{word}` in tile", known(word, _DOC_WORDS))
        fields[key] = _DOC_WORDS[word]
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
