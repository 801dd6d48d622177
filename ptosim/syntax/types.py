"""Type texts to types. Each distinct text is parsed once."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from threading import Lock
from typing import Any

from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.ir.core import Tok
from ptosim.ground.ir.types import (
    REGISTER_BYTES,
    AbstractTileType,
    Dim,
    DType,
    ErrorType,
    HandleType,
    MaskType,
    MemRefType,
    PtrType,
    ScalarType,
    TileType,
    Type,
    VectorType,
    ViewType,
    VRegType,
)
from ptosim.ground.isa.dtypes import dtypes
from ptosim.ground.nearest import nearest
from ptosim.ground.source import Source
from ptosim.syntax.driver import Driver
from ptosim.syntax.scanner import PatternScanner

_ORDER = (
    "VIEW", "OPAQUE", "QUANT", "DIALECT_WORD", "ELLIPSIS", "SPACE_ATTR", "AFFINE", "DIMS", "VALID",
    "SCALAR", "WORD", "INT", "QUESTION",
)  # fmt: skip
TILE_SPACES = ("vec", "mat", "left", "right", "acc", "bias", "scaling")
_SPACE_ALIASES = {
    "ub": "vec", "l1": "mat", "l0a": "left", "l0b": "right", "l0c": "acc", "bt": "bias", "fb":
    "scaling", "zero": "gm",
}  # fmt: skip
_TILE_WORDS = {
    "blayout": ("row_major", "col_major"),
    "slayout": ("none_box", "row_major", "col_major"),
}
_TILE_NUMBERS = {
    "fractal": (16, 32, 512, 1024),
    "pad": (0, 1, 2, 3),
    "compact": (0, 1, 2, 3),
}
_TILE_KEYS = (
    "loc",
    "dtype",
    "rows",
    "cols",
    "v_row",
    "v_col",
    *_TILE_WORDS,
    *_TILE_NUMBERS,
    "valid",
)
_DOC_WORDS = {
    "RowMajor": "row_major", "ColMajor": "col_major", "NoneBox": "none_box", "Null": 0, "Zero": 1,
    "Max": 2, "Min": 3,
}  # fmt: skip


class TypeFault(Exception):
    """A type text that names nothing; the message says why, `hint` what to write."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class ParsedType:
    """A type with what is worth knowing about its spelling."""

    __slots__ = ("fault", "hint", "legacy", "type")

    def __init__(self, type_: Type, legacy: str | None = None) -> None:
        self.type = type_
        self.legacy = legacy  # why the spelling is an old one
        self.fault: str | None = None
        self.hint: str | None = None


_CACHE: dict[str, ParsedType] = {}
_LOCK = Lock()


def parse_type(text: str) -> ParsedType:
    """Parse a type text. A wrong one gives an ErrorType with `fault` (and perhaps `hint`) set."""
    parsed = _CACHE.get(text)
    if parsed is None:
        parsed = _parse(text)
        if len(_CACHE) > 50_000:  # a long-lived process must not keep every type it ever saw
            _CACHE.clear()
        _CACHE[text] = parsed
    return parsed


def _parse(text: str) -> ParsedType:
    scalar = dtypes().get(text)
    if scalar is not None:
        return ParsedType(ScalarType(scalar))
    driver, builder, scanner = _machinery()
    sink = Sink()
    with _LOCK:
        builder.legacy = None
        try:
            type_, _ = driver.parse(Source("type", text), scanner, sink)
            fault, hint = None, None
        except TypeFault as problem:
            type_, fault, hint = None, str(problem), problem.hint
        legacy = builder.legacy
    if type_ is None and fault is None:
        fault = f"`{text}` is not a type"
        notes = [n for d in sink for n in d.notes]
        hint = notes[0] if notes else None
    parsed = ParsedType(type_ if type_ is not None else ErrorType(text), legacy)
    parsed.fault, parsed.hint = fault, hint
    return parsed


@lru_cache(maxsize=1)
def _machinery() -> tuple[Driver, _TypeBuilder, PatternScanner]:
    from ptosim.syntax.parser import grammar_driver

    builder = _TypeBuilder()
    driver, tables = grammar_driver("types.lark", builder)
    return driver, builder, PatternScanner(tables, _ORDER)


