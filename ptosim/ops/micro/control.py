"""Scalar operations of the micro level: pointers, special registers, memory barriers, flags of a
cluster."""

from __future__ import annotations

from ptosim.ground.ir.types import PtrType
from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView, Pointer
from ptosim.machine.vector import LOADS, STORES
from ptosim.ops.base.context import Action, ValueContext
from ptosim.ops.base.functions import value, vector
from ptosim.ops.micro.context import Run, VectorContext
from ptosim.ops.micro.modes import set_control

_WORD = (1 << 64) - 1


def signed64(bits: int) -> int:
    """Return 64 bits as a signed number."""
    bits &= _WORD
    return bits - (1 << 64) if bits >> 63 else bits


@value("pto.get_ctrl")
def get_ctrl(ctx: ValueContext) -> Action:
    """The control register."""
    result = ctx.result

    def run(core: Core) -> None:
        core.slots[result] = signed64(core.registers["ctrl"])

    return run


@value("pto.set_ctrl")
def set_ctrl(ctx: ValueContext) -> Action:
    """Set the control register. Clauses and attributes of an instruction decide before it."""
    source = ctx.slots["src"]

    def run(core: Core) -> None:
        set_control(core, core.slots[source] & _WORD)

    return run


@value("pto.sbitset0", "pto.sbitset1")
def sbitset(ctx: ValueContext) -> Action:
    """dst = src with one bit cleared or set."""
    sets = ctx.op.name == "pto.sbitset1"

    def change(given: int, bit: int) -> int:
        one = 1 << (bit & 63)
        return signed64(given | one if sets else given & ~one)

    return ctx.computed(change, "src", "bit")


@value("pto.tile_buf_addr")
def tile_buf_addr(ctx: ValueContext) -> Action:
    """The address of a tile's first byte."""
    is_pointer = isinstance(ctx.result_type, PtrType)

    def address(tile: TileRef | GmView | Pointer) -> TileRef | GmView | Pointer:
        if is_pointer and isinstance(tile, GmView):
            return tile.start
        if is_pointer and isinstance(tile, TileRef):
            return Pointer(tile.type.loc, tile.addr)
        return tile

    return ctx.computed(address, "src")


@value("pto.tensor_view_addr")
def tensor_view_addr(ctx: ValueContext) -> Action:
    """Where the first element of a view is; as a memref the view itself."""
    is_pointer = isinstance(ctx.result_type, PtrType)
    return ctx.computed(lambda view: view.start if is_pointer else view, "src")


@value("pto.tile_valid_rows", "pto.tile_valid_cols")
def tile_valid(ctx: ValueContext) -> Action:
    """One of the valid extents that a tile has now."""
    is_rows = ctx.op.name == "pto.tile_valid_rows"
    return ctx.computed(lambda tile: tile.v_row if is_rows else tile.v_col, "src")


@value("pto.get_vms4_sr")
def get_vms4_sr(ctx: ValueContext) -> Action:
    """How many records of each list the last vmrgsort4 took."""
    results = ctx.results

    def run(core: Core) -> None:
        taken = core.registers.get("vms4_sr", 0)
        for number, slot in enumerate(results):
            count = taken >> 16 * number & 0xFFFF
            core.slots[slot] = count - 0x10000 if count >> 15 else count

    return run


_ALL = ("VV_ALL", "VS_ALL", "SV_ALL")
_STORES_THEN_LOADS = (*_ALL, "VST_VLD", "VST_LD", "ST_VLD")
_STORES_THEN_STORES = (*_ALL, "VST_VST", "VST_ST", "ST_VST")
_LOADS_THEN_STORES = (*_ALL, "VLD_VST", "VLD_ST", "LD_VST")


@vector("pto.mem_bar")
def mem_bar(ctx: VectorContext) -> Run:
    """Orders accesses of UB; execution is in order, so only the search for missing barriers
    notices."""
    kind = ctx.word("kind")
    loads = kind in _STORES_THEN_LOADS
    before_stores = [
        accesses
        for accesses, kinds in ((STORES, _STORES_THEN_STORES), (LOADS, _LOADS_THEN_STORES))
        if kind in kinds
    ]

    def run(core: Core) -> None:
        ub = core.ub
        if ub is None:
            return
        if loads:
            ub.order()
        for accesses in before_stores:
            ub.order_before_stores(accesses)

    return run
