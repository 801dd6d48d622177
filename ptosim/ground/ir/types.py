"""Types of PTO values: immutable, comparable, and printable in canonical spelling."""

from __future__ import annotations

from dataclasses import dataclass, field

DYNAMIC = None
"""A dimension that is known only at run time (`?`)."""

Dim = int | None

BLOCK_BYTES = 32
"""The unit of tile memory: rows of boxes, alignment of rows, bursts of transfers. Both
architectures (PTO ISA documentation, tile layouts)."""
BLOCK_BITS = 8 * BLOCK_BYTES
REGISTER_BYTES = 256
"""A vector register of A5, a repeat of A2/A3 (PTO ISA documentation, vector instructions)."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type; `family` is equal for spellings that the assembler does not tell apart.
    `is_float` holds for floating-point formats (block scales excluded), `is_integer` for integers
    of either sign and for index."""

    name: str
    bits: int
    kind: str
    family: str
    array: str
    is_float: bool = field(init=False, compare=False, repr=False)
    is_integer: bool = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_float", self.kind == "float")
        object.__setattr__(self, "is_integer", self.kind in ("int", "uint"))

    def bytes_for(self, count: int) -> int:
        """Return the bytes that `count` consecutive elements take (4-bit elements: two a byte)."""
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


class Type:
    """Base of all types."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ScalarType(Type):
    """A scalar value."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True, slots=True)
class PtrType(Type):
    """A pointer to elements in a memory space (GM unless said otherwise)."""

    elem: DType
    space: str = "gm"

    def __str__(self) -> str:
        space = "" if self.space == "gm" else f", {_POINTER_SPACES.get(self.space, self.space)}"
        return f"!pto.ptr<{self.elem}{space}>"


_POINTER_SPACES = {
    "vec": "ub",
    "mat": "l1",
    "left": "l0a",
    "right": "l0b",
    "acc": "l0c",
    "bias": "bt",
    "scaling": "fb",
}


@dataclass(frozen=True, slots=True)
class ViewType(Type):
    """A view of GM: `tensor_view`, `partition_tensor_view` or the old `tile_view`."""

    kind: str
    dims: tuple[Dim, ...]
    elem: DType

    def __str__(self) -> str:
        return f"!pto.{self.kind}<{_dims(self.dims)}{self.elem}>"


@dataclass(frozen=True, slots=True)
class TileType(Type):
    """A tile: where it lives, its element type, static and valid shape, layout, pad, compact mode.

    `v_row`/`v_col` are None where they are known only at run time. `ssa` marks the spelling
    `!pto.tile<…>` of the SSA form. `bytes` are those of the full static shape.
    """

    loc: str
    dtype: DType
    rows: int
    cols: int
    v_row: Dim
    v_col: Dim
    blayout: str = "row_major"
    slayout: str = "none_box"
    fractal: int = 512
    pad: int = 0
    compact: int = 0
    ssa: bool = False
    bytes: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bytes", self.dtype.bytes_for(self.rows * self.cols))

    @property
    def is_boxed(self) -> bool:
        """True if elements are grouped in fractal boxes."""
        return self.slayout != "none_box"

    def __str__(self) -> str:
        if self.ssa:
            return self._ssa_text()
        compact = f", compact={self.compact}" if self.compact else ""
        return (
            f"!pto.tile_buf<loc={self.loc}, dtype={self.dtype}, rows={self.rows}, "
            f"cols={self.cols}, "
            f"v_row={_dim(self.v_row)}, v_col={_dim(self.v_col)}, blayout={self.blayout}, "
            f"slayout={self.slayout}, fractal={self.fractal}, pad={self.pad}{compact}>"
        )

    def _ssa_text(self) -> str:
        parts = [f"{self.rows}x{self.cols}x{self.dtype}"]
        if self.loc != "vec":
            parts.insert(0, self.loc)
        if (self.v_row, self.v_col) != (self.rows, self.cols):
            parts.append(f"valid={_dim(self.v_row)}x{_dim(self.v_col)}")
        usual = "col_major" if self.cols == 1 and self.rows > 1 else "row_major"
        if self.blayout != usual:
            parts.append(f"blayout={self.blayout}")
        for key, value, default in (
            ("slayout", self.slayout, "none_box"),
            ("fractal", self.fractal, 512),
            ("pad", self.pad, 0),
            ("compact", self.compact, 0),
        ):
            if value != default:
                parts.append(f"{key}={value}")
        return f"!pto.tile<{', '.join(parts)}>"


@dataclass(frozen=True, slots=True)
class AbstractTileType(Type):
    """A tile of the documentation's snippets, `!pto.tile<...>`: the argument gives the shape."""

    spelling: str

    def __str__(self) -> str:
        return f"!pto.{self.spelling}<...>"


@dataclass(frozen=True, slots=True)
class MemRefType(Type):
    """A memref: shape, element type, strides (None: contiguous), offset, memory space."""

    dims: tuple[Dim, ...]
    elem: DType
    strides: tuple[Dim, ...] | None = None
    offset: Dim | int = 0
    space: str = "gm"
    affine: str | None = None

    def __str__(self) -> str:
        parts = [f"{_dims(self.dims)}{self.elem}"]
        if self.strides is not None:
            inner = ", ".join(_dim(s) for s in self.strides)
            offset = "" if self.offset == 0 else f", offset: {_dim(self.offset)}"
            parts.append(f"strided<[{inner}]{offset}>")
        if self.affine:
            parts.append(self.affine)
        if self.space != "gm":
            parts.append(f"#pto.address_space<{self.space}>")
        return f"memref<{', '.join(parts)}>"


@dataclass(frozen=True, slots=True)
class VRegType(Type):
    """A 256-byte vector register seen as `lanes` elements."""

    lanes: int
    elem: DType

    def __str__(self) -> str:
        return f"!pto.vreg<{self.lanes}x{self.elem}>"


@dataclass(frozen=True, slots=True)
class MaskType(Type):
    """A 256-bit predicate with one significant bit for each `granule` bits (8, 16, 32)."""

    granule: int

    def __str__(self) -> str:
        return f"!pto.mask<b{self.granule}>"


@dataclass(frozen=True, slots=True)
class VectorType(Type):
    """A builtin vector (or tensor) of scalars."""

    dims: tuple[Dim, ...]
    elem: DType
    kind: str = "vector"

    def __str__(self) -> str:
        return f"{self.kind}<{_dims(self.dims)}{self.elem}>"


@dataclass(frozen=True, slots=True)
class HandleType(Type):
    """An opaque handle: pipe, align, async_session, async_event, or eventid_array with a length."""

    kind: str
    length: int | None = None

    def __str__(self) -> str:
        suffix = "" if self.length is None else f"<{self.length}>"
        return f"!pto.{self.kind}{suffix}"


@dataclass(frozen=True, slots=True)
class ErrorType(Type):
    """A type that was reported already; it agrees with everything."""

    text: str = "?"

    def __str__(self) -> str:
        return self.text


def _dim(value: Dim) -> str:
    return "?" if value is None else str(value)


def _dims(dims: tuple[Dim, ...]) -> str:
    return "".join(f"{_dim(d)}x" for d in dims)
