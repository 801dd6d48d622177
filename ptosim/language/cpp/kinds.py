"""Types and values while a kernel is elaborated: what C++ has, as the reader knows it.

A number is known (`const`) or a value of the program that is made (`name`)."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any

from ptosim.ground.records import dataclass, field
from ptosim.language.build import Typed


@dataclass(frozen=True, slots=True)
class Scalar:
    """An arithmetic type; `ir` is its word as an element, `value` as a number of the program."""

    name: str
    bits: int
    kind: str  # int, float, bool, void, other (elements only)
    signed: bool = True
    ir: str = ""

    @property
    def value(self) -> str:
        """The type of a number of the program: integers have no sign there, and signed ones of 32
        and 64 bits, whose overflow has no meaning, are indices."""
        if self.kind == "int" and self.signed and self.bits >= 32:
            return "index"
        return self.stored

    @property
    def stored(self) -> str:
        """The type of a number of the program as memory has it."""
        return f"i{self.bits}" if self.kind == "int" else "i1" if self.kind == "bool" else self.ir

    @property
    def size(self) -> int:
        """Bytes, at least 1."""
        return max(self.bits // 8, 1)


def _ints() -> dict[str, Scalar]:
    made = {}
    for bits in (8, 16, 32, 64):
        made[f"int{bits}_t"] = Scalar(f"int{bits}_t", bits, "int", True, f"i{bits}")
        made[f"uint{bits}_t"] = Scalar(f"uint{bits}_t", bits, "int", False, f"ui{bits}")
    return made


VOID = Scalar("void", 8, "void", ir="ui8")
BOOL = Scalar("bool", 8, "bool", False, "i8")
SCALARS: dict[str, Scalar] = {
    **_ints(),
    "void": VOID,
    "bool": BOOL,
    "float": Scalar("float", 32, "float", ir="f32"),
    "double": Scalar("double", 64, "float", ir="f64"),
    "half": Scalar("half", 16, "float", ir="f16"),
    "bfloat16_t": Scalar("bfloat16_t", 16, "float", ir="bf16"),
    "float8_e4m3_t": Scalar("float8_e4m3_t", 8, "other", ir="f8E4M3FN"),
    "float8_e5m2_t": Scalar("float8_e5m2_t", 8, "other", ir="f8E5M2"),
    "float8_e8m0_t": Scalar("float8_e8m0_t", 8, "other", ir="f8E8M0FNU"),
    "hifloat8_t": Scalar("hifloat8_t", 8, "other", ir="!pto.hif8"),
    "float4_e2m1x2_t": Scalar("float4_e2m1x2_t", 8, "other", ir="!pto.f4E2M1x2"),
    "float4_e1m2x2_t": Scalar("float4_e1m2x2_t", 8, "other", ir="!pto.f4E1M2x2"),
    "int4b_t": Scalar("int4b_t", 4, "other", ir="i4"),
}
_ALSO = {
    "int": "int32_t", "unsigned": "uint32_t", "unsigned int": "uint32_t", "char": "int8_t",
    "signed char": "int8_t", "unsigned char": "uint8_t", "short": "int16_t",
    "unsigned short": "uint16_t", "long": "int64_t", "unsigned long": "uint64_t",
    "long long": "int64_t", "unsigned long long": "uint64_t", "size_t": "uint64_t",
    "ssize_t": "int64_t", "ptrdiff_t": "int64_t", "intptr_t": "int64_t", "uintptr_t": "uint64_t",
    "aclFloat16": "half", "float16_t": "half", "__fp16": "half", "_Float16": "half",
    "float32_t": "float", "__bf16": "bfloat16_t", "bfloat16": "bfloat16_t", "uint": "uint32_t",
    "event_t": "int32_t", "long int": "int64_t", "short int": "int16_t", "signed": "int32_t",
    "hif8_t": "hifloat8_t", "fp8_e4m3_t": "float8_e4m3_t", "aclrtStream": "int64_t",
    "pipe_t": "int32_t",
    "long unsigned int": "uint64_t", "unsigned long int": "uint64_t", "int64": "int64_t",
}  # fmt: skip
SCALARS |= {also: SCALARS[name] for also, name in _ALSO.items()}
INT, UINT, LONG, ULONG = (SCALARS[n] for n in ("int32_t", "uint32_t", "int64_t", "uint64_t"))
FLOAT, DOUBLE = SCALARS["float"], SCALARS["double"]


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer to elements of global memory; of a tile's memory it is a byte address."""

    to: Any
    in_tile: bool = False

    @property
    def value(self) -> str:
        """The type of the pointer in the program."""
        return "index" if self.in_tile else f"!pto.ptr<{self.to.ir}>"


