"""Operations of the scalar unit that make handles: views, pointers, tiles; and what they read of them.

A maker gets the operation with the slots of its operands and returns the function that executes it on
a core. Shapes and strides that the text fixes are put together once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ptosim.ir.core import Operation
from ptosim.ir.types import DType, MemRefType, PtrType, ScalarType, TileType, Type, ViewType
from ptosim.machine.core import Core, Machine
from ptosim.machine.gm import GmView, five_dims, strided_view, view_spec
from ptosim.machine.layout import tile_layout
from ptosim.machine.storage import view_dtype
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.semantics.binding import OpFault
from ptosim.semantics.registry import value

Action = Callable[[Core], None]


@dataclass(slots=True)
class ValueContext:
    """An operation of the scalar unit: slots of its operands and results, and the machine."""

    op: Operation
    machine: Machine
    slots: dict[str, Any]  # operand name -> slot, tuple of slots, or None
    results: tuple[int, ...]
    layout: str | None
    address: int | None  # where the planner put the result
    warn: Callable[[str, str], None]

    @property
    def result(self) -> int:
        """Slot of the first result."""
        return self.results[0]

    @property
    def result_type(self) -> Type:
        """Type of the first result."""
        return self.op.results[0].type

    def operand_type(self, name: str) -> Any:
        """Type of an operand."""
        return self.op.bound[name].type


# -- global memory ----------------------------------------------------------------------------------


@value("pto.addptr")
def addptr(ctx: ValueContext) -> Action:
    """result = pointer + offset elements."""
    pointer, offset, result = ctx.slots["ptr"], ctx.slots["offset"], ctx.result
    bits = ctx.operand_type("ptr").elem.bits

    def run(core: Core) -> None:
        slots = core.slots
        space, at = slots[pointer]
        slots[result] = (space, at + slots[offset] * bits // 8)

    return run


@value("pto.castptr")
def castptr(ctx: ValueContext) -> Action:
    """An integer is a byte address in the space of the result's type; a pointer keeps its place."""
    source, result = ctx.slots["source"], ctx.result
    space = getattr(ctx.result_type, "space", "gm")

    def run(core: Core) -> None:
        given = core.slots[source]
        core.slots[result] = given if isinstance(given, tuple) else (space, given)

    return run


