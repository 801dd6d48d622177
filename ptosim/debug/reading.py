"""Values of a run as arrays and numbers: tiles, views, buffers, scalars, bytes of a space."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from ptosim.debug.sheet import Sheet, short_number
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import (
    BLOCK_BYTES,
    REGISTER_BYTES,
    DType,
    MaskType,
    PackedDType,
    TileType,
    VirtualMaskType,
    VirtualVRegType,
    VRegType,
)
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.records import dataclass
from ptosim.machine.core import Core, Machine
from ptosim.machine.gm import GmBuffer, strided_view
from ptosim.machine.numbers.formats import decode, lookup
from ptosim.machine.pages import from_bytes, unpack_nibbles, view_dtype
from ptosim.machine.tile import Tile, TileRef
from ptosim.machine.values import GmView
from ptosim.machine.vector import LogicalMask, Mask, Twofold
from ptosim.ops.tile.quant_casts import uniform


@dataclass(frozen=True, slots=True)
class Place:
    """Bytes of a run: `space` is the name of a memory space of `core`, or `gm` with `core` the
    number of the buffer."""

    space: str
    core: int
    start: int
    end: int

    def holds(self, other: Place) -> bool:
        """True if both have a byte in common."""
        same = self.space == other.space and self.core == other.core
        return same and self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        where = f"gm buffer {self.core}" if self.space == "gm" else self.space
        if self.end == self.start + 1:
            return f"{where}:{self.start:#x}"
        return f"{where}:{self.start:#x}..{self.end - 1:#x}"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value at one moment: `codes` as memory holds it (logical order), `numbers` what it means.

    `kind` is tile, view, buffer, or scalar; a scalar has arrays of one element."""

    kind: str
    dtype: DType
    codes: np.ndarray
    numbers: np.ndarray
    place: Place | None = None
    ref: Any = None


def numbers_of(codes: np.ndarray, dtype: DType) -> np.ndarray:
    """Return codes of narrow floats as f32, 4-bit integers and those that a quantised type stores
    with their sign, others (packed elements too) as they are."""
    if isinstance(dtype, PackedDType):
        return codes  # several numbers an element: their bits
    if dtype.kind == "quant":
        return _stored(codes, dtype)
    form = lookup(dtype.name)
    if form.kind == "code":
        return decode(codes.view(np.uint8), form.name)
    if dtype.name in ("i4", "si4"):
        return ((codes.astype(np.int8) << 4) >> 4).astype(np.int8)
    if dtype.kind == "uint" and codes.dtype.kind == "i":
        return codes.view(f"u{codes.dtype.itemsize}")
    if codes.dtype.kind == "V" or codes.dtype.name == "bfloat16":
        return codes.astype(np.float32)
    return codes


def _stored(codes: np.ndarray, dtype: DType) -> np.ndarray:
    known = uniform(dtype)
    spec = known.storage if known is not None else None
    is_signed = spec is not None and not spec.is_float and spec.signed
    return (
        codes.view(f"i{codes.dtype.itemsize}") if is_signed and codes.dtype.kind == "u" else codes
    )


def read_tile(core: Core, ref: TileRef, *, full: bool = False) -> Reading:
    """Return the valid region of a tile, or its whole static shape. Raises UsageError if the tile
    leaves its space, or is in none of the core's."""
    if not core.machine_def.has_memory(ref.type.loc):
        raise UsageError(f"`{ref.type.loc}` is no memory of the core")
    space = core.space(ref.type.loc)
    place = tile_place(core, ref)
    known = core.machine_def.spaces.get(ref.type.loc)
    size = space.size if known is None else known.bytes
    if place.end > size or ref.addr < 0:
        raise UsageError(f"the tile {place} leaves its space ({size} bytes)")
    tile = Tile(ref, space.data)
    shape = (tile.rows, tile.cols) if full else (None, None)
    codes = np.array(tile.read(*shape))
    return Reading("tile", ref.type.dtype, codes, numbers_of(codes, ref.type.dtype), place, ref)


def unwritten(reading: Reading, uninit: str) -> np.ndarray:
    """Return which elements nothing has written, as far as their bits say so: with `uninit` poison
    those of floats of 16 bits and more that are all ones, a NaN that no operation computes; of
    other types, which may hold that value, all elements or none."""
    codes = np.ascontiguousarray(reading.codes)
    is_poison = np.zeros(codes.shape, bool)
    if uninit != "poison" or not codes.size or codes.dtype.itemsize * 8 != reading.dtype.bits:
        return is_poison
    raw = codes.view(f"u{codes.dtype.itemsize}")
    is_poison = raw == np.iinfo(raw.dtype).max
    is_wide_float = reading.numbers.dtype.kind == "f" and codes.dtype.itemsize > 1
    return is_poison if is_wide_float or is_poison.all() else np.zeros(codes.shape, bool)


def tile_place(core: Core, ref: TileRef) -> Place:
    """Return the bytes of a tile's static shape."""
    return Place(ref.type.loc, core.index, ref.addr, ref.addr + ref.type.bytes)


