"""Types of PTO values: immutable, comparable, and printable in canonical spelling."""

from __future__ import annotations

from ptosim.ground.records import dataclass, field

DYNAMIC = None
"""A dimension that is known only at run time (`?`)."""

Dim = int | None

BLOCK_BYTES = 32
"""The unit of tile memory: rows of boxes, alignment of rows, bursts of transfers. Both
architectures (PTO ISA documentation, tile layouts)."""
BLOCK_BITS = 8 * BLOCK_BYTES
SPACE_SYNONYMS = {
    "vec": "ub",
    "mat": "l1",
    "left": "l0a",
    "right": "l0b",
    "acc": "l0c",
    "bias": "bt",
    "scaling": "fb",
}
"""Memory spaces of tiles, and the second word for each: what pointers are printed with."""

REGISTER_BYTES = 256
"""A vector register of A5, a repeat of A2/A3 (PTO ISA documentation, vector instructions)."""
MAX_REPEATS = 255
"""Repeats that one instruction can have: its count has eight bits."""


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

    def __hash__(self) -> int:
        return hash(self.name)  # views and tiles are looked up by it all the time

    def bytes_for(self, count: int) -> int:
        """Return the bytes that `count` consecutive elements take (4-bit elements: two a byte)."""
        return (count * self.bits + 7) // 8

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PackedDType(DType):
    """An element of memory that is several numbers: a pair of low precision (`!pto.f4E2M1x2`), or a
    small vector (`vector<2xf16>`). The first of the `count` numbers of type `part` is in the low
    bits, at the lower address; `bits` are those of the whole."""

    part: DType
    count: int


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
        space = "" if self.space == "gm" else f", {SPACE_SYNONYMS.get(self.space, self.space)}"
        return f"!pto.ptr<{self.elem}{space}>"


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
    `!pto.tile<…>` of the SSA form. `bytes` are those of the full static shape. `pitch` is set where
    a window of an accumulator is made: the rows of the column blocks that it lies in.
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
    pitch: int = 0
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

    @property
    def lanes(self) -> int:
        """The lanes of a register that it has bits for."""
        return 8 * REGISTER_BYTES // self.granule

    def __str__(self) -> str:
        return f"!pto.mask<b{self.granule}>"


@dataclass(frozen=True, slots=True)
class VectorType(Type):
    """A builtin vector (or tensor) of scalars. A tensor of any rank (`tensor<*xf32>`) `is_unranked`
    and has no dimensions here."""

    dims: tuple[Dim, ...]
    elem: DType
    kind: str = "vector"
    is_unranked: bool = False

    def __str__(self) -> str:
        dims = "*x" if self.is_unranked else _dims(self.dims)
        return f"{self.kind}<{dims}{self.elem}>"


@dataclass(frozen=True, slots=True)
class HandleType(Type):
    """An opaque handle, one of `isa/types.toml`; eventid_array has a length."""

    kind: str
    length: int | None = None

    def __str__(self) -> str:
        suffix = "" if self.length is None else f"<{self.length}>"
        return f"!pto.{self.kind}{suffix}"


@dataclass(frozen=True, slots=True)
class MultiTileType(Type):
    """Several equal tiles, one after the other in one space; `count` of them."""

    slot: TileType
    count: int

    @property
    def stride(self) -> int:
        """Bytes from one tile to the next: its size, rounded up to the unit of its space."""
        unit = 512 if self.slot.loc in ("left", "right", "acc") else BLOCK_BYTES
        return -(-self.slot.bytes // unit) * unit

    @property
    def dtype(self) -> DType:
        """The elements of the tiles."""
        return self.slot.dtype

    @property
    def loc(self) -> str:
        """The space of the tiles."""
        return self.slot.loc

    @property
    def bytes(self) -> int:
        """All that the tiles take, each with what follows it up to the next."""
        return self.count * self.stride

    def __str__(self) -> str:
        return f"!pto.multi_tile_buf<{self.slot}, count={self.count}>"


@dataclass(frozen=True, slots=True)
class LocalArrayType(Type):
    """An array of scalars on the stack of the scalar unit."""

    dims: tuple[int, ...]
    elem: DType

    def __str__(self) -> str:
        return f"!pto.local_array<{_dims(self.dims)}{self.elem}>"


@dataclass(frozen=True, slots=True)
class StructType(Type):
    """A record on the stack of the scalar unit; fields are scalars or records. Equal lists of
    fields are the same type."""

    fields: tuple[ScalarType | StructType, ...]

    def __str__(self) -> str:
        return f"!pto.struct<{', '.join(map(str, self.fields))}>"


@dataclass(frozen=True, slots=True)
class VirtualVRegType(Type):
    """A vector of any length above the registers (`!pto.vmi.vreg`); `layout` as written: None in
    program texts, dumps of the assembler have it."""

    lanes: int
    elem: DType
    layout: str | None = None

    def __str__(self) -> str:
        return f"!pto.vmi.vreg<{self.lanes}x{self.elem}{_layout(self.layout)}>"


@dataclass(frozen=True, slots=True)
class VirtualMaskType(Type):
    """A predicate of any length (`!pto.vmi.mask`); `granule` is `pred` in program texts."""

    lanes: int
    granule: str
    layout: str | None = None

    def __str__(self) -> str:
        return f"!pto.vmi.mask<{self.lanes}x{self.granule}{_layout(self.layout)}>"


REGISTERS = (VRegType, MaskType, VirtualVRegType, VirtualMaskType)
"""What holds lanes: registers and predicates, of the vector unit and of any length."""


@dataclass(frozen=True, slots=True)
class OpaqueType(Type):
    """A type of another dialect of which only the name counts (`!llvm.ptr`, `!llvm.ptr<6>`)."""

    name: str

    def __str__(self) -> str:
        return f"!{self.name}"


@dataclass(frozen=True, slots=True)
class ErrorType(Type):
    """A type that was reported already; it agrees with everything."""

    text: str = "?"

    def __str__(self) -> str:
        return self.text


def _dim(value: Dim) -> str:
    return "?" if value is None else str(value)


def _layout(layout: str | None) -> str:
    return "" if layout is None else f", {layout}"


def _dims(dims: tuple[Dim, ...]) -> str:
    return "".join(f"{_dim(d)}x" for d in dims)


MAX_THREADS = 2048
"""Threads of a SIMT launch, at most."""