@value("pto.make_tensor_view")
def make_tensor_view(ctx: ValueContext) -> Action:
    """A view of global memory: pointer, sizes and strides in elements."""
    type_: ViewType = ctx.result_type  # type: ignore[assignment]
    pointer, result = ctx.slots["ptr"], ctx.result
    shape = ctx.slots["shape"] or ()
    strides = ctx.slots["strides"] or ()
    dtype, layout = type_.elem, ctx.layout or "nd"
    declared = type_.dims

    def run(core: Core) -> None:
        slots = core.slots
        buffer, at = slots[pointer]
        if shape:
            sizes = tuple(slots[s] for s in shape)
        else:
            sizes = tuple(d or 1 for d in declared)
        steps = tuple(slots[s] for s in strides) if strides else _contiguous(sizes)
        spec = view_spec(*five_dims(sizes, steps), dtype, layout)
        slots[result] = (spec, buffer, at * 8 // dtype.bits)

    return run


def _contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(sizes):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


@value("pto.partition_view", "pto.subview")
def partition_view(ctx: ValueContext) -> Action:
    """A window of a view: offsets in elements along each dimension, new sizes, the same strides."""
    source, result = ctx.slots["source"], ctx.result
    offsets = ctx.slots["offsets"] or ()
    sizes = ctx.slots["sizes"] or ()
    rank = max(len(offsets), len(sizes))

    def run(core: Core) -> None:
        slots = core.slots
        spec, buffer, at = slots[source]
        first = 5 - rank
        window = list(spec.sizes)
        for i, slot in enumerate(sizes):
            window[first + i] = slots[slot]
        for i, slot in enumerate(offsets):
            offset = slots[slot]
            at += offset * spec.strides[first + i]
            _check_window(ctx, spec, first + i, offset, window[first + i])
        slots[result] = (view_spec(tuple(window), spec.strides, spec.dtype, spec.layout), buffer, at)

    return run


def _check_window(ctx: ValueContext, spec: Any, axis: int, offset: int, size: int) -> None:
    if size < 0:
        raise OpFault("PTO6002", f"partition size {size} along dimension {axis} is negative")
    if offset < 0 or offset + size > spec.sizes[axis]:
        ctx.warn(
            "PTO6101",
            f"the window [{offset}, {offset + size}) leaves its view along dimension {axis} "
            f"(size {spec.sizes[axis]})",
        )


@value("pto.get_tensor_view_dim")
def get_tensor_view_dim(ctx: ValueContext) -> Action:
    """The size of a view along a dimension."""
    source, index, result = ctx.slots["source"], ctx.slots["index"], ctx.result
    rank = len(ctx.operand_type("source").dims)

    def run(core: Core) -> None:
        spec = core.slots[source][0]
        core.slots[result] = spec.sizes[5 - rank + core.slots[index]]

    return run


@value("pto.load_scalar")
def load_scalar(ctx: ValueContext) -> Action:
    """result = pointer[offset]."""
    pointer, offset, result = ctx.slots["ptr"], ctx.slots["offset"], ctx.result
    dtype = ctx.operand_type("ptr").elem

    def run(core: Core) -> None:
        slots = core.slots
        place = _element(ctx.machine, core, slots[pointer], slots[offset], dtype)
        slots[result] = place[0].item() if dtype.family != "bf16" else float(place[0])

    return run


@value("pto.store_scalar")
def store_scalar(ctx: ValueContext) -> Action:
    """pointer[offset] = value."""
    pointer, offset, source = ctx.slots["ptr"], ctx.slots["offset"], ctx.slots["value"]
    dtype = ctx.operand_type("ptr").elem

    def run(core: Core) -> None:
        slots = core.slots
        place = _element(ctx.machine, core, slots[pointer], slots[offset], dtype)
        place[0] = np.array(slots[source]).astype(place.dtype)

    return run


def _element(
    machine: Machine, core: Core, pointer: tuple[Any, int], offset: int, dtype: DType
) -> np.ndarray:
    number, at = pointer
    data = machine.buffers[number].data if isinstance(number, int) else core.space(number).data
    size = dtype.bits // 8
    start = at + offset * size
    if start < 0 or start + size > len(data):
        name = machine.buffers[number].name if isinstance(number, int) else number
        raise OpFault(
            "PTO6001", f"element {start // size} lies outside `{name}` ({len(data) // size} elements)"
        )
    return np.ndarray((1,), view_dtype(dtype), data, start)


# -- tiles --------------------------------------------------------------------------------------------


@value("pto.alloc_tile")
def alloc_tile(ctx: ValueContext) -> Action:
    """A tile at its address, with the valid shape of its type or of the operands."""
    type_: TileType = ctx.result_type  # type: ignore[assignment]
    addr = ctx.slots.get("addr")
    valid_row, valid_col = ctx.slots.get("valid_row"), ctx.slots.get("valid_col")
    result, planned = ctx.result, ctx.address

    def run(core: Core) -> None:
        slots = core.slots
        at = slots[addr] if addr is not None else planned
        rows = slots[valid_row] if valid_row is not None else type_.v_row
        cols = slots[valid_col] if valid_col is not None else type_.v_col
        slots[result] = checked_tile(type_, at, rows, cols)

    return run


def checked_tile(type_: TileType, addr: int, rows: int | None, cols: int | None) -> TileRef:
    """Return a tile after checking its valid shape against the static one."""
    rows = type_.rows if rows is None else rows
    cols = type_.cols if cols is None else cols
    if not (0 <= rows <= type_.rows and 0 <= cols <= type_.cols):
        raise OpFault(
            "PTO6004",
            f"valid shape {rows}x{cols} does not fit the tile's shape {type_.rows}x{type_.cols}",
            help="a valid dimension lies between 0 and the static one",
        )
    return tile_ref(type_, addr, rows, cols)


@value("pto.declare_tile")
def declare_tile(ctx: ValueContext) -> Action:
    """A tile without storage; an operation that hands out storage fills it in."""
    type_: TileType = ctx.result_type  # type: ignore[assignment]
    result = ctx.result

    def run(core: Core) -> None:
        core.slots[result] = checked_tile(type_, 0, type_.v_row, type_.v_col)

    return run


@value("pto.set_validshape")
def set_validshape(ctx: ValueContext) -> Action:
    """The tile has new valid extents from here on."""
    source, row, col = ctx.slots["source"], ctx.slots["valid_row"], ctx.slots["valid_col"]

    def run(core: Core) -> None:
        slots = core.slots
        old: TileRef = slots[source]
        slots[source] = checked_tile(old.type, old.addr, slots[row], slots[col])

    return run


@value("pto.treshape", "pto.bitcast", "pto.talias")
def retype(ctx: ValueContext) -> Action:
    """The same bytes under another type."""
    type_: TileType = ctx.result_type  # type: ignore[assignment]
    source, result = ctx.slots["source"], ctx.result

    def run(core: Core) -> None:
        old: TileRef = core.slots[source]
        rows = type_.v_row if type_.v_row is not None else old.v_row
        cols = type_.v_col if type_.v_col is not None else old.v_col
        core.slots[result] = checked_tile(type_, old.addr, rows, cols)

    return run


@value("pto.tassign")
def tassign(ctx: ValueContext) -> Action:
    """The tile at another address."""
    source, addr = ctx.slots["source"], ctx.slots["addr"]
    result = ctx.results[0] if ctx.results else source

    def run(core: Core) -> None:
        slots = core.slots
        old: TileRef = slots[source]
        slots[result] = tile_ref(old.type, slots[addr], old.v_row, old.v_col)

    return run


@value("pto.subset")
def subset(ctx: ValueContext) -> Action:
    """A window of a tile that shares its storage; strides stay those of the tile."""
    source, row, col = ctx.slots["source"], ctx.slots["row"], ctx.slots["col"]
    sizes, result = ctx.slots["sizes"], ctx.result

    def run(core: Core) -> None:
        slots = core.slots
        old: TileRef = slots[source]
        rows, cols = (slots[s] for s in sizes)
        slots[result] = window(old, slots[row], slots[col], rows, cols)

    return run


def window(tile: TileRef, row: int, col: int, rows: int, cols: int) -> TileRef:
    """Return the tile that covers rows x cols elements from (row, col) of another one.

    Its static shape keeps the extent that fixes the strides, so elements stay where they are.
    """
    type_ = tile.type
    if row < 0 or col < 0 or row + rows > type_.rows or col + cols > type_.cols:
        raise OpFault(
            "PTO6005",
            f"the window [{row}, {row + rows}) x [{col}, {col + cols}) leaves the tile of "
            f"{type_.rows}x{type_.cols}",
        )
    layout = tile_layout(type_, tile.v_row, tile.v_col)
    addr = tile.addr + layout.offset(row, col) * type_.dtype.bits // 8
    inner = replace(type_, v_row=rows, v_col=cols)
    if type_.blayout == "row_major":
        inner = replace(inner, rows=rows)
    else:
        inner = replace(inner, cols=cols)
    return tile_ref(inner, addr, rows, cols)


@value("memref.alloc")
def memref_alloc(ctx: ValueContext) -> Action:
    """A local buffer, seen as an ND tile of its last dimension."""
    type_: MemRefType = ctx.result_type  # type: ignore[assignment]
    tile = memref_tile(type_)
    result, planned = ctx.result, ctx.address

    def run(core: Core) -> None:
        core.slots[result] = tile_ref(tile, planned or 0, tile.rows, tile.cols)

    return run


def memref_tile(type_: MemRefType) -> TileType:
    """Return the tile type with the shape and space of a local memref."""
    dims = [d or 1 for d in type_.dims] or [1]
    rows = int(np.prod(dims[:-1], dtype=np.int64)) if len(dims) > 1 else 1
    return TileType(type_.space, type_.elem, rows, dims[-1], rows, dims[-1])


@value("memref.dealloc")
def memref_dealloc(ctx: ValueContext) -> Action:
    """The end of a buffer's life needs no action."""
    return lambda core: None


@value("builtin.unrealized_conversion_cast")
def conversion_cast(ctx: ValueContext) -> Action:
    """The value itself."""
    source, result = ctx.slots["source"], ctx.result

    def run(core: Core) -> None:
        core.slots[result] = core.slots[source]

    return run


def default_value(type_: Type, number: int) -> Any:
    """Return what a function argument of a type is at the start: a pointer to its buffer, or a view."""
    if isinstance(type_, PtrType):
        return (number, 0)
    if isinstance(type_, MemRefType):
        return memref_view(type_, number)
    if isinstance(type_, ScalarType):
        return 0
    return None


def memref_view(type_: MemRefType, number: int) -> GmView:
    """Return the view of global memory that a memref argument is."""
    sizes = tuple(d or 1 for d in type_.dims) or (1,)
    strides = type_.strides
    steps = _contiguous(sizes) if strides is None else tuple(s or 1 for s in strides)
    return view_spec(*five_dims(sizes, steps), type_.elem, "nd"), number, type_.offset or 0


def view_bytes(machine: Machine, view: GmView) -> np.ndarray:
    """Return the elements of a view that is known to lie inside its buffer."""
    spec, number, offset = view
    return strided_view(machine.buffers[number], spec, offset)
