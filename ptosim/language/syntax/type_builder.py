"""Parser callbacks for `isa/types.lark`: each rule makes its type."""

from __future__ import annotations

from math import prod
from typing import Any

from ptosim.ground.ir.core import Tok
from ptosim.ground.ir.types import (
    REGISTER_BYTES,
    AbstractTileType,
    Dim,
    DType,
    ErrorType,
    HandleType,
    LocalArrayType,
    MaskType,
    MemRefType,
    MultiTileType,
    OpaqueType,
    PtrType,
    ScalarType,
    StructType,
    TileType,
    Type,
    VectorType,
    ViewType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.schema import dtype_dates, dtypes
from ptosim.language.syntax import tile_types
from ptosim.language.syntax.tile_types import (
    DatedPart,
    Fields,
    TypeFault,
    builtin,
    dim,
    dims,
    element,
    extents,
    known,
    pointed,
    quantised,
    scalar,
    space,
    type_rows,
)


class TypeBuilder:
    """Callbacks for one type text at a time."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the previous text."""
        self.end = 0
        self.legacy: str | None = None  # why the spelling is an old one
        self.dated: list[DatedPart] = []

    def _constructor(self, name: str) -> None:
        """Note the dates of a constructor."""
        row = type_rows("constructor").get(name)
        if row:
            self.dated.append(DatedPart(f"`!{name}`" if "." in name else f"`!pto.{name}`", row))

    def _element(self, dtype: DType) -> None:
        """Note the dates of an element type."""
        row = dtype_dates(dtype.name) if dtype.name in dtypes() else {}
        if "since" in row or "until" in row:
            self.dated.append(DatedPart(f"`{dtype}`", row))

    def start(self, parts: list[Any]) -> Type:
        return _known_type(parts[0])

    def type(self, parts: list[Any]) -> Type:
        return parts[0]

    # -- scalars, handles -------------------------------------------------------------------------

    def scalar(self, parts: list[Any]) -> Type:
        text = parts[0].value  # whoever holds it refuses a width that nothing has
        found = dtypes().get(text)
        if found is None:
            return ErrorType(text)
        self._element(found)
        return ScalarType(found)

    def unknown(self, parts: list[Any]) -> Type:
        return ScalarType(scalar(parts[0].value))

    def named(self, parts: list[Any]) -> Type:
        text = parts[0].value
        name = text.removeprefix("!pto.")
        if text in dtypes():
            self._element(dtypes()[text])
            return ScalarType(dtypes()[text])
        handles = type_rows("handle")
        if name in handles and "most" not in handles[name]:
            return self._handle(name, None)
        if text[1:] in type_rows("constructor"):
            self._constructor(text[1:])
            return OpaqueType(text[1:])
        names = [f"!pto.{n}" for n in handles] + [t for t in dtypes() if t.startswith("!")]
        raise TypeFault(f"`{text}` is not a type", known(text, names))

    def named_length(self, parts: list[Any]) -> Type:
        name = parts[0].value.removeprefix("!pto.")
        row, length = type_rows("handle").get(name, {}), int(parts[1].value)
        if name[1:] in type_rows("constructor") and length >= 0:
            self._constructor(name[1:])
            return OpaqueType(f"{name[1:]}<{length}>")
        if "most" not in row:
            raise TypeFault(f"`{parts[0].value}<{parts[1].value}>` is not a type")
        if length > row["most"]:
            raise TypeFault(f"!pto.{name} has at most {row['most']} entries, not {length}")
        return self._handle(name, length)

    def _handle(self, name: str, length: int | None) -> Type:
        row = type_rows("handle")[name]
        if "since" in row or "until" in row:
            self.dated.append(DatedPart(f"`!pto.{name}`", row))
        return HandleType(name, length)

    def quant(self, parts: list[Any]) -> Type:
        return ScalarType(quantised(parts[0].value))

    # -- memory -----------------------------------------------------------------------------------

    def ptr(self, parts: list[Any]) -> Type:
        return self._pointer(parts[1:])

    def short_ptr(self, parts: list[Any]) -> Type:
        return self._pointer(parts)

    def _pointer(self, parts: list[Any]) -> Type:
        if isinstance(parts[0], VectorType):
            self.dated.append(DatedPart(f"`{parts[0]}`", type_rows("constructor")["packed_vector"]))
        target = pointed(parts[0])
        if isinstance(target, DType):
            self._element(target)
        return PtrType(target, space(parts[1].value) if len(parts) > 1 else "gm")

    def view(self, parts: list[Any]) -> Type:
        kind = parts[0].value.removeprefix("!pto.")
        if kind == "tile_view":
            self.legacy = "`!pto.tile_view` is an old spelling"
        dtype = element(parts[2])
        self._element(dtype)
        return ViewType(kind, extents(parts[1].value), dtype)

    def memref(self, parts: list[Any]) -> Type:
        shape: tuple[Dim, ...] = ()
        elem: DType | None = None
        strides: tuple[Dim, ...] | None = None
        offset: Dim = 0
        place, affine = "gm", None
        for part in parts[1:]:
            if part.__class__ is tuple:
                strides, offset = part
            elif part.__class__ is not Tok:
                elem = element(part)
            elif part.type == "DIMS":
                shape = dims(part.value)
            elif part.type == "AFFINE":
                affine = part.value
            elif part.type == "SPACE_ATTR":
                place = space(part.value)
        assert elem is not None  # the grammar has exactly one element type
        if elem.kind == "quant":
            raise TypeFault("invalid memref element type", "a tensor or a tile holds it")
        if strides is not None and len(strides) != len(shape):
            raise TypeFault(
                "expected the number of strides to match the rank",
                f"{len(shape)} dimensions, {len(strides)} strides",
            )
        return MemRefType(shape, elem, strides, offset, place, affine)

    def strided(self, parts: list[Any]) -> tuple[tuple[Dim, ...], Dim]:
        before: list[Dim] = []
        after: list[Dim] = []
        target = before
        for token in parts:
            if token.type == "OFFSET":
                target = after
            elif token.type in ("INT", "QUESTION"):
                target.append(dim(token.value))
        return tuple(before), (after[0] if after else 0)

    # -- tiles ------------------------------------------------------------------------------------

    def tile_buf(self, parts: list[Any]) -> Type:
        return self._tile(parts[1], ssa=False)

    def tile(self, parts: list[Any]) -> Type:
        return self._tile(parts[1], ssa=True) if len(parts) > 1 else AbstractTileType("tile")

    def short(self, parts: list[Any]) -> Type:
        self.legacy = "the type is written without `!pto.tile_buf`"
        return self._tile(parts[0], ssa=False)

    def _tile(self, fields: Fields, *, ssa: bool) -> Type:
        made = tile_types.tile(fields, ssa=ssa)
        if isinstance(made, TileType):
            self._element(made.dtype)
        self.dated += tile_types.dated_numbers(fields)
        return made

    def multi_tile(self, parts: list[Any]) -> Type:
        self._constructor("multi_tile_buf")
        slot: Type | Fields = parts[1]
        if isinstance(slot, dict):
            key, count = slot.popitem()
        else:
            key, count = parts[2]
        if key != tile_types.MULTI_KEY:
            raise TypeFault("`count=N` ends a multi_tile_buf")
        if isinstance(slot, dict):
            slot = self._tile(slot, ssa=False)
        if not isinstance(slot, TileType):
            raise TypeFault("the tiles of a multi_tile_buf have a shape")
        limits = type_rows("multi_tile_buf")
        if count < limits["least"]:
            raise TypeFault(f"multi_tile_buf count must be >= {limits['least']}")
        if count > limits["most"]:
            raise TypeFault(f"multi_tile_buf count must be <= {limits['most']}")
        return MultiTileType(slot, count)

    def abstract(self, parts: list[Any]) -> Fields:
        return {}

    def pairs(self, parts: list[Any]) -> Fields:
        fields = tile_types.unique(parts)
        if not tile_types.in_order(fields):
            self.legacy = "the keys of tile_buf are in another order"
        return fields

    def pair(self, parts: list[Any]) -> tuple[str, Any]:
        return tile_types.pair(parts[0].value, parts[1])

    def compact(self, parts: list[Any]) -> Fields:
        first = 1 if parts[0].__class__ is Tok and parts[0].type == "WORD" else 0
        fields: Fields = {"loc": parts[0].value} if first else {}
        fields |= tile_types.shaped(dims(parts[first].value), element(parts[first + 1]))
        extra = tile_types.unique(parts[first + 2 :], " compact syntax")
        extra.pop("dtype", None)
        return fields | extra

    def strided_body(self, parts: list[Any]) -> Fields:
        self.legacy = "the tile is spelled like a memref"
        place = space(parts[-1].value) if parts[-1].__class__ is Tok else "vec"
        return {"loc": place, **tile_types.shaped(dims(parts[0].value), element(parts[1]))}

    def docs(self, parts: list[Any]) -> Fields:
        return tile_types.documented(parts)

    # -- registers, builtin vectors, the scalar unit ----------------------------------------------

    def vreg(self, parts: list[Any]) -> Type:
        lanes, elem = _lanes(parts[1]), element(parts[2])
        _check_register_element(elem)
        if lanes * elem.bits != 8 * REGISTER_BYTES:
            right = f"{8 * REGISTER_BYTES // elem.bits}x{elem}"
            raise TypeFault(
                f"a vector register: expected exactly {REGISTER_BYTES} bytes, as in {right}",
                f"!pto.vreg<{right}>",
            )
        return VRegType(lanes, elem)

    def mask(self, parts: list[Any]) -> Type:
        word = parts[1].value
        if word not in ("b8", "b16", "b32"):
            raise TypeFault(f"unknown mask granularity `{word}`", "b8, b16 or b32")
        return MaskType(int(word[1:]))

    def vmi_vreg(self, parts: list[Any]) -> Type:
        self._constructor("vmi.vreg")
        lanes, elem = _lanes(parts[1]), element(parts[2])
        tile_types.check_element(elem)
        return VirtualVRegType(lanes, elem, tile_types.layout(_layout(parts[3:]), lanes=lanes))

    def vmi_mask(self, parts: list[Any]) -> Type:
        self._constructor("vmi.mask")
        lanes, granule = _lanes(parts[1]), parts[2].value
        tile_types.check_granule(granule)
        layout = tile_types.layout(_layout(parts[3:]), granule=granule)
        return VirtualMaskType(lanes, granule, layout)

    def vector(self, parts: list[Any]) -> Type:
        shape, kind = _shape(parts[1]), parts[0].value
        elem = element(builtin(parts[-1]) if kind == "tensor" else parts[-1])
        if shape is None and kind != "tensor":
            raise TypeFault("a vector has a rank", "only a tensor has none")
        if elem.kind == "quant" and kind == "vector":
            raise TypeFault(
                "failed to verify 'elementType': VectorElementTypeInterface instance",
                "a tensor or a tile holds quantised elements",
            )
        if kind == "tensor":
            _check_tensor(shape or (), elem)
        return VectorType(shape or (), elem, kind, is_unranked=shape is None)

    def local_array(self, parts: list[Any]) -> Type:
        self._constructor("local_array")
        if parts[1].__class__ is not Tok:
            raise TypeFault("!pto.local_array requires at least one dimension")
        shape = tuple(d for d in dims(parts[1].value) if d)
        if len(shape) != len(dims(parts[1].value)):
            raise TypeFault("a dimension of !pto.local_array must be a positive static size")
        most = type_rows("local_array")["most"]
        if prod(shape) > most:
            raise TypeFault(
                f"a !pto.local_array of {prod(shape)} elements is larger than any stack",
                f"at most {most} elements",
            )
        elem = parts[2].dtype if isinstance(parts[2], ScalarType) else None
        if elem is None or elem.kind not in ("int", "uint", "float") or _is_special(elem):
            raise TypeFault("!pto.local_array element type must be a scalar integer or float")
        return LocalArrayType(shape, elem)

    def struct(self, parts: list[Any]) -> Type:
        self._constructor("struct")
        fields = parts[1:]
        if not fields:
            raise TypeFault("!pto.struct requires at least one field")
        storable = type_rows("struct")["fields"]
        for i, field in enumerate(fields):
            plain = isinstance(field, ScalarType) and field.dtype.family in storable
            if not plain and not isinstance(field, StructType):
                raise TypeFault(
                    f"field {i} of !pto.struct, `{field}`, is not scalar-storable",
                    f"{', '.join(storable)} or a !pto.struct",
                )
        return StructType(tuple(fields))


def _shape(part: Any) -> tuple[Dim, ...] | None:
    """The dimensions of a builtin container; None for any rank."""
    if part.__class__ is not Tok:
        return ()
    return None if part.type == "UNRANKED" else dims(part.value)


_MOST_DIMENSIONS, _MOST_BYTES = 64, (1 << 63) - 1
"""What an array has that a tensor is computed as; one of more bytes has no address."""


def _check_tensor(shape: tuple[Dim, ...], elem: DType) -> None:
    if len(shape) > _MOST_DIMENSIONS:
        raise TypeFault(
            f"a tensor of {len(shape)} dimensions is not read",
            f"at most {_MOST_DIMENSIONS} dimensions",
        )
    # A dimension that is not known, or zero, makes the others no smaller.
    size = prod(d or 1 for d in shape) * max(elem.bits // 8, 1)
    if size > _MOST_BYTES:
        raise TypeFault(
            f"a tensor of {size} bytes is larger than any memory",
            "fewer elements: 64 bits hold the address of each",
        )


def _known_type(type_: Type) -> Type:
    type_ = builtin(type_)
    if isinstance(type_, ErrorType):
        element(type_)  # says why
    return type_


def _is_special(elem: DType) -> bool:
    """True for what is no number of the host language: index, low precision of the dialect."""
    return elem.name == "index" or elem.name.startswith("!")


def _check_register_element(elem: DType) -> None:
    if elem.name == "index" or elem.kind == "quant":
        raise TypeFault(
            f"a register has no elements of type {elem}: expected integer, floating-point, or PTO "
            "low-precision elements"
        )


def _lanes(token: Tok) -> int:
    shape = dims(token.value)
    if len(shape) != 1 or shape[0] is None or shape[0] <= 0:
        raise TypeFault("a vector has one dimension, a positive element count")
    most = type_rows("vmi.vreg")["most"]
    if shape[0] > most:
        raise TypeFault(
            f"a vector of {shape[0]} elements is larger than any space of a core",
            f"at most {most} elements",
        )
    return shape[0]


def _layout(parts: list[Any]) -> str | None:
    return " ".join(parts[0].value.split()) if parts else None