@dataclass(frozen=True, slots=True)
class Enum:
    """An enumeration: of the library (words), or of the file (numbers)."""

    name: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enumeration."""

    enum: str
    name: str
    const: int = 0
    is_own: bool = False
    """Is it of the file, and has its number? Those of the library are words."""


@dataclass(frozen=True, slots=True)
class TileType:
    """`Tile<…>`, with its static assertions asked where it is made."""

    loc: str
    dtype: Scalar
    rows: int
    cols: int
    blayout: str = "row_major"
    v_row: int = -1
    v_col: int = -1
    slayout: str = "none_box"
    fractal: int = 512
    pad: Any = 0
    compact: str = "null"

    @property
    def ir(self) -> str:
        """The type as the program has it."""
        return _tile_text(self)

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the inner box."""
        if self.slayout == "none_box":
            return 1, 1
        if self.fractal == 1024:
            return 16, 16
        if self.fractal == 32:
            return (16, 2) if self.slayout == "row_major" else (2, 16)
        across = 256 // max(self.dtype.bits, 1)
        return (16, across) if self.slayout == "row_major" else (across, 16)

    @property
    def bytes(self) -> int:
        """Bytes of the whole tile."""
        return self.rows * self.cols * _element_bits(self.dtype) // 8


@lru_cache(maxsize=512)
def _tile_text(tile: TileType) -> str:
    v_row, v_col = ("?" if v < 0 else str(v) for v in (tile.v_row, tile.v_col))
    compact = f", compact={_COMPACT[tile.compact]}" if tile.compact != "null" else ""
    return (
        f"!pto.tile_buf<loc={tile.loc}, dtype={tile.dtype.ir}, rows={tile.rows}, "
        f"cols={tile.cols}, v_row={v_row}, v_col={v_col}, blayout={tile.blayout}, "
        f"slayout={tile.slayout}, fractal={tile.fractal}, pad={tile.pad}{compact}>"
    )


_COMPACT = {"null": 0, "normal": 1, "row_plus_one": 2, "row_aligned_padding": 3}


def _element_bits(dtype: Scalar) -> int:
    return 4 if "x2" in dtype.name else dtype.bits


@dataclass(frozen=True, slots=True)
class Dims:
    """`Shape<…>` or `Stride<…>`: -1 is dynamic; of a matrix with its layout, rows and columns."""

    kind: str
    sizes: tuple[int, ...]
    matrix: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class GlobalType:
    """`GlobalTensor<T, Shape, Stride, Layout>`."""

    dtype: Scalar
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    layout: str = "nd"


@dataclass(frozen=True, slots=True)
class EventType:
    """`Event<Op::A, Op::B, AutoToken, EventID>`."""

    source: str
    target: str
    auto: bool = True
    id: int = 0


