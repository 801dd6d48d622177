"""From the shapes of an operation to its cost."""

from __future__ import annotations

from ptosim.ground.isa.costs import CostTable, cost_entries
from ptosim.time.laws.cost import NO_LAW, NOTHING, Cost
from ptosim.time.laws.request import Request
from ptosim.time.laws.shapes import OpShape
from ptosim.time.laws.table import LAWS


def estimate(shape: OpShape, table: CostTable) -> Cost:
    """Return what an operation costs; `NO_LAW` if nothing tells it."""
    entry = cost_entries().get(shape.mnemonic)
    if entry is None:
        return NO_LAW
    tiles = shape.tiles((*shape.ins, *shape.outs))
    if tiles and all(t.rows * t.cols == 0 for t in tiles):
        return NOTHING
    law = LAWS[table.target][entry.class_.laws[table.target]]
    return law(Request(shape, table, entry))