def read_view(machine: Machine, view: GmView) -> Reading:
    """Return the elements of a GM view in its five dimensions, leading ones dropped."""
    spec, number, offset = view
    assert isinstance(number, int)  # what is in a space is a tile
    buffer = machine.buffers[number]
    low, high = offset + spec.low, offset + spec.high
    count = buffer.size * 8 // spec.dtype.bits
    if high >= low and (low < 0 or high >= count):
        raise UsageError(
            f"the view reaches outside `{buffer.name}`: [{low}, {high + 1}) of {count}"
        )
    array = np.array(strided_view(buffer, spec, offset))
    codes = unpack_nibbles(array) if spec.dtype.bits == 4 else array
    while codes.ndim > 2 and codes.shape[0] == 1:
        codes = codes[0]
    place = Place("gm", number, *view.span())
    return Reading("view", spec.dtype, codes, numbers_of(codes, spec.dtype), place, view)


def read_buffer(buffer: GmBuffer) -> Reading:
    """Return a whole argument, shaped as it was given."""
    values = from_bytes(buffer.data, buffer.dtype, buffer.shape)
    is_packed = isinstance(buffer.dtype, PackedDType)
    is_code = not is_packed and lookup(buffer.dtype.name).kind == "code"
    codes = values.view(np.uint8) if is_code else values
    if buffer.dtype.bits == 4:
        codes = codes & 15
    place = Place("gm", buffer.number, 0, buffer.size)
    return Reading("buffer", buffer.dtype, codes, numbers_of(codes, buffer.dtype), place, buffer)


def element_index(index: Iterable[Any]) -> tuple[int, ...]:
    """Return an index that an expression gave. Raises UsageError for what is no whole number."""
    try:
        return tuple(operator.index(i) for i in index)
    except TypeError as problem:
        raise UsageError("an index of an element is a whole number") from problem