@dataclass(frozen=True, slots=True)
class PipeType:
    """`TPipe<FlagID, Direction, SlotBytes, SlotNum, LocalSlotNum, IsNoSplit>`."""

    flag: int
    direction: int
    slot_size: int
    slot_num: int
    local: int = 2
    nosplit: bool = False

    @property
    def mask(self) -> int:
        """The directions as bits, 1 from the cube and 2 to it, also of slots in global memory."""
        return self.direction - 4 if self.direction > 4 else self.direction


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of a constant number of elements."""

    of: Any
    count: int


@dataclass(frozen=True, slots=True)
class StandardArray(ArrayType):
    """`std::array`, which is copied as a whole."""


@dataclass(frozen=True, slots=True)
class Named:
    """Another type of the library, known by its name and template arguments."""

    name: str
    args: tuple[Any, ...] = ()


@dataclass(slots=True, eq=False)
class StructType:
    """A struct or class of the file, instantiated: its static members and its fields."""

    name: str
    node: Any
    scope: Any
    args: tuple[Any, ...] = ()
    bases: list[Any] = field(default_factory=list)

    @property
    def ir(self) -> str:
        """The element of a pointer to one in global memory: its bytes."""
        return "ui8"

    @property
    def kind(self) -> str:
        """It is no number."""
        return "struct"


@dataclass(frozen=True, slots=True)
class Num:
    """A number or a pointer: known, or the name of a value."""

    type: Any
    const: Any = None
    name: str | None = None

    @property
    def is_known(self) -> bool:
        """Is it known before the run?"""
        return self.name is None


def is_null(value: Any) -> bool:
    """Is it a pointer to global memory that points nowhere?"""
    type_ = getattr(value, "type", None)
    return isinstance(type_, Pointer) and not type_.in_tile and value.is_known


def wrap(value: Any, type_: Scalar) -> Any:
    """Return a known number in a type, by the rules of C: integers wrap, floats are rounded."""
    if type_.kind == "bool":
        return bool(value)
    if type_.kind == "int":
        value = int(value) & ((1 << type_.bits) - 1)
        return value - (1 << type_.bits) if type_.signed and value >> (type_.bits - 1) else value
    if type_.kind != "float":
        return value
    return _rounded(float(value), type_)


def bits_of(value: Any, type_: Scalar) -> int:
    """Return the bits of a known number in a type."""
    value = wrap(value, type_)
    if type_.kind != "float":
        return int(value) & ((1 << type_.bits) - 1)
    if type_.ir == "bf16":
        return _word("f", value) >> 16
    return _word({"f16": "e", "f64": "d"}.get(type_.ir, "f"), value)


def _word(code: str, value: float) -> int:
    return int.from_bytes(struct.pack(f"<{code}", value), "little")


def _rounded(value: float, type_: Scalar) -> float:
    code = {"f32": "f", "f16": "e"}.get(type_.ir)
    if code is None:
        return value
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def from_bits(bits: int, type_: Scalar) -> Any:
    """Return the known number that has these bits in a type."""
    if type_.kind != "float":
        return wrap(bits, type_)
    raw = (bits << 16 if type_.ir == "bf16" else bits).to_bytes(8, "little")
    code, size = {"f16": ("e", 2), "f64": ("d", 8)}.get(type_.ir, ("f", 4))
    return struct.unpack(f"<{code}", raw[:size])[0]


def number(value: Any, type_: Any = INT) -> Num:
    """Return a known number."""
    return Num(type_, wrap(value, type_) if isinstance(type_, Scalar) else value)


class Cell:
    """A variable, or one part of an object: what it holds may be undone. `soft` parts are not
    carried through loops and branches: where two values meet they are unknown. A variable of an
    enumeration of the file holds a number; `enum` says which enumeration it is."""

    __slots__ = ("enum", "journal", "serial", "soft", "type", "value")

    def __init__(self, journal: Journal, value: Any, type_: Any = None, soft: bool = False) -> None:
        self.journal, self.value, self.type, self.soft = journal, value, type_, soft
        self.serial = journal.next_serial()
        self.enum: Enum | None = None

    @property
    def is_carried(self) -> bool:
        """Is it carried through loops? A number is, but no null pointer: the IR has none."""
        value = self.value
        return not self.soft and isinstance(value, Num) and not is_null(value)

    def set(self, value: Any) -> None:
        """Take another value."""
        self.journal.entries.append((self, self.value))
        self.value = value


class Journal:
    """What was changed, in order, so that it can be undone."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any]] = []
        self.count = 0

    def next_serial(self) -> int:
        """Return the number of a new cell."""
        self.count += 1
        return self.count

    def did(self, undo: Any) -> None:
        """Note how to undo something that is no cell."""
        self.entries.append((None, undo))

    def rewind(self, mark: int) -> None:
        """Give the cells back what they held at a mark; what is no cell stays done."""
        kept = [e for e in self.entries[mark:] if e[0] is None]
        for cell, old in reversed(self.entries[mark:]):
            if cell is not None:
                cell.value = old
        self.entries[mark:] = kept

    def undo(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self.entries) > mark:
            cell, old = self.entries.pop()
            if cell is None:
                old()
            else:
                cell.value = old

    def written(self, mark: int, before: int) -> list[Cell]:
        """Return the cells that were there before and have been changed since, in order."""
        found = {id(c): c for c, _ in self.entries[mark:] if c is not None and c.serial <= before}
        return list(found.values())


