"""The memories of block scales beside L0A and L0B (A5)."""

from __future__ import annotations

from dataclasses import replace

from ptosim.machine.core import Core
from ptosim.machine.tile import TileRef, tile_ref
from ptosim.semantics.base.faults import OpFault, check_place
from ptosim.semantics.base.functions import value
from ptosim.semantics.base.scalar_unit import Action, ValueContext

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
