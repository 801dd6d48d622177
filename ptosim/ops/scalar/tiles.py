"""Operations of the scalar unit that make tiles: allocation, placement, other views of a storage.

A tile is a handle on bytes of its space, so two handles on the same bytes see each other's writes,
as tiles of the hardware do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ptosim.ground.ir.types import MemRefType, TileType
from ptosim.ground.records import replace
from ptosim.machine.affine import Unknown
from ptosim.machine.core import Core
from ptosim.machine.layout import Layout
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.ops.base.binding import OpFault, check_place, check_valid, check_window, negative
from ptosim.ops.base.functions import value
from ptosim.ops.base.orders import Action, ValueContext, computed
from ptosim.ops.scalar.global_views import partition_view


@value("pto.alloc_tile")
def alloc_tile(ctx: ValueContext) -> Action:
    """A tile at its address, with the valid shape of its type or of the operands."""
    type_ = ctx.result_tile
    addr = ctx.slots.get("addr")
    valid_row, valid_col = ctx.slots.get("valid_row"), ctx.slots.get("valid_col")
    result, planned, name = ctx.result, ctx.address, f"tile %{ctx.op.results[0].name}"
    if addr is None and valid_row is None and valid_col is None:
        tile = checked_tile(type_, planned, type_.v_row, type_.v_col)  # type: ignore[arg-type]
        return ctx.constant(tile)

    def run(core: Core) -> None:
        slots = core.slots
        at = planned
        if addr is not None:
            at = slots[addr]
            check_place(core, type_.loc, at, type_.bytes, name)
        rows = slots[valid_row] if valid_row is not None else type_.v_row
        cols = slots[valid_col] if valid_col is not None else type_.v_col
        slots[result] = checked_tile(type_, at, rows, cols)  # type: ignore[arg-type]

    return run


@value("pto.alloc_multi_tile")
def alloc_multi_tile(ctx: ValueContext) -> Action:
    """The first of several tiles; the others follow it."""
    type_: Any = ctx.result_type
    slot: TileType = type_.slot
    addr, result, planned = ctx.slots.get("addr"), ctx.result, ctx.address
    valid_row, valid_col = ctx.slots.get("valid_row"), ctx.slots.get("valid_col")
    name = f"multi buffer %{ctx.op.results[0].name}"

    def run(core: Core) -> None:
        slots = core.slots
        at: Any = planned
        if addr is not None:
            at = slots[addr]
            check_place(core, slot.loc, at, type_.bytes, name)
        rows = slots[valid_row] if valid_row is not None else slot.v_row
        cols = slots[valid_col] if valid_col is not None else slot.v_col
        slots[result] = checked_tile(slot, at, rows, cols)

    return run


@value("pto.multi_tile_get")
def multi_tile_get(ctx: ValueContext) -> Action:
    """The tile in a slot, which is taken as it is."""
    several: Any = ctx.type("source")

    def picked(first: TileRef, slot: Any) -> TileRef:
        if slot.__class__ is Unknown:
            return tile_ref(first.type, slot, first.v_row, first.v_col)  # one of them
        if not 0 <= slot < several.count:
            raise OpFault(
                "PTO6061",
                f"'{ctx.op.name}': slot {slot} is outside the multi buffer, which has "
                f"{several.count}",
                notes=("the slot is taken as it is, not modulo their number",),
                help=f"count the slots round: `arith.remui` by {several.count}",
            )
        at = first.addr + slot * several.stride
        return tile_ref(first.type, at, first.v_row, first.v_col)

    return ctx.computed(picked, "source", "slot")


def checked_tile(type_: TileType, addr: int, rows: int | None, cols: int | None) -> TileRef:
    """Return a tile after checking its valid shape against the static one."""
    rows = type_.rows if rows is None else rows
    cols = type_.cols if cols is None else cols
    check_valid(type_, rows, cols)
    return tile_ref(type_, addr, rows, cols)


@value("pto.declare_tile")
def declare_tile(ctx: ValueContext) -> Action:
    """A tile without storage; an operation that hands out storage fills it in."""
    type_ = ctx.result_tile
    return ctx.constant(checked_tile(type_, 0, type_.v_row, type_.v_col))


@value("pto.set_validshape")
def set_validshape(ctx: ValueContext) -> Action:
    """The tile has new valid extents from here on."""

    def resized(old: TileRef, rows: int, cols: int) -> TileRef:
        return checked_tile(old.type, old.addr, rows, cols)

    slots = [ctx.slots[name] for name in ("source", "valid_row", "valid_col")]
    return computed(resized, slots, slots[0])


@value("pto.get_validshape")
def get_validshape(ctx: ValueContext) -> Action:
    """The valid extents as they are now."""
    source, (rows, cols) = ctx.slots["source"], ctx.results

    def run(core: Core) -> None:
        tile: TileRef = core.slots[source]
        core.slots[rows], core.slots[cols] = tile.v_row, tile.v_col

    return run


@value("pto.treshape", "pto.bitcast", "pto.talias")
def retype(ctx: ValueContext) -> Action:
    """The same bytes under another type."""
    type_ = ctx.result_tile
    source, result, name = ctx.slots["source"], ctx.result, f"tile %{ctx.op.results[0].name}"

    def run(core: Core) -> None:
        old: TileRef = core.slots[source]
        rows = type_.v_row if type_.v_row is not None else old.v_row
        cols = type_.v_col if type_.v_col is not None else old.v_col
        check_place(core, type_.loc, old.addr, type_.bytes, name)
        core.slots[result] = checked_tile(type_, old.addr, rows, cols)

    return run


def _places_nothing(ctx: ValueContext) -> Action:
    def run(core: Core) -> None:
        raise OpFault("PTO8002", f"'{ctx.op.name}' places tiles; its operand is none")

    return run


@value("pto.tassign")
def tassign(ctx: ValueContext) -> Action:
    """The tile at another address."""
    source, addr = ctx.slots.get("source"), ctx.slots.get("addr")
    if source is None or addr is None:
        return _places_nothing(ctx)
    result = ctx.results[0] if ctx.results else source
    name = f"tile %{ctx.op.bound['source'].value.name}"

    def run(core: Core) -> None:
        slots = core.slots
        old: TileRef = slots[source]
        if not isinstance(old, TileRef):
            raise OpFault("PTO8002", f"'{ctx.op.name}' places tiles; {name[5:]} is none")
        at = slots[addr]
        if not isinstance(at, (int, Unknown)):
            raise OpFault(
                "PTO6010",
                f"'{ctx.op.name}': {at} names no address",
                help="write the address in parentheses: `@tile(0x1000)`",
            )
        place: Any = at  # what is compared with an unknown one asks for its value
        check_place(core, old.type.loc, place, old.type.bytes, name)
        slots[result] = tile_ref(old.type, place, old.v_row, old.v_col)

    return run


@value("pto.subset")
def subset(ctx: ValueContext) -> Action:
    """A window of a tile that shares its storage; strides stay those of the tile."""
    slots = (ctx.slots["source"], ctx.slots["row"], ctx.slots["col"], *ctx.slots["sizes"])
    return computed(window, slots, ctx.result)


@value("pto.subview")
def subview(ctx: ValueContext) -> Action:
    """A window of a tile, with a valid region of its own; in April's language an old name of
    partition_view for a view and of subset for a tile."""
    if not isinstance(ctx.type("source"), TileType):
        return partition_view(ctx)
    if not ctx.op.has("keeps_axis"):
        return _with_valid(ctx)
    return subset(ctx) if ctx.slots["sizes"] is not None else window_of_result(ctx)


def window_of_result(ctx: ValueContext) -> Action:
    """A window of a tile whose extents are those of the type of the result."""
    type_ = ctx.result_tile

    def part(whole: TileRef, row: int, col: int) -> TileRef:
        return window(whole, row, col, type_.rows, type_.cols)

    return ctx.computed(part, "source", "row", "col")


@value("pto.tsubview")
def tsubview(ctx: ValueContext) -> Action:
    """The destination becomes a window of the source; its static shape is its own. The address is
    that of element (row, col) in plain strides, also for boxed tiles."""
    if ctx.results:
        type_ = ctx.result_tile
        rows, cols = type_.v_row or type_.rows, type_.v_col or type_.cols
        made = tile_ref(type_, 0, int(rows), int(cols))
        return ctx.computed(
            lambda whole, row, col: _part(whole, made, row, col), "source", "row", "col"
        )
    target = ctx.slots["result"]
    source, row, col = (ctx.slots[name] for name in ("source", "row", "col"))
    return computed(_part, [source, target, row, col], target)


def _part(whole: TileRef, part: TileRef, row: int, col: int) -> TileRef:
    type_ = whole.type
    check_window((row, col), (part.v_row, part.v_col), (type_.rows, type_.cols))
    strides = (type_.cols, 1) if type_.blayout == "row_major" else (1, type_.rows)
    addr = whole.addr + (row * strides[0] + col * strides[1]) * type_.dtype.bits // 8
    kept = _strides_of(whole)
    return tile_ref(replace(part.type, **kept), addr, part.v_row, part.v_col)


def _with_valid(ctx: ValueContext) -> Action:
    """The type of the result says the valid extents; those that only the run knows are the operands
    of `valid`."""
    type_ = ctx.result_tile
    source, row, col = (ctx.slots[name] for name in ("source", "row", "col"))
    valid: Any = ctx.slots.get("valid") or (None, None)
    result = ctx.result

    def run(core: Core) -> None:
        slots = core.slots
        rows = type_.v_row if type_.v_row is not None else slots[valid[0]]
        cols = type_.v_col if type_.v_col is not None else slots[valid[1]]
        _check_valid("row", rows, type_.rows)
        _check_valid("col", cols, type_.cols)
        slots[result] = part_of(slots[source], slots[row], slots[col], type_, (rows, cols))

    return run


def _check_valid(axis: str, extent: int, size: int) -> None:
    if not 0 <= extent <= size:
        raise OpFault(
            "PTO6004",
            f"valid_{axis} {extent} exceeds subview {axis} size {size}"
            if extent > size
            else f"valid_{axis} {extent} is negative: the board hangs",
            help=f"a valid extent is between 0 and the size of the window{negative(extent)}",
        )


def part_of(tile: TileRef, row: int, col: int, type_: TileType, valid: tuple[int, int]) -> TileRef:
    """Return the window of a type at (row, col) of a tile. As in the assembler's lowering it keeps
    the extent of its parent that fixes the strides, so that elements stay where they are."""
    parent, layout = tile.type, tile.layout
    part = replace(type_, v_row=valid[0], v_col=valid[1], **_strides_of(tile))
    if Unknown in (row.__class__, col.__class__):
        return tile_ref(part, row + col, *valid)  # somewhere in the tile
    check_window((row, col), valid, (parent.rows, parent.cols))
    if _cuts_a_box(layout, row, col):
        raise OpFault(
            "PTO6005",
            f"a window at ({row}, {col}) cuts a tile with boxes of "
            f"{layout.box_rows}x{layout.box_cols}",
            help="begin the window at a multiple of the box",
        )
    if parent.dtype.bits == 4 and col % 2:
        raise OpFault("PTO6005", f"column {col} of a tile of {parent.dtype} begins inside a byte")
    addr = tile.addr + layout.offset(row, col) * parent.dtype.bits // 8
    return tile_ref(part, addr, *valid)


def _strides_of(tile: TileRef) -> dict[str, int]:
    """What a window keeps of its parent's type, so that its strides are the parent's."""
    type_ = tile.type
    if type_.blayout == "row_major":
        return {"cols": type_.cols}
    pitch = {"pitch": tile.layout.rows} if type_.loc == "acc" else {}
    return {"rows": type_.rows, **pitch}


def _cuts_a_box(layout: Layout, row: int, col: int) -> bool:
    """True unless a window begins at a box, or where rows (columns) of 32 bytes follow one another
    through the boxes of one column (row) of them: at any row of NZ, any column of ZN."""
    if layout.name == "nz":
        return col % layout.box_cols != 0
    if layout.name == "zn":
        return row % layout.box_rows != 0
    return row % layout.box_rows != 0 or col % layout.box_cols != 0


def window(tile: TileRef, row: int, col: int, rows: int, cols: int) -> TileRef:
    """Return the tile that covers rows x cols elements from (row, col) of another one.

    Its static shape keeps the extent that fixes the strides, so elements stay where they are.
    """
    type_ = tile.type
    kept = {"rows": rows} if type_.blayout == "row_major" else {"cols": cols}
    part = replace(type_, v_row=rows, v_col=cols, **{**_strides_of(tile), **kept})
    if Unknown in (row.__class__, col.__class__):
        return tile_ref(part, row + col, rows, cols)  # somewhere in the tile
    if row < 0 or col < 0 or rows < 1 or cols < 1:
        raise OpFault("PTO6005", f"there is no window of {rows}x{cols} elements at ({row}, {col})")
    check_window((row, col), (rows, cols), (type_.rows, type_.cols))
    layout = tile.layout
    if layout.is_boxed:
        _check_boxes(type_, layout.box_rows, layout.box_cols, (row, col, rows, cols))
    elif type_.dtype.bits == 4 and col % 2:
        raise OpFault("PTO6005", f"column {col} of a tile of {type_.dtype} begins inside a byte")
    addr = tile.addr + layout.offset(row, col) * type_.dtype.bits // 8
    return tile_ref(part, addr, rows, cols)


def _check_boxes(
    type_: TileType, box_rows: int, box_cols: int, place: tuple[int, int, int, int]
) -> None:
    """A window of a boxed tile has whole boxes, and keeps the axis on which they are apart."""
    row, col, rows, cols = place
    whole = row % box_rows == 0 == rows % box_rows and col % box_cols == 0 == cols % box_cols
    keeps = cols == type_.cols if type_.blayout == "row_major" else rows == type_.rows
    if not whole or not keeps:
        axis = "columns" if type_.blayout == "row_major" else "rows"
        raise OpFault(
            "PTO6005",
            f"a window of {rows}x{cols} at ({row}, {col}) cuts a tile with boxes of "
            f"{box_rows}x{box_cols}",
            notes=(
                "offsets and sizes are multiples of the box",
                f"a {type_.blayout} tile keeps all its {axis}",
            ),
        )


_MEMORIES = {"left": "left_scale", "right": "right_scale"}


@value("pto.tget_scale_addr", "pto.get_scale_addr")
def scale_address(ctx: ValueContext) -> Action:
    """dst is in the scale memory of src's L0, at a sixteenth of its address."""
    source, given = ctx.slots["src"], ctx.slots.get("dst")
    target = given if given is not None else ctx.result
    name = ctx.op.name

    def run(core: Core) -> None:
        src: TileRef = core.slots[source]
        old: TileRef = core.slots[target]
        memory = _MEMORIES.get(src.type.loc)
        if memory is None or old is None:
            raise OpFault(
                "PTO6306",
                f"'{name}': a tile of {src.type.loc} has no memory of block scales",
                help="name the left or right tile that the scales belong to, and a tile for them",
            )
        addr = src.addr >> 4
        check_place(core, memory, addr, old.type.bytes, "tile of scales")
        core.slots[target] = tile_ref(replace(old.type, loc=memory), addr, old.v_row, old.v_col)

    return run


@value("memref.alloc")
def memref_alloc(ctx: ValueContext) -> Action:
    """A local buffer, seen as an ND tile of its last dimension."""
    type_ = ctx.result_type
    assert isinstance(type_, MemRefType)
    tile = memref_tile(type_)
    return ctx.constant(tile_ref(tile, ctx.address or 0, tile.rows, tile.cols))


def memref_tile(type_: MemRefType) -> TileType:
    """Return the tile type with the shape and space of a local memref."""
    dims = [d or 1 for d in type_.dims] or [1]
    rows = int(np.prod(dims[:-1], dtype=np.int64)) if len(dims) > 1 else 1
    return TileType(type_.space, type_.elem, rows, dims[-1], rows, dims[-1])


@value("memref.dealloc")
def memref_dealloc(ctx: ValueContext) -> Action:
    """The end of a buffer's life needs no action."""
    return lambda core: None