UNKNOWN = object()  # what a soft cell holds where several values meet


@dataclass(slots=True, eq=False)
class Tile:
    """A tile: its value in the program, where it is, its valid extents."""

    type: TileType
    name: Cell
    label: str
    address: Cell
    made: Any
    valid: tuple[Cell, Cell]
    block: list[Any]
    place: Any = None
    chosen: Any = None
    """Of one of two tiles, at the address that was selected: the condition, the two, and a cell
    with what they were when it was selected."""
    is_shared: bool = False
    """Do several variables mean it, each of which would be placed by itself?"""
    is_moved: bool = False
    """Was it placed or cut again after it was declared?"""


@dataclass(slots=True, eq=False)
class Global:
    """A GlobalTensor: pointer, sizes and strides, and the window of the program for them."""

    type: GlobalType
    pointer: Cell
    sizes: list[Cell]
    strides: list[Cell]
    view: Cell
    label: str = ""
    slot: Typed | None = None
    """The view of a FIFO's slot that it is, from TALLOC or TPOP."""


@dataclass(slots=True, eq=False)
class DimsValue:
    """An object of `Shape<…>` or `Stride<…>`."""

    type: Dims
    values: list[Num]


@dataclass(slots=True, eq=False)
class Event:
    """An Event object with its id; between cores it has the number of a flag there (`far`)."""

    type: EventType
    id: Cell
    far: Any = None


@dataclass(slots=True, eq=False)
class Pipe:
    """A FIFO object."""

    type: PipeType
    id: int
    slots: Any = None
    set_up: Any = None
    """The block and the operations that set it up for entries that are tiles."""


@dataclass(slots=True, eq=False)
class Struct:
    """An object with fields."""

    type: Any
    fields: dict[str, Any]


@dataclass(slots=True, eq=False)
class Array:
    """An array of cells."""

    type: ArrayType
    cells: list[Cell]


@dataclass(slots=True, eq=False)
class Lambda:
    """A lambda with the scope that it captures."""

    node: Any
    scope: Any
    own: frozenset[str] = frozenset()
    """What it has captured by value, of what is in the scope."""


@dataclass(slots=True, eq=False)
class Address:
    """`&x`: a place."""

    cell: Cell | Viewed


@dataclass(frozen=True, slots=True)
class Place:
    """An element of memory that a pointer names."""

    pointer: Num
    index: Num


@dataclass(frozen=True, slots=True)
class Viewed:
    """A variable whose bits are read and written as another type: a pointer to it was cast, or it
    is a union."""

    cell: Cell
    type: Scalar


@dataclass(frozen=True, slots=True)
class Chosen:
    """The element of an array of numbers that a value of the run chooses."""

    cells: list[Cell]
    at: Num


@dataclass(frozen=True, slots=True)
class Designated:
    """`.name = value` among the values of an object."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Recorded:
    """What an instruction returns: an Event can be assigned it."""

    op: str