class _TypeBuilder:
    """Callbacks for `isa/types.lark`."""

    def __init__(self) -> None:
        self.end = 0
        self.legacy: str | None = None

    def start(self, parts: list[Any]) -> Type:
        return parts[0]

    def type(self, parts: list[Any]) -> Type:
        return parts[0]

    def scalar(self, parts: list[Any]) -> Type:
        return ScalarType(_dtype(parts[0].value))

    def unknown(self, parts: list[Any]) -> Type:
        return ScalarType(_dtype(parts[0].value))

    def ptr(self, parts: list[Any]) -> Type:
        space = _space(parts[2].value) if len(parts) > 2 else "gm"
        return PtrType(_element(parts[1]), space)

    def view(self, parts: list[Any]) -> Type:
        kind = parts[0].value.removeprefix("!pto.")
        if kind == "tile_view":
            self.legacy = "`!pto.tile_view` is an old spelling"
        return ViewType(kind, _dims(parts[1].value), _element(parts[2]))

    def tile_buf(self, parts: list[Any]) -> Type:
        return self._tile(parts[1], ssa=False)

    def tile(self, parts: list[Any]) -> Type:
        return self._tile(parts[1], ssa=True) if len(parts) > 1 else AbstractTileType("tile")

    def short(self, parts: list[Any]) -> Type:
        self.legacy = "the type is written without `!pto.tile_buf`"
        return self._tile(parts[0], ssa=False)

    def short_ptr(self, parts: list[Any]) -> Type:
        space = _space(parts[1].value) if len(parts) > 1 else "gm"
        return PtrType(_element(parts[0]), space)

    def abstract(self, parts: list[Any]) -> dict[str, Any]:
        return {}

    def pairs(self, parts: list[Any]) -> dict[str, Any]:
        fields = _unique(parts)
        required = _TILE_KEYS[:6]
        missing = [k for k in required if k not in fields]
        if "valid" in fields:
            fields["v_row"], fields["v_col"] = fields.pop("valid")
            missing = [k for k in required if k not in fields]
        if missing:
            raise TypeFault(f"tile_buf misses {', '.join(f'`{k}`' for k in missing)}")
        order = [k for k in _TILE_KEYS if k in fields]
        if list(fields) != order:
            self.legacy = "the keys of tile_buf are in another order"
        return fields

    def pair(self, parts: list[Any]) -> tuple[str, Any]:
        key: str = parts[0].value
        token: Tok = parts[1]
        if key not in _TILE_KEYS:
            raise TypeFault(f"unknown key `{key}` in tile_buf", _known(key, _TILE_KEYS))
        return key, _tile_value(key, token)

    def compact(self, parts: list[Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        first = 0
        if parts[0].__class__ is Tok and parts[0].type == "WORD":
            fields["loc"] = parts[0].value
            first = 1
        dims = _dims(parts[first].value)
        if len(dims) != 2 or None in dims:
            raise TypeFault("a tile has two static dimensions, as in `16x64xf32`")
        fields["rows"], fields["cols"] = dims
        fields["dtype"] = _element(parts[first + 1])
        extra = _unique(parts[first + 2 :], " compact syntax")
        extra.pop("dtype", None)
        if "valid" in extra:
            extra["v_row"], extra["v_col"] = extra.pop("valid")
        return fields | extra

    def strided_body(self, parts: list[Any]) -> dict[str, Any]:
        self.legacy = "the tile is spelled like a memref"
        dims = _dims(parts[0].value)
        if len(dims) != 2 or None in dims:
            raise TypeFault("a tile has two static dimensions, as in `16x64xf32`")
        space = parts[-1].value if parts[-1].__class__ is Tok else "#pto.address_space<vec>"
        return {
            "loc": _space(space[space.index("<") + 1 : -1]),
            "rows": dims[0],
            "cols": dims[1],
            "dtype": _element(parts[1]),
        }

    def docs(self, parts: list[Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            parts[0][0]: parts[0][1],
            "dtype": _element(parts[1]),
            "rows": int(parts[2].value),
            "cols": int(parts[3].value),
        }
        for key, token in zip(("blayout", "slayout", "fractal", "pad"), parts[4:], strict=False):
            word = token.value
            if key == "slayout" and word in ("RowMajor", "ColMajor", "NoneBox"):
                fields[key] = _DOC_WORDS[word]
            elif key != "fractal":
                if word not in _DOC_WORDS:
                    raise TypeFault(f"unknown word `{word}` in tile", _known(word, _DOC_WORDS))
                fields[key] = _DOC_WORDS[word]
        return fields

    def strided(self, parts: list[Any]) -> tuple[tuple[Dim, ...], Dim]:
        before: list[Dim] = []
        after: list[Dim] = []
        target = before
        for token in parts:
            if token.type == "OFFSET":
                target = after
            elif token.type in ("INT", "QUESTION"):
                target.append(_dim(token.value))
        return tuple(before), (after[0] if after else 0)

    def vreg(self, parts: list[Any]) -> Type:
        dims = _dims(parts[1].value)
        elem = _element(parts[2])
        if len(dims) != 1 or dims[0] is None or dims[0] * elem.bits != 2048:
            raise TypeFault(
                f"a vector register has 256 bytes: {8 * REGISTER_BYTES // elem.bits}x{elem}",
                f"!pto.vreg<{8 * REGISTER_BYTES // elem.bits}x{elem}>",
            )
        return VRegType(dims[0], elem)

    def mask(self, parts: list[Any]) -> Type:
        word = parts[1].value
        if word not in ("b8", "b16", "b32"):
            raise TypeFault(f"unknown mask granularity `{word}`", "b8, b16 or b32")
        return MaskType(int(word[1:]))

    def event_array(self, parts: list[Any]) -> Type:
        return HandleType("eventid_array", int(parts[1].value))

    def opaque(self, parts: list[Any]) -> Type:
        return HandleType(parts[0].value.removeprefix("!pto."))

    def quant(self, parts: list[Any]) -> Type:
        return ScalarType(_quantised(parts[0].value))

    def memref(self, parts: list[Any]) -> Type:
        dims: tuple[Dim, ...] = ()
        elem: DType | None = None
        strides: tuple[Dim, ...] | None = None
        offset: Dim = 0
        space, affine = "gm", None
        for part in parts[1:]:
            if part.__class__ is tuple:
                strides, offset = part
            elif part.__class__ is not Tok:
                elem = _element(part)
            elif part.type == "DIMS":
                dims = _dims(part.value)
            elif part.type == "AFFINE":
                affine = part.value
            elif part.type == "SPACE_ATTR":
                space = _space(part.value[part.value.index("<") + 1 : -1])
        assert elem is not None  # the grammar has exactly one element type
        if elem.kind == "quant":
            raise TypeFault("invalid memref element type", "a tensor or a tile holds it")
        return MemRefType(dims, elem, strides, offset, space, affine)

    def vector(self, parts: list[Any]) -> Type:
        dims = _dims(parts[1].value) if parts[1].__class__ is Tok else ()
        elem = _element(parts[-1])
        if elem.kind == "quant" and parts[0].value == "vector":
            raise TypeFault(
                "failed to verify 'elementType': VectorElementTypeInterface instance",
                "a tensor or a tile holds quantised elements",
            )
        return VectorType(dims, elem, parts[0].value)

    def _tile(self, fields: dict[str, Any], *, ssa: bool) -> Type:
        if not fields:
            return AbstractTileType("tile" if ssa else "tile_buf")
        written = str(fields.get("loc", "vec"))
        loc = _SPACE_ALIASES.get(written, written)
        if loc not in TILE_SPACES:
            raise TypeFault(f"unknown loc `{loc}`", _known(loc, TILE_SPACES))
        rows, cols = fields["rows"], fields["cols"]
        if rows <= 0 or cols <= 0:
            raise TypeFault("rows and cols of a tile must be positive")
        column = ssa and cols == 1 and rows > 1
        return TileType(
            loc,
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


def _unique(pairs: list[tuple[str, Any]], where: str = "") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key, value in pairs:
        if key in fields:
            raise TypeFault(f"duplicate {key} in tile_buf{where}")
        fields[key] = value
    return fields


def _tile_value(key: str, token: Tok) -> Any:
    text = token.value
    if key == "dtype":
        return _quantised(text) if token.type == "QUANT" else _dtype(text)
    if key == "valid":
        row, _, col = text.partition("x")
        return (None, None) if text == "?" else (_dim(row), _dim(col))
    if key in _TILE_WORDS:
        if text not in _TILE_WORDS[key]:
            raise TypeFault(f"unknown {key} `{text}`", _known(text, _TILE_WORDS[key]))
        return text
    if key == "loc":
        return text
    if key in ("v_row", "v_col") and text in ("?", "-1"):
        return None
    if token.type != "INT":
        raise TypeFault(f"{key} takes a number, not `{text}`")
    number = int(text)
    if key in _TILE_NUMBERS and number not in _TILE_NUMBERS[key]:
        allowed = ", ".join(map(str, _TILE_NUMBERS[key]))
        raise TypeFault(f"{key} must be one of {allowed}")
    return number


def _dtype(name: str) -> DType:
    found = dtypes().get(name)
    if found is None:
        raise TypeFault(f"unknown element type `{name}`", _known(name, dtypes()))
    return found


def _quantised(text: str) -> DType:
    """Return a type of the `quant` dialect as an element type, named as MLIR prints it."""
    from ptosim.quant.mlir.cursor import MlirFault
    from ptosim.quant.mlir.parser import parse_type as parse_quant

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


def _element(type_: Type) -> DType:
    if not isinstance(type_, ScalarType):
        raise TypeFault(f"an element type is a scalar, not `{type_}`")
    return type_.dtype


def _space(name: str) -> str:
    space = _SPACE_ALIASES.get(name, name)
    if space != "gm" and space not in TILE_SPACES:
        raise TypeFault(f"unknown memory space `{name}`", _known(name, (*TILE_SPACES, "gm", "ub")))
    return space


def _dim(text: str) -> Dim:
    return None if text == "?" else int(text)


def _dims(text: str) -> tuple[Dim, ...]:
    return tuple(_dim(d.strip()) for d in text.split("x") if d.strip())


def _known(word: str, known: Collection[str]) -> str | None:
    return nearest(word, known, f"known: {', '.join(known)}")