def element_place(core: Core, reading: Reading, index: tuple[int, ...]) -> Place:
    """Return the bytes of one element. Raises UsageError if there is none."""
    is_flat = len(index) == 1 and reading.codes.ndim != 1
    if is_flat and 0 <= index[0] < reading.codes.size:
        index = tuple(int(i) for i in np.unravel_index(index[0], reading.codes.shape))
    inside = len(index) == reading.codes.ndim and all(
        0 <= i < n for i, n in zip(index, reading.codes.shape, strict=True)
    )
    if not inside:
        shape = "x".join(map(str, reading.codes.shape))
        raise UsageError(f"there is no element {list(index)} in {shape}")
    bits = reading.dtype.bits
    base, element = _element_offset(core, reading, index)
    start = base + element * bits // 8
    assert reading.place is not None
    return Place(reading.place.space, reading.place.core, start, start + max(bits // 8, 1))


def _element_offset(core: Core, reading: Reading, index: tuple[int, ...]) -> tuple[int, int]:
    if reading.kind == "tile":
        tile = Tile(reading.ref, core.space(reading.ref.type.loc).data)
        return tile.addr, tile.layout.offset(*index)
    if reading.kind == "view":
        strides = reading.ref.spec.strides[-len(index) :]
        return 0, reading.ref.offset + sum(i * s for i, s in zip(index, strides, strict=True))
    return 0, int(np.ravel_multi_index(index, reading.codes.shape))


def read_bytes(machine: Machine, place: Place) -> bytes:
    """Return the bytes of a place; a space that nothing used yet has its fill."""
    if place.space == "gm":
        return machine.buffers[place.core].part(place.start, place.end).tobytes()
    return bytes(machine.cores[place.core].space(place.space).data[place.start : place.end])


def whole(machine: Machine, place: Place) -> Any:
    """Return the memory that a place is in, as something to slice and assign bytes to."""
    if place.space == "gm":
        return machine.buffers[place.core].data
    return machine.cores[place.core].space(place.space).data


def shape_text(ref: TileRef) -> str:
    """Return `32x64`, or `20x64 of 32x64` where the valid shape is smaller."""
    type_: TileType = ref.type
    static = f"{type_.rows}x{type_.cols}"
    valid = f"{ref.v_row}x{ref.v_col}"
    return static if valid == static else f"{valid} of {static}"


# Vector registers and predicates in the debugger: lanes by element type, masks as bars.

BLOCKS = REGISTER_BYTES // BLOCK_BYTES
LINE = 90
"""Columns that the lanes of a line may take."""
ON, OFF = "█", "·"


def read_register(value: Value, content: Any) -> Reading | None:
    """Return a register's lanes, or those of a predicate as 0 and 1; None for other values."""
    content = content.first if isinstance(content, Twofold) else content
    if isinstance(value.type, VRegType | VirtualVRegType):
        dtype = value.type.elem
        codes = content.view(view_dtype(dtype))
        return Reading("register", dtype, codes, numbers_of(codes, dtype))
    if isinstance(content, LogicalMask):
        lanes = content.on.astype(np.uint8)
        return Reading("mask", dtypes()["ui8"], lanes, lanes)
    if isinstance(value.type, MaskType) and isinstance(content, Mask):
        lanes = getattr(content, f"on{value.type.granule // 8}").astype(np.uint8)
        return Reading("mask", dtypes()["ui8"], lanes, lanes)
    return None


def lanes_sheet(name: str, value: Value, content: Any, asked: str) -> Sheet:
    """Return a register by blocks of 32 bytes (or parts of them, where the numbers are wide), its
    lanes of the type asked for or its own; a predicate as a bar for each block. Raises UsageError
    if the value is neither, or the type none that a register can have."""
    if isinstance(value.type, MaskType):
        return _bar(name, value.type, content)
    if isinstance(value.type, VirtualMaskType | VirtualVRegType):
        return _logical_sheet(name, value.type, content, asked)
    if not isinstance(value.type, VRegType):
        raise UsageError(f"{name} is no register", help="`print` shows any value")
    dtype = _asked_type(asked, value.type.elem)
    codes = np.ascontiguousarray(content).view(np.uint8).view(view_dtype(dtype))
    cells = [short_number(n) for n in numbers_of(codes, dtype)]
    count = _in_a_line(cells)
    sheet = Sheet(f"{name}: {len(cells)} lanes of {dtype}", [">lane", *[">"] * count])
    for first in range(0, len(cells), count):
        sheet.add(str(first), *cells[first : first + count])
    return sheet


def _in_a_line(cells: list[str]) -> int:
    """The lanes of a block, halved until a line of them fits."""
    count = len(cells) // BLOCKS
    widest = max(map(len, cells)) + 2
    while count > 1 and count * widest > LINE:
        count //= 2
    return count


def _bar(name: str, type_: MaskType, mask: Mask) -> Sheet:
    lanes = getattr(mask, f"on{type_.granule // 8}")
    sheet = Sheet(f"{name}: {int(lanes.sum())} of {len(lanes)} lanes of b{type_.granule}")
    sheet.columns = [">lane", "active"]
    for block, row in enumerate(lanes.reshape(BLOCKS, -1)):
        sheet.add(str(block * len(row)), "".join(ON if on else OFF for on in row))
    sheet.notes.append(f"image {mask.bits:064x}, bit 0 last")
    return sheet


def _asked_type(asked: str, own: DType) -> DType:
    dtype = dtypes().get(asked) if asked else own
    if dtype is None or dtype.bits < 8:
        raise UsageError(f"`{asked}` is no type of lanes", help="for example `lanes %v f16`")
    return dtype


# -- logical vectors ------------------------------------------------------------------------------

BAR = 64
"""Lanes of a logical mask in a line."""
MOST = 16
"""Lanes of a logical vector in a line."""


def _logical_sheet(
    name: str, type_: VirtualVRegType | VirtualMaskType, content: Any, asked: str
) -> Sheet:
    """Return a logical vector in lines of as many lanes as fit, or a logical mask as bars. Where
    the mask that the assembler drops makes a difference, a note says in which lanes."""
    twofold = content if isinstance(content, Twofold) else None
    content = content.first if twofold is not None else content
    if isinstance(type_, VirtualMaskType):
        sheet = _logical_bar(name, type_, content)
    else:
        sheet = _logical_lanes(name, type_, content, asked)
    if twofold is not None:
        sheet.notes.append(_differing(twofold))
    return sheet


def _logical_lanes(name: str, type_: VirtualVRegType, content: Any, asked: str) -> Sheet:
    dtype = _asked_type(asked, type_.elem)
    raw = np.ascontiguousarray(content).view(np.uint8)
    if len(raw) % (dtype.bits // 8):
        raise UsageError(f"{name} has {len(raw)} bytes, which are no lanes of {dtype}")
    codes = raw.view(view_dtype(dtype))
    cells = [short_number(n) for n in numbers_of(codes, dtype)]
    count, widest = min(MOST, len(cells)), max(map(len, cells)) + 2
    while count > 1 and count * widest > LINE:
        count = -(-count // 2)
    sheet = Sheet(f"{name}: {len(cells)} lanes of {dtype}", [">lane", *[">"] * count])
    for first in range(0, len(cells), count):
        line = cells[first : first + count]
        sheet.add(str(first), *line, *[""] * (count - len(line)))
    return sheet


def _logical_bar(name: str, type_: VirtualMaskType, mask: LogicalMask) -> Sheet:
    sheet = Sheet(f"{name}: {int(mask.on.sum())} of {type_.lanes} lanes")
    sheet.columns = [">lane", "active"]
    for first in range(0, type_.lanes, BAR):
        row = mask.on[first : first + BAR]
        sheet.add(str(first), "".join(ON if on else OFF for on in row))
    return sheet


def _differing(value: Twofold) -> str:
    first, second = value.first, value.second
    if isinstance(first, LogicalMask):
        differ = first.on != second.on
    else:
        raw = f"u{first.dtype.itemsize}"
        differ = first.view(raw) != second.view(raw)
    return (
        f"{int(differ.sum())} lanes, the first {int(np.flatnonzero(differ)[0])}, depend on the "
        f"mask of {value.origin}, which the assembler drops"
    )
